"""The gateway as a process: its socket, signal handling and graceful shutdown.

`net.server` owns the connections. A second SIGTERM stops the turns that the first one waits for, and the
clients of stopped turns get a terminal event.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from penstock.errors import PenstockError
from penstock.gateway.app import GatewayApp
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import JSON, request_id_for
from penstock.gateway.metrics_app import MetricsApp
from penstock.gateway.reloading import FileWatch, reloader_of
from penstock.gateway.service_manager import tell_stopping
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.logs import log, log_fault, log_refused
from penstock.gateway.telemetry.metrics import OTHER
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN
from penstock.net.server.channels import Headers
from penstock.net.server.refusals import ServerRefusal
from penstock.net.server.server import BACKLOG, Server, file_limit, raise_file_limit
from penstock.net.tls import server_tls_context
from penstock.store.contract import Store

T = TypeVar("T")

_STOP_STEP = 1.0
"""Seconds between the steps of a forced shutdown. In the first, stopped turns send their terminal events."""
_FILES_PER_CONNECTION = 2
"""Open files for a client: its connection, and the one to the upstream of its turn."""
_COLLECT_AFTER = 10_000
"""New objects after which the garbage collector looks for cycles. Python's default of 700 is reached by every
request; but a turn is freed without the collector."""

SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread with heavy work (`fairness.run_heavy`) must let the event loop run. The loop
waits for the interpreter lock before each callback, so with Python's 5 ms a few streams would add up to tens
of milliseconds."""


class CannotListen(PenstockError):  # noqa: N818 - named after what happened
    """The address is in use, or does not belong to this machine."""


class ServerRefuser:
    """Answers what the server refuses by itself: in the specification's error shape, and in the log."""

    def refuse(
        self, refusal: ServerRefusal, method: str, headers: Mapping[str, str]
    ) -> tuple[Headers, bytes]:
        type = "server_error" if refusal.is_server_error else "invalid_request"
        refused = RequestRefused(refusal.status, refusal.code, refusal.message, type=type)
        request_id = request_id_for(headers.get("x-request-id", ""))
        log_refused(refused, method, OTHER, request_id)
        return [("content-type", JSON), ("x-request-id", request_id)], refused.body()

    def report(self, error: Exception) -> None:
        log_fault(error, "")


class Shutdown:
    """Ends the gateway step by step: running turns may finish, then they are stopped, then aborted."""

    def __init__(self, server: Server, gateway: Gateway) -> None:
        self._server, self._gateway = server, gateway
        self._loop = asyncio.get_running_loop()
        self.is_forced = False
        """Whether the process ends without waiting for anything else."""

    def drain(self, hint: str = "") -> None:
        """Accept nothing more, and stop the turns that run longer than `limits.drain`."""
        self._gateway.is_draining = True
        self._server.stop()
        running = self._gateway.running()
        if running:
            turns = "1 running turn" if running == 1 else f"{running} running turns"
            log.info("%s", f"shutting down: waiting for {turns}{hint}")
        self._loop.call_later(self._gateway.services.settings.limits.drain, self.stop_turns)

    def stop_turns(self) -> None:
        self._gateway.turns.stop(SHUTTING_DOWN)
        self._loop.call_later(_STOP_STEP, self._abort_turns)

    def _abort_turns(self) -> None:
        self._gateway.turns.abort()
        self._loop.call_later(_STOP_STEP, self._abort_connections)

    def _abort_connections(self) -> None:
        self._server.abort()
        self._loop.call_later(_STOP_STEP, self._exit)

    def _exit(self) -> None:
        self.is_forced = True
        self._server.exit()


class Control(Protocol):
    """Whoever decides when the gateway reloads its settings and when it stops."""

    def begin(self, gateway: Gateway, server: Server, shutdown: Shutdown) -> None:
        """The gateway is about to listen."""

    def ready(self, url: str) -> None:
        """The gateway accepts connections."""

    def stopped(self) -> None:
        """It has no connections any more; only turns without a client may still run."""


class _OwnControl:
    """Control by signals and by the configuration file, for a gateway of one process.

    SIGTERM and SIGINT wait for running turns; a second signal stops them.
    """

    def __init__(
        self,
        ready: Callable[[str], None],
        announce: Callable[[str, Settings, Store], Awaitable[None]] | None,
        reload: Callable[[], Settings],
        watch: Path | None,
    ) -> None:
        self._ready, self._announce, self._reload, self._watch = ready, announce, reload, watch
        self._tasks: list[asyncio.Task[None]] = []
        self._gateway: Gateway | None = None

    def begin(self, gateway: Gateway, server: Server, shutdown: Shutdown) -> None:
        self._gateway = gateway
        reloader = reloader_of(gateway, server, self._reload)

        def drain() -> None:
            if gateway.is_draining:
                log.warning("second signal: stopping the running turns now")
                shutdown.stop_turns()
            else:
                tell_stopping()
                shutdown.drain("; send the signal again to stop now")

        handle_signals(drain, reloader.reload)
        if self._watch is not None:
            watch = FileWatch(self._watch, partial(reloader.reload, only_changes=True))
            self._tasks.append(asyncio.create_task(watch.run()))

    def ready(self, url: str) -> None:
        assert self._gateway is not None
        self._ready(url)
        if self._announce is not None:
            announcing = self._announce(url, self._gateway.services.settings, self._gateway.store)
            self._tasks.append(asyncio.create_task(reported(announcing)))

    def stopped(self) -> None:
        for task in self._tasks:
            task.cancel()


