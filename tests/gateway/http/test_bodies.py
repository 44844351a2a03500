"""Request bodies: every encoding, truncated, corrupt, stacked, and much larger than they look."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterable

import brotli  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.http import bodies
from penstock.gateway.http.bodies import CHUNK, DECODERS, BodyReader
from penstock.gateway.http.exchange import Exchange
from penstock.net.compression import zstd_library
from tests.effort import examples
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.running import SECRET_PROMPT, Running
from tests.gateway.upstream import ScriptedUpstream, said, streamed

MIB = 1024 * 1024
ZSTD = zstd_library()

TEXT = b'{"model": "demo", "input": "hello, hello, hello"}'


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


def streamed_zstd(data: bytes) -> bytes:
    """Without the size in its header, in several blocks, with a checksum."""
    encoder = ZSTD.ZstdCompressor(options={ZSTD.CompressionParameter.checksum_flag: 1})
    half = len(data) // 2
    flushed = encoder.compress(data[:half]) + encoder.flush(encoder.FLUSH_BLOCK)
    compressed: bytes = flushed + encoder.compress(data[half:]) + encoder.flush()
    return compressed


def plain_zstd(data: bytes) -> bytes:
    compressed: bytes = ZSTD.compress(data)
    return compressed


def plain_brotli(data: bytes) -> bytes:
    compressed: bytes = brotli.compress(data, quality=5)
    return compressed


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-Gzip", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "zstd": ("zstd", plain_zstd),
    "streamed zstd": ("zstd", streamed_zstd),
    "br": ("br", plain_brotli),
}


ENCODED = pytest.mark.parametrize(("encoding", "encode"), ENCODERS.values(), ids=ENCODERS)


def decode_body(data: bytes, encodings: str, limit: int) -> bytes:
    """A body that arrives at once, as the gateway reads it."""

    return asyncio.run(BodyReader().read(parts(data).receive, {"content-encoding": encodings}, limit))


def refused(data: bytes, encodings: str, limit: int = MIB) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        decode_body(data, encodings, limit)
    assert json.loads(caught.value.body())["error"]["type"] == "invalid_request"
    return caught.value


def test_every_decoder_is_tried_here() -> None:
    assert {encoding.lower() for encoding, _ in ENCODERS.values()} == set(DECODERS)


@ENCODED
def test_every_encoding_is_decoded(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    for data in (b"", b"x", TEXT, bytes(range(256)) * 1000, b"\0" * (3 * CHUNK)):
        assert decode_body(encode(data), encoding, MIB) == data
    for length in range(CHUNK - 2, CHUNK + 8):  # where the end of a step and the end of the body meet
        assert decode_body(encode(b"\0" * length), encoding, MIB) == b"\0" * length


@given(st.data(), st.binary(max_size=400), st.integers(1, 2000))
@effort(max_examples=examples(200))
def test_any_stack_of_encodings_is_decoded(data: st.DataObject, part: bytes, times: int) -> None:
    body = encoded = part * times
    chosen = data.draw(st.lists(st.sampled_from(sorted(ENCODERS)), max_size=3))
    names = []
    for name in chosen:
        encoding, encode = ENCODERS[name]
        encoded = encode(encoded)
        names += [encoding, *data.draw(st.sampled_from([[], ["identity"], [""]]))]
    assert decode_body(encoded, " ,".join(names), MIB) == body


@pytest.mark.parametrize("encodings", ["", "identity", " Identity , identity"])
def test_a_body_without_encoding_is_unchanged(encodings: str) -> None:
    assert decode_body(TEXT, encodings, len(TEXT)) == TEXT
    assert refused(TEXT, encodings, len(TEXT) - 1).status == 413


def test_encodings_are_undone_in_the_reverse_order() -> None:
    assert decode_body(plain_zstd(gzip.compress(TEXT)), "gzip, zstd", MIB) == TEXT
    assert refused(plain_zstd(gzip.compress(TEXT)), "zstd, gzip").status == 400


@pytest.mark.parametrize("encodings", ["compress", "gzip, snappy", "gzip;q=1", "*", "aws-chunked"])
def test_an_unknown_encoding_is_415_and_lists_the_supported_ones(encodings: str) -> None:
    error = refused(TEXT, encodings)
    assert (error.status, error.code) == (415, "unsupported_encoding")
    assert error.headers == (("accept-encoding", "zstd, gzip, x-gzip, deflate, br"),)


def test_more_than_three_encodings_are_refused_unread() -> None:
    assert refused(b"", "gzip, gzip, gzip, gzip").status == 415
    body = gzip.compress(gzip.compress(gzip.compress(TEXT)))
    assert decode_body(body, "gzip, identity, gzip, gzip", MIB) == TEXT


@ENCODED
def test_a_body_that_is_cut_anywhere_is_400(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    body = encode(TEXT + bytes(range(64)))
    for end in range(len(body)):
        error = refused(body[:end], encoding)
        assert (error.status, error.code) == (400, "invalid_encoding"), end


@ENCODED
def test_a_body_that_is_not_encoded_as_declared_is_400(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    assert refused(TEXT, encoding).status == 400
    assert refused(encode(TEXT) + b"more", encoding).status == 400
    assert refused(encode(b"\0" * (2 * CHUNK)) + b"more", encoding).status == 400


@ENCODED
@given(data=st.data())
@effort(max_examples=examples(100))
def test_a_broken_body_is_refused_or_read_and_nothing_else(
    encoding: str, encode: Callable[[bytes], bytes], data: st.DataObject
) -> None:
    body = bytearray(encode(TEXT))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_body(bytes(body), encoding, MIB)
    except RequestRefused as error:
        assert error.status in (400, 413)  # noqa: PT017 - either way is right


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_concatenated_streams_are_one_body(encoding: str) -> None:
    encode = ENCODERS[encoding][1]
    assert decode_body(encode(b"one, ") + encode(b"") + encode(b"two"), encoding, MIB) == b"one, two"
    for end in range(1, len(encode(b"two"))):
        assert refused(encode(b"one, ") + encode(b"two")[:end], encoding).status == 400


def test_empty_zstd_frames_are_skipped() -> None:
    skipped = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"any"
    assert decode_body(skipped + plain_zstd(TEXT) + skipped, "zstd", MIB) == TEXT
    assert refused(plain_zstd(TEXT) + skipped[:-1], "zstd").status == 400
    assert refused(plain_zstd(TEXT) + skipped[:6], "zstd").status == 400


@pytest.mark.parametrize(("encoding", "limit"), [("gzip", "MOST_MEMBERS"), ("zstd", "MOST_BLOCKS")])
def test_a_body_of_countless_empty_pieces_is_refused(
    encoding: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, limit, 100)
    empty = ENCODERS[encoding][1](b"")
    assert decode_body(empty * 100, encoding, MIB) == b""
    error = refused(empty * 101, encoding)
    assert (error.status, "more than 100" in error.message) == (400, True)


def test_blocks_of_one_frame_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_BLOCKS", 100)
    frame = b"\x28\xb5\x2f\xfd" + b"\x00\x58"
    empty, last = b"\0\0\0", b"\1\0\0"
    assert decode_body(frame + empty * 99 + last, "zstd", MIB) == b""
    assert refused(frame + empty * 100 + last, "zstd").status == 400


def bombs() -> dict[str, bytes]:
    zeros = b"\0" * (64 * MIB)
    return {
        "gzip": gzip.compress(zeros, 9),
        "deflate": zlib.compress(zeros, 9),
        "br": brotli.compress(zeros, quality=5),
        "zstd": ZSTD.compress(zeros),
        "gzip, gzip": gzip.compress(gzip.compress(zeros, 9), 9),
        "br, zstd": plain_zstd(brotli.compress(zeros, quality=5)),
    }


@pytest.mark.e2e
def test_a_compression_bomb_is_413_and_never_expanded() -> None:
    """64 MiB in a few bytes: never more than the limit and a few chunks are in memory."""
    for encodings, bomb in bombs().items():
        assert len(bomb) < 128 * 1024
        tracemalloc.start()
        try:
            error = refused(bomb, encodings)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (error.status, error.code) == (413, "request_too_large"), encodings
        assert peak < 4 * MIB, encodings


@ENCODED
def test_no_decompression_step_returns_much_more_than_a_chunk(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    """tracemalloc does not see what the decoders allocate themselves, only what they return."""
    given = [len(chunk) for chunk in DECODERS[encoding.lower()](encode(b"\0" * (8 * MIB)))]
    assert sum(given) == 8 * MIB
    assert max(given) <= 2 * CHUNK


@ENCODED
def test_the_limit_is_exact(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    body = encode(b"\0" * 100_000)
    assert len(decode_body(body, encoding, 100_000)) == 100_000
    assert refused(body, encoding, 99_999).status == 413


def test_the_limit_holds_between_two_encodings() -> None:
    body = gzip.compress(b"\0" * (2 * MIB) + gzip.compress(TEXT))
    assert refused(body, "gzip, gzip").status == 413


def test_a_window_of_zstd_that_is_too_large_is_refused() -> None:
    encoder = ZSTD.ZstdCompressor(options={ZSTD.CompressionParameter.window_log: 27})
    body = encoder.compress(TEXT) + encoder.flush()
    error = refused(body, "zstd")
    assert (error.status, "memory" in error.message) == (400, True)


def test_the_largest_allowed_window_is_accepted() -> None:
    encoder = ZSTD.ZstdCompressor(options={ZSTD.CompressionParameter.window_log: 23})
    body = encoder.compress(TEXT) + encoder.flush()
    assert decode_body(body, "zstd", MIB) == TEXT


def test_a_large_incompressible_body_is_decoded() -> None:
    """Each decoder is given a body in pieces, and copies no more than a piece at every step."""
    noise = random.Random(1).randbytes(2 * MIB)
    for encoding, encode in ENCODERS.values():
        assert decode_body(encode(noise), encoding, 3 * MIB) == noise


# Receiving


class Connection:
    """Returns these pieces, and fails the test if more are requested."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.left = list(pieces)

    async def receive(self) -> bytes:
        return self.left.pop(0)


