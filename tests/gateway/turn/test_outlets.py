"""Outlets: how the events of a turn reach the client and the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import refusal
from penstock.gateway.turn.outlets import LARGE_ANSWER, JsonOutlet, Outlet, StreamOutlet, first_batch
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.large_json import LONG_TEXT
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.contract import Trace
from penstock.stream.accents import Accent, OpenAI, OpenResponses
from penstock.stream.deltas import FinishDelta, FinishReason, ReasoningDelta, TextDelta
from penstock.stream.machine import ResponseStreamStateMachine
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.running import judge_stream

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


SLOW = pytest.mark.parametrize("is_slow", [False, True], ids=["at-once", "queued"])
"""Whether the store must be waited for."""

# A stream


@SLOW
def test_a_stream_is_opened_once_and_ends_with_its_terminal_event(is_slow: bool) -> None:
    stage = Stage(is_slow=is_slow)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.events())
        await outlet.flush()
        outlet.write(stage.end())
        await outlet.flush()

    stage.run(act)
    headers = stage.channel.sent_headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["x-accel-buffering"] == "no"  # ask A14
    assert headers["x-penstock-test"] == "yes"
    assert len(stage.channel.pieces) == 2
    assert stage.channel.is_ended
    assert judge_stream(stage.channel.body)[-1]["type"] == "response.completed"
    assert [event.sequence_number for event in stage.keeper.kept] == list(range(len(stage.keeper.kept)))
    assert (stage.verdict.status, stage.verdict.terminal_sent) == (200, True)
    assert stage.verdict.bytes_out == len(stage.channel.body)
    assert stage.channel.closes == 0


def test_events_are_sent_before_the_call_returns() -> None:
    """No task and no wait: that is what a chunk costs."""
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.events())
        assert outlet.is_ready
        assert b"output_text.delta" in stage.channel.body
        assert asyncio.all_tasks() == {asyncio.current_task()}

    stage.run(act)


def test_what_is_followed_by_more_is_sent_with_it() -> None:
    """The last text of an answer and its end usually arrive together, and leave in one write."""
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.machine.start(), more=True)
        assert not stage.channel.pieces
        await outlet.flush()  # nothing is held back while the turn waits for something
        assert len(stage.channel.pieces) == 1
        outlet.write(stage.machine.apply(TextDelta("Hello")), more=True)
        outlet.write(stage.end())
        assert len(stage.channel.pieces) == 2

    stage.run(act)
    assert len(judge_stream(stage.channel.body)) > 4
    assert stage.verdict.bytes_out == len(stage.channel.body)


def test_the_log_gets_the_json_that_the_client_gets() -> None:
    """It is encoded once, unless the accent changes the event."""
    stage = Stage(accent=OpenAI)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.machine.start())
        outlet.write(stage.machine.apply(ReasoningDelta("hm")))
        outlet.write(stage.machine.apply(TextDelta("Hi")))

    stage.run(act)
    given = dict(zip([event.type for event in stage.keeper.kept], stage.keeper.encoded, strict=True))
    text = given["response.output_text.delta"]
    assert text is not None
    assert text in stage.channel.body
    assert given["response.reasoning.delta"] is None  # this client gets another name


def test_what_is_written_while_the_store_is_slow_keeps_its_order() -> None:
    stage = Stage(is_slow=True)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.machine.start())
        assert not outlet.is_ready
        outlet.write(stage.machine.apply(TextDelta("Hello")))
        outlet.write(stage.end())
        assert not stage.channel.pieces
        await outlet.flush()
        assert outlet.is_ready

    stage.run(act)
    events = judge_stream(stage.channel.body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_client_that_does_not_read_holds_the_outlet_up() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.machine.start())
        stage.channel.is_writable = False
        assert not outlet.is_ready
        outlet.write(stage.machine.apply(TextDelta("Hello")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(stage.channel.pieces) == 1
        stage.channel.is_writable = True
        await outlet.flush()

    stage.run(act)
    assert b"Hello" in stage.channel.pieces[1]


def test_a_client_is_stalled_when_it_has_not_read_for_too_long() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        now = 100.0
        outlet._clock = lambda: now
        assert not outlet.is_stalled(5)
        stage.channel.is_writable = False
        assert not outlet.is_stalled(5)
        now += 4
        assert not outlet.is_stalled(5)
        assert not outlet.is_stalled(None)
        now += 1
        assert outlet.is_stalled(5)
        assert not outlet.is_stalled(None)
        stage.channel.is_writable = True
        assert not outlet.is_stalled(5)
        stage.channel.is_writable = False
        now += 4
        assert not outlet.is_stalled(5)

    stage.run(act)


@SLOW
def test_a_failure_closes_the_connection(is_slow: bool) -> None:
    """Ask A10: some clients report a failure only then."""
    stage = Stage(is_slow=is_slow)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write([*stage.events(), *stage.failure()])
        await outlet.flush()

    stage.run(act)
    assert judge_stream(stage.channel.body)[-1]["type"] == "response.failed"
    assert stage.channel.closes == 1


@pytest.mark.parametrize("text", ["Hello", "x" * 300_000], ids=["small", "large"])
@pytest.mark.parametrize("interrupted", range(8))
def test_an_interrupted_task_is_continued_by_the_next(text: str, interrupted: int) -> None:
    """Nothing is lost, and nothing is sent twice: half a frame is followed by its other half. A closing event
    loop cancels every task."""
    stage = Stage(is_slow=True)
    stage.verdict.bytes_in = LARGE_ANSWER + 1 if len(text) > LONG_TEXT else 0

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.events(text))
        outlet.write(stage.end())
        for _ in range(interrupted):
            await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        await outlet.flush()

    stage.run(act)
    events = judge_stream(stage.channel.body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text


def test_a_caller_that_is_cancelled_does_not_stop_the_task() -> None:
    stage = Stage(is_slow=True)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write([*stage.events(), *stage.end()])
        waiting = asyncio.create_task(outlet.flush())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await outlet.flush()

    stage.run(act)
    assert judge_stream(stage.channel.body)[-1]["type"] == "response.completed"


@SLOW
def test_a_stream_that_its_client_left_is_still_stored(is_slow: bool) -> None:
    stage = Stage(is_slow=is_slow)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.events())
        await outlet.flush()
        outlet.mark_disconnected()
        outlet.write(stage.end())
        outlet.comment()
        await outlet.flush()

    stage.run(act)
    assert b"response.completed" not in stage.channel.body
    assert b": waiting" not in stage.channel.body
    assert stage.keeper.kept[-1].type == "response.completed"
    assert not stage.verdict.terminal_sent


def test_events_that_the_store_cannot_keep_are_sent_and_marked(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(fails=True)

    async def act(outlet: StreamOutlet) -> None:
        outlet.write([*stage.events(), *stage.end()])
        await outlet.flush()

    stage.run(act)
    events = judge_stream(stage.channel.body)
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


@SLOW
def test_the_last_resort_is_a_failed_response_with_the_next_number(is_slow: bool) -> None:
    stage = Stage(accent=FaultyAccent, is_slow=is_slow)

    async def act(outlet: StreamOutlet) -> None:
        begin, end = stage.events(), stage.end()
        outlet.write(begin)
        await outlet.flush()
        with pytest.raises(OSError, match="planted"):
            await write_and_flush(outlet, end)
        outlet.send_failure(Response(id="resp_1", model="m", status="failed"))
        # What is in the store keeps its numbers; what was never stored has none.
        assert stage.verdict.last_sequence == len(begin) + (len(end) if is_slow else 0)
        await outlet.flush()  # nothing is left of the events that could not be sent

    stage.run(act)
    assert stage.channel.body.count(b"event: response.failed") == 1
    assert stage.channel.body.endswith(b"data: [DONE]\n\n")
    assert b"response.completed" not in stage.channel.body


def test_a_refusal_is_one_json_answer() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        outlet.refuse(refusal("rate_limit_exceeded", "slow down", wait=2.2))

    stage.run(act)
    assert (stage.channel.status, stage.verdict.status) == (429, 429)
    assert stage.channel.sent_headers["retry-after"] == "3"
    assert json.loads(stage.channel.body)["error"]["message"] == "slow down"


def test_a_comment_opens_the_stream_and_is_not_an_event() -> None:
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        before = outlet.last_event
        outlet.comment()
        assert outlet.last_event == before

    assert stage.run(act).is_open
    assert stage.channel.body.startswith(b":")
    assert stage.keeper.kept == []


# One answer


async def write_and_flush(outlet: Outlet, events: list[Event]) -> None:
    outlet.write(events)
    await outlet.flush()


def answer_of(stage: Stage, *batches: list[Event]) -> Any:
    async def main() -> None:
        outlet = stage.whole()
        for events in batches:
            await write_and_flush(outlet, events)

    asyncio.run(main())
    return json.loads(stage.channel.body)


def test_an_answer_is_sent_at_the_end_only() -> None:
    stage = Stage()
    body = answer_of(stage, stage.events(), stage.end())
    assert len(stage.channel.pieces) == 1
    assert (stage.channel.status, body["status"]) == (200, "completed")
    assert stage.verdict.terminal_sent


def test_a_failed_answer_has_a_status_and_what_had_come() -> None:
    """The part of the answer that arrived is not lost: it is in the body."""
    stage = Stage()
    stage.verdict.retry_after = 9.0
    body = answer_of(stage, stage.events("half"), stage.failure())
    assert (stage.channel.status, body["error"]["code"]) == (500, "server_error")
    assert body["response"]["output"][0]["content"][0]["text"] == "half"
    assert stage.channel.sent_headers["retry-after"] == "9"


def test_a_large_answer_has_its_length_and_comes_in_pieces() -> None:
    stage = Stage()
    stage.verdict.bytes_in = LARGE_ANSWER + 1
    body = answer_of(stage, stage.events("y" * 500_000), stage.end())
    assert len(body["output"][0]["content"][0]["text"]) == 500_000
    assert int(stage.channel.sent_headers["content-length"]) == len(stage.channel.body)
    assert len(stage.channel.pieces) > 2
    assert stage.verdict.bytes_out == len(stage.channel.body)


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
