"""The gateway as a process: a socket, the signals, and an end that cuts nobody off without a word.

uvicorn has the connections. The signals are ours, because a second SIGTERM must end what the first one waits
for, and because a client whose turn is ended then is to be told so.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import uvicorn

from penstock.errors import PenstockError
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.connection import ClientConnection
from penstock.gateway.http.websocket_connection import WebSocketConnection
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.logs import log
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN

_BACKLOG = 2048
_LAST_WORDS = 1.0
"""Seconds in which turns that are ended can still tell their clients."""
_KEEP_ALIVE = 75
"""Seconds for which an idle connection is kept. Clients keep theirs less long, and so close them first."""


class CannotListen(PenstockError):  # noqa: N818 - says what happened
    """The address is taken, or not ours."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Not here: see `_Signals`."""
        yield


class _Signals:
    """SIGTERM and SIGINT let running turns end; a second one, or too long a wait, ends them."""

    def __init__(self, server: _Server, gateway: Gateway, reload: Callable[[], Settings]) -> None:
        self._server, self._gateway, self._reload = server, gateway, reload
        self._loop = asyncio.get_running_loop()

    def install(self) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            self._handle(each, self._stop)
        if hasattr(signal, "SIGHUP"):
            self._handle(signal.SIGHUP, self._read_again)

    def _handle(self, number: signal.Signals, handler: Callable[[], None]) -> None:
        try:
            self._loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(handler))

    def _stop(self) -> None:
        if self._gateway.is_draining:
            log.warning("asked to stop for the second time: ending what runs")
            self._end()
            return
        self._gateway.is_draining = True
        self._server.should_exit = True
        running = self._gateway.running()
        if running:
            turns = "1 turn" if running == 1 else f"{running} turns"
            log.info("%s", f"stopping: {turns} may still end; stop again to end them now")
        self._loop.call_later(self._gateway.services.settings.limits.drain, self._end)

    def _end(self) -> None:
        self._gateway.turns.stop(SHUTTING_DOWN)
        self._loop.call_later(_LAST_WORDS, self._leave)

    def _leave(self) -> None:
        self._gateway.turns.abort()
        self._loop.call_later(_LAST_WORDS, self._force)

    def _force(self) -> None:
        """What is left are clients that neither end their requests nor read their answers."""
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        self._loop.call_later(_LAST_WORDS, self._exit)

    def _exit(self) -> None:
        self._server.force_exit = True

    def _read_again(self) -> None:
        """A file that is wrong changes nothing: the gateway goes on as it was."""
        try:
            settings = self._reload()
            self._gateway.reload(settings)
        except PenstockError as error:
            log.error("%s", f"the settings were not changed: {error}")
        else:
            log.setLevel(settings.log_level.upper())
            log.info("the settings were read again")


def listen(host: str, port: int) -> socket.socket:
    """The socket, bound: whatever is wrong with the address shows here. Port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CannotListen(f"cannot listen on {host} port {port}: {why}") from None


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run(
    open_app: Callable[[], Awaitable[GatewayApp]],
    listening: socket.socket,
    *,
    ready: Callable[[str], None],
    reload: Callable[[], Settings],
) -> list[str]:
    """Serve until a signal says otherwise. The ids of the responses that could not be written to the store by
    then, and are lost.

    `open_app` is called on the loop that the gateway belongs to; `ready` gets the URL; `reload` reads the
    settings again.
    """

    async def serve() -> list[str]:
        app = await open_app()
        gateway = app.gateway
        connection = partial(
            ClientConnection, client_timeout=lambda: gateway.services.settings.limits.client_timeout
        )
        config = uvicorn.Config(
            app,
            http=connection,  # type: ignore[arg-type]  # it is only called
            ws=WebSocketConnection,
            ws_max_size=gateway.services.settings.limits.body_bytes,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE,
        )
        server = _Server(config, lambda: ready(url_of(listening)))
        _Signals(server, gateway, reload).install()
        # What is here now stays until the end. A full collection that looked at it each time would hold up
        # every stream for tens of milliseconds.
        gc.collect()
        gc.freeze()
        await server.serve(sockets=[listening])
        return await gateway.aclose()  # uvicorn does not say that it is over when it was forced

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:  # it is made for CPython
        return None
    return uvloop.new_event_loop
