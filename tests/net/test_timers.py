"""Timers that share one timer of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from penstock.net.timers import SharedTimers


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the timers that are set on it. Its time moves only with `now`."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.timers = 0.0, 0

    def time(self) -> float:
        return self.now

    def call_at(self, *args: Any, **more: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.timers += 1
        return super().call_at(*args, **more)

    async def until(self, now: float) -> None:
        """Let time pass, and what is due happen: timers are called a little late."""
        self.now = now + 0.002
        for _ in range(3):
            await asyncio.sleep(0)


def run(test: Callable[[CountingLoop, SharedTimers], Awaitable[None]]) -> None:
    loop = CountingLoop()
    try:
        loop.run_until_complete(_with_timers(loop, test))
    finally:
        loop.close()


async def _with_timers(
    loop: CountingLoop, test: Callable[[CountingLoop, SharedTimers], Awaitable[None]]
) -> None:
    await test(loop, SharedTimers())


def test_each_is_called_once_when_it_is_due_and_in_order() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[int] = []
        for when in (3, 1, 2, 5):
            timers.call_later(when, partial(called.append, when))
        await loop.until(0.5)
        assert called == []
        await loop.until(2)
        assert called == [1, 2]
        await loop.until(4)
        assert called == [1, 2, 3]
        await loop.until(100)
        assert called == [1, 2, 3, 5]
        assert len(timers) == 0

    run(test)


def test_many_timers_set_few_timers_of_the_loop() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[int] = []
        for number in range(100):
            timers.call_at(10 + number / 1000, partial(called.append, number))
        assert loop.timers == 1
        await loop.until(20)
        assert called == list(range(100))
        assert loop.timers == 1

    run(test)


def test_a_cancelled_timer_is_not_called_and_holds_nothing() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[int] = []
        kept = timers.call_later(1, partial(called.append, 1))
        cancelled = timers.call_later(1, partial(called.append, 2))
        assert kept.when() == cancelled.when() == 1
        cancelled.cancel()
        cancelled.cancel()  # twice is harmless
        assert cancelled.callback is None
        await loop.until(2)
        kept.cancel()  # too late, and harmless
        assert called == [1]

    run(test)


def test_cancelled_timers_do_not_gather() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[str] = []
        timers.call_later(100, partial(called.append, "last"))
        for _ in range(10_000):
            timers.call_later(50, partial(called.append, "cancelled")).cancel()
            assert len(timers) <= 200
        await loop.until(100)
        assert called == ["last"]

    run(test)


def test_a_callback_may_set_and_cancel_timers() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[str] = []
        other = timers.call_later(1.5, partial(called.append, "other"))

        def again() -> None:
            called.append("again")
            other.cancel()
            timers.call_later(1, partial(called.append, "later"))

        timers.call_later(1, again)
        await loop.until(1)
        assert called == ["again"]
        await loop.until(2)
        assert called == ["again", "later"]

    run(test)


def test_a_timer_that_a_callback_sets_does_not_delay_the_others() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[int] = []

        def again() -> None:
            timers.call_at(100, partial(called.append, 100))

        timers.call_at(1, again)
        timers.call_at(5, partial(called.append, 5))
        await loop.until(1)
        await loop.until(5)
        assert called == [5]
        await loop.until(100)
        assert called == [5, 100]

    run(test)


def test_a_callback_that_fails_is_reported_and_the_others_are_called() -> None:
    async def test(loop: CountingLoop, timers: SharedTimers) -> None:
        called: list[str] = []
        reports: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: reports.append(context))

        def fail() -> None:
            raise OSError("planted")

        timers.call_later(1, fail)
        timers.call_later(1.5, partial(called.append, "other"))
        timers.call_later(9, partial(called.append, "last"))
        await loop.until(2)
        assert called == ["other"]
        assert [str(each["exception"]) for each in reports] == ["planted"]
        await loop.until(9)
        assert called == ["other", "last"]

    run(test)


def test_a_loop_that_calls_early_is_not_asked_again_and_again() -> None:
    """uvloop rounds times to milliseconds."""
    uvloop = pytest.importorskip("uvloop")

    class CountingTimers(SharedTimers):
        looks = 0

        def time(self) -> float:
            self.looks += 1
            return super().time()

    async def test() -> int:
        timers, called = CountingTimers(), asyncio.Event()
        timers.call_at(asyncio.get_running_loop().time() + 0.0104, called.set)
        await called.wait()
        return timers.looks

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert max(runner.run(test()) for _ in range(20)) <= 2
