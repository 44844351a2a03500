"""Carrying an upstream's answer to the outlet of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.dialects.chat import DIALECT
from penstock.dialects.pipeline import Pipeline
from penstock.errors import NetworkError, ProtocolError, ServerError
from penstock.fairness import SLICE
from penstock.gateway.errors import RequestRefused
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.relay import Relay
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict
from penstock.net.source import SourceCallbacks
from penstock.protocol.events import Event
from penstock.protocol.response import Response, response_for
from penstock.store.records import Trace
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
    """Remembers each write. While `gate` is set, it is not ready."""

    def __init__(self) -> None:
        self.writes: list[list[Event]] = []
        self.gate: asyncio.Event | None = None

    @property
    def is_ready(self) -> bool:
        return self.gate is None or self.gate.is_set()

    def write(self, events: Sequence[Event], *, more: bool = False) -> bool:  # noqa: ARG002
        if events:
            self.writes.append(list(events))
        return self.is_ready

    async def flush(self) -> None:
        if self.gate is not None:
            await self.gate.wait()

    def keep(self, events: Sequence[Event]) -> None:
        raise AssertionError(events)

    def refuse(self, refused: RequestRefused) -> None:
        raise AssertionError(refused)

    def send_failure(self, response: Response) -> None:
        raise AssertionError(response)

    @property
    def text(self) -> str:
        return "".join(getattr(event, "delta", "") for write in self.writes for event in write)


class Forwarded:
    """A relay between a scripted source and an outlet that remembers."""

    def __init__(self, *steps: Step, most_bytes: int = 1_000_000, most_items: int = 1000) -> None:
        response = response_for(plan().request, id="resp_1", created_at=0)
        self.outlet, self.verdict = RecordingOutlet(), Verdict(request_id="req_1")
        self.pipeline = Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0))
        self.traces: list[Trace] = []
        self.now = 0.0
        tracer = Tracer(self.traces.append, clock=lambda: 0)
        self.watch = Stopwatch(lambda: self.now)
        self.relay = Relay(
            self.pipeline,
            self.outlet,
            self.verdict,
            self.watch,
            tracer,
            most_bytes=most_bytes,
            most_items=most_items,
        )
        self.steps = steps

    def run(self) -> None:
        async def forward() -> None:
            await self.relay.forward(FakeSource(self.steps), DIALECT, plan())

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


def test_the_beginning_of_a_refused_answer_is_recorded_and_not_read() -> None:
    page = b"<html>" + words("an example") + END

    class Refusing(FakeSource):
        def start(self, callbacks: SourceCallbacks) -> None:
            callbacks.failed(ProtocolError("a web page"), page)

    forwarded = Forwarded()
    with pytest.raises(ProtocolError, match="a web page"):
        asyncio.run(forwarded.relay.forward(Refusing(()), DIALECT, plan()))
    assert forwarded.verdict.bytes_in == len(page)
    assert [(trace.kind, trace.size) for trace in forwarded.traces] == [("read", len(page))]
    assert forwarded.outlet.writes == []


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


def test_an_answer_of_too_many_items_fails_with_what_was_read_of_it() -> None:
    turns = frames(chunk({"reasoning_content": "a"}), chunk({"content": "b"}), done=False) * 200
    forwarded = Forwarded(*[turns] * 20, most_bytes=10_000_000, most_items=1000)
    with pytest.raises(ProtocolError, match=r"1000 output items \(limits\.output_items\)") as caught:
        forwarded.run()
    assert caught.value.code == "upstream_invalid"
    assert 1000 < forwarded.pipeline.item_count < 8000
    enough = Forwarded(*[turns] * 20, END, most_bytes=10_000_000, most_items=8000)
    enough.run()
    assert enough.pipeline.item_count == 8000


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


class PushedSource(FakeSource):
    """Calls back at once, as a connection does, and counts pauses."""

    def __init__(self) -> None:
        super().__init__([])
        self.callbacks: SourceCallbacks
        self.pauses = self.resumes = 0

    def start(self, callbacks: SourceCallbacks) -> None:
        self.callbacks = callbacks

    def pause(self) -> None:
        self.pauses += 1

    def resume(self) -> None:
        self.resumes += 1


def pushed(act: Callable[[PushedSource, Forwarded], Coroutine[Any, Any, None]]) -> Forwarded:
    """Relay what `act` pushes."""
    forwarded, source = Forwarded(), PushedSource()

    async def forward() -> None:
        relaying = asyncio.create_task(forwarded.relay.forward(source, DIALECT, plan()))
        await asyncio.sleep(0)
        await act(source, forwarded)
        await relaying

    asyncio.run(forward())
    return forwarded


def test_a_read_is_passed_on_before_the_call_returns() -> None:
    """The coroutine of the turn does not wake up for it."""

    async def act(source: PushedSource, forwarded: Forwarded) -> None:
        source.callbacks.data(words("a"))
        assert forwarded.outlet.text == "a"
        source.callbacks.data(words("b"))
        assert forwarded.outlet.text == "ab"
        assert source.pauses == 0
        source.callbacks.data(END)

    pushed(act)


def test_a_source_is_paused_while_the_outlet_is_not_ready() -> None:
    async def act(source: PushedSource, forwarded: Forwarded) -> None:
        gate = forwarded.outlet.gate = asyncio.Event()
        source.callbacks.data(words("a"))
        assert source.pauses == 1
        source.callbacks.data(words("b"))  # it was already on its way
        await asyncio.sleep(0)
        source.callbacks.data(words("c"))
        assert forwarded.outlet.text == "a"
        resumes = source.resumes
        gate.set()
        while forwarded.outlet.text != "abc":
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert source.resumes == resumes + 1
        source.callbacks.data(END)

    assert pushed(act).outlet.text == "abc"


def test_a_break_is_reported_after_what_came_before_it() -> None:
    texts = []

    async def act(source: PushedSource, forwarded: Forwarded) -> None:
        gate = forwarded.outlet.gate = asyncio.Event()
        source.callbacks.data(words("a"))
        source.callbacks.data(words("b"))
        source.callbacks.failed(NetworkError("cut", phase="read"))
        gate.set()
        while forwarded.outlet.text != "ab":
            await asyncio.sleep(0)
        texts.append(forwarded.outlet.text)

    with pytest.raises(NetworkError):
        pushed(act)
    assert texts == ["ab"]


def test_a_failure_before_the_first_output_is_raised_whenever_it_arrives() -> None:
    """Another target may answer. `Pipeline` has read the answer to its end by then."""
    failure = frames({"error": {"message": "on fire"}}, done=True)

    async def act(source: PushedSource, forwarded: Forwarded) -> None:
        source.callbacks.data(failure)
        assert forwarded.outlet.text == ""

    with pytest.raises(ServerError, match="on fire"):
        pushed(act)
    forwarded = Forwarded(failure)
    with pytest.raises(ServerError, match="on fire"):
        forwarded.run()


def test_the_end_of_the_body_is_traced_after_what_came_before() -> None:
    """`explain` and `replay` need to know that the upstream ended, and did not fall silent."""
    forwarded = Forwarded(words("a"), frames(chunk(finish="stop"), done=False))
    forwarded.run()
    assert [trace.size for trace in forwarded.traces][-1] == 0
    assert len(forwarded.traces) == 3


@pytest.mark.parametrize("last", [b"", words("a").rstrip()], ids=["whole", "cut"])
def test_the_first_output_may_come_at_the_end(last: bytes) -> None:
    document = b'{"choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}'
    forwarded = Forwarded(last or document)
    forwarded.now = 0.5

    async def forward() -> None:
        source = FakeSource(forwarded.steps, "application/json" if not last else "text/event-stream")
        await forwarded.relay.forward(source, DIALECT, plan())

    asyncio.run(forward())
    assert forwarded.outlet.text == "a"
    assert forwarded.verdict.first_output_ms == 500


def test_a_long_read_is_continued_in_the_next_turn_of_the_loop() -> None:
    """A fast upstream must not make other turns wait."""
    many = words(*["x"] * 500) + END

    async def act(source: PushedSource, forwarded: Forwarded) -> None:
        ticks = iter(range(10**9))
        forwarded.watch.clock = lambda: next(ticks) * SLICE  # each look at the clock is a slice later
        source.callbacks.data(many)
        assert 0 < len(forwarded.outlet.text) < 500
        assert source.pauses == 1
        before = len(forwarded.outlet.writes)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(forwarded.outlet.writes) <= before + 1

    assert pushed(act).outlet.text == "x" * 500


def test_nothing_is_read_after_a_turn_was_stopped() -> None:
    forwarded, source = Forwarded(), PushedSource()

    async def forward() -> None:
        relaying = asyncio.create_task(forwarded.relay.forward(source, DIALECT, plan()))
        await asyncio.sleep(0)
        source.callbacks.data(words("a"))
        relaying.cancel()
        await asyncio.gather(relaying, return_exceptions=True)
        source.callbacks.data(words("b"))
        assert forwarded.outlet.text == "a"

    asyncio.run(forward())


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
