"""Heartbeats: when they are sent, how they are numbered, and when a client is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits
from penstock.gateway.turn.heartbeats import Heartbeats
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.stream_outlet import StreamOutlet
from penstock.gateway.turn.verdict import Verdict
from penstock.net.timers import SharedTimers
from penstock.protocol.events import Event
from penstock.protocol.response import Response
from penstock.store.keeper import CacheKeeper
from penstock.store.reasoning_memory import ReasoningCache
from penstock.stream.accents import ACCENTS
from penstock.stream.machine import ResponseStreamStateMachine
from tests.client.server import chunk, run, send
from tests.gateway.fake_channels import FakeHttpChannel
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.in_process import Caller, chain, with_gateway
from tests.gateway.running import Running
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, ScriptedUpstream, frames, streamed, until
from tests.store.builders import Clock

LIMITS = Limits(patience=5, comment_every=15, event_every=60, client_timeout=None)


class Patient:
    """A turn without output."""

    def __init__(self) -> None:
        self.machine = ResponseStreamStateMachine(Response(id="resp_1", model="m"), clock=lambda: 0)
        self.has_begun = False

    def start(self) -> list[Event]:
        if self.has_begun:
            return []
        self.has_begun = True
        return self.machine.start()

    def heartbeat(self) -> list[Event]:
        return self.machine.heartbeat()


class Channel(FakeHttpChannel):
    """Remembers when each piece was written."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.written: list[tuple[float, str]] = []

    def write(self, data: bytes) -> None:
        self.written.append((self._clock.now, data.split(b"\n")[0].decode()))


class Scene:
    """A turn without output, its outlet and its heartbeats, at a clock that `run` moves."""

    def __init__(self, limits: Limits) -> None:
        self.clock, self.turn = Clock(0.0), Patient()
        self.channel, self.verdict = Channel(self.clock), Verdict(request_id="r")
        self.outlet = StreamOutlet(
            Exchange(self.channel),
            ACCENTS["openresponses"](),
            CacheKeeper(ReasoningCache(self.clock), "local"),
            self.verdict,
            list,
        )
        self.outlet._clock = self.clock
        self.outlet.last_event = self.outlet.last_write = 0.0
        self.stalled_at: list[float] = []
        self.heartbeats = Heartbeats(
            self.turn,
            self.outlet,
            limits,
            self.verdict,
            on_stalled=lambda: self.stalled_at.append(self.clock.now),
            clock=self.clock,
            timers=SharedTimers(),
        )

    def run(self, until: float) -> None:
        wait = self.heartbeats.check()
        while self.clock.now + wait <= until and not self.stalled_at:
            self.clock.now += wait
            wait = self.heartbeats.check()


def beats(
    until: float, limits: Limits = LIMITS, act: Callable[[Patient, StreamOutlet], None] | None = None
) -> list[Any]:
    """What was written until then, and when."""

    async def beat() -> list[Any]:
        scene = Scene(limits)
        if act is not None:
            act(scene.turn, scene.outlet)
        scene.run(until)
        return scene.channel.written

    return run(beat())


def test_the_stream_begins_when_patience_is_over() -> None:
    assert beats(6) == [(5, "event: response.created")]


def test_comments_come_in_between_and_an_event_after_a_minute() -> None:
    comment, event = ": waiting for the model", "event: response.in_progress"
    assert beats(81) == [
        (5, "event: response.created"),
        (20, comment),
        (35, comment),
        (50, comment),
        (65, event),
        (80, comment),
    ]


def test_a_stream_that_has_begun_is_not_begun_again() -> None:
    assert beats(16, act=begin) == [(15, ": waiting for the model")]


def begin(turn: Patient, outlet: StreamOutlet) -> None:
    """The upstream has answered at once, and says nothing more."""
    turn.start()
    outlet.has_begun = True


@pytest.mark.parametrize("every", [0.5, 1, 4])
def test_the_first_heartbeat_is_sent_after_the_interval_that_the_client_wishes(every: float) -> None:
    """Whether the upstream has answered or not, and however long `patience` is (decision 9)."""
    wished = Limits(patience=min(5, every), comment_every=every, event_every=every)
    created, beat = "event: response.created", "event: response.in_progress"
    assert beats(3.5 * every, wished) == [(every, created), (2 * every, beat), (3 * every, beat)]
    wished = Limits(patience=60, comment_every=every, event_every=every)
    assert beats(2.5 * every, wished, act=begin) == [(every, beat), (2 * every, beat)]


def test_a_wished_heartbeat_begins_the_stream_before_the_upstream_answers() -> None:
    gate = asyncio.Event()
    upstream = FakeUpstream("only", [gate, *answer("late")])

    async def ask(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="x", stream=True, headers={"x-penstock-heartbeat": "0.1"})
        await caller.received(b'"sequence_number":2')
        gate.set()
        await caller.task
        types = [event["type"] for event in caller.events]
        assert types[0] == "response.created"
        assert set(types[1:3]) == {"response.in_progress"}
        assert caller.text == "late"

    with_gateway(ask, upstream, settings=chain(upstream, limits=Limits(patience=60)))


