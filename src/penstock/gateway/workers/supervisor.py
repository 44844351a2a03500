"""The supervisor: it owns the listening sockets, starts the workers that accept connections, and replaces
those that crash. It serves no request itself, so there is little that could end it.

It alone reads the configuration file and sends the settings to its workers, so all have the same, and a
replacement starts with the ones that were last valid. It tells workers by messages when to stop: a signal to
the whole process group or control group reaches both, and must not count as a second signal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from msgspec import MsgspecError, Struct
from msgspec.structs import replace

from penstock.errors import PenstockError
from penstock.formatting import counted
from penstock.gateway.reloading import FileWatch, Reloader
from penstock.gateway.server import ListeningSockets, handle_signals, reported, url_of
from penstock.gateway.service_manager import tell_stopping
from penstock.gateway.settings import Settings
from penstock.gateway.storage import hold_gateway_store
from penstock.gateway.telemetry.logs import log, log_fault
from penstock.gateway.telemetry.metrics import PROCESS_GAUGES, SUMMED, Metrics, process_gauges
from penstock.gateway.workers.messages import (
    PROTOCOL,
    ApplySettings,
    AskForMetrics,
    CannotStart,
    CountedByWorker,
    Drain,
    DrainSoon,
    FromWorker,
    MetricsText,
    StartWorker,
    StopTurns,
    ToWorker,
    WorkerDrains,
    WorkerEnds,
    WorkerReady,
)
from penstock.gateway.workers.process import ALONE, LONGEST, MANY, Backoff, WorkerProcess, start_process
from penstock.gateway.workers.sockets import WorkerSockets

_COLLECT_SECONDS = 0.5
"""For how long a request for metrics waits for a worker; then its last known values are used."""
_SILENCE = 60
"""Seconds after which a worker that reports nothing, although it should every second, is killed."""
_START_SECONDS = 60.0
"""After which a replacement that is not ready is given up."""
_GRACE = 10.0
"""Seconds that a worker has, beyond the steps of its shutdown, before it is killed."""


class WorkerError(PenstockError):
    """A worker could not start, so the gateway cannot either."""


class Stopped(Struct, frozen=True):
    """How the workers ended after a signal."""

    lost: int
    """Responses that could not be stored."""
    crashed: int
    """Workers that did not end by themselves."""


def worker_count(settings: Settings) -> int:
    """Return the number of workers; one for each processor if the settings say so."""
    if settings.workers:
        return settings.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def supervise(
    settings: Settings,
    sockets: ListeningSockets,
    *,
    own_url: str,
    ready: Callable[[str], None],
    announce: Callable[[str, Settings], Awaitable[None]],
    reload: Callable[[], Settings],
    watch: Path | None,
) -> Stopped:
    """Run workers until a signal stops them. The parameters are those of `server.run`; `own_url` is where a
    worker reaches the gateway.

    Raise `StoreError` if the store cannot be used, and `WorkerError` if a worker cannot start.
    """

    async def serve() -> Stopped:
        with hold_gateway_store(settings.store, os.environ):
            supervisor = Supervisor(settings, sockets, own_url, reload)
            await supervisor.start()
            return await supervisor.run(ready, announce, watch)

    return asyncio.run(serve())


class Supervisor:
    """The workers and what they have counted. Belongs to one event loop."""

    def __init__(
        self, settings: Settings, sockets: ListeningSockets, own_url: str, read: Callable[[], Settings]
    ) -> None:
        self._settings = replace(settings, workers=worker_count(settings))
        self._url = url_of(sockets.main, "https" if settings.tls_cert else "http")
        self._main = WorkerSockets(sockets.main)
        self._own, self._metrics, self._own_url = sockets.own, sockets.metrics, own_url
        self._started = time.time()
        self._workers: set[WorkerProcess] = set()
        """Those whose processes run, also while they start or drain."""
        self._backoff = {number: Backoff() for number in range(1, self._settings.workers + 1)}
        self._watching: set[asyncio.Task[None]] = set()
        self._changing: set[asyncio.Task[None]] = set()
        """Tasks that start workers; none may be started while the gateway stops."""
        self._rolling: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._lost = self._crashed = 0
        self._reloader = Reloader(
            read,
            lambda: self._settings,
            self._apply,
            has_tls=bool(settings.tls_cert),
        )
        self.metrics = Metrics(started=self._started)
        """The sums of all workers, also of those that have ended."""
        for name in SUMMED - (PROCESS_GAUGES - process_gauges().keys()):
            self.metrics.gauge(name, partial(self._sum_of, name))
        self.metrics.gauge("penstock_workers", lambda: len(self._serving()))

    # The life of the gateway

    async def start(self) -> None:
        """Start all workers; raise `WorkerError` if one cannot."""
        self._loop = asyncio.get_running_loop()
        handle_signals(self.stop, self._reloader.reload)
        self._loop.add_signal_handler(signal.SIGUSR2, self.roll)
        problem = ""
        try:
            workers = [await self._start(number) for number in self._backoff]
        except OSError as error:
            problem = _no_process(error)
        else:
            for ready in asyncio.as_completed([worker.became_ready() for worker in workers]):
                problem = problem or await ready
        if problem and not self._is_stopping:
            self._is_stopping = True
            for worker in self._workers:
                worker.kill()
            await self._all_ended()
            raise WorkerError(problem)

    async def run(
        self,
        ready: Callable[[str], None],
        announce: Callable[[str, Settings], Awaitable[None]],
        watch: Path | None,
    ) -> Stopped:
        """Report that the gateway is ready, and wait until a signal has stopped it."""
        tasks = [asyncio.create_task(self._kill_silent())]
        if not self._is_stopping:
            ready(self._url)
            tasks.append(asyncio.create_task(reported(announce(self._url, self._settings))))
        if watch is not None:
            file = FileWatch(watch, partial(self._reloader.reload, only_changes=True))
            tasks.append(asyncio.create_task(file.run()))
        await self._all_ended()
        for task in tasks:
            task.cancel()
        return Stopped(lost=self._lost, crashed=self._crashed)

    def stop(self) -> None:
        """Let running turns end; the second time, stop them."""
        grace = _GRACE
        if self._is_stopping:
            log.warning("second signal: stopping the running turns now")
            self._send(StopTurns())
        else:
            self._is_stopping = True
            tell_stopping()
            for task in self._changing:
                task.cancel()
            # New connections are refused when the workers have closed the sockets, too.
            self._main.close_all()
            for listening in (self._own, self._metrics):
                if listening is not None:
                    listening.close()
            self._send(Drain())
            grace += self._settings.limits.drain
        self._loop.call_later(grace, self._kill)

    def _kill(self) -> None:
        for worker in self._workers:
            log.error("%s", f"{worker} did not stop in time and is killed")
            worker.kill()

    async def _all_ended(self) -> None:
        while running := self._watching | self._changing:
            await asyncio.wait(running)

    def _apply(self, settings: Settings) -> None:
        self._settings = settings
        self._send(ApplySettings(self._shared()))

    def _shared(self) -> Settings:
        """Return the settings of one worker: of the limit for all turns, each has an equal share."""
        limits = self._settings.limits
        share = -(-limits.max_turns // self._settings.workers)
        return replace(self._settings, limits=replace(limits, max_turns=share))

    def _send(self, message: ToWorker) -> None:
        for worker in self._workers:
            worker.link.send(message)

    # Starting and replacing workers

    async def _start(self, number: int) -> WorkerProcess:
        """Start a process; its task watches it from then on."""
        main, own, metrics = self._main.of(number).fileno(), _number_of(self._own), _number_of(self._metrics)
        descriptors = [each for each in (main, own, metrics) if each is not None]
        worker = await start_process(number, descriptors)
        worker.link.send(
            StartWorker(
                protocol=PROTOCOL,
                number=number,
                settings=self._shared(),
                url=self._own_url,
                started=self._started,
                listening=main,
                own=own,
                metrics=metrics,
            )
        )
        self._workers.add(worker)
        _run(self._watch(worker), self._watching)
        return worker

    async def _watch(self, worker: WorkerProcess) -> None:
        """Answer a worker until its process ends; then replace it, if it was needed."""
        try:
            while (message := await worker.link.receive()) is not None:
                self._receive(worker, message)
        except MsgspecError as error:
            log_fault(error, "")
            worker.kill()
        await worker.ended()
        self._workers.discard(worker)
        if worker.is_stopped:
            self._lost += worker.lost
        if self._is_stopping:
            if not worker.is_stopped and worker.is_ready:
                self._crashed += 1
                log.error("%s", f"{worker} ended before its turns did: {worker.end}")
            return
        if not worker.is_ready:
            return  # whoever started it reports it
        if worker.is_retired:
            if not worker.is_stopped:
                log.error("%s", f"{worker} ended before its turns did: {worker.end}")
            return
        self.metrics.count("penstock_worker_crashes_total")
        log.error("%s", f"{worker} ended unexpectedly: {worker.end}; starting another")
        delay = self._backoff[worker.number].crashed(worker.seconds())
        _run(self._replace(worker.number, delay), self._changing)

    def _retire_draining(self, worker: WorkerProcess) -> None:
        """Replace a worker that drains that the supervisor did not ask to: a signal was sent to it alone."""
        if worker.is_ready and not worker.is_retired and not self._is_stopping:
            worker.is_retired = True
            log.info("%s", f"{worker} was stopped; starting another")
            _run(self._replace(worker.number, 0.0), self._changing)

    async def _replace(self, number: int, delay: float) -> None:
        """Start workers until one is ready, with longer and longer pauses."""
        backoff = self._backoff[number]
        while True:
            if backoff.crashes == MANY:
                log.error(
                    "%s",
                    f"worker {number} has failed {MANY} times in a row: it is started again after longer and "
                    f"longer pauses, of up to {LONGEST:g} s, while other workers serve",
                )
            if delay and self._serving():
                self._main.close(number)
            elif delay:  # then new connections wait, because nobody else is there
                delay = min(delay, ALONE)
            await asyncio.sleep(delay)
            problem = await self._start_one(number)
            if not problem:
                return
            log.error("%s", f"worker {number} could not be started: {problem}")
            delay = backoff.crashed(0.0)

    async def _start_one(self, number: int) -> str:
        """Start a worker and wait until it is ready; return why it is not."""
        try:
            worker = await self._start(number)
        except OSError as error:
            return _no_process(error)
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await worker.became_ready()
        except TimeoutError:
            worker.kill()
            return f"it was not ready after {_START_SECONDS:g} s"

    async def _kill_silent(self) -> None:
        """Kill workers that hang: their connections wait in vain."""
        while True:
            await asyncio.sleep(1)
            for worker in self._workers:
                worker.silence += 1
                if worker.is_ready and worker.silence == _SILENCE:
                    log.error("%s", f"{worker} has not responded for {_SILENCE} s and is killed")
                    worker.kill()

    def roll(self) -> None:
        """Replace every worker by a new one: it must be ready before the old one stops accepting."""
        if self._is_stopping or (self._rolling is not None and not self._rolling.done()):
            log.warning("the workers are already being replaced or stopped")
            return
        self._rolling = _run(self._roll(), self._changing)

    async def _roll(self) -> None:
        old = sorted(self._serving(), key=lambda worker: worker.number)
        log.info("%s", f"replacing {counted(len(old), 'worker')}, one after the other")
        for worker in old:
            if problem := await self._start_one(worker.number):
                log.error("%s", f"the other workers are not replaced: worker {worker.number}: {problem}")
                return
            worker.is_retired = True
            worker.link.send(DrainSoon())
        log.info("all workers were replaced; the old ones end with their turns")

    # Metrics

    def _receive(self, worker: WorkerProcess, message: FromWorker) -> None:
        worker.silence = 0
        match message:
            case WorkerReady():
                worker.set_ready("")
            case WorkerDrains():
                self._retire_draining(worker)
            case CannotStart():
                worker.set_ready(message.message)
            case CountedByWorker():
                self.metrics.add(message.counted)
                worker.gauges = message.counted.gauges
                if message.is_answer:
                    worker.has_answered()
            case AskForMetrics():
                _run(self._send_metrics(worker, message.question), self._watching)
            case WorkerEnds():
                worker.is_stopped, worker.lost = True, message.lost
                worker.link.close()

    async def _send_metrics(self, asking: WorkerProcess, question: int) -> None:
        answers = [worker.ask() for worker in self._workers if worker.is_ready and worker is not asking]
        if answers:
            await asyncio.wait(answers, timeout=_COLLECT_SECONDS)
        asking.link.send(MetricsText(question, self.metrics.render()))

    def _serving(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.is_ready and not worker.is_retired]

    def _sum_of(self, name: str) -> float | dict[str, float]:
        """Return the sum of a gauge over the workers that run now."""
        total, by_label = 0.0, dict[str, float]()
        for worker in self._workers:
            value = worker.gauges.get(name, 0.0)
            if isinstance(value, dict):
                for label, each in value.items():
                    by_label[label] = by_label.get(label, 0.0) + each
            else:
                total += value
        return by_label or total


def _run(work: Awaitable[None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    task = asyncio.create_task(reported(work))
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def _number_of(listening: socket.socket | None) -> int | None:
    return None if listening is None else listening.fileno()


def _no_process(error: OSError) -> str:
    return f"the system cannot start a process: {error.strerror or error}"
