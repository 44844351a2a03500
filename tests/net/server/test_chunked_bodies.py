"""Chunked bodies: every way to cut them, and their limits."""

from __future__ import annotations

import pytest

from penstock.net.server.chunked_bodies import CHUNKS, ChunkDecoder
from penstock.net.server.refusals import RefusedBytes
from penstock.net.server.request_heads import HEAD_BYTES


def decode(data: bytes, size: int = 0) -> tuple[bytes, bytes]:
    """The body, and what follows it, if it arrives in pieces of this size."""
    decoder, buffer, body = ChunkDecoder(), bytearray(), bytearray()
    for at in range(0, len(data), size or len(data)):
        buffer += data[at : at + (size or len(data))]
        while not decoder.is_done:
            body += decoder.decode(buffer)
            if not decoder.is_behind:
                break
    assert decoder.is_done
    return bytes(body), bytes(buffer)


def refused(data: bytes, size: int = 0) -> tuple[int, str]:
    with pytest.raises(RefusedBytes) as caught:
        decode(data, size)
    return caught.value.refusal.status, caught.value.refusal.code


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 1000])
@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"2\r\n\r\n\r\n3\r\nabc\r\n000\r\n\r\n", b"\r\nabc"),
        (b"A;name=value\r\n0123456789\r\n0;last\r\nx: y\r\nz:\r\n\r\n", b"0123456789"),
        (b"0000000000000001\r\nx\r\n0\r\n\r\n", b"x"),
    ],
)
def test_bodies_in_pieces_of_any_size(data: bytes, body: bytes, size: int) -> None:
    assert decode(data, size) == (body, b"")


def test_the_next_request_stays_in_the_buffer() -> None:
    assert decode(b"1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n") == (
        b"x",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
    )


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1\nx\r\n0\r\n\r\n",
        b"1;a\nb\r\nx\r\n0\r\n\r\n",
        b"1;a\rb\r\nx\r\n0\r\n\r\n",
        b"1;a\0\r\nx\r\n0\r\n\r\n",
        b"1\r\nxy\r\n0\r\n\r\n",
        b"1\r\nx\n0\r\n\r\n",
        b"1\r\nx\rz0\r\n\r\n",
        b"10000000000000000\r\n",
        b"0\r\nbad name: 1\r\n\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\n folded\r\n\r\n",
        b"0\r\nx: y\nz: a\r\n\r\n",
    ],
)
def test_what_is_no_chunk_is_refused(data: bytes, size: int) -> None:
    assert refused(data, size) == (400, "invalid_http")


@pytest.mark.parametrize("size", [0, 1000])
@pytest.mark.parametrize(
    "endless",
    [b"1;" + b"x" * 70_000, b"0" * 70_000, b"0\r\n" + b"x: y\r\n" * 20_000, b"0\r\nx: " + b"x" * 70_000],
    ids=["extension", "zeros", "trailers", "trailer"],
)
def test_what_is_between_the_data_is_limited(endless: bytes, size: int) -> None:
    assert refused(endless, size) == (431, "request_head_too_large")


def test_the_limit_counts_from_the_last_byte_of_the_body() -> None:
    extension = b"1;" + b"x" * (HEAD_BYTES // 2) + b"\r\nx\r\n"
    body, _ = decode(extension * 5 + b"0\r\n\r\n")
    assert body == b"x" * 5


def test_only_some_chunks_are_decoded_at_once() -> None:
    decoder, buffer = ChunkDecoder(), bytearray(b"1\r\nx\r\n" * CHUNKS)
    assert len(decoder.decode(buffer)) < CHUNKS
    assert decoder.is_behind
    assert buffer
