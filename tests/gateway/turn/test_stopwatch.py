"""The stopwatch: how much of a turn's time was the gateway's own."""

from __future__ import annotations

from penstock.gateway.turn.stopwatch import Stopwatch
from tests.store.builders import Clock


def test_waiting_for_others_is_not_overhead() -> None:
    clock = Clock(100.0)
    watch = Stopwatch(clock)
    clock.now += 1
    with watch.waiting():
        clock.now += 10
        assert watch.overhead == 1  # also while it still waits
    clock.now += 2
    assert (watch.seconds, watch.overhead) == (13, 3)


def test_two_that_wait_at_once_count_once() -> None:
    """The turn waits for its upstream, and a heartbeat for the client."""
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    with watch.waiting():
        clock.now += 1
        with watch.waiting():
            clock.now += 1
        clock.now += 1
    assert watch.overhead == 0


def test_a_wait_that_fails_is_over() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    try:
        with watch.waiting():
            clock.now += 5
            raise OSError
    except OSError:
        clock.now += 1
    assert watch.overhead == 1


def test_silence_is_counted_from_the_last_byte() -> None:
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    clock.now = 4
    watch.received = clock.now
    clock.now = 6
    assert (watch.idle, watch.seconds) == (2, 6)


def test_work_in_the_middle_of_a_wait_is_overhead() -> None:
    """The relay works whenever something arrives, while the turn waits for the end of the answer."""
    clock = Clock(0.0)
    watch = Stopwatch(clock)
    with watch.waiting():
        clock.now = 10
        began = watch.received = watch.clock()
        assert began == 10
        clock.now = 12
        watch.add_work(began)
        assert watch.overhead == 2
        clock.now = 20
    assert (watch.overhead, watch.idle) == (2, 10)
