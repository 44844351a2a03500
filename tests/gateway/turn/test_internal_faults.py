"""Faults of the gateway itself: a stream that has begun always gets its terminal event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import Settings
from penstock.gateway.turn import prepare
from penstock.protocol.events import TERMINAL, Event
from penstock.sse import Decoder
from penstock.store.keeper import StoreKeeper
from penstock.store.memory import MemoryStore
from penstock.stream.accents import ACCENTS, OpenResponses

Json = dict[str, Any]


def _raise(*_: object, **__: object) -> Any:
    raise OSError("planted")


class Unspeakable(OpenResponses):
    """An accent with a fault in it: neither text nor the end of a response can be sent."""

    def __call__(self, event: Event) -> Event:
        return _raise() if "delta" in event.type or event.type in TERMINAL else super().__call__(event)


class FaultyKeeper(StoreKeeper):
    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:
        return events if events[0].type == "response.created" else _raise(is_large)


def ask(prompt: str, *, stream: bool = True) -> bytes:
    """One turn of the demo model, in this process; the body of the answer."""
    body = json.dumps({"model": "demo", "input": prompt, "stream": stream}).encode()
    sent: list[Any] = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return requests.pop() if requests else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        gateway = Gateway(Settings(), store=MemoryStore())
        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b""}
        await GatewayApp(gateway)({**scope, "headers": headers}, receive, send)
        await gateway.aclose()

    asyncio.run(run())
    return b"".join(message.get("body", b"") for message in sent)


def events_of(body: bytes) -> list[Json]:
    assert body.endswith(b"data: [DONE]\n\n")
    decoder = Decoder()
    return [json.loads(frame.data) for frame in decoder.feed(body) if frame.data != "[DONE]"]


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the estimate of usage": lambda patch: patch.setattr(Services, "estimate", _raise),
    "the accent": lambda patch: patch.setitem(ACCENTS, "openresponses", Unspeakable),
    "the store": lambda patch: patch.setattr(prepare, "StoreKeeper", FaultyKeeper),
}


@pytest.mark.parametrize("broken", FAULTS)
def test_a_fault_does_not_cost_the_terminal_event(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[broken](monkeypatch)
    events = events_of(ask("fail in the middle"))
    assert [event["type"] for event in events if event["type"] in TERMINAL] == ["response.failed"]
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"]


def test_what_a_broken_store_cannot_keep_is_sent_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS["the store"](monkeypatch)
    events = events_of(ask("Count from 1 to 3."))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    assert [each["code"] for each in events[-1]["response"]["diagnostics"]] == ["store_late"]


def test_a_whole_answer_that_cannot_be_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS["the accent"](monkeypatch)
    assert json.loads(ask("Count from 1 to 3.", stream=False))["error"]["code"] == "internal_error"
