"""`POST inspector/api/check` and `translate`: a captured stream, drawn and checked. Nothing of it is stored.

The bytes are read in a thread, piece by piece, so that running streams are not delayed; if the client
disconnects, the rest is not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from penstock.captures.reader import Capture, OneDocument
from penstock.captures.stream_check import AT_END, OtherFormat, StreamCheck
from penstock.captures.translation import dialect_of, translation
from penstock.dialects.recognition import FORMATS, format_of_bytes
from penstock.dialects.registry import DIALECTS
from penstock.fairness import HEAVY
from penstock.formatting import counted
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import choice, while_connected
from penstock.inspector.columns import StreamColumns
from penstock.inspector.file_desk import file_desk_of
from penstock.inspector.logged_events import json_or_none
from penstock.inspector.violations import MOST_VIOLATIONS, ShownViolation, shown
from penstock.protocol.events import TERMINAL
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import encode
from penstock.sse import DONE, Frame, encode_frame
from penstock.stream.accents import ACCENTS
from penstock.stream.checker import Violation
from penstock.stream.recovery import RecoveredOutput

LARGEST = 32 * 1024 * 1024
LARGEST_TRANSLATION = 64 * 1024 * 1024
"""Bytes. Each of the smallest chunks becomes an event that is several times as large."""
MOST_EVENTS = 200_000
MOST_LINES = 1_000_000
MOST_ITEMS = 10_000
"""Real streams have far fewer of each. What is known of an item is kept until the end, so many small ones
take much more memory than the file, and small lines take much more time."""
COMPARED = 1024 * 1024
"""Bytes in which the accents are compared."""
_PIECE = 64 * 1024
_AUTO = "auto"

Json = dict[str, Any]


class CheckedStream(Struct):
    """What was found in a stream in one accent."""

    accent: str
    format: str
    events: int
    violations: list[ShownViolation]
    columns: StreamColumns
    output: list[Any]
    usage: Any = None
    status: str = ""


async def check_file(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    accent = choice(exchange, "accent", _AUTO, *ACCENTS)
    desk = file_desk_of(gateway)
    with desk.room(key):
        data = await _read(gateway, exchange)
        await desk.answer(exchange, max(len(data), HEAVY), lambda: checked(data, accent, exchange))


async def translate_file(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    name = choice(exchange, "dialect", _AUTO, *DIALECTS)
    accent = choice(exchange, "accent", *ACCENTS)
    desk = file_desk_of(gateway)
    with desk.room(key):
        data = await _read(gateway, exchange)
        await desk.answer(exchange, max(len(data), HEAVY), lambda: _translated(data, name, accent, exchange))


async def _read(gateway: Gateway, exchange: Exchange) -> bytes:
    try:
        return await gateway.read(exchange, LARGEST)
    except RequestRefused as refused:
        if refused.status != 413:
            raise
        raise _too_large("the page checks files of up to 32 MB") from None


def _too_large(why: str) -> RequestRefused:
    message = f"{why}: use `penstock check` or `penstock translate` for this file"
    return RequestRefused(413, "request_too_large", message)


def _refuse_many_lines(data: bytes) -> None:
    lines = data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
    if lines > MOST_LINES:
        raise _too_large(f"it has more than {MOST_LINES:,} lines")


def checked(data: bytes, accent: str, exchange: Exchange | None = None) -> Json:
    """Return what a file is, and what it breaks."""
    _refuse_many_lines(data)
    try:
        found = _best(data, accent, exchange)
    except OtherFormat as other:
        return _foreign(other.name, data)
    except OneDocument as error:
        name = format_of_bytes(data)
        if name not in ("", "responses"):
            return _foreign(name, data)
        return {**_nothing("unknown", str(error)), "format": "json"}
    if not found.events:
        return {**_nothing("unknown", _no_events(data, found.format)), "format": found.format}
    sentence = (
        f"{counted(len(found.violations), 'violation')} in {counted(found.events, 'event')}."
        if found.violations
        else f"A lawful stream of {counted(found.events, 'event')}."
    )
    return {
        "kind": "responses",
        "dialect": "",
        "sentence": sentence,
        "format": found.format,
        "accent": found.accent,
        "turn": _drawn(found),
        "violations": found.violations,
        "output": found.output,
        "usage": found.usage,
        "status": found.status,
    }


def _best(data: bytes, accent: str, exchange: Exchange | None) -> CheckedStream:
    """Check a stream in an accent, or in the one that it breaks least. If it is long, its beginning decides
    between the accents: then it is read as a whole twice at most."""
    if accent != _AUTO:
        return _checked_in(data, accent, exchange)
    first, *others = ACCENTS
    whole = _checked_in(data, first, exchange)
    if not whole.violations:
        return whole
    is_short = len(data) <= COMPARED
    start = data if is_short else data[: data.rfind(b"\n", 0, COMPARED) + 1]
    best = whole if is_short else _checked_in(start, first, exchange)
    for name in others:
        found = _checked_in(start, name, exchange)
        if len(found.violations) < len(best.violations):
            best = found
        if not best.violations:
            break
    if is_short:
        return best
    if best.accent == first:
        return whole
    found = _checked_in(data, best.accent, exchange)
    return found if len(found.violations) < len(whole.violations) else whole


def _checked_in(data: bytes, accent: str, exchange: Exchange | None) -> CheckedStream:
    columns, output = StreamColumns(), _Output()

    def frame(position: int, text: str) -> None:
        if position >= MOST_EVENTS:
            raise _too_large(f"it has more than {MOST_EVENTS:,} events")
        if text.strip() not in ("[DONE]", ""):
            columns.add(position, float(position), text)
            output.add(text)
        if output.count > MOST_ITEMS:
            raise _too_large(f"it has more than {MOST_ITEMS:,} items")

    check = StreamCheck(accent=accent, on_frame=frame)
    violations: list[ShownViolation] = []
    for each in check.violations(_pieces(data, exchange)):
        if len(violations) < MOST_VIOLATIONS:
            sequence = None if each.where == AT_END else each.sequence
            violations.append(shown(Violation(each.rule, each.sequence, each.message), sequence))
    return CheckedStream(
        accent,
        check.transport,
        check.events,
        violations,
        columns,
        output.items,
        output.response.get("usage"),
        str(output.response.get("status") or ""),
    )


class _Output:
    """The response that a stream builds up, whether it has an end or not."""

    def __init__(self) -> None:
        self.response: Json = {}
        self.count = 0
        """Items that were added."""
        self._growing = RecoveredOutput()

    @property
    def items(self) -> list[Any]:
        output = self.response.get("output")
        return output if isinstance(output, list) and output else self._growing.items

    def add(self, text: str) -> None:
        event = json_or_none(text.encode("utf-8", "replace"))
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            return
        self.count += event["type"] == "response.output_item.added"
        if event["type"] in TERMINAL:
            response = event.get("response")
            self.response = response if isinstance(response, dict) else {}
        else:
            self._growing.feed(event)


def _pieces(data: bytes, exchange: Exchange | None) -> Iterator[bytes]:
    for begin in while_connected(exchange, range(0, len(data), _PIECE)):
        yield data[begin : begin + _PIECE]


def _drawn(found: CheckedStream) -> Json:
    columns = found.columns
    return {
        "timed": False,
        "lanes": columns.lanes,
        "events": columns.events,
        "heartbeats": {"at_ms": columns.heartbeats},
    }


def _foreign(name: str, data: bytes) -> Json:
    title, dialect = FORMATS[name].title, FORMATS[name].dialect
    advice = "it can be translated" if dialect else "Penstock cannot translate it"
    sentence = f"This looks like {title}, not like OpenResponses events: {advice}."
    start = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    format = {b"[": "json", b"{": "ndjson"}.get(start, "sse")
    return {**_nothing(name, sentence), "format": format, "dialect": dialect}


def _nothing(kind: str, sentence: str) -> Json:
    return {
        "kind": kind,
        "dialect": "",
        "sentence": sentence,
        "format": "",
        "accent": "",
        "turn": None,
        "violations": [],
        "output": [],
        "usage": None,
        "status": "",
    }


def _no_events(data: bytes, format: str) -> str:
    if not data.strip():
        return "The file is empty."
    return f"No events were found in {counted(len(data), 'byte')}, read as {format}: it is not a stream."


class _CountedFrames:
    """Reads the frames of a file that is translated, up to a number."""

    def __init__(self) -> None:
        self._capture = Capture(arrays=True)
        self._count = 0

    def feed(self, data: bytes) -> list[Frame]:
        return self._counted(self._capture.feed(data))

    def end(self) -> list[Frame]:
        return self._counted(self._capture.end())

    def _counted(self, frames: list[Frame]) -> list[Frame]:
        self._count += len(frames)
        if self._count > MOST_EVENTS:
            raise _too_large(f"it has more than {MOST_EVENTS:,} events")
        return frames


def _translated(data: bytes, name: str, accent: str, exchange: Exchange) -> Json:
    """Return the stream that a gateway would have sent, and the check of it."""
    _refuse_many_lines(data)
    if name == _AUTO:
        name = dialect_of(format_of_bytes(data))
    if not name:
        message = "the API format of this file is not known: name it with ?dialect="
        raise RequestRefused(400, "unknown_format", message, param="dialect")
    pipeline = translation(
        name,
        CreateResponse(),
        id="resp_translated",
        clock=time.time,
        accent=accent,
        advise=lambda other: f"choose {dialect_of(other) or 'another file'}",
        decoder=_CountedFrames(),
    )
    apply, sse = ACCENTS[accent](), bytearray()
    try:
        for piece in _pieces(data, exchange):
            for event in map(apply, pipeline.feed(piece)):
                sse += encode_frame(event.type, encode(event))
            if len(sse) > LARGEST_TRANSLATION:
                raise _too_large("the translation would be larger than 64 MB")
    except OneDocument as error:
        raise RequestRefused(400, "not_a_stream", str(error)) from None
    for event in map(apply, [*pipeline.start(), *pipeline.end()]):
        sse += encode_frame(event.type, encode(event))
    stream = bytes(sse) + DONE
    return {
        **checked(stream, accent, exchange),
        "sse": stream.decode(),
        "repairs": pipeline.snapshot.diagnostics or [],
    }
