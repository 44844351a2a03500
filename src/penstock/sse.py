"""Server-sent events: bytes to frames, and frames to bytes. No I/O; the caller owns the connection.

The decoder follows the event stream algorithm of the WHATWG HTML standard, with one addition: an event that
the end of the input leaves without its blank line is still handed out, because servers end that way and the
last event is the one that says how the answer ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from penstock.errors import FrameTooLarge

DEFAULT_LIMIT = 64 * 1024 * 1024

DONE = b"data: [DONE]\n\n"
"""The last frame of a stream on this transport."""

_CR = 13
_LF = 10
_BOM = b"\xef\xbb\xbf"


class Frame(Struct, frozen=True, gc=False):
    """One dispatched event.

    `event` is None when the stream did not name it. `id` is the last event id as of this frame, which an
    earlier frame may have set: it is what a client sends to resume after this one. `retry` is the delay in
    milliseconds that the server asked for since the frame before.
    """

    event: str | None
    data: str
    id: str | None = None
    retry: int | None = None


class Decoder:
    """Turns reads of any size into frames; how the input was cut into reads never shows.

    `limit` bounds the bytes of one event, and so what the decoder can hold. Frames that were whole before the
    oversized event are handed out first; from the call after that, every call raises `FrameTooLarge`.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()  # the event under construction, every line end a single LF
        self._after_cr = False  # the last byte was CR: an LF that follows belongs to it
        self._at_start = True  # nothing was read out yet: a BOM may come
        self._overflowed = False
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Take one read; return the frames that it completed."""
        if self._overflowed:
            raise FrameTooLarge(self._limit)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if _CR in data:  # searching for an int is several times faster than for one byte
            self._after_cr = data[-1] == _CR
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not data:
            return []
        # Only the new bytes are searched: a huge event in small reads must not be scanned over and over.
        blank = data.rfind(b"\n\n")
        held = self._held
        if blank < 0 and not (held and held[-1] == _LF and data[0] == _LF):
            return self._hold(data)
        if held:
            blank += len(held)
            data = bytes(held) + data
            held.clear()
        if len(data) > blank + 2:
            held += data[blank + 2 :]
        if len(data) > self._limit:
            return self._frames_within_limit(data[:blank])
        return self._frames(data[:blank])

    def end(self) -> list[Frame]:
        """The input is over: return the event that has no blank line, if there is one."""
        if self._overflowed:
            raise FrameTooLarge(self._limit)
        last = bytes(self._held)
        self._held.clear()
        return self._frames(last)

    def _hold(self, data: bytes) -> list[Frame]:
        """Keep what does not complete an event. Blank lines before an event are no part of it."""
        if not self._held and data[0] == _LF:
            self._at_start = False
            data = data.lstrip(b"\n")
        self._held += data
        return self._overflow(b"") if self._held_too_much() else []

    def _held_too_much(self) -> bool:
        # One LF at the end may turn out to be half of the blank line, and is not yet the event's.
        return len(self._held) - self._held.endswith(b"\n") > self._limit

    def _frames(self, events: bytes) -> list[Frame]:
        """Read whole events. All of it is decoded at once: no line end is ever inside a UTF-8 sequence."""
        if self._at_start:
            self._at_start = False
            events = events.removeprefix(_BOM)
        frames: list[Frame] = []
        event: str | None = None
        data: list[str] = []
        for line in str(events, "utf-8", "replace").split("\n"):
            if not line:
                if data:
                    frames.append(Frame(event, "\n".join(data), self._id, self._retry))
                    data = []
                    self._retry = None
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
            frames.append(Frame(event, "\n".join(data), self._id, self._retry))
            self._retry = None
        return frames

    def _remember(self, name: str, value: str) -> None:
        """The fields that outlive their event, even one without data, which is not dispatched itself."""
        if name == "id" and "\0" not in value:
            self._id = value or None
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 16:
            self._retry = int(value)

    def _frames_within_limit(self, events: bytes) -> list[Frame]:
        """Read whole events up to the first past the limit. The event being held counts as the last."""
        position = 0
        for event in events.split(b"\n\n"):
            if len(event.strip(b"\n")) > self._limit:
                return self._overflow(events[:position])
            position += len(event) + 2
        return self._overflow(events) if self._held_too_much() else self._frames(events)

    def _overflow(self, events: bytes) -> list[Frame]:
        self._overflowed = True
        self._held.clear()
        frames = self._frames(events)
        if not frames:
            raise FrameTooLarge(self._limit)
        return frames


def encode_frame(event: str, data: bytes) -> bytes:
    """One whole frame, to be written in one piece: half a frame on the wire cannot be taken back.

    `data` is one line of JSON, as msgspec writes it.
    """
    if _LF in data or _CR in data:
        raise ValueError("the data of a frame must be one line: encode JSON without line breaks")
    return _head(event) + data + b"\n\n"


def frame_in_pieces(event: str, data: Iterable[bytes]) -> Iterator[bytes]:
    """The same frame as `encode_frame` makes, from data that comes in pieces."""
    yield _head(event)
    yield from data
    yield b"\n\n"


def comment(text: str = "") -> bytes:
    """A line that every reader skips: it keeps a connection from looking idle."""
    return b": " + _one_line(text, "a comment") + b"\n\n"


@lru_cache(maxsize=256)  # a stream uses a handful of names; the bound is for names that others invent
def _head(event: str) -> bytes:
    if not event:
        raise ValueError("the event name of a frame must not be empty")
    return b"event: " + _one_line(event, "the event name of a frame") + b"\ndata: "


def _one_line(text: str, called: str) -> bytes:
    if "\n" in text or "\r" in text:
        raise ValueError(f"{called} must be one line, got {text[:80]!r}")
    return text.encode()