def handle_signals(drain: Callable[[], None], reload: Callable[[], None]) -> None:
    """Call `drain` for SIGTERM and SIGINT, and `reload` for SIGHUP, on the running event loop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        _handle(number, drain)
    if hasattr(signal, "SIGHUP"):
        _handle(signal.SIGHUP, reload)


def _handle(number: signal.Signals, handler: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, handler)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(handler))


class ListeningSockets(Struct, frozen=True, kw_only=True):
    main: socket.socket
    own: socket.socket | None = None
    """Without TLS, for the gateway's requests to itself."""
    metrics: socket.socket | None = None
    """The address for metrics."""

    def close(self) -> None:
        for each in (self.main, self.own, self.metrics):
            if each is not None:
                each.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket, or raise `CannotListen`. Port 0 picks a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = why.partition(" (while attempting")[0]  # Python's text repeats the address
        raise CannotListen(f"cannot listen on {host} port {port}: {why}") from None


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def run(
    open_app: Callable[[], Awaitable[GatewayApp]],
    sockets: ListeningSockets,
    *,
    ready: Callable[[str], None],
    announce: Callable[[str, Settings, Store], Awaitable[None]] | None = None,
    reload: Callable[[], Settings],
    watch: Path | None = None,
) -> list[str]:
    """Serve until a signal stops the process. Return the ids of the responses that are lost, because they
    could not be written to the store.

    `open_app` is called on the gateway's event loop; `ready` is called with the URL; `announce` runs beside
    the gateway from then on, until it ends or the gateway stops; `reload` reads the settings again, also when
    the file `watch` changes.
    """
    return run_loop(serve_gateway(open_app, sockets, _OwnControl(ready, announce, reload, watch)))


def run_loop(serving: Coroutine[Any, Any, T]) -> T:
    """Run a gateway on an event loop of its own."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serving)


async def serve_gateway(
    open_app: Callable[[], Awaitable[GatewayApp]], sockets: ListeningSockets, control: Control
) -> list[str]:
    """Serve until `control` ends it. Return the ids of the responses that could not be stored."""
    raise_file_limit()
    app = await open_app()
    gateway = app.gateway
    server = server_of(app)
    shutdown = Shutdown(server, gateway)
    control.begin(gateway, server, shutdown)
    # Objects that exist now live until the end. Each full collection that scanned them would block every
    # stream for tens of milliseconds.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    async with app.running(), _serving_metrics(gateway, sockets.metrics):
        await server.listen(sockets.main)
        if sockets.own is not None:
            await server.listen(sockets.own, is_private=True)
        control.ready(url_of(sockets.main, "https" if server.tls else "http"))
        await server.stopped()
        control.stopped()
    if not shutdown.is_forced:
        await gateway.drain()  # for turns without a client
    return await gateway.aclose()


async def reported(work: Awaitable[None]) -> None:
    """Run work that the gateway does not depend on; log a fault in it."""
    try:
        await work
    except Exception as error:
        log_fault(error, "")


@asynccontextmanager
async def _serving_metrics(gateway: Gateway, listening: socket.socket | None) -> AsyncIterator[None]:
    """Serve the metrics at their own address, also while running turns end."""
    if listening is None:
        yield
        return
    server = server_of(MetricsApp(gateway), has_tls=False)
    await server.listen(listening)
    try:
        yield
    finally:
        server.stop()
        server.abort()


def server_of(app: GatewayApp, *, has_tls: bool = True) -> Server:
    """Return a server for a gateway, with the limits and the certificate of its settings."""
    settings = app.gateway.services.settings
    default = file_limit() // _FILES_PER_CONNECTION
    return Server(
        app,
        ServerRefuser(),
        client_timeout=lambda: app.gateway.services.settings.limits.client_timeout,
        message_bytes=settings.limits.body_bytes,
        most_connections=lambda: app.gateway.services.settings.limits.connections or default,
        tls=server_tls_context(settings.tls_cert, settings.tls_key)
        if settings.tls_cert and has_tls
        else None,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:  # uvloop supports CPython only
        return None
    return uvloop.new_event_loop
