"""Heartbeats: when they are sent, how they are numbered, and when a client is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange, Message
from penstock.gateway.settings import Limits
from penstock.gateway.turn.heartbeats import Heartbeats
from penstock.gateway.turn.outlets import StreamOutlet
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.events import Event
from penstock.protocol.response import Response
from penstock.store.keeper import CacheKeeper
from penstock.store.reasoning_memory import ReasoningCache
from penstock.stream.accents import ACCENTS
from penstock.stream.machine import ResponseStreamStateMachine
from tests.client.server import chunk, run, send
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.in_process import Caller, chain, with_gateway
from tests.gateway.running import Running
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, ScriptedUpstream, frames, streamed, until

LIMITS = Limits(patience=5, comment_every=15, event_every=60, client_timeout=None)


class Clock:
    """A clock that advances only in `sleep`; `until` ends the test."""

    def __init__(self, until: float) -> None:
        self.now, self._until = 0.0, until

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > self._until:
            raise asyncio.CancelledError
        await asyncio.sleep(0)


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


def beats(
    until: float, limits: Limits = LIMITS, act: Callable[[Patient, StreamOutlet], None] | None = None
) -> list[Any]:
    """What was written until then, and when."""
    clock, turn, written = Clock(until), Patient(), []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            first = message["body"].split(b"\n")[0].decode()
            written.append((clock.now, first))

    async def nothing() -> Message:
        raise AssertionError("nobody asks")

    async def beat() -> None:
        scope = {"method": "POST", "path": "/", "query_string": b"", "headers": []}
        exchange = Exchange(scope, nothing, send)
        outlet = StreamOutlet(
            exchange,
            ACCENTS["openresponses"](),
            CacheKeeper(ReasoningCache(clock), "local"),
            Verdict(request_id="r"),
            Stopwatch(clock),
            list,
        )
        outlet._clock = clock
        outlet.last_event = outlet.last_write = 0.0
        if act is not None:
            act(turn, outlet)
        heart = Heartbeats(turn, outlet, limits, Verdict(request_id="r"), clock=clock, sleep=clock.sleep)
        with suppress(asyncio.CancelledError):
            await heart.run()

    run(beat())
    return written


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


class StalledOutlet:
    """A client that does not read: the turn, or the heartbeat itself, waits in a write."""

    def __init__(self, clock: Clock, *, turn_is_writing: bool) -> None:
        self._clock = clock
        self.gave_up_at: float | None = None
        self.lock = asyncio.Lock()
        self.has_begun = False
        self.last_event = self.last_write = 0.0
        self.writing_since: float | None = 0.0 if turn_is_writing else None

    async def write_locked(self, events: Sequence[Event]) -> None:  # noqa: ARG002 - never finished
        await asyncio.Event().wait()

    async def comment(self) -> None:
        await asyncio.Event().wait()

    def give_up(self) -> None:
        """Record the time, and end the heartbeats as the end of the turn would."""
        self.gave_up_at = self._clock.now
        raise asyncio.CancelledError


def given_up_at(limits: Limits, *, turn_is_writing: bool) -> float | None:
    """Return when a stalled client was given up, within the first 40 seconds."""

    async def beat() -> float | None:
        clock = Clock(40)
        outlet = StalledOutlet(clock, turn_is_writing=turn_is_writing)
        if turn_is_writing:
            await outlet.lock.acquire()
        verdict = Verdict(request_id="r")
        heartbeats = Heartbeats(Patient(), outlet, limits, verdict, clock=clock, sleep=clock.sleep)
        with suppress(asyncio.CancelledError):
            await heartbeats.run()
        return outlet.gave_up_at

    return run(beat())


def test_a_client_that_does_not_read_is_given_up_after_its_timeout() -> None:
    """The write of the turn is checked four times per `client_timeout`, before the stream begins as well."""
    for patience in (0, 5, 20):
        limits = Limits(patience=patience, client_timeout=8)
        assert 8 <= (given_up_at(limits, turn_is_writing=True) or 0) <= 10
    assert given_up_at(Limits(client_timeout=None), turn_is_writing=True) is None


def test_a_heartbeat_that_cannot_be_written_gives_the_client_up() -> None:
    """The client has stopped reading while the model is silent: nothing else is written."""
    assert given_up_at(Limits(patience=0, client_timeout=0.01), turn_is_writing=False) is not None


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
    watch.mark_received()
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
