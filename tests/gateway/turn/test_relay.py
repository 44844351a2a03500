"""Carrying an upstream's answer to the outlet of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.dialects.chat import DIALECT
from penstock.dialects.pipeline import Pipeline
from penstock.errors import NetworkError, ProtocolError
from penstock.gateway.errors import RequestRefused
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.relay import Relay
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import Event
from penstock.protocol.response import Response, response_for
from penstock.store.contract import Trace
from penstock.stream.machine import ResponseStreamStateMachine
from tests.client.server import chunk as http_chunk
from tests.client.server import send
from tests.dialects.chat_streams import chunk, plan
from tests.gateway.configs import CONFIG
from tests.gateway.fake_upstreams import FakeSource, Step
from tests.gateway.running import gateway
from tests.gateway.upstream import (
    SSE_HEAD,
    USAGE,
    ScriptedUpstream,
    frames,
)

DELTA = "response.output_text.delta"


class RecordingOutlet:
    """Remembers each write."""

    def __init__(self) -> None:
        self.writes: list[list[Event]] = []
        self.kept: list[Event] = []
        self.refused: list[RequestRefused] = []

    async def write(self, events: Sequence[Event]) -> None:
        if events:
            self.writes.append(list(events))

    async def keep(self, events: Sequence[Event]) -> None:
        self.kept += events

    async def refuse(self, refused: RequestRefused) -> None:
        self.refused.append(refused)

    async def send_failure(self, response: Response) -> None:
        raise AssertionError(response)

    @property
    def text(self) -> str:
        return "".join(getattr(event, "delta", "") for write in self.writes for event in write)


class Forwarded:
    """A relay between a scripted source and an outlet that remembers."""

    def __init__(self, *steps: Step, most_bytes: int = 1_000_000) -> None:
        response = response_for(plan().request, id="resp_1", created_at=0)
        self.outlet, self.verdict = RecordingOutlet(), Verdict(request_id="req_1")
        self.pipeline = Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0))
        self.traces: list[Trace] = []
        self.now = 0.0
        tracer = Tracer(self.traces.append, clock=lambda: 0)
        watch = Stopwatch(lambda: self.now)
        self.relay = Relay(self.pipeline, self.outlet, self.verdict, watch, tracer, most_bytes)
        self.steps = steps

    def run(self) -> None:
        async def forward() -> None:
            await self.relay.forward(FakeSource(self.steps), DIALECT, plan())
            await self.relay.write()

        asyncio.run(forward())


def words(*texts: str) -> bytes:
    return frames(*[chunk({"content": text}) for text in texts], done=False)


END = frames(chunk(finish="stop"), USAGE)


def test_the_events_of_one_read_leave_in_one_write() -> None:
    first, pause, second = words("one ", "two ", "three "), asyncio.Event(), words("four") + END
    forwarded = Forwarded(first, pause, second)

    async def forward() -> None:
        task = asyncio.create_task(forwarded.relay.forward(FakeSource(forwarded.steps), DIALECT, plan()))
        while not forwarded.outlet.writes:
            await asyncio.sleep(0)
        pause.set()
        await task
        await forwarded.relay.write()

    asyncio.run(forward())
    deltas = [[event.type for event in write].count(DELTA) for write in forwarded.outlet.writes]
    assert deltas == [3, 1]
    assert forwarded.outlet.text == "one two three four"


def test_a_stream_that_has_begun_without_output_can_still_go_to_another_target() -> None:
    begun = frames(chunk({"role": "assistant", "content": ""}), done=False)
    forwarded = Forwarded(begun, NetworkError("cut", phase="read"))
    with pytest.raises(NetworkError):
        forwarded.run()
    [begin] = forwarded.outlet.writes
    assert [event.type for event in begin] == ["response.created", "response.in_progress"]
    assert not forwarded.pipeline.has_output
    assert forwarded.verdict.first_output_ms == -1


def test_sizes_and_the_time_of_the_first_output_are_recorded() -> None:
    data = words("a") + END
    forwarded = Forwarded(data)
    forwarded.now = 0.25
    forwarded.run()
    assert forwarded.verdict.bytes_in == len(data)
    assert forwarded.verdict.first_output_ms == 250
    assert [(trace.kind, trace.size) for trace in forwarded.traces] == [("read", len(data))]


LONG = words("a", "b", "c") + END


def test_an_answer_may_be_as_long_as_the_limit() -> None:
    forwarded = Forwarded(*pieces(LONG), most_bytes=len(LONG))
    forwarded.run()
    assert forwarded.outlet.text == "abc"


@pytest.mark.parametrize("limit", [0, 6, 7, 8, 70, len(words("a")), len(words("a")) + 7, len(LONG) - 30])
def test_an_answer_that_is_longer_than_the_limit_fails(limit: int) -> None:
    """What may be read of it is delivered first, wherever the reads are cut."""
    forwarded = Forwarded(*pieces(LONG), most_bytes=limit)
    with pytest.raises(ProtocolError, match="answer_bytes") as caught:
        forwarded.run()
    assert caught.value.code == "upstream_invalid"
    assert forwarded.outlet.text == "abc"[: LONG[:limit].count(b"\n\n")]


def pieces(data: bytes) -> list[bytes]:
    return [data[at : at + 7] for at in range(0, len(data), 7)]


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_break_matters_only_before_the_finish_reason(is_finished: bool) -> None:
    end = [frames(chunk(finish="stop"), done=False)] if is_finished else []
    forwarded = Forwarded(words("half"), *end, NetworkError("cut", phase="read"))
    if is_finished:
        forwarded.run()
    else:
        with pytest.raises(NetworkError):
            forwarded.run()
    assert forwarded.pipeline.has_output


def test_the_upstreams_own_id_is_recorded_as_one_line() -> None:
    named = frames(chunk({"content": "a"}, id="chatcmpl-1\n2026 forged"), done=False)
    forwarded = Forwarded(named, END)
    forwarded.run()
    assert forwarded.verdict.upstream_id == "chatcmpl-1?2026 forged"


def test_events_that_were_not_written_are_stored_when_the_client_has_disconnected() -> None:
    forwarded = Forwarded(words("a"))

    async def forward() -> None:
        await forwarded.relay.forward(FakeSource(forwarded.steps), DIALECT, plan())
        await forwarded.relay.keep(forwarded.pipeline.cancel())

    asyncio.run(forward())
    types = [event.type for write in forwarded.outlet.writes for event in write]
    assert [*types, *(event.type for event in forwarded.outlet.kept)][-1] == "response.incomplete"
    numbers = [event.sequence_number for write in forwarded.outlet.writes for event in write]
    numbers += [event.sequence_number for event in forwarded.outlet.kept]
    assert numbers == list(range(len(numbers)))


@pytest.mark.e2e
def test_an_answer_without_end_is_ended(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    piece = send(http_chunk(frames(chunk({"content": "x" * 9000}), done=False)))
    upstream.play("endless-answer", [send(SSE_HEAD), *[piece] * 200])
    config = CONFIG.format(url=upstream.url).replace("retries = 0", 'retries = 0\nanswer_bytes = "1MB"')
    with gateway(tmp_path, config=config) as running:
        reply = running.stream("endless-answer")
        assert reply.last["error"]["code"] == "upstream_invalid"
        assert "answer_bytes" in reply.last["error"]["message"]
        assert 700_000 < len(reply.text) < 1_000_000
