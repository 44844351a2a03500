"""A plain uvicorn server in the process of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import uvicorn

from penstock.gateway.http.asgi import Message, Receive, Send

PATIENCE = 20

Asgi = Callable[[Message, Receive, Send], Awaitable[None]]


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@contextmanager
def asgi_server(application: Callable[[int], Asgi]) -> Iterator[int]:
    """Yield the port of a server with the application for this port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = _Server(uvicorn.Config(application(port), lifespan="on", log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert server.is_up.wait(PATIENCE)
            yield port
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