def given_up_at(limits: Limits, *, begins_at: float = 0.0) -> float | None:
    """Return when a client that reads nothing from `begins_at` on was given up, within 40 seconds."""

    async def beat() -> float | None:
        scene = Scene(limits)
        scene.run(begins_at)
        scene.channel.is_writable = False
        since = scene.clock.now
        scene.run(since + 40)
        return scene.stalled_at[0] - since if scene.stalled_at else None

    return run(beat())


def test_a_client_that_does_not_read_is_given_up_after_its_timeout() -> None:
    """It is checked four times per `client_timeout`, before the stream begins as well."""
    for patience in (0, 5, 20):
        for begins_at in (0, 3, 11):
            limits = Limits(patience=patience, client_timeout=8)
            assert 8 <= (given_up_at(limits, begins_at=begins_at) or 0) <= 12
    assert given_up_at(Limits(client_timeout=None)) is None


def test_a_heartbeat_waits_for_a_client_that_does_not_read() -> None:
    async def beat() -> None:
        scene = Scene(LIMITS)
        scene.run(10)
        scene.channel.is_writable = False
        scene.run(100)
        assert len(scene.channel.written) == 1
        scene.channel.is_writable = True
        scene.run(100.1)
        assert len(scene.channel.written) == 2

    run(beat())


def test_stopped_heartbeats_do_nothing_more() -> None:
    async def beat() -> None:
        scene = Scene(Limits(patience=0))
        scene.heartbeats.start()
        scene.heartbeats.stop()
        scene.heartbeats.stop()
        await asyncio.sleep(0.03)
        assert scene.channel.written == []

    run(beat())


def test_heartbeats_never_busy_loop_whatever_the_limits() -> None:
    hasty = Limits(patience=0, comment_every=0, event_every=0)
    assert len(beats(1, hasty)) <= 101


def test_a_stopwatch_separates_waiting_from_overhead() -> None:
    now = [0.0]
    watch = Stopwatch(lambda: now[0])
    now[0] = 1.0
    with watch.waiting():
        now[0] = 5.0
        assert watch.overhead == 1.0
        with watch.waiting():  # the heartbeat waits for the client at the same time
            now[0] = 6.0
        now[0] = 7.0
    assert (watch.overhead, watch.seconds, watch.idle) == (1.0, 7.0, 7.0)
    watch.received = now[0]
    now[0] = 9.0
    assert (watch.overhead, watch.idle) == (3.0, 2.0)


# ask A6 and ask A8


def test_heartbeats_are_numbered_and_do_not_disturb_the_answer(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """An upstream that is silent before its first token and in the middle of its text (ask A8)."""
    first, second = threading.Event(), threading.Event()
    parts = [send(chunk(frames(*text(*part), done=False))) for part in (["One", " two"], [" three"])]
    end = send(chunk(frames(STOP, USAGE)) + LAST_CHUNK)
    upstream.play("d08", [send(SSE_HEAD), until(first), parts[0], until(second), parts[1], end])
    with penstock.live("d08") as live:
        live.until(b": waiting", 1)
        live.until(b"event: response.in_progress", 2)
        first.set()
        live.until(b"event: response.output_text.delta")
        comments, beats = live.body.count(b": waiting"), live.body.count(b"event: response.in_progress")
        live.until(b": waiting", comments + 1)
        live.until(b"event: response.in_progress", beats + 1)
        second.set()
        reply = live.rest()
    assert live.body.startswith(b"event: response.created\n")
    assert reply.types[:2] == ["response.created", "response.in_progress"]
    assert reply.types[-1] == "response.completed"
    assert reply.text == "One two three"
    beats_with_text = [
        event["response"]["output"]
        for event in reply.events
        if event["type"] == "response.in_progress" and event["response"]["output"]
    ]
    assert beats_with_text[0][0]["content"][0]["text"] == "One two"  # it carries the snapshot
    assert penstock.verdict(reply.headers["x-request-id"])["heartbeats"] >= 4


def test_failure_events_after_a_heartbeat_continue_the_numbering(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    released = threading.Event()
    broken = send(chunk(frames({"error": {"message": "on fire"}}, done=False)) + LAST_CHUNK)
    upstream.play("d06", [send(SSE_HEAD + chunk(frames(*text("One"), done=False))), until(released), broken])
    with penstock.live("d06") as live:
        live.until(b"event: response.in_progress", 2)
        released.set()
        reply = live.rest()
    assert reply.types[-2:] == ["error", "response.failed"]
    assert [event["sequence_number"] for event in reply.events] == list(range(len(reply.events)))


def test_a_stream_asks_proxies_not_to_buffer_it(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("d08-head", streamed(*text("One"), STOP, USAGE))
    headers = penstock.stream("d08-head").headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"].startswith("no-cache")
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers
