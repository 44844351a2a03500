"""Export spans and metrics to a collector over OTLP/HTTP, from tasks of their own.

Nothing waits for an export. What waits for one is limited in number and in bytes; what exceeds the limits is
dropped and counted. An export has one time limit from its connection to the last byte of the answer, so a
collector that hangs, or answers byte by byte, costs a connection and nothing else.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from penstock.errors import NetworkError, OpenResponsesError
from penstock.formatting import counted
from penstock.gateway.telemetry.logs import log, log_fault
from penstock.gateway.telemetry.metrics import Metrics
from penstock.gateway.telemetry.otel.otlp import ENCODINGS, OtlpSpan, ResourceScope
from penstock.gateway.telemetry.otel.variables import OtelVariables, OtlpEndpoint, Signal
from penstock.net.transport import Transport

QUEUE_BYTES = 16 * 1024 * 1024
BATCH_BYTES = 4 * 1024 * 1024
"""Collectors accept 20 MB by default."""
_ANSWER_BYTES = 64 * 1024

WAITS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try of a batch."""
_LONGEST_WAIT = 30.0
"""For a collector that asks to wait."""
_RETRYABLE = (429, 502, 503, 504)

EXPORTED, DROPPED = "penstock_telemetry_exported_total", "penstock_telemetry_dropped_total"


class ExportResult(Struct, frozen=True):
    """How one request ended."""

    problem: str = ""
    """Empty if it was accepted."""
    is_final: bool = False
    """Whether another try would not help."""
    wait: float = 0.0
    """Seconds that the collector asks to wait."""
    rejected: int = 0
    """What the collector did not accept of the request."""


class Collector:
    """One endpoint of a collector."""

    def __init__(self, endpoint: OtlpEndpoint) -> None:
        self._endpoint = endpoint
        self.encoding = ENCODINGS[endpoint.protocol]
        self._transport = Transport(endpoint.connection(), endpoint.address)
        self._transport.check()

    def __str__(self) -> str:
        return self._endpoint.shown

    async def send(self, body: bytes) -> ExportResult:
        """Send one request; raise nothing."""
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                return ExportResult(rejected=await self._post(body))
        except TimeoutError:
            return ExportResult(f"no answer within {self._endpoint.timeout:g} s")
        except NetworkError as error:
            return ExportResult(error.message)
        except OpenResponsesError as error:  # its message is the collector's
            wait = min(error.retry_after or 0.0, _LONGEST_WAIT)
            is_final = error.status not in _RETRYABLE
            return ExportResult(f"HTTP status {error.status}" if error.status else error.code, is_final, wait)
        except Exception as error:
            log_fault(error, "")
            return ExportResult(type(error).__name__, is_final=True)

    async def _post(self, body: bytes) -> int:
        headers = {"content-type": self.encoding.content_type}
        if self._endpoint.is_compressed:
            body = await asyncio.to_thread(gzip.compress, body, 6)
            headers["content-encoding"] = "gzip"
        answer = await self._transport.send("POST", self._endpoint.url, body=body, headers=headers)
        try:
            found = b""
            while len(found) < _ANSWER_BYTES and (data := await answer.read()):
                found += data
            return self.encoding.rejected(found)
        finally:
            answer.close()

    async def aclose(self) -> None:
        await self._transport.aclose()


class ExportLog:
    """Counts what is exported and dropped, and logs when exports begin to fail and when they work again."""

    def __init__(self, signal: Signal, collector: Collector, metrics: Metrics) -> None:
        self._signal, self._collector, self._metrics = signal, collector, metrics
        self._is_failing = False
        self._dropped = 0
        """Since it was logged."""

    def exported(self, number: int) -> None:
        self._metrics.count(EXPORTED, number, signal=self._signal)
        if self._is_failing:
            self._is_failing = False
            lost = f"; dropped in the meantime: {counted(self._dropped, 'span')}" if self._dropped else ""
            self._log("works again", lost)
            self._dropped = 0

    def failed(self, problem: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log("failed", f": {problem}")

    def dropped(self, number: int, reason: str) -> None:
        self._metrics.count(DROPPED, number, signal=self._signal, reason=reason)
        if not self._dropped:
            self._log("is dropping spans", f": {reason}")
        self._dropped += number

    def _log(self, what: str, more: str) -> None:
        fields = {"event": "telemetry", "signal": self._signal}
        message = f"the export of {self._signal} to {self._collector} {what}{more}"
        log.warning("%s", message, extra={"fields": fields})


class SpanExporter:
    """Exports spans in batches. Belongs to one event loop."""

    def __init__(
        self,
        collector: Collector,
        scope: ResourceScope,
        variables: OtelVariables,
        metrics: Metrics,
        *,
        waits: Sequence[float] = WAITS,
    ) -> None:
        self._collector, self._scope, self._waits = collector, scope, waits
        self._most, self._batch, self._delay = variables.queue, variables.batch, variables.span_delay
        self._log = ExportLog("traces", collector, metrics)
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        """In the queue."""
        self._sending = 0
        """Spans of the batch that is being sent."""
        self._arrived, self._is_full, self._closing = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, span: OtlpSpan) -> None:
        """Queue a span, or drop it if too much is waiting."""
        if len(self._queue) >= self._most:
            self._log.dropped(1, "queue_full")
            return
        encoded = self._collector.encoding.span(span)
        if len(encoded) > BATCH_BYTES or self._bytes + len(encoded) > QUEUE_BYTES:
            self._log.dropped(1, "queue_full")
            return
        self._queue.append(encoded)
        self._bytes += len(encoded)
        self._arrived.set()
        if len(self._queue) >= self._batch or self._bytes >= BATCH_BYTES:
            self._is_full.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._queue or not self._closing.is_set():
            await self._arrived.wait()
            await _first_of(self._is_full, self._delay)
            batch = self._take()
            try:
                if batch:
                    await self._deliver(batch)
            except Exception as error:  # a bug of ours must not end the exports
                log_fault(error, "")
                self._log.dropped(len(batch), "export_failed")
            self._sending = 0

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._queue and len(batch) < self._batch and size + len(self._queue[0]) <= BATCH_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        self._bytes -= size
        self._sending = len(batch)
        if not self._queue and not self._closing.is_set():
            self._arrived.clear()
        if len(self._queue) < self._batch and self._bytes < BATCH_BYTES and not self._closing.is_set():
            self._is_full.clear()
        return batch

    async def _deliver(self, batch: Sequence[bytes]) -> None:
        """Send a batch, again if that may help; then drop it."""
        body = self._collector.encoding.spans(self._scope, batch)
        for wait in (*self._waits, None):
            result = await self._collector.send(body)
            if not result.problem:
                self._log.exported(len(batch) - result.rejected)
                if result.rejected:
                    self._log.dropped(result.rejected, "rejected")
                break
            self._log.failed(result.problem)
            if result.is_final or wait is None or self._closing.is_set():
                self._log.dropped(len(batch), "export_failed")
                break
            await _first_of(self._closing, max(wait, result.wait))

    def close(self) -> None:
        """Export what is queued, and end."""
        for event in (self._closing, self._arrived, self._is_full):
            event.set()

    async def ended(self) -> None:
        if self._task is not None:
            await self._task

    def abandon(self) -> None:
        """Drop what could not be exported in time."""
        if self._task is not None:
            self._task.cancel()
        if left := len(self._queue) + self._sending:
            self._log.dropped(left, "shutdown")


class MetricExporter:
    """Exports all metrics at intervals. If an export fails, nothing is lost: the next has all numbers."""

    def __init__(
        self,
        collector: Collector,
        body: Callable[[], bytes],
        interval: float,
        metrics: Metrics,
    ) -> None:
        """`body` returns the encoded metrics; empty: there are none yet."""
        self._collector, self._body, self._interval = collector, body, interval
        self._log = ExportLog("metrics", collector, metrics)
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._closing.is_set():
            await _first_of(self._closing, self._interval)
            try:
                await self._export()
            except Exception as error:  # a bug of ours must not end the exports
                log_fault(error, "")

    async def _export(self) -> None:
        if body := self._body():
            result = await self._collector.send(body)
            if result.problem:
                self._log.failed(result.problem)
            else:
                self._log.exported(1)

    def close(self) -> None:
        self._closing.set()

    async def ended(self) -> None:
        if self._task is not None:
            await self._task

    def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def close_all(
    exporters: Sequence[SpanExporter | MetricExporter], collectors: Sequence[Collector], seconds: float
) -> None:
    """Export what is left, for at most so many seconds, and close the connections."""
    for exporter in exporters:
        exporter.close()
    waiting = [asyncio.ensure_future(exporter.ended()) for exporter in exporters]
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=seconds)
        for task in late:
            task.cancel()
    for exporter in exporters:
        exporter.abandon()
    await asyncio.gather(*waiting, return_exceptions=True)
    for collector in collectors:
        await collector.aclose()
