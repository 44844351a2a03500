"""Outlets: how the events of a turn reach the client and the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from penstock.gateway.http.exchange import Exchange, Message
from penstock.gateway.refusals import refusal
from penstock.gateway.turn.outlets import LARGE_ANSWER, JsonOutlet, StreamOutlet, first_batch
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.large_json import LONG_TEXT
from penstock.protocol.response import Response
from penstock.store.contract import Trace
from penstock.stream.accents import Accent, OpenResponses
from penstock.stream.deltas import FinishDelta, FinishReason, TextDelta
from penstock.stream.machine import ResponseStreamStateMachine
from tests.gateway.running import judge_stream

LONG = "x" * (LONG_TEXT + 1)


class Connection:
    """The client's end: `sent` is what it received, and a write can be interrupted."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.closes = 0
        self.interrupt_at: int | None = None
        """Cancel the writer at this message, once."""

    def exchange(self) -> Exchange:
        scope = {
            "method": "POST",
            "path": "/v1/responses",
            "query_string": b"",
            "headers": [(b"x-request-id", b"req_1")],
            "extensions": {"penstock": {"close": self._close}},
        }
        return Exchange(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def _send(self, message: Message) -> None:
        if self.interrupt_at == len(self.sent):
            self.interrupt_at = None
            raise asyncio.CancelledError
        self.sent.append(message)

    def _close(self) -> None:
        self.closes += 1

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class RecordingKeeper:
    """Stores nothing; `fails` is what a broken store does."""

    def __init__(self, *, fails: bool = False) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.kept: list[Event] = []
        self._fails = fails

    async def keep(self, events: Sequence[Event], *, is_large: bool = False) -> Sequence[Event]:  # noqa: ARG002
        if self._fails:
            raise OSError("planted")
        self.kept += events
        return events

    def trace(self, trace: Trace) -> None:
        raise AssertionError(trace)


class Stage:
    """An outlet with everything around it."""

    def __init__(self, *, fails: bool = False, accent: Accent | None = None) -> None:
        self.accent = accent or OpenResponses()
        self.connection, self.keeper = Connection(), RecordingKeeper(fails=fails)
        self.verdict = Verdict(request_id="req_1", stream=True)
        self.machine = ResponseStreamStateMachine(Response(id="resp_1", model="m"), clock=lambda: 0)

    def stream(self) -> StreamOutlet:
        return StreamOutlet(
            self.connection.exchange(),
            self.accent,
            self.keeper,
            self.verdict,
            Stopwatch(lambda: 0.0),
            lambda: [("x-penstock-test", "yes")],
        )

    def whole(self) -> JsonOutlet:
        return JsonOutlet(self.connection.exchange(), self.accent, self.keeper, self.verdict, list)

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


# A stream


def test_a_stream_is_opened_once_and_ends_with_its_terminal_event() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        await outlet.write(stage.events())
        await outlet.write(stage.end())

    stage.run(act)
    start, *bodies = stage.connection.sent
    headers = dict(start["headers"])
    assert headers[b"content-type"] == b"text/event-stream"
    assert headers[b"x-accel-buffering"] == b"no"  # ask A14
    assert headers[b"x-penstock-test"] == b"yes"
    assert [message["more_body"] for message in bodies] == [True, False]
    assert judge_stream(stage.connection.body)[-1]["type"] == "response.completed"
    assert [event.sequence_number for event in stage.keeper.kept] == list(range(len(stage.keeper.kept)))
    assert (stage.verdict.status, stage.verdict.terminal_sent) == (200, True)
    assert stage.verdict.bytes_out == len(stage.connection.body)
    assert stage.connection.closes == 0


def test_a_failure_closes_the_connection() -> None:
    """Ask A10: some clients report a failure only then."""
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        await outlet.write([*stage.events(), *stage.failure()])

    stage.run(act)
    assert judge_stream(stage.connection.body)[-1]["type"] == "response.failed"
    assert stage.connection.closes == 1


@pytest.mark.parametrize("text", ["Hello", "x" * 300_000], ids=["small", "large"])
@pytest.mark.parametrize("interrupted", range(8))
def test_an_interrupted_write_is_continued_by_the_next(text: str, interrupted: int) -> None:
    """Nothing is lost, and nothing is sent twice: half a frame is followed by its other half."""
    stage = Stage()
    stage.verdict.bytes_in = LARGE_ANSWER + 1 if len(text) > LONG_TEXT else 0
    stage.connection.interrupt_at = interrupted

    async def act(outlet: StreamOutlet) -> None:
        for events in (stage.events(text), stage.end(), []):
            try:
                await outlet.write(events)
            except asyncio.CancelledError:
                await outlet.write([])

    stage.run(act)
    events = judge_stream(stage.connection.body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_a_stream_that_its_client_left_is_still_stored() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        await outlet.write(stage.events())
        outlet.mark_disconnected()
        await outlet.write(stage.end())
        await outlet.comment()

    stage.run(act)
    assert b"response.completed" not in stage.connection.body
    assert stage.keeper.kept[-1].type == "response.completed"
    assert not stage.verdict.terminal_sent


def test_events_that_the_store_cannot_keep_are_sent_and_marked(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(fails=True)

    async def act(outlet: StreamOutlet) -> None:
        await outlet.write([*stage.events(), *stage.end()])

    stage.run(act)
    events = judge_stream(stage.connection.body)
    snapshots = [event["response"] for event in events if "response" in event]
    assert all(each["diagnostics"][-1]["code"] == "store_late" for each in snapshots)
    assert "OSError" in caplog.text
    assert "planted" not in caplog.text


class FaultyAccent(OpenResponses):
    """Cannot name the end of a response."""

    def __call__(self, event: Event) -> Event:
        if event.type == "response.completed":
            raise OSError("planted")
        return super().__call__(event)


def test_the_last_resort_is_a_failed_response_with_the_next_number() -> None:
    stage = Stage(accent=FaultyAccent())

    async def act(outlet: StreamOutlet) -> None:
        events = [*stage.events(), *stage.end()]
        with pytest.raises(OSError, match="planted"):
            await outlet.write(events)
        await outlet.send_failure(Response(id="resp_1", model="m", status="failed"))
        assert stage.verdict.last_sequence == len(events)
        await outlet.write([])  # nothing is left of the events that could not be sent

    stage.run(act)
    assert stage.connection.body.count(b"event: response.failed") == 1
    assert stage.connection.body.endswith(b"data: [DONE]\n\n")
    assert b"response.completed" not in stage.connection.body


def test_a_refusal_is_one_json_answer() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        await outlet.refuse(refusal("rate_limit_exceeded", "slow down", wait=2.2))

    stage.run(act)
    assert (stage.connection.status, stage.verdict.status) == (429, 429)
    assert dict(stage.connection.sent[0]["headers"])[b"retry-after"] == b"3"
    assert json.loads(stage.connection.body)["error"]["message"] == "slow down"


def test_a_comment_opens_the_stream_and_is_not_an_event() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        before = outlet.last_event
        async with outlet.lock:
            await outlet.comment()
        assert outlet.last_event == before

    assert stage.run(act).is_open
    assert stage.connection.body.startswith(b":")
    assert stage.keeper.kept == []


# One answer


def answer_of(stage: Stage, *batches: list[Event]) -> Any:
    async def main() -> None:
        outlet = stage.whole()
        for events in batches:
            await outlet.write(events)

    asyncio.run(main())
    return json.loads(stage.connection.body)


def test_an_answer_is_sent_at_the_end_only() -> None:
    stage = Stage()
    body = answer_of(stage, stage.events(), stage.end())
    assert [message["type"] for message in stage.connection.sent] == [
        "http.response.start",
        "http.response.body",
    ]
    assert (stage.connection.status, body["status"]) == (200, "completed")
    assert stage.verdict.terminal_sent


def test_a_failed_answer_has_a_status_and_what_had_come() -> None:
    """The part of the answer that arrived is not lost: it is in the body."""
    stage = Stage()
    stage.verdict.retry_after = 9.0
    body = answer_of(stage, stage.events("half"), stage.failure())
    assert (stage.connection.status, body["error"]["code"]) == (500, "server_error")
    assert body["response"]["output"][0]["content"][0]["text"] == "half"
    assert dict(stage.connection.sent[0]["headers"])[b"retry-after"] == b"9"


def test_a_large_answer_has_its_length_and_comes_in_pieces() -> None:
    stage = Stage()
    stage.verdict.bytes_in = LARGE_ANSWER + 1
    body = answer_of(stage, stage.events("y" * 500_000), stage.end())
    assert len(body["output"][0]["content"][0]["text"]) == 500_000
    start, *pieces = stage.connection.sent
    assert int(dict(start["headers"])[b"content-length"]) == len(stage.connection.body)
    assert len(pieces) > 2
    assert stage.verdict.bytes_out == len(stage.connection.body)


# Batches


def event(type: str, instructions: str | None = None) -> Event:
    return LifecycleEvent(
        type=type, sequence_number=0, response=Response(id="resp_1", model="m", instructions=instructions)
    )


def test_events_are_split_only_where_they_may_be_large() -> None:
    small, large = Verdict(request_id=""), Verdict(request_id="", bytes_in=LARGE_ANSWER + 1)
    stage = Stage()
    *_, delta = stage.events("short")
    *_, long_delta = stage.machine.apply(TextDelta(LONG))
    end = event("response.completed")
    assert first_batch([delta, long_delta, end], small) == ([delta, long_delta, end], False)
    assert first_batch([delta, delta, long_delta, end], large) == ([delta, delta], False)
    assert first_batch([long_delta, end], large) == ([long_delta], True)
    assert first_batch([end], large) == ([end], True)
    # The instructions of the request are repeated in each snapshot, and may be as large as an answer.
    repeated = event("response.created", LONG)
    assert first_batch([repeated, delta], small) == ([repeated], True)
    assert first_batch([event("response.created", "brief"), delta], small)[1] is False
