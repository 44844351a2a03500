"""Server-sent events: bytes to frames, and frames to bytes. No I/O; the caller owns the connection.

The decoder follows the event stream algorithm of the WHATWG HTML standard, with one addition: an event at the
end of the input is returned even if its blank line is missing. Some servers end that way, and the last event
says how the response ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from penstock.errors import FrameTooLarge

DEFAULT_LIMIT = 64 * 1024 * 1024

DONE = b"data: [DONE]\n\n"
"""The last frame of a stream over SSE."""

CONTENT_TYPE = "text/event-stream"
BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"
LINE_STARTS = (b":", b"data:", b"event:", b"id:", b"retry:")
"""How the lines of events begin."""
LONGEST_BLANK = 64 * 1024
"""Bytes. Blank lines keep a connection alive, but a body of nothing else is not an event stream."""

_CR = 13
_LF = 10
_NO_HEAD = b"\r"  # not how the data of an event can begin: line ends are LF


class Frame(Struct, frozen=True, gc=False):
    """One dispatched event.

    `event` is None if the frame has no event name. `id` is the last event id as of this frame, possibly set
    by an earlier frame; a client sends it to resume after this frame. `retry` is the reconnection delay in
    milliseconds that the server requested since the previous frame.
    """

    event: str | None
    data: str
    id: str | None = None
    retry: int | None = None


class Decoder:
    """Turns reads of any size into frames. The frames do not depend on how the input was split into reads.

    `limit` is the maximum size of one event in bytes, and so bounds the decoder's buffer. Complete frames
    before an oversized event are returned first; after that, every call raises `FrameTooLarge`.
    """

    __slots__ = (
        "_after_cr",
        "_at_start",
        "_buffer",
        "_event",
        "_head",
        "_id",
        "_limit",
        "_overflowed",
        "_retry",
    )

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()  # the incomplete event, with every line end normalised to LF
        self._after_cr = False  # the last byte was CR: skip an LF that follows
        self._at_start = True  # no event was decoded yet: a BOM may follow
        self._overflowed = False
        self._id: str | None = None
        self._retry: int | None = None
        self._event: str | None = None  # the name of the last event
        self._head = _NO_HEAD  # how an event with this name and one line of data begins

    def feed(self, data: bytes) -> list[Frame]:
        """Add the bytes of one read; return the frames that it completed."""
        begin, end = len(self._head), len(data) - 2
        if (
            data.startswith(self._head)
            and data.find(b"\n", begin) == end
            and data[-1] == _LF
            and _CR not in data  # searching for an int is several times faster than for one byte
            and not (self._buffer or self._after_cr or end > self._limit)
        ):
            # Nearly every read is one event with the name of the last one, and one line of data.
            text = data[begin:end].decode("utf-8", "replace")
            return [
                Frame(self._event, text, self._id) if self._retry is None else self._frame(self._event, text)
            ]
        if self._overflowed:
            raise FrameTooLarge(self._limit)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if _CR in data:
            self._after_cr = data[-1] == _CR
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not data:
            return []
        # Search only the new bytes: a huge event in small reads must not be scanned again with every read.
        blank = data.rfind(b"\n\n")
        buffer = self._buffer
        if blank < 0 and not (buffer and buffer[-1] == _LF and data[0] == _LF):
            return self._add_to_buffer(data)
        if buffer:
            blank += len(buffer)
            data = bytes(buffer) + data
            buffer.clear()
        if len(data) > blank + 2:
            buffer += data[blank + 2 :]
        if len(data) > self._limit:
            return self._frames_within_limit(data[:blank])
        return self._frames(data[:blank])

    def end(self) -> list[Frame]:
        """End the input; return the last event if its blank line is missing."""
        if self._overflowed:
            raise FrameTooLarge(self._limit)
        last = bytes(self._buffer)
        self._buffer.clear()
        return self._frames(last)

    def _add_to_buffer(self, data: bytes) -> list[Frame]:
        """Buffer data that does not complete an event. Blank lines before an event are not part of it."""
        if not self._buffer and data[0] == _LF:
            self._at_start = False
            data = data.lstrip(b"\n")
        self._buffer += data
        return self._overflow(b"") if self._buffer_exceeds_limit() else []

    def _buffer_exceeds_limit(self) -> bool:
        # A trailing LF may be the first half of the blank line, so it does not count as part of the event.
        return len(self._buffer) - self._buffer.endswith(b"\n") > self._limit

    def _frames(self, events: bytes) -> list[Frame]:
        """Parse complete events. They are decoded at once: a UTF-8 sequence never contains a line end."""
        if self._at_start:
            self._at_start = False
            events = events.removeprefix(BOM)
        frames: list[Frame] = []
        event: str | None = None
        data: list[str] = []
        for line in events.decode("utf-8", "replace").split("\n"):
            if not line:
                if data:
                    frames.append(self._frame(event, "\n".join(data)))
                    data = []
                event = None
            elif line.startswith("data: "):
                data.append(line[6:])
            elif line.startswith("event: "):
                event = line[7:] or None
            else:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "data":
                    data.append(value)
                elif name == "event":
                    event = value or None
                else:
                    self._remember(name, value)
        if data:
            frames.append(self._frame(event, "\n".join(data)))
        self._event = event
        self._head = f"event: {event}\ndata: ".encode() if event else b"data: "
        return frames

    def _frame(self, event: str | None, data: str) -> Frame:
        retry, self._retry = self._retry, None
        return Frame(event, data, self._id, retry)

    def _remember(self, name: str, value: str) -> None:
        """Store the fields that apply beyond their event, even if that has no data and is not returned."""
        if name == "id" and "\0" not in value:
            self._id = value or None
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 16:
            self._retry = int(value)

    def _frames_within_limit(self, events: bytes) -> list[Frame]:
        """Parse complete events up to the first that exceeds the limit; the buffered event is the last."""
        position = 0
        for event in events.split(b"\n\n"):
            if len(event.strip(b"\n")) > self._limit:
                return self._overflow(events[:position])
            position += len(event) + 2
        return self._overflow(events) if self._buffer_exceeds_limit() else self._frames(events)

    def _overflow(self, events: bytes) -> list[Frame]:
        self._overflowed = True
        self._buffer.clear()
        frames = self._frames(events)
        self._head = _NO_HEAD
        if not frames:
            raise FrameTooLarge(self._limit)
        return frames


def is_event_stream(head: bytes) -> bool | None:
    """Return whether these bytes begin server-sent events; None if there are too few to decide."""
    if head.startswith(LINE_STARTS):
        return True
    return None if any(start.startswith(head) for start in (BOM, *LINE_STARTS)) else False


def without_blanks(head: bytes) -> bytes:
    """Return the beginning of a body without a byte order mark and blank lines."""
    return head.lstrip(SPACE).removeprefix(BOM).lstrip(SPACE)


def encode_frame(event: str, data: bytes) -> bytes:
    """Return one complete frame. Write it in one piece: half a frame on the wire cannot be undone.

    `data` is one line of JSON, as msgspec writes it.
    """
    if _LF in data or _CR in data:
        raise ValueError("the data of a frame must be one line: encode JSON without line breaks")
    return frame_head(event) + data + b"\n\n"


def frame_in_pieces(event: str, data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same frame as `encode_frame`, from data that is available in pieces."""
    yield frame_head(event)
    yield from data
    yield b"\n\n"


def comment(text: str = "") -> bytes:
    """Return a comment line. Readers skip it; it keeps the connection from looking idle."""
    return b": " + _one_line(text, "a comment") + b"\n\n"


@lru_cache(maxsize=256)  # a stream uses a handful of names; the bound protects against vendors' own names
def frame_head(event: str) -> bytes:
    """Return the bytes before the data of a frame."""
    if not event:
        raise ValueError("the event name of a frame must not be empty")
    return b"event: " + _one_line(event, "the event name of a frame") + b"\ndata: "


def _one_line(text: str, description: str) -> bytes:
    if "\n" in text or "\r" in text:
        raise ValueError(f"{description} must be one line, got {text[:80]!r}")
    return text.encode()
