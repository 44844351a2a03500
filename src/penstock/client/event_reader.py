"""Reads one HTTP response as a stream of events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.retries import TRUNCATED, log
from penstock.client.surrogates import SurrogateJoiner
from penstock.dialects.recognition import FORMATS, Opening, format_of_bytes
from penstock.dialects.registry import RENDERED
from penstock.errors import DecodeError, FrameTooLarge, OpenResponsesError
from penstock.lenient import has_surrogates, parse_with_surrogates
from penstock.net.error_responses import protocol_error, read_json_body, refusal
from penstock.net.wrong_addresses import not_an_answer
from penstock.protocol.events import ENDS, Event, read_event, with_type
from penstock.protocol.wire import parse
from penstock.sse import CONTENT_TYPE, LONGEST_BLANK, Decoder, Frame, is_event_stream, without_blanks

if TYPE_CHECKING:
    from penstock.net.answer import HttpAnswer

_MASKED_EVENTS = {"error", *ENDS} - {"response.completed"}
"""Events that report a failure, in which a server may repeat the key that it was sent."""
_EXPECTED = "responses"
"""The API format of an endpoint that this client can use."""
_LOGGED = 10
"""How many skipped events are logged. Further ones are only counted, to not fill the log with garbage."""


class ReceivedEvent(NamedTuple):
    """An event and its sequence number, None if the server sent none (which `event` does not show)."""

    event: Event
    sequence: int | None


class EventReader:
    """Reads the events of one response. Invalid events are skipped, logged and counted."""

    def __init__(self, answer: HttpAnswer, surrogates: SurrogateJoiner) -> None:
        self.answer = answer
        self._surrogates = surrogates
        self._decoder = Decoder()
        self._is_open = False
        self._is_over = False
        self._is_stream = True
        self._opening: Opening | None = Opening(_EXPECTED)
        """The first frames, until it is known that they are not in another API format."""
        self._reported_error: OpenResponsesError | None = None
        self.skipped = 0

    async def read(self) -> list[ReceivedEvent]:
        """Return the events of the next read, if any. Raise if the stream has ended."""
        if self._is_over:
            raise self._end_error()
        try:
            self._decoder.feed(b"")  # raises if the last read exceeded the limit, before another read
            data = await self.answer.read() if self._is_open else await self._first_read()
            frames = self._decoder.feed(data) if data else self._decoder.end()
        except FrameTooLarge as error:
            raise protocol_error(str(error), self.answer.request_id, code="frame_too_large") from None
        self._is_over = not data
        if self._opening is not None:
            self._check_format(self._opening, frames)
        return self._events(frames)

    def close(self) -> None:
        self.answer.close()

    async def _first_read(self) -> bytes:
        """Read until the format is known: content types are wrong too often to rely on them alone."""
        head, size = b"", 0
        while (is_stream := is_event_stream(head)) is None and (data := await self.answer.read()):
            # Drop blanks as they arrive, so that `head` stays shorter than a field name.
            head = without_blanks(head + data)
            size += len(data)
            if not head and size > LONGEST_BLANK:
                raise self._not_a_stream(head)
        if not head and self.answer.content_type != CONTENT_TYPE:
            raise self._not_a_stream(head)  # an empty answer, and not that of an API which was cut off
        self._is_open = True
        self._is_stream = bool(is_stream) or not head
        if self._is_stream:
            return head
        if self.answer.content_type != CONTENT_TYPE or head[:1] in b"{[<":
            raise await self._explain_body(head)
        return head

    async def _explain_body(self, head: bytes) -> OpenResponsesError:
        """Return the error for a body that is not an event stream."""
        body = head + await self.answer.error_body()
        value = read_body(self.answer, body)
        if isinstance(value, dict) and value.get("object") == "response":
            message = "the endpoint returned a complete response: it does not stream"
            return protocol_error(message, self.answer.request_id, code="no_event_stream")
        return other_format_error(self.answer, body) or self._not_a_stream(body)

    def _check_format(self, opening: Opening, frames: list[Frame]) -> None:
        """Raise if the first frames are in another API format."""
        if opening.add(frames) or self._is_over:
            self._opening = None
            if name := opening.other_format():
                raise _other_format(name, self.answer)
        elif opening.is_expected():
            self._opening = None

    def _not_a_stream(self, body: bytes) -> OpenResponsesError:
        message = not_an_answer("the endpoint", self.answer, body, "an event stream")
        return protocol_error(message, self.answer.request_id, code="no_event_stream")

    def _end_error(self) -> OpenResponsesError:
        """Return why the stream ended early: the error that the server reported, or a truncated stream."""
        if self._reported_error is not None:
            return self._reported_error
        if not self._is_stream:
            message = "the endpoint returned a body without events; check the base URL"
            return protocol_error(message, self.answer.request_id, code="no_event_stream")
        message = "the stream was closed before response.completed, response.incomplete or response.failed"
        return protocol_error(message, self.answer.request_id, code=TRUNCATED)

    def _events(self, frames: list[Frame]) -> list[ReceivedEvent]:
        events: list[ReceivedEvent] = []
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
                self._reported_error = refusal(
                    answer.status, answer.headers, json.dumps(raw).encode(), answer.secrets
                )
            number = raw.get("sequence_number")
            events.append(ReceivedEvent(event, number if number.__class__ is int else None))
            if event.type in ENDS:
                break
        return events

    def _read(self, frame: Frame) -> Any:
        """Parse a frame, join split surrogates, and mask the key in events that report a failure."""
        needs_joining = bool(self._surrogates)
        try:
            raw = parse(frame.data)
        except DecodeError:
            if not has_surrogates(frame.data):
                raise
            raw, needs_joining = parse_with_surrogates(frame.data), True
        raw = with_type(raw, frame.event)
        if needs_joining:
            raw = self._surrogates.join(raw)
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(kind, str) and kind in _MASKED_EVENTS:
            try:
                return self.answer.secrets.mask_event(raw)
            except RecursionError:
                raise DecodeError("nested too deeply") from None
        return raw

    def _skip(self, error: DecodeError) -> None:
        self.skipped += 1
        if self.skipped <= _LOGGED:
            log.warning("skipped an invalid event: %s", error)


def other_format_error(answer: HttpAnswer, body: bytes) -> OpenResponsesError | None:
    """Return the error for a body in another API format; None if it is not recognised as one."""
    name = format_of_bytes(body, _EXPECTED)
    return _other_format(name, answer) if name not in ("", _EXPECTED) else None


def _other_format(name: str, answer: HttpAnswer) -> OpenResponsesError:
    message = f"the endpoint answered in another API format, {FORMATS[name].title}: {gateway_advice(name)}"
    return protocol_error(message, answer.request_id, code="wrong_api_format")


def gateway_advice(name: str) -> str:
    """Return how to use an endpoint that answers in the format of this name."""
    if name in RENDERED:
        return f"run `penstock serve --upstream URL --dialect {name}` in front of it and use that endpoint"
    return "`penstock serve` cannot use this format either"


def read_body(answer: HttpAnswer, body: bytes) -> Any:
    """Return the JSON of a body, None if it is not JSON. Raise the error in it, whatever the status."""
    value = read_json_body(body)
    if isinstance(value, dict) and value.get("error") and not _is_response(value):
        raise refusal(answer.status, answer.headers, body, answer.secrets)
    return value


def _is_response(value: dict[str, Any]) -> bool:
    """Return whether a value with an `error` is a failed response."""
    return value.get("object") == "response" or "output" in value
