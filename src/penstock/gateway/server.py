"""The gateway as a process: its socket, signal handling and graceful shutdown.

uvicorn owns the connections. We handle the signals, because a second SIGTERM must stop the turns that the
first one waits for, and because the clients of stopped turns must get a terminal event.
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
_STOP_STEP = 1.0
"""Seconds between the steps of a forced shutdown. In the first, stopped turns send their terminal events."""
_KEEP_ALIVE = 75
"""Seconds for which an idle connection stays open: longer than in clients, so that they close it first."""


class CannotListen(PenstockError):  # noqa: N818 - named after what happened
    """The address is in use, or does not belong to this machine."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no handlers: `_Signals` does."""
        yield


class _Signals:
    """Handle signals: SIGTERM and SIGINT wait for running turns; a second signal or `drain` stops them."""

    def __init__(self, server: _Server, gateway: Gateway, reload: Callable[[], Settings]) -> None:
        self._server, self._gateway, self._reload = server, gateway, reload
        self._loop = asyncio.get_running_loop()

    def install(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handle(number, self._drain)
        if hasattr(signal, "SIGHUP"):
            self._handle(signal.SIGHUP, self._reload_settings)

    def _handle(self, number: signal.Signals, handler: Callable[[], None]) -> None:
        try:
            self._loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(handler))

    def _drain(self) -> None:
        if self._gateway.is_draining:
            log.warning("second signal: stopping the running turns now")
            self._stop_turns()
            return
        self._gateway.is_draining = True
        self._server.should_exit = True
        running = self._gateway.running()
        if running:
            turns = "1 running turn" if running == 1 else f"{running} running turns"
            log.info("%s", f"shutting down: waiting for {turns}; send the signal again to stop now")
        self._loop.call_later(self._gateway.services.settings.limits.drain, self._stop_turns)

    def _stop_turns(self) -> None:
        self._gateway.turns.stop(SHUTTING_DOWN)
        self._loop.call_later(_STOP_STEP, self._abort_turns)

    def _abort_turns(self) -> None:
        self._gateway.turns.abort()
        self._loop.call_later(_STOP_STEP, self._abort_connections)

    def _abort_connections(self) -> None:
        """Abort the remaining connections: their clients neither finish their requests nor read."""
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        self._loop.call_later(_STOP_STEP, self._exit)

    def _exit(self) -> None:
        self._server.force_exit = True

    def _reload_settings(self) -> None:
        """Reload the settings; if the file is invalid, keep the current ones."""
        try:
            settings = self._reload()
            self._gateway.reload(settings)
        except PenstockError as error:
            log.error("%s", f"the settings were not changed: {error}")
        else:
            log.setLevel(settings.log_level.upper())
            log.info("the settings were reloaded")


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket, or raise `CannotListen`. Port 0 picks a free port."""
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
    """Serve until a signal stops the process. Return the ids of the responses that are lost, because they
    could not be written to the store.

    `open_app` is called on the gateway's event loop; `ready` is called with the URL; `reload` reads the
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
            http=connection,  # type: ignore[arg-type]  # uvicorn only calls it
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
        # Objects that exist now live until the end. Each full collection that scanned them would block every
        # stream for tens of milliseconds.
        gc.collect()
        gc.freeze()
        await server.serve(sockets=[listening])
        return await gateway.aclose()  # uvicorn sends no lifespan shutdown after a forced exit

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:  # uvloop supports CPython only
        return None
    return uvloop.new_event_loop
