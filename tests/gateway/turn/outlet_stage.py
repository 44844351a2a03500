"""An outlet with everything around it, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from penstock.gateway.http.exchange import Exchange
from penstock.gateway.turn.json_outlet import JsonOutlet
from penstock.gateway.turn.outlets import Outlet
from penstock.gateway.turn.stream_outlet import StreamOutlet
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import Event
from penstock.protocol.large_json import LONG_TEXT
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.records import Trace
from penstock.stream.accents import Accent, OpenResponses
from penstock.stream.deltas import FinishDelta, FinishReason, TextDelta
from penstock.stream.machine import ResponseStreamStateMachine
from tests.gateway.fake_channels import FakeHttpChannel

LONG = "x" * (LONG_TEXT + 1)


class RecordingKeeper:
    """Stores nothing. `is_slow`: it must be waited for; `fails` is what a broken store does."""

    logs_all = True

    def __init__(self, *, is_slow: bool = False, fails: bool = False) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.kept: list[Event] = []
        self.encoded: list[bytes | None] = []
        self._is_slow, self._fails = is_slow, fails

    def can_log(self, events: Sequence[Event]) -> bool:  # noqa: ARG002
        return not self._is_slow and not self._fails

    def log(self, events: Sequence[Event], encoded: Sequence[bytes | None] = ()) -> None:
        self.kept += events
        self.encoded += encoded

    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:  # noqa: ARG002
        await asyncio.sleep(0)
        if self._fails:
            raise OSError("planted")
        self.kept += events
        return events

    def json_of(self, event: Event) -> bytes:
        return encode(event)

    def trace(self, trace: Trace) -> None:
        raise AssertionError(trace)


class Stage:
    """An outlet with everything around it."""

    def __init__(
        self, *, is_slow: bool = False, fails: bool = False, accent: type[Accent] = OpenResponses
    ) -> None:
        self.accent = accent()
        self.channel = FakeHttpChannel()
        self.keeper = RecordingKeeper(is_slow=is_slow, fails=fails)
        self.verdict = Verdict(request_id="req_1", stream=True)
        self.machine = ResponseStreamStateMachine(Response(id="resp_1", model="m"), clock=lambda: 0)

    def stream(self) -> StreamOutlet:
        exchange = Exchange(self.channel)
        return StreamOutlet(
            exchange, self.accent, self.keeper, self.verdict, lambda: [("x-penstock-test", "yes")]
        )

    def whole(self) -> JsonOutlet:
        return JsonOutlet(Exchange(self.channel), self.accent, self.keeper, self.verdict, list)

    def events(self, text: str = "Hello") -> list[Event]:
        """All events of an answer, without its end."""
        return [*self.machine.start(), *self.machine.apply(TextDelta(text))]

    def end(self) -> list[Event]:
        return [*self.machine.apply(FinishDelta(FinishReason.STOP)), *self.machine.finish()]

    def failure(self) -> list[Event]:
        return self.machine.fail("server_error", "on fire")

    def run(self, act: Callable[[StreamOutlet], Coroutine[Any, Any, None]]) -> StreamOutlet:
        async def main() -> StreamOutlet:
            outlet = self.stream()
            await act(outlet)
            return outlet

        return asyncio.run(main())


async def write_and_flush(outlet: Outlet, events: list[Event]) -> None:
    outlet.write(events)
    await outlet.flush()


SLOW = pytest.mark.parametrize("is_slow", [False, True], ids=["at-once", "queued"])
"""Whether the store must be waited for."""
