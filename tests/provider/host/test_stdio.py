"""The host on pipes, in process: the first line, the end of the input, signals and a broken pipe."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.provider.host import stdio
from penstock.version import VERSION

COUNT = b'{"id": 1, "method": "count_tokens", "text": "Hello"}\n'
READY = {"type": "ready", "protocol": 1, "version": VERSION}


class Pipes:
    """The ends of the pipes: the host reads `input` and writes `output`; the test has the other ends."""

    def __init__(self) -> None:
        self.input, self.to_host = os.pipe()
        self.from_host, self.output = os.pipe()
        self.is_closed: set[int] = set()

    def close(self, descriptor: int) -> None:
        if descriptor not in self.is_closed:
            self.is_closed.add(descriptor)
            os.close(descriptor)

    def close_all(self) -> None:
        self.close(self.to_host)
        for thread in threading.enumerate():
            if thread.name == "penstock input":  # it reads until the input ends
                thread.join(30)
        for descriptor in (self.output, self.from_host, self.input):
            self.close(descriptor)

    def lines(self) -> list[dict[str, Any]]:
        """Return everything that was written."""
        self.close(self.output)
        with os.fdopen(self.from_host, "rb", closefd=False) as stream:
            return [json.loads(line) for line in stream]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    handler = signal.getsignal(signal.SIGTERM)
    pipes = Pipes()
    yield pipes
    signal.signal(signal.SIGTERM, handler)
    pipes.close_all()


def serve(pipes: Pipes) -> bool:
    """Run until the host ends; return whether the editor is still connected."""
    return asyncio.run(stdio._serve(pipes.input, pipes.output))


def test_requests_before_the_end_of_the_input_are_answered(pipes: Pipes) -> None:
    os.write(pipes.to_host, COUNT + b'{"id": 2, "method": "models"}')  # the last line has no line feed
    pipes.close(pipes.to_host)
    assert serve(pipes)
    assert pipes.lines() == [
        READY,
        {"id": 1, "type": "done", "tokens": 1},
        {"id": 2, "type": "done", "models": []},
    ]


def test_a_host_without_input_is_ready_and_ends(pipes: Pipes) -> None:
    pipes.close(pipes.to_host)
    assert serve(pipes)
    assert pipes.lines() == [READY]


def test_a_broken_output_pipe_ends_the_host(pipes: Pipes) -> None:
    pipes.close(pipes.from_host)
    assert not serve(pipes)


def test_input_that_cannot_be_read_is_logged_and_ends_the_host(
    pipes: Pipes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "penstock.host")
    pipes.close(pipes.input)
    pipes.is_closed.discard(pipes.input)
    pipes.input = os.open("/", os.O_RDONLY)  # a directory cannot be read
    assert serve(pipes)
    assert caplog.messages == ["standard input cannot be read (IsADirectoryError)"]


def test_sigterm_ends_the_host(pipes: Pipes) -> None:
    async def scenario() -> bool:
        serving = asyncio.create_task(stdio._serve(pipes.input, pipes.output))
        ready = await asyncio.to_thread(os.read, pipes.from_host, 1000)
        assert json.loads(ready) == READY
        os.kill(os.getpid(), signal.SIGTERM)
        is_connected = await serving
        pipes.close(pipes.to_host)  # ends the thread that reads
        return is_connected

    assert asyncio.run(scenario())
