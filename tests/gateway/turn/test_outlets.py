"""Outlets: how the events of a turn reach the client and the store."""

from __future__ import annotations

import asyncio

import pytest

from penstock.gateway.turn.outlets import LARGE_ANSWER, first_batch
from penstock.gateway.turn.stream_outlet import StreamOutlet
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import Event, LifecycleEvent
from penstock.protocol.large_json import LONG_TEXT
from penstock.protocol.response import Response
from penstock.stream.accents import OpenAI, OpenResponses
from penstock.stream.deltas import ReasoningDelta, TextDelta
from tests.gateway.running import judge_stream
from tests.gateway.turn.outlet_stage import SLOW, Stage, write_and_flush

LONG = "x" * (LONG_TEXT + 1)


def test_events_are_sent_before_the_call_returns() -> None:
    """No task and no wait: that is what a chunk costs."""
    stage = Stage()

    async def act(outlet: StreamOutlet) -> None:
        outlet.write(stage.events())
        assert outlet.is_ready
        assert b"output_text.delta" in stage.channel.body
        assert asyncio.all_tasks() == {asyncio.current_task()}

    stage.run(act)


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

    def _faulty(self, event: LifecycleEvent) -> Event:
        if event.type == "response.completed":
            raise OSError("planted")
        return self._strict_lifecycle(event)

    changes = {**OpenResponses.changes, LifecycleEvent: _faulty}


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
