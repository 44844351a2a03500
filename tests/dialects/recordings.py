"""Recorded provider streams, and how two independent readers (the oracles) read each of them.

The recordings are not part of the project. Tests that need them are skipped if they are absent.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Plan, Quirks, ReadDialect, Target
from penstock.dialects.registry import dialect
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import response_for
from penstock.protocol.tools import CustomTool, FunctionTool, Tool
from penstock.protocol.wire import to_builtins
from penstock.sse import Decoder, Frame
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.permissions import ORDER
from penstock.tools.identity import ToolIdentityMap
from tests.stream.running import NOW, violations

ROOT = Path(__file__).parents[3] / "shared" / "recordings"
needs_recordings = pytest.mark.skipif(
    not ROOT.is_dir(), reason="the recorded streams are not next to the project"
)

FOLDERS = {
    "chat": "chat-completions",
    "responses": "openai-responses",
    "anthropic": "anthropic-messages",
    "gemini": "gemini",
    "ai_sdk": "ai-sdk-parts",
    "ollama": "ollama-native",
    "cohere": "cohere",
    "bedrock": "bedrock-converse",
}
"""The folder of each dialect."""


@cache
def manifest() -> dict[str, dict[str, Any]]:
    if not ROOT.is_dir():
        return {}
    return {entry["file"]: entry for entry in json.loads((ROOT / "manifest.json").read_text())}


@cache
def _oracle(name: str) -> dict[str, Any]:
    path = ROOT / name
    return json.loads(path.read_text()) if path.exists() else {}


def files(folder: str) -> list[str]:
    """Return the available recordings of one dialect, as paths below the folder of recordings."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).glob("*") if path.is_file())


def of_each_provider(folder: str, count: int = 2) -> list[str]:
    """Return the smallest recordings of each provider: providers differ more than their recordings do."""
    providers: dict[str, list[str]] = {}
    for file in sorted(files(folder), key=lambda file: ((ROOT / file).stat().st_size, file)):
        providers.setdefault(str(manifest().get(file, {}).get("provider")), []).append(file)
    return [file for group in providers.values() for file in group[:count]]


def every() -> list[tuple[str, str]]:
    """Return all available recordings, each with its dialect."""
    return [(file, dialect) for dialect, folder in FOLDERS.items() for file in files(folder)]


def frames(file: str, data: bytes | None = None) -> list[Frame]:
    """Return the frames of a recording: server-sent events, one JSON text per line, or a JSON array."""
    data = (ROOT / file).read_bytes() if data is None else data
    if file.endswith(".sse"):
        decoder = Decoder()
        return decoder.feed(data) + decoder.end()
    if file.endswith(".array.json"):
        return [Frame(None, json.dumps(each)) for each in json.loads(data)]
    return [Frame(None, line) for line in data.decode().splitlines() if line.strip()]


def tools_of(file: str) -> list[Tool]:
    """Return the function and custom tools that the recorded request declared."""
    declared = manifest().get(file, {}).get("request_tools") or []
    made: list[Tool] = []
    for each in declared:
        if each.get("type") == "custom":
            made.append(CustomTool(name=each["name"]))
        elif each.get("type") == "function" and each.get("name"):
            made.append(FunctionTool(name=each["name"]))
    return made


def plan_for(file: str, dialect: str, quirks: Quirks | None = None) -> Plan:
    """Return a plan for a client that gets everything, so that what the reader returned can be compared."""
    entry = manifest().get(file, {})
    tools = tools_of(file)
    request = CreateResponse(model=entry.get("model") or "m", tools=tools)
    vendor = entry.get("provider") or ""
    target = Target(model="m", vendor=vendor, dialect=dialect, quirks=quirks or Quirks())
    return Plan(request=request, target=target, tools=ToolIdentityMap(tools), accent="openai")


class _Frames:
    """A decoder for frames that are already decoded: `feed` returns the pending ones."""

    def __init__(self) -> None:
        self.pending: list[Frame] = []

    def feed(self, _: bytes) -> list[Frame]:
        frames, self.pending = self.pending, []
        return frames

    def end(self) -> list[Frame]:
        return self.feed(b"")


class FrameStream:
    """The pipeline of one answer, fed with frames."""

    def __init__(self, dialect: ReadDialect, plan: Plan) -> None:
        machine = ResponseStreamStateMachine(
            response_for(plan.request, id="resp_1", created_at=NOW), clock=lambda: NOW, tools=plan.tools
        )
        self._frames = _Frames()
        self._pipeline = Pipeline(machine)
        self._pipeline.open(dialect, plan, decoder=self._frames)

    def start(self) -> list[Event]:
        return self._pipeline.start()

    def feed(self, frame: Frame) -> list[Event]:
        self._frames.pending.append(frame)
        return self._pipeline.feed(b"")

    def end(self) -> list[Event]:
        return self._pipeline.end()


