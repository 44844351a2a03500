"""An upstream's answer as deltas, in short lists: one read may hold thousands of frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from penstock.dialects.frames import DONE, read_object
from penstock.dialects.plan import Dialect, Plan, Reader
from penstock.errors import FrameTooLarge, NetworkError
from penstock.sse import DEFAULT_LIMIT, Decoder, Frame
from penstock.stream.deltas import Delta, ErrorDelta

FRAME_LIMIT = DEFAULT_LIMIT
"""Bytes of one event, or of an answer that is no stream."""

FRAMES_AT_ONCE = 32
"""So many are translated before the turn may let others run."""

Read = Callable[[], Awaitable[bytes]]
"""The next bytes of an answer; none at its end."""


async def deltas_of(
    read: Read,
    content_type: str,
    dialect: Dialect,
    plan: Plan,
    is_committed: Callable[[], bool] = lambda: True,
) -> AsyncIterator[list[Delta]]:
    """Read an answer to its end. A read without a whole frame gives nothing; the last list has the end.

    What cannot be read is an `ErrorDelta`; a connection that breaks is raised, behind what had come and was
    not told yet. Where nothing is committed nothing of that is told: another target may say all of it.
    """
    data = await read()
    if _is_whole(content_type, data):
        yield await _read_whole(read, dialect, plan, data)
        return
    reader = dialect.reader(plan)
    decoder = Decoder(FRAME_LIMIT)
    try:
        while data:
            frames = decoder.feed(data)
            for begin in range(0, len(frames), FRAMES_AT_ONCE):
                deltas = _told(reader, frames[begin : begin + FRAMES_AT_ONCE])
                if reader.is_over:  # some servers keep the connection open behind their end (notes/asks A10)
                    yield deltas + reader.end()
                    return
                yield deltas
            data = await read()
        yield _rest(reader, decoder)
    except NetworkError:
        if is_committed():
            yield [delta for delta in _rest(reader, decoder) if not isinstance(delta, ErrorDelta)]
        raise
    except FrameTooLarge as error:
        yield [ErrorDelta("upstream_invalid", f"the upstream sent too much at once: {error}")]


def _told(reader: Reader, frames: list[Frame]) -> list[Delta]:
    """What these frames say. Behind the end of an answer nothing is read, in whichever read it came."""
    deltas: list[Delta] = []
    for frame in frames:
        deltas += reader.feed(frame)
        if reader.is_over:
            break
    return deltas


def _rest(reader: Reader, decoder: Decoder) -> list[Delta]:
    """What there is to say when nothing more comes."""
    return _told(reader, [frame for frame in decoder.end() if not _is_half(frame)]) + reader.end()


def _is_half(frame: Frame) -> bool:
    """Was this last frame cut off by the end? Then it is not wrong: the reader says that there is more."""
    data = frame.data.strip()
    return bool(data) and data != DONE and isinstance(read_object(frame), ErrorDelta)


def _is_whole(content_type: str, data: bytes) -> bool:
    """Is this one JSON value and no stream? Some servers never stream, and some do not say what they send."""
    if content_type == "text/event-stream":
        return False
    return data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


async def _read_whole(read: Read, dialect: Dialect, plan: Plan, data: bytes) -> list[Delta]:
    body = bytearray()
    while data:
        body += data
        if len(body) > FRAME_LIMIT:
            return [
                ErrorDelta("upstream_invalid", f"the upstream's answer is larger than {FRAME_LIMIT} bytes")
            ]
        data = await read()
    return dialect.read_body(plan, bytes(body))
