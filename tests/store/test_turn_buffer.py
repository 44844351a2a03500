"""The buffer of one turn: what is unwritten, what a failed write keeps, and who is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.store.turn_buffer import TurnBuffer, size_of_events, wait_briefly
from tests.store.builders import closed, event, events, item, items, opened, trace


def run(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    asyncio.run(main())


def log(buffer: TurnBuffer, begin: int, end: int) -> None:
    new = events(begin, end)
    buffer.log(new, size_of_events(new))


def test_a_part_that_was_not_settled_is_taken_again() -> None:
    """A write that failed loses nothing."""

    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1", "in_1"))
        log(buffer, 0, 3)
        first = buffer.take()
        log(buffer, 3, 5)
        second = buffer.take()
        assert (first.is_new, second.is_new) == (True, True)
        assert (first.events, second.events) == (events(0, 3), events(0, 5))

    run(body)


def test_settling_drops_the_part_and_nothing_that_came_later() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1"))
        log(buffer, 0, 3)
        buffer.trace([trace(1)], size_of_events([trace(1)]))
        buffer.remember("rs_1", b"old")
        buffer.remember("rs_2", b"same")
        part = buffer.take()
        log(buffer, 3, 4)
        buffer.trace([trace(2)], size_of_events([trace(2)]))
        buffer.remember("rs_1", b"new")
        buffer.settle(part)
        assert (buffer.is_stored, buffer.stored_sequence, buffer.stored_traces) == (True, 2, 1)
        assert (buffer.events, buffer.traces) == (events(3, 4), [trace(2)])
        assert buffer.reasoning_memory == {"rs_1": b"new"}, "a value that changed during the write stays"
        rest = buffer.take()
        assert not rest.is_new
        buffer.settle(rest)
        assert buffer.size == 0
        assert buffer.stored_sequence == 3

    run(body)


def test_settling_without_events_keeps_the_last_sequence_number() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1"))
        log(buffer, 0, 3)
        buffer.settle(buffer.take())
        buffer.settle(buffer.take())
        assert buffer.stored_sequence == 2

    run(body)


def test_unwritten_events_are_read_after_a_number_in_small_steps() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1"))
        log(buffer, 10, 210)
        assert buffer.events_after(9) == buffer.events_after(-1) == events(10, 74)
        assert buffer.events_after(200) == events(201, 210)
        assert buffer.events_after(209) == []

    run(body)


def test_an_event_and_the_end_wake_every_reader_once() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1"))
        readers = [asyncio.create_task(buffer.changed.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        readers[0].cancel()
        await asyncio.wait({readers[0]})
        log(buffer, 0, 1)
        await asyncio.gather(*readers[1:])
        late = asyncio.create_task(buffer.changed.wait())
        await asyncio.sleep(0)
        assert not late.done(), "it waits for the next change"
        buffer.close(closed("resp_1"), 5.0)
        await late
        assert buffer.finished.is_set()

    run(body)


def test_a_running_turn_is_durable_with_its_row_and_an_ended_turn_with_its_end() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1", status="queued"))
        assert (buffer.response().status, buffer.response().is_durable) == ("queued", False)
        buffer.settle(buffer.take())
        assert buffer.response().is_durable
        buffer.close(closed("resp_1", "out_1"), 5.0)
        ended = buffer.response()
        assert (ended.status, ended.is_durable, ended.verdict) == ("completed", False, b'{"ok":true}')
        buffer.is_committed = True  # the writer's thread, before the event loop knows
        assert buffer.response().is_durable

    run(body)


def test_an_end_that_could_not_be_written_is_not_durable() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1"))
        buffer.close(closed("resp_1"), 5.0)
        buffer.end_write.set_result(False)
        assert not buffer.is_written

    run(body)


def test_items_are_found_as_input_or_output_only() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1", "in_1"))
        assert buffer.turn().output == ()
        buffer.close(closed("resp_1", "out_1"), 5.0)
        assert buffer.item("in_1", is_output=False) == item("in_1")
        assert buffer.item("in_1", is_output=True) is None
        assert buffer.item("out_1", is_output=True) == item("out_1")
        assert (buffer.turn().input, buffer.turn().output) == (items("in_1"), items("out_1"))

    run(body)


def test_the_size_counts_everything_that_is_not_written() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1", "in_1"))
        sizes = [buffer.size]
        buffer.log([event(0)], size_of_events([event(0)]))
        sizes.append(buffer.size)
        buffer.remember("key", b"value")
        sizes.append(buffer.size)
        buffer.close(closed("resp_1", "out_1"), 5.0)
        sizes.append(buffer.size)
        assert sizes == sorted(set(sizes)), "everything adds to it"
        buffer.settle(buffer.take())
        assert buffer.size == 0

    run(body)


def test_recent_events_stay_in_the_buffer_and_are_taken_once_for_the_recent_ones() -> None:
    async def body() -> None:
        buffer = TurnBuffer(opened("resp_1"))
        buffer.is_stored = True
        log(buffer, 0, 3)
        first = buffer.take_log()
        log(buffer, 3, 5)
        buffer.settle_log(first)
        assert buffer.events == events(0, 5)
        assert buffer.take_log().events == events(3, 5)
        assert not buffer.is_safe
        buffer.settle_log(buffer.take_log())
        assert buffer.is_safe
        buffer.trace([trace(1)], 1)
        assert not buffer.is_safe, "a trace is not among the recent events"
        part = buffer.take()
        log(buffer, 5, 6)
        buffer.settle(part)
        assert buffer.take_log().events == events(5, 6)

    run(body)


def test_a_brief_wait_ends_with_the_future_or_with_the_time() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(done.set_result, None)
        async with asyncio.timeout(10):
            await wait_briefly(done, 3600)
            await wait_briefly(done, 3600)
            await wait_briefly(loop.create_future(), 0.001)

    run(body)


def test_a_cancelled_wait_leaves_the_future_alone() -> None:
    async def body() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(wait_briefly(done, 3600))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert not done.done()
        done.set_result(None)

    run(body)
