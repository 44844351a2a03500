"""The outlet that sends server-sent events."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.gateway.refusals import refusal
from penstock.gateway.turn.outlets import LARGE_ANSWER
from penstock.gateway.turn.stream_outlet import StreamOutlet
from penstock.protocol.large_json import LONG_TEXT
from penstock.stream.deltas import TextDelta
from tests.gateway.running import judge_stream
from tests.gateway.turn.outlet_stage import SLOW, Stage

LONG = "x" * (LONG_TEXT + 1)


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
