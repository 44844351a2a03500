"""Compressed bodies, decoded piece by piece."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest

from penstock.net.compression import zstd_library
from penstock.net.encodings import PIECE, BodyDecoder, decoder_for
from penstock.net.network_errors import UndecodableBody

ZSTD = zstd_library()
TEXT = b"".join(b"data: %d\n\n" % number for number in range(5000))
NOISE = random.Random(1).randbytes(200_000)


def raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(data) + encoder.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "x-gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "deflate without header": raw_deflate,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": ZSTD.compress,
}


def decoder(encoding: str) -> BodyDecoder:
    found = decoder_for(encoding.partition(" ")[0])
    assert found is not None
    return found


def decode(decoder: BodyDecoder, data: bytes, size: int) -> bytes:
    decoded = b""
    for at in range(0, len(data), size):
        decoder.feed(data[at : at + size])
        while decoder.has_more:
            decoded += decoder.read()
    return decoded


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("body", [b"", b"x", TEXT, NOISE], ids=["empty", "one byte", "text", "noise"])
@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_a_body_is_decoded_however_it_is_split(encoding: str, body: bytes, size: int) -> None:
    if size == 1 and len(body) > 100_000:
        body = body[:5000]
    decoding = decoder(encoding)
    assert decode(decoding, ENCODERS[encoding](body), size) == body
    assert decoding.is_complete


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("lost", [1, 5, 100])
def test_a_truncated_body_is_not_complete(encoding: str, lost: int) -> None:
    decoding = decoder(encoding)
    body = decode(decoding, ENCODERS[encoding](TEXT)[:-lost], 1000)
    assert TEXT.startswith(body)
    assert not decoding.is_complete


@pytest.mark.parametrize("encoding", ENCODERS)
def test_an_empty_body_is_complete(encoding: str) -> None:
    assert decoder(encoding).is_complete


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("rest", [b"rest of something", b"\xff" * 50])
def test_invalid_data_is_refused_by_name(encoding: str, rest: bytes) -> None:
    for data in (b"\xff" + rest, ENCODERS[encoding](TEXT) + rest):
        with pytest.raises(UndecodableBody) as caught:
            decode(decoder(encoding), data, 100)
        assert caught.value.encoding == encoding.partition(" ")[0].removeprefix("x-")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_several_members_are_one_body(encoding: str) -> None:
    encode = ENCODERS[encoding]
    decoding = decoder(encoding)
    assert decode(decoding, encode(b"one ") + encode(b"") + encode(b"two"), 7) == b"one two"
    assert decoding.is_complete


@pytest.mark.parametrize(
    ("encoding", "bound"), [("gzip", PIECE), ("deflate", PIECE), ("br", 4 * PIECE), ("zstd", PIECE)]
)
def test_a_step_returns_a_bounded_piece(encoding: str, bound: int) -> None:
    decoding = decoder(encoding)
    decoding.feed(ENCODERS[encoding](b"\0" * 50_000_000))
    size = 0
    while decoding.has_more:
        piece = decoding.read()
        assert len(piece) <= bound
        size += len(piece)
    assert size == 50_000_000


def test_too_many_gzip_members_are_refused() -> None:
    with pytest.raises(UndecodableBody):
        decode(decoder("gzip"), gzip.compress(b"", mtime=0) * 5000, 1 << 16)


def test_a_zstd_window_beyond_the_limit_is_refused() -> None:
    encoder = ZSTD.ZstdCompressor(options={ZSTD.CompressionParameter.window_log: 24})
    data = encoder.compress(b"x" * 100) + encoder.flush()
    with pytest.raises(UndecodableBody):
        decode(decoder("zstd"), data, 1000)


@pytest.mark.parametrize("encoding", ["", "identity", "compress", "gzip, br", "zstd,gzip"])
def test_other_encodings_are_not_decoded(encoding: str) -> None:
    assert decoder_for(encoding) is None


def test_the_name_of_an_encoding_is_not_case_sensitive() -> None:
    assert decoder_for(" GZip ") is not None
