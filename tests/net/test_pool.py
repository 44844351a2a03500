"""Connections that are kept for the next request."""

from __future__ import annotations

import asyncio

import pytest

from penstock.net.pool import ConnectionPool
from tests.net.connections import link_to, on_both_loops, playing, request, run_on, settle

KEPT = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"


@on_both_loops
def test_the_connection_that_was_used_last_is_taken_first(loop: str) -> None:
    async def main() -> None:
        async with link_to(playing(*[KEPT] * 9)) as link:
            first, _ = await link.head()
            second, _ = await link.head()
            first.close()
            second.close()
            assert (link.connections, link.pool.idle) == (2, 2)
            assert link.pool.take("") is second
            assert link.pool.take("") is first
            assert link.pool.take("") is None

    run_on(loop, main())


def test_connections_of_another_route_are_not_taken() -> None:
    async def main() -> None:
        async with link_to(playing(KEPT)) as link:
            await link.get()
            assert link.pool.take("http://proxy:1") is None
            assert link.pool.take("") is not None

    run_on("asyncio", main())


@on_both_loops
@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_connection_that_the_server_has_closed_is_not_taken(loop: str, is_noticed: bool) -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            writer.write(KEPT)
            await asyncio.sleep(0.01)
            writer.close()
            closed.set()

        async with link_to(handler) as link:
            await link.get()
            assert link.pool.idle == 1
            await closed.wait()
            if is_noticed:
                await asyncio.sleep(0.05)
                assert link.pool.idle == 0
            assert link.pool.take("") is None

    run_on(loop, main())


def test_idle_connections_are_closed_after_some_time() -> None:
    async def main() -> None:
        async with link_to(playing(KEPT, KEPT)) as link:
            link.pool = ConnectionPool(keep_alive=True, idle_seconds=0.2)
            first, _ = await link.head()
            second, _ = await link.head()
            first.close()
            await asyncio.sleep(0.1)
            second.close()
            assert link.pool.idle == 2
            while link.pool.idle == 2:
                await asyncio.sleep(0.01)
            await settle()
            assert first.transport is None
            assert second.transport is not None
            while link.pool.idle:
                await asyncio.sleep(0.01)
            await settle()
            assert second.transport is None
            link.pool.close()

    run_on("asyncio", main())


@pytest.mark.parametrize("way", ["no keep-alive", "closed"])
def test_a_pool_that_keeps_nothing_closes_what_it_gets(way: str) -> None:
    async def main() -> None:
        async with link_to(playing(KEPT), keep_alive=way == "closed") as link:
            connection, _ = await link.head()
            if way == "closed":
                link.pool.is_closed = True
            connection.close()
            await settle()
            assert link.pool.idle == 0
            assert connection.transport is None

    run_on("asyncio", main())


def test_a_connection_that_is_opened_while_the_pool_is_closed_is_closed() -> None:
    async def main() -> None:
        async with link_to(playing(KEPT)) as link:
            link.pool.close()
            connection = await link.connect()
            await settle()
            assert connection.transport is None

    run_on("asyncio", main())
