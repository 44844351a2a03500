"""Everything around a client: the gateway, the strict upstreams behind it, and the tap in front of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.client.server import in_a_thread
from tests.clients.script import Repeat, Reply, Seen
from tests.clients.tap import Exchanged, Json, Tap, tap
from tests.clients.upstreams.anthropic import StrictAnthropic
from tests.clients.upstreams.base import StrictUpstream
from tests.clients.upstreams.chat import StrictChat
from tests.clients.upstreams.gemini import StrictGemini
from tests.gateway.running import Running, gateway

UPSTREAMS: dict[str, tuple[type[StrictUpstream], str, str]] = {
    "chat": (StrictChat, "/v1", "scripted-model"),
    "anthropic": (StrictAnthropic, "/v1", "claude-sonnet-4-5"),
    "gemini": (StrictGemini, "/v1beta", "gemini-3-pro"),
}
"""The upstreams by dialect: the server, its path and the model's name there, which decides what the gateway
asks of it: this Claude thinks with a budget, this Gemini signs its calls."""

MODELS = {dialect: f"gpt-5-over-{dialect}" for dialect in UPSTREAMS}
"""The names that clients use. Some clients send `reasoning` only to models that are named like this."""

SETTINGS = """
[limits]
patience = 1
comment_every = 0.3
event_every = 0.6
retries = 0
"""

TARGET = """
[targets.{dialect}]
base_url = "{url}"
dialect = "{dialect}"

[models.{name}]
target = "{dialect}"
model = "{model}"
"""

NEVER = (
    "undeclared_tool",
    "odd_arguments",
    "malformed_tool_call",
    "orphan_output",
    "unanswered_call",
    "repeated_call",
    "repeated_output",
    "item_left_out",
    "content_left_out",
    "part_left_out",
)
"""Diagnostics that would mean that the gateway has misunderstood a client or a declared tool."""


class Stage:
    def __init__(self, running: Running, tapped: Tap, upstreams: dict[str, StrictUpstream]) -> None:
        self.running, self.tap, self.upstreams = running, tapped, upstreams
        self.base_url = f"{tapped.url}/v1"

    def play(self, dialect: str, *replies: Reply | Repeat) -> str:
        """Begin a case: set the answers of one upstream, and return the name of its model."""
        for each in self.upstreams.values():
            each.play([])
        self.tap.clear()
        self.upstreams[dialect].play(list(replies))
        return MODELS[dialect]

    def also_play(self, dialect: str, *replies: Reply | Repeat) -> str:
        """Set the answers of a second upstream in the same case."""
        self.upstreams[dialect].play(list(replies))
        return MODELS[dialect]

    def seen(self, dialect: str) -> list[Seen]:
        return self.upstreams[dialect].seen

    @property
    def turns(self) -> list[Exchanged]:
        """The requests that create a response."""
        return [
            each
            for each in self.tap.exchanges
            if each.path == "/v1/responses" and (each.method == "POST" or each.is_websocket)
        ]

    @property
    def responses(self) -> list[Json]:
        """The responses at the end of turns: of terminal events, and whole ones."""
        found = [event["response"] for each in self.turns for event in each.events if "response" in event]
        found += [json.loads(each.answer) for each in self.turns if each.status == 200 and not each.is_stream]
        return [each for each in found if each["status"] not in ("in_progress", "queued")]

    def check(self, accent: str = "openai") -> None:
        """End a case: every answer was used, no upstream refused anything, and every stream is lawful."""
        refusals = [each for upstream in self.upstreams.values() for each in upstream.refusals]
        assert refusals == [], refusals
        assert {name: each.unplayed for name, each in self.upstreams.items() if each.unplayed} == {}
        for exchanged in self.tap.exchanges:
            assert exchanged.violations(accent) == [], exchanged.path
        diagnostics = [str(each) for response in self.responses for each in response.get("diagnostics") or []]
        assert [each for each in diagnostics if any(code in each for code in NEVER)] == []

    def wait_until_left(self, dialect: str) -> bool:
        """Whether the gateway closes the connection of an answer that hangs, within a few seconds."""
        return self.upstreams[dialect].left.wait(10)

    def wait_for_requests(self, dialect: str, number: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.seen(dialect)) < number:
            assert time.monotonic() < deadline, f"the upstream got {len(self.seen(dialect))} requests"
            time.sleep(0.01)


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        upstreams: dict[str, StrictUpstream] = {}
        config = SETTINGS
        for dialect, (kind, path, model) in UPSTREAMS.items():
            upstreams[dialect] = kind()
            served = stack.enter_context(in_a_thread(upstreams[dialect]))
            config += TARGET.format(
                dialect=dialect, url=f"{served.url}{path}", name=MODELS[dialect], model=model
            )
        running = stack.enter_context(gateway(folder, config=config))
        tapped = stack.enter_context(tap(running.url))
        yield Stage(running, tapped, upstreams)
