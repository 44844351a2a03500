"""Decompression bombs: hundreds of megabytes and more in a few kilobytes, from clients and from upstreams."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from functools import cache

import brotli  # type: ignore[import-untyped]
import pytest
from backports import zstd

from tests.client.server import answer, head, send
from tests.gateway.raw_sockets import answer as read_answer
from tests.gateway.raw_sockets import connect, frame, is_closed, upgrade
from tests.hardening.attacked import MIB, Attacked, error_of

pytestmark = pytest.mark.hardening

ROOM = 150 * MIB
"""More than the limit of a body, and far less than what the bombs expand to."""
ZEROS = bytes(16 * MIB)


@cache
def _block() -> bytes:
    """16 MiB of zeros in deflate. Such blocks can be repeated: they depend on nothing before them."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)


GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def deflate_bomb() -> bytes:
    """Expands to 256 MiB. It has no end: nobody should get there."""
    return _block() * 16


def gzip_bomb() -> bytes:
    return GZIP_HEAD + deflate_bomb()


@cache
def brotli_bomb() -> bytes:
    """Expands to 4 GiB."""
    packer = brotli.Compressor(quality=5)
    piece = packer.process(ZEROS) + packer.flush()
    repeated = packer.process(ZEROS) + packer.flush()
    return bytes(piece + repeated + b"".join(packer.process(ZEROS) for _ in range(30)) + packer.finish())


@cache
def zstd_bomb() -> bytes:
    """Frames of 16 MiB that expand to 4 GiB together."""
    return zstd.compress(ZEROS, 3) * 256


def late_bomb() -> bytes:
    """Expands to little at first, as a normal request does."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    begin = packer.compress(b'{"model": "demo", "input": "') + packer.flush(zlib.Z_FULL_FLUSH)
    return GZIP_HEAD + begin + deflate_bomb()


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", gzip_bomb),
    "x-gzip": ("x-gzip", gzip_bomb),
    "deflate": ("deflate", lambda: b"\x78\x01" + deflate_bomb()),
    "deflate without a header": ("deflate", deflate_bomb),
    "br": ("br", brotli_bomb),
    "zstd": ("zstd", zstd_bomb),
    "gzip in gzip": ("gzip, gzip", lambda: gzip.compress(gzip_bomb())),
    "gzip in br in zstd": ("gzip, br, zstd", lambda: zstd.compress(brotli.compress(gzip_bomb(), quality=1))),
    "many members": ("gzip", lambda: gzip.compress(ZEROS) * 64),
    "a harmless beginning": ("gzip", late_bomb),
}


@pytest.mark.parametrize(("encoding", "bomb"), BOMBS.values(), ids=BOMBS)
def test_a_body_is_decompressed_only_to_its_limit(
    gateway: Attacked, encoding: str, bomb: Callable[[], bytes]
) -> None:
    data = bomb()
    assert len(data) < 4 * MIB
    memory = gateway.memory()
    status, body = gateway.ask(data, content_encoding=encoding)
    assert (status, error_of(body)["code"]) == (413, "request_too_large")
    assert memory.peak() < ROOM
    assert gateway.is_unharmed()


REFUSED = {
    "too many encodings": ("gzip, " * 20 + "gzip", 415, "unsupported_encoding", b"x"),
    "a million encodings": ("gzip," * 10_000, 415, "unsupported_encoding", b"x"),
    "empty members": ("gzip", 400, "invalid_encoding", gzip.compress(b"") * 50_000),
    "a truncated stream": ("gzip", 400, "invalid_encoding", gzip.compress(b"x" * 1000)[:-12]),
    "a window of 2 GiB": ("zstd", 400, "invalid_encoding", b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00"),
}


@pytest.mark.parametrize(("encoding", "status", "code", "data"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_worth_decompressing_is_refused(
    gateway: Attacked, encoding: str, status: int, code: str, data: bytes
) -> None:
    memory = gateway.memory()
    found, body = gateway.ask(data, content_encoding=encoding)
    assert (found, error_of(body)["code"]) == (status, code)
    assert memory.peak() < ROOM
    assert gateway.is_unharmed()


def test_a_compressed_websocket_frame_is_refused(gateway: Attacked) -> None:
    """The extension is not negotiated, so its bit is a violation of the protocol, and nothing is inflated."""
    client = connect(gateway.running, upgrade("sec-websocket-extensions: permessage-deflate"))
    assert b"permessage-deflate" not in client.recv(65536)
    data = frame(deflate_bomb())
    memory = gateway.memory()
    client.sendall(bytes([data[0] | 0x40]) + data[1:])
    assert (1002).to_bytes(2, "big") in client.recv(65536)
    assert is_closed(client)
    assert memory.peak() < 20 * MIB
    assert gateway.is_unharmed()


UPSTREAM: dict[str, Callable[[], bytes]] = {
    "gzip": gzip_bomb,
    "deflate": deflate_bomb,
    "br": brotli_bomb,
    "zstd": zstd_bomb,
}


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", UPSTREAM)
def test_a_bomb_of_an_upstream_ends_its_turn(gateway: Attacked, encoding: str, status: int) -> None:
    """Also as the body of an error, of which only the beginning is read."""
    data = UPSTREAM[encoding]()
    model = f"bomb-{encoding}-{status}"
    gateway.upstream.play(model, [answer(status, data, content_encoding=encoding)])
    memory = gateway.memory()
    found, body = gateway.turn(model)
    assert found == (502 if status == 200 else 500)
    assert error_of(body)["code"] == ("upstream_invalid" if status == 200 else "server_error")
    assert memory.peak() < ROOM
    assert gateway.is_unharmed()


def test_a_bomb_in_a_stream_ends_its_turn(gateway: Attacked) -> None:
    """After a lawful beginning, inside of one piece of text."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    text = json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}}]}).encode()
    data = GZIP_HEAD + packer.compress(b"data: " + text + b"\n\ndata: ") + packer.flush(zlib.Z_FULL_FLUSH)
    data += deflate_bomb()
    gateway.upstream.play("late-bomb", [send(head(content_encoding="gzip") + data)])
    memory = gateway.memory()
    status, body = gateway.turn("late-bomb")
    assert (status, b"limits.answer_bytes" in body) == (200, True)
    assert memory.peak() < ROOM
    assert gateway.is_unharmed()


def test_a_normal_compressed_request_is_served_afterwards(gateway: Attacked) -> None:
    sent = json.dumps({"model": "harmless", "input": "x"}).encode()
    for encoding, data in {
        "gzip": gzip.compress(sent),
        "br": brotli.compress(sent),
        "zstd, gzip": gzip.compress(zstd.compress(sent)),
    }.items():
        client_status, body = gateway.ask(data, content_encoding=encoding)
        assert (client_status, b"as always" in body) == (200, True)
    client = connect(gateway.running, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    assert read_answer(client).status == 200
