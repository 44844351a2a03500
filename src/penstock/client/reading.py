"""One answer, read as a stream of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.failures import holds_error, log, refusal, truncated, unlawful
from penstock.errors import DecodeError, FrameTooLarge, OpenResponsesError
from penstock.protocol.events import ENDS, Event, read_event
from penstock.protocol.wire import parse
from penstock.sse import Decoder, Frame

if TYPE_CHECKING:
    from penstock.client.answer import Answer

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:")
_LOGGED = 10
"""A stream of nothing but garbage must not fill the log: what comes after is only counted."""


class Arrival(NamedTuple):
    """An event as it came. `number` is None where the server gave none, which the event does not show."""

    event: Event
    number: int | None


class EventReader:
    """Turns the reads of one answer into events. What cannot be read is skipped, logged and counted."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._decoder = Decoder()
        self._is_open = False
        self._is_over = False
        self._is_stream = True
        self._told: OpenResponsesError | None = None
        self.skipped = 0

    async def read(self) -> list[Arrival]:
        """The events of the next read, which may be none. When there is no next read, that is raised."""
        if self._is_over:
            raise self._end()
        try:
            self._decoder.feed(b"")  # raises where the last read went past the limit, without another read
            data = await self._answer.read() if self._is_open else await self._first_read()
            frames = self._decoder.feed(data) if data else self._decoder.end()
        except FrameTooLarge as error:
            raise unlawful(str(error), self._answer.request_id, code="frame_too_large") from None
        self._is_over = not data
        return self._arrivals(frames)

    def close(self) -> None:
        self._answer.close()

    async def _first_read(self) -> bytes:
        """Read until it is plain what this is: types of content are wrong too often to go by them alone."""
        head = b""
        while (verdict := _looks_like_a_stream(head)) is None and (data := await self._answer.read()):
            head += data
        self._is_open = True
        self._is_stream = bool(verdict) or not head.strip()
        if self._is_stream:
            return head
        if self._answer.content_type != "text/event-stream" or head.strip()[:1] in b"{[<":
            raise await self._no_stream(head)
        return head

    async def _no_stream(self, head: bytes) -> OpenResponsesError:
        answer = self._answer
        body = head + await answer.error_body()
        try:
            value = parse(body)
        except DecodeError:
            value = None
        if holds_error(value):
            return refusal(answer.status, answer.headers, body, answer.secrets)
        kind = answer.secrets.mask(answer.content_type)[:80] or "no content type"
        told = f"the endpoint answered with something that is no event stream ({kind})"
        if isinstance(value, dict) and value.get("object") == "response":
            told = "the endpoint answered with a whole response: it does not stream"
        return unlawful(told, answer.request_id, code="no_event_stream")

    def _end(self) -> OpenResponsesError:
        """Why a stream that has no end is over: the server has said so, or it has said nothing."""
        if self._told is not None:
            return self._told
        if not self._is_stream:
            told = "the endpoint answered with a body that holds no event"
            return unlawful(told, self._answer.request_id, code="no_event_stream")
        return truncated(self._answer.request_id)

    def _arrivals(self, frames: list[Frame]) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for frame in frames:
            self._is_stream = True
            if frame.data.strip() == "[DONE]":
                self._is_over = True
                break
            try:
                raw = _with_type(parse(frame.data), frame.event)
                event = read_event(raw)
            except DecodeError as error:
                self._skip(error)
                continue
            if event.type == "error":
                answer = self._answer
                self._told = refusal(answer.status, answer.headers, frame.data.encode(), answer.secrets)
            number = raw.get("sequence_number")
            arrivals.append(Arrival(event, number if number.__class__ is int else None))
            if event.type in ENDS:
                break
        return arrivals

    def _skip(self, error: DecodeError) -> None:
        self.skipped += 1
        if self.skipped <= _LOGGED:
            log.warning("skipped an event that cannot be read: %s", error)


def _with_type(raw: Any, name: str | None) -> Any:
    """An event whose type is only in the frame, or that is nothing but an error, as some vendors have it."""
    if isinstance(raw, dict) and not isinstance(raw.get("type"), str):
        kind = name or ("error" if raw.get("error") else None)
        return {**raw, "type": kind} if kind else raw
    return raw


def _looks_like_a_stream(head: bytes) -> bool | None:
    """Do these bytes begin server-sent events? None when they are too few to tell."""
    if _BOM.startswith(head):
        return None
    start = head.removeprefix(_BOM).lstrip()
    if start.startswith(_FIELDS):
        return True
    return None if any(field.startswith(start) for field in _FIELDS) else False
