"""A stream from the store: heartbeats, disconnects, and clients that do not read."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import StoreError
from penstock.gateway.api.log_stream import LogStream
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import Limits
from tests.gateway.fake_channels import FakeHttpChannel


def stream_of(channel: FakeHttpChannel, **limits: float) -> LogStream:
    return LogStream(Exchange(channel), Limits(**{"comment_every": 3600, **limits}))  # type: ignore[arg-type]


def test_what_is_written_is_sent_until_the_end() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel()
        stream = stream_of(channel)

        async def write() -> None:
            await stream.write(b"one")
            await stream.write(b"two", is_last=True)

        await stream.run(write())
        assert (channel.body, channel.is_ended, channel.aborts) == (b"onetwo", True, 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_there_are_heartbeats_while_nothing_is_written() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel()
        stream = stream_of(channel, comment_every=0.01)

        async def write() -> None:
            await stream.write(b"one")
            while channel.body.count(b": ") < 2:
                await asyncio.sleep(0.01)

        async with asyncio.timeout(10):
            await stream.run(write())

    asyncio.run(scenario())


def test_a_disconnect_ends_the_writing() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel()
        stream = stream_of(channel)

        async def write() -> None:
            await stream.write(b"one")
            channel.disconnect()
            await asyncio.Event().wait()

        async with asyncio.timeout(10):
            await stream.run(write())
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel()
        stream = stream_of(channel, client_timeout=0.01)

        async def write() -> None:
            channel.is_writable = False
            await stream.write(b"one")

        await stream.run(write())
        assert channel.aborts == 1

    asyncio.run(scenario())


def test_a_failure_of_what_writes_is_raised() -> None:
    async def scenario() -> None:
        async def write() -> None:
            raise StoreError(StoreError.DUPLICATE, "broken")

        with pytest.raises(StoreError, match="broken"):
            await stream_of(FakeHttpChannel()).run(write())

    asyncio.run(scenario())
