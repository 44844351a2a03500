"""Ask the demo model as the gateway does, and check the resulting stream."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from penstock.demo.upstream import DemoUpstream
from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Plan
from penstock.net.source import UpstreamSource
from penstock.protocol.events import TERMINAL, Event
from penstock.protocol.request import CreateResponse, declared_tools
from penstock.protocol.response import response_for
from penstock.protocol.wire import read, to_builtins
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tools.identity import ToolIdentityMap
from tests.stream.running import NOW, assert_lawful

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"enum": ["fahrenheit", "celsius"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
}
CLOCK: dict[str, Any] = {
    "type": "function",
    "name": "get_time",
    "description": "Reads the clock of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PATCH: dict[str, Any] = {"type": "custom", "name": "apply_patch", "description": "Changes files."}
DOCS: dict[str, Any] = {"type": "namespace", "name": "mcp__docs", "tools": [{**CLOCK, "name": "search"}]}


def plan_for(request: dict[str, Any] | str, **more: Any) -> Plan:
    """Return the plan for a request or a prompt."""
    given = {"input": request, **more} if isinstance(request, str) else {**request, **more}
    decoded = read({"model": "demo", **given}, CreateResponse)
    return Plan(
        request=decoded,
        target=DemoUpstream().target("demo", ""),
        tools=ToolIdentityMap(declared_tools(decoded), decoded.tool_choice),
    )


class RecordedSleep:
    """A sleep that takes no time and records the durations."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.times.append(seconds)
        await asyncio.sleep(0)


class DemoTurnResult:
    """The result of one turn: the bytes of each read, the pauses between them, and the events."""

    def __init__(self, plan: Plan, reads: list[bytes], sleeps: list[float], events: list[Event]) -> None:
        self.plan = plan
        self.reads = reads
        self.sleeps = sleeps
        self.events = [to_builtins(event) for event in events]
        self.response: dict[str, Any] = self.events[-1]["response"]
        self.output: list[dict[str, Any]] = self.response["output"]

    def items(self, type: str) -> list[dict[str, Any]]:
        return [item for item in self.output if item["type"] == type]

    @property
    def text(self) -> str:
        parts = [part for item in self.items("message") for part in item["content"]]
        return "".join(part.get("text", "") for part in parts)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        return [json.loads(item["arguments"]) for item in self.items("function_call")]

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(each.removeprefix(b"data: ")) for each in self.reads]


async def reads_of(plan: Plan, sleep: RecordedSleep) -> list[bytes]:
    upstream = DemoUpstream(sleep)
    source = await upstream.send(upstream.dialect.render(plan), key="", headers={})
    return await read_all(source)


class _Reads:
    """Collects the reads of a source."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.over = asyncio.get_running_loop().create_future()

    def data(self, data: bytes) -> None:
        self.reads.append(data)

    def end(self) -> None:
        self.over.set_result(None)

    def failed(self, error: Exception, refused: bytes = b"") -> None:  # noqa: ARG002
        self.over.set_exception(error)


async def read_all(source: UpstreamSource) -> list[bytes]:
    reads = _Reads()
    source.start(reads)
    await reads.over
    source.finish()
    return reads.reads


def events_of(plan: Plan, data: bytes) -> list[Event]:
    """Return the events for a client, checked: lawful in every accent, with exactly one terminal event."""
    machine = ResponseStreamStateMachine(
        response_for(plan.request, id="resp_1", created_at=NOW), clock=lambda: NOW, tools=plan.tools
    )
    pipeline = Pipeline(machine)
    pipeline.open(DemoUpstream().dialect, plan)
    events = pipeline.start() + pipeline.feed(data) + pipeline.end()
    assert [event.type for event in events if event.type in TERMINAL] == [events[-1].type]
    assert_lawful(events)
    return events


def ask(request: dict[str, Any] | str, **more: Any) -> DemoTurnResult:
    plan, sleep = plan_for(request, **more), RecordedSleep()
    reads = asyncio.run(reads_of(plan, sleep))
    return DemoTurnResult(plan, reads, sleep.times, events_of(plan, b"".join(reads)))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def after_call(result: DemoTurnResult, *outputs: Any) -> list[dict[str, Any]]:
    """Return the input of the turn that follows tool calls: the history and the tool outputs."""
    calls = [item for item in result.output if item["type"].endswith("_call")]
    given = result.plan.request.input
    before = [user(given)] if isinstance(given, str) else to_builtins(given)
    results = [
        {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output}
        for call, output in zip(calls, outputs, strict=True)
    ]
    return [*before, *result.output, *results]
