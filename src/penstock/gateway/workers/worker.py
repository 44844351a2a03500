"""A worker: a gateway that accepts connections on inherited sockets, and obeys its supervisor.

If the supervisor dies, its workers drain and end: none is left behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from itertools import count

import msgspec

from penstock.errors import ConfigError, PenstockError, StoreError
from penstock.gateway.app import GatewayApp
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.reloading import apply_settings
from penstock.gateway.server import ListeningSockets, Shutdown, run_loop, serve_gateway
from penstock.gateway.settings import Settings
from penstock.gateway.telemetry.logs import log, log_fault
from penstock.gateway.workers.messages import (
    PROTOCOL,
    ApplySettings,
    AskForMetrics,
    CannotStart,
    Collect,
    CountedByWorker,
    Drain,
    DrainSoon,
    Link,
    MetricsText,
    StartWorker,
    StopTurns,
    ToWorker,
    WorkerDrains,
    WorkerEnds,
    WorkerReady,
    link_to_supervisor,
    receive_start,
    send_now,
)
from penstock.net.server.server import Server

_PUSH = 1.0
"""Seconds between two reports of what was counted: a killed worker's last one counts."""
_LINGER = 1.0
"""Seconds in which a worker that was replaced still serves requests on its open connections."""
_END_SECONDS = 2.0
"""For how long the last messages may wait until the supervisor has read them."""
_METRICS_SECONDS = 2.0
"""For how long a request for metrics waits for the supervisor."""


class NotAWorker(PenstockError):  # noqa: N818 - named after what happened
    """The process was not started by a supervisor, or by one of another version."""


def receive_orders(descriptor: str) -> tuple[StartWorker, socket.socket]:
    """Return the supervisor's first message, and the connection to it; raise `NotAWorker`."""
    # Signals that are meant for the supervisor, if they reach the whole process group.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    try:
        connection = socket.socket(fileno=int(descriptor))
        connection.setblocking(True)
        start = receive_start(connection)
    except (ValueError, OSError, EOFError):
        raise NotAWorker("only `penstock serve --workers` starts workers") from None
    except msgspec.MsgspecError:
        start = None
    if start is None or start.protocol != PROTOCOL:
        problem = "the installed version is another one than the running gateway's: restart it"
        with connection:
            send_now(connection, CannotStart(problem))
        raise NotAWorker(problem)
    return start, connection


def run_worker(
    start: StartWorker, connection: socket.socket, open_app: Callable[[], Awaitable[GatewayApp]]
) -> int:
    """Serve until the supervisor ends this worker. Return the number of responses that are lost."""
    return run_loop(Worker(start, connection).serve(open_app))


class Worker:
    """The connection to the supervisor, which decides when the gateway reloads its settings and stops."""

    def __init__(self, start: StartWorker, connection: socket.socket) -> None:
        self._start, self._connection = start, connection
        self._link: Link[ToWorker]
        self._tasks: list[asyncio.Task[None]] = []
        self._gateway: Gateway
        self._server: Server
        self._shutdown: Shutdown
        self._questions: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = count(1)

    async def serve(self, open_app: Callable[[], Awaitable[GatewayApp]]) -> int:
        self._link = await link_to_supervisor(self._connection)
        start = self._start
        sockets = ListeningSockets(
            main=_inherited(start.listening),
            own=None if start.own is None else _inherited(start.own),
            metrics=None if start.metrics is None else _inherited(start.metrics),
        )
        try:
            lost = await serve_gateway(open_app, sockets, self)
        except (StoreError, ConfigError) as error:
            self._link.send(CannotStart(f"--store: {error}"))
            raise
        else:
            self._send_counted()
            self._link.send(WorkerEnds(len(lost)))
            # The supervisor closes the connection. If this end did, with messages unread, the supervisor
            # might get an error instead of the last messages.
            await asyncio.wait(self._tasks[:1], timeout=_END_SECONDS)
            return len(lost)
        finally:
            for task in self._tasks:
                task.cancel()
            sockets.close()
            await self._link.aclose()

    # As `Control`

    def begin(self, gateway: Gateway, server: Server, shutdown: Shutdown) -> None:
        self._gateway, self._server, self._shutdown = gateway, server, shutdown
        gateway.metrics.gauge("process_start_time_seconds", lambda: self._start.started)
        gateway.metrics.gather = self._gather
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._drain)
        self._tasks = [asyncio.create_task(self._obey()), asyncio.create_task(self._report())]

    def ready(self, url: str) -> None:  # noqa: ARG002 - the supervisor reports the URL
        self._link.send(WorkerReady())

    def stopped(self) -> None:
        """The supervisor may still want to stop turns without a client."""

    # Messages

    async def _obey(self) -> None:
        try:
            while (message := await self._link.receive()) is not None:
                self._obey_one(message)
        except Exception as error:
            log_fault(error, "")
        if not self._gateway.is_draining:
            log.error("the supervisor has ended: this worker stops, too")
            self._drain()

    def _obey_one(self, message: ToWorker) -> None:
        match message:
            case ApplySettings():
                self._apply(message.settings)
            case Drain():
                self._drain()
            case DrainSoon():
                self._server.stop_listening()
                asyncio.get_running_loop().call_later(_LINGER, self._drain)
            case StopTurns():
                self._shutdown.stop_turns()
            case Collect():
                self._send_counted(is_answer=True)
            case MetricsText():
                question = self._questions.get(message.question)
                if question is not None and not question.done():
                    question.set_result(message.text)
            case StartWorker():
                raise AssertionError("a worker is started once")

    def _apply(self, settings: Settings) -> None:
        try:
            apply_settings(self._gateway, self._server, settings)
        except PenstockError as error:
            log.error("%s", f"the settings were not changed: {error}")
        else:
            log.setLevel(settings.log_level.upper())

    def _drain(self) -> None:
        if not self._gateway.is_draining:
            self._shutdown.drain()
            self._link.send(WorkerDrains())

    # Metrics

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_PUSH)
            self._send_counted()

    def _send_counted(self, *, is_answer: bool = False) -> None:
        if not self._link.is_behind:
            self._link.send(CountedByWorker(self._gateway.metrics.take(), is_answer))

    async def _gather(self) -> bytes:
        """Return the metrics of all workers."""
        question = next(self._numbers)
        self._send_counted()
        self._link.send(AskForMetrics(question))
        self._questions[question] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_METRICS_SECONDS):
                return await self._questions[question]
        except TimeoutError:
            message = "the other workers could not be asked for their metrics: try again in a moment"
            raise RequestRefused(503, "metrics_unavailable", message, type="server_error") from None
        finally:
            del self._questions[question]


def _inherited(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)
