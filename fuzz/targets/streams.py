"""Streams in both directions: server-sent events, every dialect's reader, and what reads our own streams."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import msgspec
from tests.dialects.recordings import FOLDERS
from tests.stream.running import NOW, violations

from fuzz.target import Target
from fuzz.targets.pieces import after_options, ways_to_cut
from penstock.captures.reader import Capture, OneDocument
from penstock.captures.stream_check import OtherFormat, StreamCheck
from penstock.captures.translation import translation
from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Quirks
from penstock.dialects.plan import Target as ModelTarget
from penstock.dialects.registry import DIALECTS, RENDERED, dialect
from penstock.dialects.toolset import plan_for
from penstock.errors import DecodeError, FrameTooLarge
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.parts.exchanges import to_editor
from penstock.parts.parts import TextPart, ToolCallPart
from penstock.parts.wire import encode_line, part_to_line, result_to_json
from penstock.protocol.events import TERMINAL, Event, read_event
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import encode, parse, read, to_builtins
from penstock.sse import Decoder, Frame
from penstock.stream.accents import ACCENTS
from penstock.stream.checker import StreamChecker
from penstock.stream.checker.rules import RULES
from penstock.stream.permissions import ORDER
from penstock.stream.recovery import current_snapshot, recover

LIMIT = 1024
"""Bytes of one event, for the target `sse`."""
MOST_PREFIXES = 60
"""Pieces after each of which the input is read again from its beginning."""

# Server-sent events


def decoded(pieces: list[bytes], limit: int) -> tuple[list[Frame], bool]:
    """Return the frames of an input, and whether one was too large."""
    decoder, frames = Decoder(limit), []
    try:
        for piece in pieces:
            frames += decoder.feed(piece)
        return frames + decoder.end(), False
    except FrameTooLarge:
        return frames, True


def expected_frames(data: bytes) -> list[Frame]:
    """Read events as the standard describes it, line by line, all at once."""
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removeprefix(b"\xef\xbb\xbf")
    frames: list[Frame] = []
    event, lines, last_id, retry = "", list[str](), "", None
    for line in [*text.decode("utf-8", "replace").split("\n"), ""]:
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if not line:
            if lines:
                frames.append(Frame(event or None, "\n".join(lines), last_id or None, retry))
                retry = None
            event, lines = "", []
        elif name == "data":
            lines.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) < 16:
            retry = int(value)
    return frames


def read_sse(data: bytes) -> None:
    whole = decoded([data], len(data) + 1)
    assert whole == (expected_frames(data), False)
    limited = decoded([data], LIMIT)
    for pieces in ways_to_cut(data):
        assert decoded(pieces, len(data) + 1) == whole
        assert decoded(pieces, LIMIT) == limited
        if len(pieces) <= MOST_PREFIXES:
            check_promptness(pieces)
    assert limited[1] or limited == whole


def check_promptness(pieces: list[bytes]) -> None:
    """A frame is returned with the bytes that complete it, and not later."""
    decoder, returned, received = Decoder(), 0, b""
    for piece in pieces:
        returned += len(decoder.feed(piece))
        received += piece
        assert returned == len(Decoder().feed(received))


# Dialects

OPTIONS = frozenset({"openai", "copilot", "think_tags", "tool_markup", "tools", "sealed", "capture", "body"})
TOOLS: list[Any] = [
    {"type": "function", "name": "weather", "parameters": {"type": "object"}},
    {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": True},
    {"type": "custom", "name": "apply_patch"},
    {"type": "namespace", "name": "docs", "tools": [{"type": "function", "name": "find", "parameters": {}}]},
    {"type": "shell"},
    {"type": "local_shell"},
    {"type": "apply_patch"},
    {"type": "tool_search"},
    {"type": "web_search"},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "mcp", "server_label": "docs", "server_url": "https://example.org"},
]


@cache
def request_with(options: frozenset[str]) -> CreateResponse:
    fields: dict[str, Any] = {"model": "m", "input": "hello"}
    if "tools" in options:
        fields["tools"] = TOOLS
    if "sealed" in options:
        fields["include"] = ["reasoning.encrypted_content"]
    return read(fields, CreateResponse)


def accent_of(options: frozenset[str]) -> str:
    return next((accent for accent in ("openai", "copilot") if accent in options), "openresponses")


def pipeline_for(name: str, options: frozenset[str]) -> Pipeline:
    is_capture = name not in RENDERED or "capture" in options
    return translation(
        name,
        request_with(options & {"tools", "sealed"}),
        id="resp_1",
        clock=lambda: NOW,
        accent=accent_of(options),
        quirks=Quirks(think_tags="think_tags" in options, tool_markup="tool_markup" in options),
        decoder=Capture(arrays=True) if is_capture else Decoder(),
    )


def translated(name: str, options: frozenset[str], pieces: list[bytes]) -> list[Event] | None:
    """Return all events of a stream; None if it is refused as one document, as captures are."""
    pipeline = pipeline_for(name, options)
    events = pipeline.start()
    try:
        for piece in pieces:
            events += pipeline.feed(piece)
        events += pipeline.end()
    except OneDocument:
        return None
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    assert pipeline.feed(b"data: {}\n\n") == pipeline.end() == pipeline.heartbeat() == []
    return events


def read_dialect(name: str, data: bytes) -> None:
    options, data = after_options(data, OPTIONS)
    if "body" in options:
        read_document(name, options, data)
        return
    events = translated(name, options, [data])
    for pieces in ways_to_cut(data):
        again = translated(name, options, pieces)
        if events is None or again is None:
            assert events is again is None
        elif not (has_no_output(events) and has_no_output(again)):
            assert plain(again) == plain(events)
    if events is not None:
        check_events(events, accent_of(options))


def has_no_output(events: list[Event]) -> bool:
    """A stream without output may fail in different ways, or not at all: frames that arrive together are
    looked at together, so that the turn can still move to another target."""
    return bool(to_builtins(events[-1])["response"]["output"] == [])


def read_document(name: str, options: frozenset[str], data: bytes) -> None:
    """An answer that is not streamed, and an error response with this body."""
    failure = dialect(name).classify(429, {"retry-after": "5"}, data)
    assert failure.message.encode()
    pipeline = pipeline_for(name, options)
    plan = plan_for(
        request_with(options & {"tools", "sealed"}),
        ModelTarget(model="m", dialect=name),
        accent=accent_of(options),
    )
    pipeline.open(dialect(name), plan, content_type="application/json")
    events = pipeline.start() + pipeline.feed(data) + pipeline.end()
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    check_events(events, accent_of(options))


def plain(events: list[Event]) -> list[Any]:
    return [to_builtins(event) for event in events]


def check_events(events: list[Event], made: str) -> None:
    """The stream is lawful in every accent that can carry it, and every reader of ours can read it."""
    for accent in ORDER[ORDER.index(made) :]:
        found = violations(events, accent)
        assert found == [], f"made for {made}, read as {accent}: {found[:3]}"
    calls = [part for part in adapted(events) if isinstance(part, ToolCallPart)]
    assert len({call.call_id for call in calls}) == len(calls), "a call was delivered twice"
    last = to_builtins(events[-1])["response"]
    own = {to_editor(item["call_id"]) for item in last["output"] if "call_id" in item}
    assert {call.call_id for call in calls} <= own


# Our own streams


def adapted(events: list[Event]) -> list[Any]:
    """Convert a stream to parts; check what holds for every stream."""
    adapter = OpenResponsesStreamAdapter(citations="end", model="m")
    parts: list[Any] = []
    for event in events:
        parts += adapter.feed(event)
    parts += adapter.end()
    assert adapter.end() == []
    has_output = any(part.__class__ is not TextPart or part.value.strip() for part in parts)
    assert has_output or adapter.result.error is not None, "the stream ended silently"
    ids = [part.call_id for part in parts if isinstance(part, ToolCallPart)]
    assert len(ids) == len(set(ids)), "a call id was delivered twice"
    for part in parts:
        encode_line(part_to_line(part))
    encode_line(result_to_json(adapter.result))
    return parts


def frames_of(data: bytes) -> list[Frame]:
    decoder = Decoder()
    return decoder.feed(data) + decoder.end()


def read_parts(data: bytes) -> None:
    """The adapter reads whatever a server sends."""
    events = []
    for frame in frames_of(data):
        try:
            events.append(read_event(parse(frame.data)))
        except DecodeError:
            continue
    adapted(events)


def check_capture(data: bytes) -> None:
    """The checker, behind the detection of the transport. Cuts change nothing."""
    options, data = after_options(data, frozenset({"openai", "copilot", "tolerant"}))
    found = checked([data], options)
    for pieces in ways_to_cut(data):
        assert checked(pieces, options) == found


def checked(pieces: list[bytes], options: frozenset[str]) -> list[Any] | str:
    check = StreamCheck(accent=accent_of(options), tolerant="tolerant" in options)
    try:
        found = list(check.violations(iter(pieces)))
    except (OneDocument, OtherFormat) as error:
        return type(error).__name__
    for each in found:
        assert each.rule in RULES or each.rule == "read.limit"
        assert each.message
    return [(each.rule, each.sequence, each.message, each.where, each.line) for each in found]


def check_frames(data: bytes) -> None:
    """The checker on frames as a WebSocket delivers them."""
    checker = StreamChecker(accent="openai", transport="websocket")
    for line in data.decode("utf-8", "replace").splitlines():
        for violation in checker.feed_frame(None, line):
            assert violation.rule in RULES
    assert all(violation.rule in RULES for violation in checker.end())


def recover_log(data: bytes) -> None:
    """A response whose log was cut off anywhere is continued lawfully."""
    options, data = after_options(data, OPTIONS)
    events = translated("responses", options, [data]) or []
    log = [(event.sequence_number, encode(event)) for event in events if event.type != "error"]
    log = [each for each in log if each[0] is not None]
    for length in sorted({1, 2, len(log) // 3, len(log) // 2, len(log) - 1}):
        kept = log[: max(length, 1)]
        first = encode(to_builtins(events[0])["response"])
        recovered = recover("resp_1", first, kept)
        encode(recovered.response)
        encode(current_snapshot(first, kept))
        checker = StreamChecker(accent="openai", tolerant=True)
        whole = [*(msgspec.json.decode(event) for _, event in kept), *recovered.events]
        found = [each for event in map(named_for_openai, whole) for each in checker.feed(event)]
        assert found == [], found[:3]


def named_for_openai(event: dict[str, Any]) -> Any:
    """Rename an event like the accent of its readers does."""
    return ACCENTS["openai"]()(read_event(event))


def _dialect_target(name: str) -> Target:
    return Target(
        name=name,
        group="dialects",
        about=f"a stream of the dialect {name}: one lawful stream with one end, whatever the cuts",
        run=partial(read_dialect, name),
        format="sse" if name in RENDERED or name == "cohere" else "json lines",
        words=(f"dialects.{name}", "lenient", "tools"),
        recordings=FOLDERS[name],
        base_work=200_000,
        work_per_byte=800,
    )


TARGETS = [
    Target(
        name="sse",
        group="streams",
        about="server-sent events: the frames of the standard, whatever the cuts",
        run=read_sse,
        format="lines",
        words=("sse",),
        recordings="chat-completions",
    ),
    *map(_dialect_target, DIALECTS),
    Target(
        name="adapter",
        group="streams",
        about="events of any server to parts: nothing twice, no silent end",
        run=read_parts,
        format="sse",
        words=("parts", "protocol"),
        recordings="openai-responses",
    ),
    Target(
        name="checker",
        group="streams",
        about="captured streams to violations, whatever the cuts",
        run=check_capture,
        format="sse",
        words=("stream.checker", "captures", "protocol"),
        recordings="openai-responses",
        work_per_byte=1500,
    ),
    Target(
        name="checker_frames",
        group="streams",
        about="frames of a WebSocket to violations",
        run=check_frames,
        format="json lines",
        words=("stream.checker", "protocol"),
    ),
    Target(
        name="recovery",
        group="streams",
        about="a response is rebuilt from its log",
        run=recover_log,
        format="sse",
        words=("stream.recovery", "protocol.events", "protocol.items"),
        recordings="openai-responses",
    ),
]
