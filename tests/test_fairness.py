"""Where work runs: on the event loop, or in a thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.fairness import HEAVY, SLICE, WorkSlice, encode_large, run_heavy, weight_of
from penstock.protocol.large_json import LONG_TEXT
from penstock.protocol.wire import encode


def here() -> int:
    return threading.get_ident()


def test_only_heavy_work_runs_in_a_thread() -> None:
    async def both() -> tuple[int, int]:
        return await run_heavy(HEAVY - 1, here), await run_heavy(HEAVY, here)

    light, heavy = asyncio.run(both())
    assert light == here()
    assert heavy != here()


def test_an_exception_of_the_function_is_raised() -> None:
    def fail() -> None:
        raise LookupError("no")

    for weight in (0, HEAVY):
        with pytest.raises(LookupError):
            asyncio.run(run_heavy(weight, fail))


def test_the_loop_continues_and_two_functions_run_at_a_time() -> None:
    running = most = 0
    lock, release = threading.Lock(), threading.Event()

    def wait() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        assert release.wait(20)
        with lock:
            running -= 1

    async def many() -> None:
        tasks = [asyncio.create_task(run_heavy(HEAVY, wait)) for _ in range(8)]
        await asyncio.sleep(0)
        while not running:
            await asyncio.sleep(0.001)
        release.set()
        await asyncio.gather(*tasks)

    asyncio.run(many())
    assert 1 <= most <= 2


def test_a_function_cancelled_before_it_starts_never_runs() -> None:
    release = threading.Event()
    ran: list[int] = []

    async def cancelled() -> None:
        blocking = [asyncio.create_task(run_heavy(HEAVY, release.wait, 20)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(run_heavy(HEAVY, ran.append, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        release.set()
        await asyncio.gather(*blocking)
        assert await run_heavy(HEAVY, here) != here()

    asyncio.run(cancelled())
    assert ran == []


@pytest.mark.parametrize(
    ("body", "is_heavy"),
    [
        (b'{"input":"hello"}', False),
        (b'{"input":"' + b"x" * 100_000 + b'"}', False),
        (b'{"input":"' + b"x" * HEAVY + b'"}', True),
        (b'{"input":[' + b'{"id":"a"},' * 5000 + b"]}", True),
        (b'{"tools":[' + b'{"$ref":"#"},' * 20 + b"]}", True),
    ],
)
def test_objects_and_references_add_to_the_weight(body: bytes, is_heavy: bool) -> None:
    assert (weight_of(body) >= HEAVY) is is_heavy
    assert weight_of(body.decode()) == weight_of(body)


@pytest.mark.parametrize("length", [16 * 1024 + 1, 100_000, HEAVY - 1, HEAVY, 2 * HEAVY])
@pytest.mark.parametrize("objects", [0, 1, 1000])
def test_every_object_weighs_the_same_in_a_body_of_any_size(length: int, objects: int) -> None:
    assert weight_of(b"{" * objects + b"x" * (length - objects)) == length + 64 * objects


def test_a_slice_lets_other_tasks_run_only_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    ran: list[object] = []
    monkeypatch.setattr("penstock.fairness.time.perf_counter", lambda: now)

    async def work() -> None:
        nonlocal now
        work = WorkSlice()
        other = asyncio.create_task(asyncio.sleep(0))
        other.add_done_callback(ran.append)
        await work.pause()
        assert not ran, "the slice is not over"
        now += SLICE
        assert work.is_over
        for _ in range(3):
            now += SLICE
            await work.pause()
        assert ran
        assert not work.is_over, "a pause starts a new slice"

    asyncio.run(work())


def test_a_large_value_is_encoded_as_usual() -> None:
    value = {"text": "é" * (2 * LONG_TEXT), "n": [1, None]}
    assert asyncio.run(encode_large(value)) == encode(value)