def parts(*data: bytes) -> Connection:
    return Connection([*(part for part in data if part), b""])


def received(connection: Connection, limit: int = MIB, **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def read() -> bytes:
        return await BodyReader().read(connection.receive, named, limit)

    return asyncio.run(read())


def test_a_body_in_many_parts_is_one() -> None:
    assert received(parts(b"a", b"", b"b", b"c")) == b"abc"
    assert received(parts()) == b""


def test_a_compressed_body_in_many_parts_is_decompressed() -> None:
    body = plain_zstd(TEXT)
    assert received(parts(*(body[at : at + 1] for at in range(len(body)))), content_encoding="zstd") == TEXT


def test_decompression_does_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def decode(data: bytes) -> Iterable[bytes]:
        threads.append(threading.current_thread())
        return iter([data])

    monkeypatch.setitem(DECODERS, "br", decode)
    assert received(parts(b"x"), content_encoding="br") == b"x"
    assert threads
    assert threads[0] is not threading.main_thread()


def test_a_length_beyond_the_limit_is_refused_before_reading() -> None:
    connection = parts(b"x" * 10)
    with pytest.raises(RequestRefused) as caught:
        received(connection, 9, content_length="10")
    assert caught.value.status == 413
    assert len(connection.left) == 2
    assert received(connection, 10, content_length="10") == b"x" * 10


def test_an_unknown_encoding_is_refused_before_reading() -> None:
    connection = parts(b"x")
    with pytest.raises(RequestRefused) as caught:
        received(connection, content_encoding="lz4")
    assert (caught.value.status, len(connection.left)) == (415, 2)


def test_without_brotli_the_refusal_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "has_brotli", lambda: False)
    with pytest.raises(RequestRefused) as caught:
        received(parts(plain_brotli(TEXT)), content_encoding="gzip, br")
    assert caught.value.status == 415
    assert caught.value.message.endswith("pip install 'penstock[brotli]'")
    assert dict(caught.value.headers) == {"accept-encoding": "zstd, gzip, x-gzip, deflate"}
    assert received(parts(plain_zstd(TEXT)), content_encoding="zstd") == TEXT


