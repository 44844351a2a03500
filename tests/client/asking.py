"""A client against a scripted server, with a clock that records waits instead of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.client.event_stream import EventStream
from penstock.protocol.events import Event
from penstock.protocol.request import CreateResponse
from tests.client.server import Script, Server

KEY = "sk-test-0123456789"
REQUEST = CreateResponse(model="test-model", input="Hello")
QUICK = 0.3
"""Seconds of a timeout that a test waits for; long enough for a machine that is busy with other tests."""


class Clock:
    """Records waits, and does not sleep."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def asking(
    *scripts: Script, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[tuple[OpenResponsesClient, Server]]:
    async with Server(*scripts) as server:
        config = ClientConfig(**{"base_url": server.url, **settings})
        sleep = (clock or Clock()).sleep
        async with OpenResponsesClient(config, sleep=sleep, random=lambda: 1.0) as client:
            yield client, server


async def read(stream: EventStream) -> list[Event]:
    """Return all events to the end."""
    async with stream:
        return [event async for event in stream]


async def read_until_failure(stream: EventStream) -> tuple[list[int], Exception | None]:
    """Return the sequence numbers of the events, and the failure that ended them, if any."""
    numbers: list[int] = []
    try:
        async with stream:
            async for event in stream:
                numbers += [event.sequence_number]
    except Exception as error:
        return numbers, error
    return numbers, None


def texts_of_exception(error: BaseException) -> Iterator[str]:
    """Yield everything that a traceback, a log or an error report may show of an exception."""
    pending: list[BaseException | None] = [error]
    while pending:
        exception = pending.pop()
        if exception is not None:
            yield from (str(exception), repr(exception), repr(exception.args), repr(vars(exception)))
            pending += [exception.__cause__, exception.__context__]
