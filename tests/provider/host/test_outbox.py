"""Lines are written in a thread, and producers wait while nobody reads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from penstock.provider.host.outbox import Outbox
from tests.client.server import run

MEGABYTE = 1024 * 1024
"""More than the buffer of a pipe."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_lines_are_written_in_order_and_closing_writes_the_rest(pipe: tuple[int, int]) -> None:
    reading, writing = pipe

    async def scenario() -> None:
        out = Outbox(writing, lambda: None)
        for number in range(600):  # more than one batch
            out.put(b"%d\n" % number)
        await out.aclose(30)
        assert out.has_room

    run(scenario())
    assert os.read(reading, MEGABYTE) == b"".join(b"%d\n" % number for number in range(600))


def test_closing_does_not_wait_for_an_editor_that_does_not_read(pipe: tuple[int, int]) -> None:
    async def scenario() -> None:
        out = Outbox(pipe[1], lambda: None)
        out.put(b"x" * MEGABYTE)
        await out.aclose(0)
        assert not out.has_room
        await asyncio.to_thread(_read_exactly, pipe[0], MEGABYTE)  # lets the thread end

    run(scenario())


def test_waiting_ends_when_there_is_room_or_the_condition_is_met(pipe: tuple[int, int]) -> None:
    async def scenario() -> None:
        reading, writing = pipe
        broken = asyncio.Event()
        out = Outbox(writing, broken.set, room=1)
        out.put(b"x" * MEGABYTE)
        is_cancelled: list[bool] = []
        cancelled = asyncio.create_task(out.wait_for_room(lambda: bool(is_cancelled)))
        waiting = asyncio.create_task(out.wait_for_room())
        await asyncio.sleep(0)
        is_cancelled.append(True)
        out.wake()
        await cancelled
        assert not waiting.done()
        read = await asyncio.to_thread(_read_exactly, reading, MEGABYTE)
        await waiting
        assert (read, out.has_room) == (MEGABYTE, True)
        os.close(reading)  # the editor disconnects
        out.put(b"y" * MEGABYTE)
        await broken.wait()

    run(scenario())


def _read_exactly(descriptor: int, length: int) -> int:
    read = 0
    while read < length:
        read += len(os.read(descriptor, length - read))
    return read
