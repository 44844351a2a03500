"""A gateway in a thread of the test's process, on a socket of its own: for clients that write raw bytes."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult, urlsplit

from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.server import listen, server_of, url_of
from penstock.gateway.settings import Settings
from penstock.net.server.server import Server
from penstock.store.memory import MemoryStore


class ThreadedGateway:
    def __init__(self, listening: socket.socket) -> None:
        self.address: SplitResult = urlsplit(url_of(listening))


async def _start(settings: Settings, listening: socket.socket) -> tuple[Gateway, Server]:
    gateway = Gateway(settings, store=MemoryStore())
    server = server_of(GatewayApp(gateway))
    await server.listen(listening)
    return gateway, server


@contextmanager
def threaded_gateway(settings: Settings) -> Iterator[ThreadedGateway]:
    """What `penstock.gateway.server` serves, without its signals."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listening = listen("127.0.0.1", 0)
    gateway, server = asyncio.run_coroutine_threadsafe(_start(settings, listening), loop).result(20)
    try:
        yield ThreadedGateway(listening)
    finally:

        async def stop() -> None:
            server.stop()
            await gateway.aclose()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