@pytest.mark.parametrize("length", ["", "x", "-1", "1e9", "²", "0"])
def test_without_a_usable_length_a_body_is_bounded_as_it_comes(length: str) -> None:
    connection = parts(*[b"x" * 4] * 10)
    with pytest.raises(RequestRefused) as caught:
        received(connection, 9, content_length=length)
    assert caught.value.status == 413
    assert len(connection.left) == 8  # the third part was one too many


def test_a_client_that_disconnects_sends_no_body() -> None:
    exchange = Exchange(FakeHttpChannel(parts=[b"x", None]))
    with pytest.raises(ClientDisconnected):
        asyncio.run(BodyReader().read(exchange.receive, {}, MIB))


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_compressed_body_is_read(penstock: Running, upstream: ScriptedUpstream, encoding: str) -> None:
    """Ask K4: the upstream gets the contents, uncompressed and without the header."""
    model = upstream.play(f"compressed-{encoding}", streamed(*said("ok")))
    body = json.dumps({"model": model, "input": SECRET_PROMPT * 50}).encode()
    reply = penstock.ask(ENCODERS[encoding][1](body), headers={"content-encoding": ENCODERS[encoding][0]})
    assert reply.text == "ok"
    [asked] = upstream.asked_for(model)
    assert "content-encoding" not in asked.headers


def test_a_body_that_is_too_large_unknown_or_broken_is_refused(penstock: Running) -> None:
    """Ask K4: 413 for a bomb, 415 for an unknown encoding, 400 for a corrupt body."""
    bomb = ZSTD.compress(b" " * (65 * 1024 * 1024))
    for body, encoding, status in ((bomb, "zstd", 413), (b"x", "lzma", 415), (b"x", "gzip", 400)):
        reply = penstock.ask(body, headers={"content-encoding": encoding})
        assert reply.status == status
    assert penstock.ask({"model": "demo", "input": "say exactly: hello"}).text == "hello"
