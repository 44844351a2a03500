"""One answer, read as a stream of events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.retries import TRUNCATED, log
from penstock.client.surrogates import SurrogateJoiner
from penstock.errors import DecodeError, FrameTooLarge, OpenResponsesError
from penstock.lenient import has_surrogates, parse_with_surrogates
from penstock.net.error_responses import read_json_body, refusal, unlawful
from penstock.protocol.events import ENDS, Event, read_event, with_type
from penstock.protocol.wire import parse
from penstock.sse import Decoder, Frame

if TYPE_CHECKING:
    from penstock.net.answer import HttpAnswer

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:")
_LONGEST_BLANK = 64 * 1024
"""Blank lines keep a connection alive, but a server that sends nothing else for so long streams nothing."""
_MAY_TELL_THE_KEY = {"error", *ENDS} - {"response.completed"}
"""Events in which a server says what went wrong, and may repeat the key that it was given."""
_LOGGED = 10
"""A stream of nothing but garbage must not fill the log: what comes after is only counted."""


class Arrival(NamedTuple):
    """An event as it came. `number` is None where the server gave none, which the event does not show."""

    event: Event
    number: int | None


class EventReader:
    """Turns the reads of one answer into events. What cannot be read is skipped, logged and counted."""

    def __init__(self, answer: HttpAnswer, surrogates: SurrogateJoiner) -> None:
        self.answer = answer
        self._surrogates = surrogates
        self._decoder = Decoder()
        self._is_open = False
        self._is_over = False
        self._is_stream = True
        self._stated_error: OpenResponsesError | None = None
        self.skipped = 0

    async def read(self) -> list[Arrival]:
        """The events of the next read, which may be none. When there is no next read, that is raised."""
        if self._is_over:
            raise self._end()
        try:
            self._decoder.feed(b"")  # raises where the last read went past the limit, without another read
            data = await self.answer.read() if self._is_open else await self._first_read()
            frames = self._decoder.feed(data) if data else self._decoder.end()
        except FrameTooLarge as error:
            raise unlawful(str(error), self.answer.request_id, code="frame_too_large") from None
        self._is_over = not data
        return self._arrivals(frames)

    def close(self) -> None:
        self.answer.close()

    async def _first_read(self) -> bytes:
        """Read until it is plain what this is: types of content are wrong too often to go by them alone."""
        head, seen = b"", 0
        while (verdict := _looks_like_a_stream(head)) is None and (data := await self.answer.read()):
            # What is blank is dropped as it comes: what is held stays shorter than the name of a field.
            head = (head + data).lstrip().removeprefix(_BOM).lstrip()
            seen += len(data)
            if not head and seen > _LONGEST_BLANK:
                raise self._unlike_a_stream()
        self._is_open = True
        self._is_stream = bool(verdict) or not head
        if self._is_stream:
            return head
        if self.answer.content_type != "text/event-stream" or head[:1] in b"{[<":
            raise await self._no_stream(head)
        return head

    async def _no_stream(self, head: bytes) -> OpenResponsesError:
        value = read_body(self.answer, head + await self.answer.error_body())
        if isinstance(value, dict) and value.get("object") == "response":
            message = "the endpoint answered with a whole response: it does not stream"
            return unlawful(message, self.answer.request_id, code="no_event_stream")
        return self._unlike_a_stream()

    def _unlike_a_stream(self) -> OpenResponsesError:
        kind = self.answer.secrets.mask(self.answer.content_type)[:80] or "no content type"
        message = f"the endpoint answered with something that is no event stream ({kind})"
        return unlawful(message, self.answer.request_id, code="no_event_stream")

    def _end(self) -> OpenResponsesError:
        """Why a stream that has no end is over: the server has said so, or it has said nothing."""
        if self._stated_error is not None:
            return self._stated_error
        if not self._is_stream:
            message = "the endpoint answered with a body that holds no event"
            return unlawful(message, self.answer.request_id, code="no_event_stream")
        message = "the stream was closed before response.completed, response.incomplete or response.failed"
        return unlawful(message, self.answer.request_id, code=TRUNCATED)

    def _arrivals(self, frames: list[Frame]) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for frame in frames:
            self._is_stream = True
            if frame.data.strip() == "[DONE]":
                self._is_over = True
                break
            try:
                raw = self._read(frame)
                event = read_event(raw)
            except DecodeError as error:
                self._skip(error)
                continue
            if event.type == "error":
                answer = self.answer
                self._stated_error = refusal(
                    answer.status, answer.headers, json.dumps(raw).encode(), answer.secrets
                )
            number = raw.get("sequence_number")
            arrivals.append(Arrival(event, number if number.__class__ is int else None))
            if event.type in ENDS:
                break
        return arrivals

    def _read(self, frame: Frame) -> Any:
        """What a frame holds, in whole characters, and without the key where it could be in an error."""
        is_whole = not self._surrogates
        try:
            raw = parse(frame.data)
        except DecodeError:
            if not has_surrogates(frame.data):
                raise
            raw, is_whole = parse_with_surrogates(frame.data), False
        raw = with_type(raw, frame.event)
        if not is_whole:
            raw = self._surrogates.join(raw)
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind in _MAY_TELL_THE_KEY:
            try:
                return self.answer.secrets.mask_event(raw)
            except RecursionError:
                raise DecodeError("nested too deeply") from None
        return raw

    def _skip(self, error: DecodeError) -> None:
        self.skipped += 1
        if self.skipped <= _LOGGED:
            log.warning("skipped an event that cannot be read: %s", error)


def _looks_like_a_stream(head: bytes) -> bool | None:
    """Do these bytes begin server-sent events? None when they are too few to tell."""
    if head.startswith(_FIELDS):
        return True
    return None if any(start.startswith(head) for start in (_BOM, *_FIELDS)) else False


def read_body(answer: HttpAnswer, body: bytes) -> Any:
    """The JSON of a body, None where it is none. An error is raised, at whatever status it came."""
    value = read_json_body(body)
    if isinstance(value, dict) and value.get("error") and not _is_response(value):
        raise refusal(answer.status, answer.headers, body, answer.secrets)
    return value


def _is_response(value: dict[str, Any]) -> bool:
    """One that failed has an `error` too."""
    return value.get("object") == "response" or "output" in value
