"""CPU time of one request, stage by stage and without a network: `python -m bench.request_cost`.

Measured from the bytes of the body to the bytes of the upstream request, and then from the bytes of a short
answer to the encoded events and the verdict. The best of many runs counts, because a busy machine only makes
a run slower. With the argument `profile`, a profile of the two shorter bodies follows.

Two histories of 5,000 items are measured as well: how long the event loop is blocked at most, by work of its
own and by that of threads, which share the interpreter with it. One is sent in one request, the other is a
stored chain of responses.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import pstats
import sys
from collections.abc import Awaitable, Callable, Iterator
from io import StringIO
from time import perf_counter, process_time, thread_time
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Plan, UpstreamRequest
from penstock.dialects.toolset import identities_of
from penstock.fairness import HEAVY, run_heavy, weight_of
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved, named_items
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ModelRoute, RouteStep, Settings
from penstock.gateway.telemetry.logs import log_verdict, set_up
from penstock.gateway.turn.prepare import Prepared, prepare
from penstock.gateway.turn.requests import read_request, used_call_ids
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import conclude
from penstock.protocol.events import Event
from penstock.protocol.large_json import encode_stepwise
from penstock.protocol.request import CreateResponse
from penstock.protocol.snapshots import SnapshotEncoder
from penstock.protocol.wire import encode, read
from penstock.store.contract import Store
from penstock.store.memory import MemoryStore
from penstock.store.records import Closed, Opened
from penstock.stream.accents import ACCENTS, Accent
from penstock.upstream.target import UpstreamTarget

Json = dict[str, Any]

CHUNKS = 10
_CHUNK = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
_END = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}}\n\ndata: [DONE]\n\n'
)
UNMEASURED = "-"
PAUSE = 0.001
"""Seconds between two looks at the clock while a long history is processed."""
LONG, ITEMS_PER_TURN = 5_000, 25


# The bodies


def small_body() -> Json:
    """Return a body of about 1 KB: a chat with two earlier messages."""
    return {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "Answer briefly and precisely. " * 8,
        "input": [
            {"role": "user", "content": "What is a penstock? " * 8},
            {"type": "message", "role": "assistant", "content": [_part("output_text", "A gate. " * 16)]},
            {"role": "user", "content": [_part("input_text", "And how does one regulate the flow? " * 6)]},
        ],
    }


def codex_body() -> Json:
    """Return a body of about 45 KB in the form that Codex sends: long instructions and many tools."""
    return {
        "model": "m",
        "instructions": _prose(16_000),
        "input": [
            _message("developer", "<permissions instructions>\n" + _prose(2_000)),
            _message("user", "<environment_context>\n  <cwd>/project</cwd>\n</environment_context>"),
            _message("user", "Rename the function `flow` to `rate`, and run the tests."),
        ],
        "tools": _codex_tools(),
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199a0b1-2c3d-7e4f-8a5b-6c7d8e9f0a1b",
        "text": {"verbosity": "medium"},
        "client_metadata": {"x-codex-installation-id": "0199a0b1-2c3d-7e4f-8a5b-6c7d8e9f0a1c"},
    }


def long_body() -> Json:
    """Return the same body with a history of many items."""
    body = codex_body()
    body["input"] += list(_history(LONG - len(body["input"])))
    return body


async def chained_body(store: Store) -> Json:
    """Return the same body as a continuation of a stored chain of as many items."""
    items = read({"input": list(_history(LONG))}, CreateResponse).input
    assert isinstance(items, list)
    previous = None
    for number in range(0, LONG, ITEMS_PER_TURN):
        stored = named_items(items[number : number + ITEMS_PER_TURN])
        id = f"resp_{number}"
        await store.open(Opened(id=id, created_at=number, previous_id=previous, input=stored))
        await store.close(id, Closed(status="completed", response=b"{}"))
        previous = id
    return {**codex_body(), "previous_response_id": previous, "store": True}


def _history(items: int) -> Iterator[Json]:
    for turn in range(items // 4):
        call_id = f"call_{turn:08}"
        yield {"type": "reasoning", "summary": [_part("summary_text", "Look first.")], "content": None}
        arguments = json.dumps({"command": ["bash", "-lc", f"sed -n {turn},+20p src/flow.py"]})
        yield {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id}
        yield {"type": "function_call_output", "call_id": call_id, "output": _prose(400)}
        yield _message("assistant" if turn % 2 else "user", f"Step {turn} is done. " + _prose(120))


def _codex_tools() -> list[Json]:
    names = ("exec_command", "write_stdin", "update_plan", "view_image", "request_user_input", "spawn_agent")
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: begin hunk+ end\n" * 30}
    remote = [_function(f"remote_{number}", 8) for number in range(6)]
    return [
        *(_function(name, 7) for name in names),
        {"type": "custom", "name": "apply_patch", "description": _prose(600), "format": grammar},
        {"type": "shell"},
        {"type": "web_search", "external_web_access": True},
        {"type": "namespace", "name": "mcp__demo", "description": _prose(200), "tools": remote},
    ]


def _function(name: str, fields: int) -> Json:
    step = {
        "type": "object",
        "properties": {
            "step": {"type": "string", "description": _prose(80)},
            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        },
        "required": ["step", "status"],
        "additionalProperties": False,
    }
    properties: Json = {
        f"field_{number}": {"type": ("string", "number")[number % 2], "description": _prose(90)}
        for number in range(fields)
    }
    properties["steps"] = {"type": "array", "items": step}
    parameters = {"type": "object", "properties": properties, "required": ["field_0"]}
    return {
        "type": "function",
        "name": name,
        "description": _prose(400),
        "strict": False,
        "parameters": {**parameters, "additionalProperties": False},
    }


def _message(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [_part(kind, text)]}


def _part(type: str, text: str) -> Json:
    return {"type": type, "text": text}


def _prose(length: int) -> str:
    sentence = 'Prefer "rg" over grep; keep lines short, and explain what you do.\n'
    return (sentence * (length // len(sentence) + 1))[:length]


# The stages


class Request:
    """One request on its way through the gateway. The stages are called in order."""

    def __init__(self, gateway: Gateway, body: bytes) -> None:
        self._gateway, self._body = gateway, body
        headers = {"user-agent": "codex_cli_rs/0.50", "content-type": "application/json"}
        self._exchange = cast("Exchange", SimpleNamespace(headers=headers, query={}, request_id="req_1"))
        self._watch = Stopwatch(gateway.services.clock)
        self._weight = 0
        self._resolved: Resolved
        self._prepared: Prepared
        self._plan: Plan
        self._pipeline: Pipeline
        self._accent: Accent
        self._encoder = SnapshotEncoder()
        self._sent: list[bytes] = []

    @property
    def stages(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "read": self._read,
            "complete": self._complete,
            "prepare": self._prepare,
            UNMEASURED: self._make_plan,
            "render": self._render,
            "start": self._start,
            "answer": self._answer,
            "end": self._end,
            "verdict": self._conclude,
        }

    async def _read(self) -> None:
        settings = self._gateway.services.settings
        self._weight = weight_of(self._body)
        self._request = await run_heavy(
            self._weight, read_request, self._body, settings.default_model, settings.limits
        )

    async def _complete(self) -> None:
        self._resolved = await complete(self._gateway, None, self._request, self._weight)

    async def _prepare(self) -> None:
        resolved = self._resolved
        self._prepared = await run_heavy(
            resolved.weight, prepare, self._gateway, self._exchange, None, resolved, self._watch
        )

    async def _make_plan(self) -> None:
        """Not measured: `prepare` has made these values, but the turn keeps them to itself."""
        self._plan = await run_heavy(self._resolved.weight, self._planned)

    def _planned(self) -> Plan:
        (candidate,) = self._gateway.services.candidates("m")
        target = candidate.upstream.target(candidate.model, "")
        request = self._resolved.request
        self._dialect = candidate.upstream.dialect
        return Plan(request, target, identities_of(request), used_call_ids(request), "openai")

    async def _render(self) -> None:
        self._rendered = await run_heavy(self._resolved.weight, self._encoded)

    def _encoded(self) -> UpstreamRequest:
        rendered = self._dialect.render(self._plan)
        encoder = encode_stepwise if self._resolved.weight >= HEAVY else encode
        return replace(rendered, data=encoder(rendered.body))

    async def _start(self) -> None:
        await self._prepared.admission.admit()
        self._accent = ACCENTS[self._prepared.accent]()
        self._pipeline = Pipeline(self._prepared.machine)
        self._pipeline.prepare(self._rendered.diagnostics)
        self._pipeline.open(self._dialect, self._plan)
        self._send(self._pipeline.start())

    async def _answer(self) -> None:
        for _ in range(CHUNKS):
            self._send(self._pipeline.feed(_CHUNK))

    async def _end(self) -> None:
        self._send(self._pipeline.feed(_END))

    async def _conclude(self) -> None:
        prepared = self._prepared
        conclude(prepared.verdict, prepared.machine.snapshot, self._watch)
        cost = prepared.admission.settle(prepared.verdict)
        self._gateway.services.count_turn(prepared.verdict, cost)
        log_verdict(prepared.verdict)

    def _send(self, events: list[Event]) -> None:
        self._sent += [self._encoder.encode(self._accent(event)) for event in events]


def gateway() -> Gateway:
    target = UpstreamTarget(name="up", base_url="http://127.0.0.1:1/v1", keys=("key",))
    route = ModelRoute(name="m", steps=(RouteStep("up"),))
    return Gateway(Settings(targets=(target,), models={"m": route}), store=MemoryStore())


async def measure(body: bytes, runs: int) -> dict[str, float]:
    """Return the microseconds of each stage."""
    shared = gateway()
    best: dict[str, float] = {}
    for _ in range(runs):
        for name, stage in Request(shared, body).stages.items():
            began = process_time()
            await stage()
            best[name] = min(best.get(name, float("inf")), 1e6 * (process_time() - began))
    await shared.aclose()
    del best[UNMEASURED]
    return best


async def blocked(shared: Gateway, body: bytes, runs: int) -> tuple[float, float]:
    """Return for how many milliseconds the event loop is blocked at most, and how many of them are work of
    its own: the smallest of several runs."""
    worst = []
    for _ in range(runs):
        probe = _LoopProbe()
        probing = asyncio.create_task(probe.run())
        for stage in Request(shared, body).stages.values():
            await stage()
        probe.is_over = True
        await probing
        worst.append((1000 * probe.longest, 1000 * probe.busiest))
    return min(longest for longest, _ in worst), min(busiest for _, busiest in worst)


class _LoopProbe:
    """Looks at the clock again and again. `longest` is the longest time in between, `busiest` the longest CPU
    time of this thread."""

    def __init__(self) -> None:
        self.longest = self.busiest = 0.0
        self.is_over = False

    async def run(self) -> None:
        while not self.is_over:
            began, worked = perf_counter(), thread_time()
            await asyncio.sleep(PAUSE)
            self.longest = max(self.longest, perf_counter() - began - PAUSE)
            self.busiest = max(self.busiest, thread_time() - worked)


async def profile(body: bytes, runs: int) -> str:
    shared, profiler, text = gateway(), cProfile.Profile(), StringIO()
    for _ in range(runs):
        for stage in Request(shared, body).stages.values():
            profiler.enable()
            await stage()
            profiler.disable()
    await shared.aclose()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(45)
    return text.getvalue()


async def main() -> int:
    set_up("info", StringIO())
    bodies = {"1 KB": (small_body(), 400), "45 KB": (codex_body(), 200), "5,000 items": (long_body(), 4)}
    encoded = {name: (json.dumps(body).encode(), runs) for name, (body, runs) in bodies.items()}
    found = {name: await measure(body, runs) for name, (body, runs) in encoded.items()}
    print("microseconds    " + "".join(f"{name:>14}" for name in found))
    for stage in next(iter(found.values())):
        print(f"{stage:<16}" + "".join(f"{each[stage]:14.0f}" for each in found.values()))
    print("total           " + "".join(f"{sum(each.values()):14.0f}" for each in found.values()))
    print("bytes           " + "".join(f"{len(body):14}" for body, _ in encoded.values()))
    shared = gateway()
    for name, body in {"one request": long_body(), "a chain": await chained_body(shared.store)}.items():
        longest, busiest = await blocked(shared, json.dumps(body).encode(), runs=5)
        print(f"5,000 items as {name}: loop blocked for {longest:.1f} ms, {busiest:.1f} ms of its own work")
    await shared.aclose()
    if "profile" in sys.argv[1:]:
        for name in ("1 KB", "45 KB"):
            print(f"\n{name}\n{await profile(*encoded[name])}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