def translate(dialect: ReadDialect, plan: Plan, received: list[Frame]) -> list[Event]:
    """Translate a stream for the plan's accent and for the strict one; check that it is lawful in every
    accent that can carry it, and has exactly one terminal event."""
    events: list[Event] = []
    for made in (ORDER[0], plan.accent):
        events = _translated(dialect, replace(plan, accent=made), received)
        assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
        for read in ORDER[ORDER.index(made) :]:
            assert violations(events, read) == [], f"made for {made}, read as {read}"
    return events


def _translated(dialect: ReadDialect, plan: Plan, received: list[Frame]) -> list[Event]:
    stream = FrameStream(dialect, plan)
    events = stream.start()
    for frame in received:
        events += stream.feed(frame)
    return events + stream.end()


def events_of(file: str, name: str) -> list[Event]:
    """Translate a recording, for tests of code that reads our streams. It is not checked here."""
    return _translated(dialect(name), plan_for(file, name), frames(file))


class Reading(Struct):
    """The content of a stream, in the form of the oracles."""

    text: str
    reasoning: str
    calls: list[tuple[str, Any]]
    status: str
    input_tokens: int | None
    output_tokens: int | None


def reading(events: list[Event]) -> Reading:
    """Summarise our events. Refusals count as text, like in the first oracle."""
    response = to_builtins(events[-1])["response"]
    text, reasoning, calls = "", "", []
    for item in response["output"]:
        if item["type"] == "message":
            text += "".join(part.get("text") or part.get("refusal") or "" for part in item["content"])
        elif item["type"] == "reasoning":
            parts = [*item["summary"], *item.get("content", [])]
            reasoning += "".join(part["text"] for part in parts)
        elif item["type"] == "function_call" and item["status"] == "completed":
            calls.append((item["name"], json.loads(item["arguments"])))
        elif item["type"] == "custom_tool_call" and item["status"] == "completed":
            calls.append((item["name"], item["input"]))
    status = response["status"]
    if status == "incomplete":
        status = response["incomplete_details"]["reason"]
    usage = response["usage"] or {}
    return Reading(text, reasoning, calls, status, usage.get("input_tokens"), usage.get("output_tokens"))


FINISHES = {
    "stop": {"completed"},
    "tool-calls": {"completed"},
    "length": {"max_output_tokens"},
    "content-filter": {"content_filter"},
    "error": {"failed"},
}
"""Our statuses for each finish reason of the first oracle; any other reason is not compared."""


def disagreements(file: str, ours: Reading) -> list[str]:
    """Return where the oracles contradict us. One that agrees is enough, and so is none that knows."""
    one, two = _oracle("expected.json").get(file), _oracle("expected_py.json").get(file)
    found: list[str] = []
    for aspect in ("text", "reasoning", "calls", "finish", "input_tokens", "output_tokens"):
        verdicts = [
            _compare(aspect, ours, oracle) for oracle in (one, two) if oracle and not oracle.get("error")
        ]
        wrong = [verdict for verdict in verdicts if verdict]
        if wrong and None not in verdicts:
            found.append(f"{aspect}: {wrong[0]}")
    return found


def _compare(aspect: str, ours: Reading, oracle: dict[str, Any]) -> str | None:
    """Return None if they agree, "" if the oracle does not know, or else the difference."""
    if aspect in ("text", "reasoning"):
        if aspect not in oracle:
            return ""
        here = getattr(ours, aspect)
        return None if here == oracle[aspect] else f"{here[:300]!r} and not {oracle[aspect][:300]!r}"
    if aspect == "calls":
        theirs = [(call["name"], _as_json(call.get("input"))) for call in oracle.get("tool_calls", [])]
        return None if ours.calls == theirs else f"{ours.calls} and not {theirs}"
    if aspect == "finish":
        finish = oracle.get("finish")
        expected = FINISHES.get(str(finish.get("unified")) if isinstance(finish, dict) else "")
        if not expected:
            return ""
        return None if ours.status in expected else f"{ours.status} and not {expected}"
    side = "inputTokens" if aspect == "input_tokens" else "outputTokens"
    usage = oracle.get("usage") or {}
    counted = usage.get(side)
    total = counted.get("total") if isinstance(counted, dict) else counted
    if total is None:
        return ""
    here = getattr(ours, aspect)
    return None if here == total else f"{here} and not {total}"


def _as_json(value: Any) -> Any:
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        return json.loads(value) if value.strip() else {}
    except ValueError:
        return value
