"""Exports to collectors that work, refuse, hang, answer byte by byte, or are not there."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from penstock.gateway.telemetry.metrics import Metrics
from penstock.gateway.telemetry.otel import export
from penstock.gateway.telemetry.otel.export import Collector, MetricExporter, SpanExporter, close_all
from penstock.gateway.telemetry.otel.otlp import CLIENT, OtlpSpan, ResourceScope
from penstock.gateway.telemetry.otel.variables import OtelVariables, OtlpEndpoint
from tests.client.server import Connection, Script, answer, cut, head, keep, run, send, stall
from tests.gateway.telemetry.otel.collector import ACCEPTED, OtlpCollector

SCOPE = ResourceScope({"service.instance.id": "one"}, "penstock", "1")
HANG: Script = [stall]


async def drip(connection: Connection) -> None:
    """Send a byte now and then, until the client disconnects."""
    with suppress(OSError):
        while not connection.writer.is_closing():
            connection.writer.write(b"x")
            await connection.writer.drain()
            await asyncio.sleep(0.005)


DRIP: Script = [send(head(content_length="1000000")), drip]


@pytest.fixture
def logged() -> Iterator[list[str]]:
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("penstock.gateway")
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


def span(name: str = "n", **attributes: Any) -> OtlpSpan:
    return OtlpSpan(
        trace_id=b"t" * 16, span_id=b"s" * 8, name=name, kind=CLIENT, start=1, end=2, attributes=attributes
    )


class Stage:
    """An exporter in front of a collector, and what it counted."""

    def __init__(
        self,
        url: str,
        *,
        waits: Sequence[float] = (),
        queue: int = 100,
        timeout: float = 10.0,
        **endpoint: Any,
    ) -> None:
        self.metrics = Metrics()
        self.collector = Collector(OtlpEndpoint(url=f"{url}/v1/traces", timeout=timeout, **endpoint))
        variables = OtelVariables(queue=queue, batch=10, span_delay=0.001)
        self.exporter = SpanExporter(self.collector, SCOPE, variables, self.metrics, waits=waits)

    async def close(self, seconds: float = 5.0) -> None:
        await close_all([self.exporter], [self.collector], seconds)

    def dropped(self, reason: str) -> float:
        return self.metrics.total(export.DROPPED, signal="traces", reason=reason)

    @property
    def exported(self) -> float:
        return self.metrics.total(export.EXPORTED, signal="traces")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)


def with_collector(
    test: Callable[[Stage, OtlpCollector], Awaitable[None]], script: Script = ACCEPTED, **options: Any
) -> OtlpCollector:
    async def body() -> OtlpCollector:
        async with OtlpCollector(script) as collector:
            stage = Stage(collector.url, **options)
            try:
                await test(stage, collector)
            finally:
                await stage.close(0)
        return collector

    return run(body())


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
@pytest.mark.parametrize("is_compressed", [False, True])
def test_spans_are_exported_in_batches(protocol: str, is_compressed: bool) -> None:
    async def test(stage: Stage, _: OtlpCollector) -> None:
        for number in range(25):
            stage.exporter.add(span(str(number), a="b"))
        await stage.close()
        assert stage.exported == 25

    found = with_collector(
        test, protocol=protocol, is_compressed=is_compressed, headers={"authorization": "Bearer x"}
    )
    assert [each.name for each in found.spans] == [str(number) for number in range(25)]
    assert len(found.asked) == 3
    assert found.connections == 1
    assert {each.headers["authorization"] for each in found.asked} == {"Bearer x"}
    assert {each.target for each in found.asked} == {"/v1/traces"}


def test_a_span_does_not_wait_for_a_full_batch() -> None:
    async def test(stage: Stage, collector: OtlpCollector) -> None:
        stage.exporter.add(span())
        await stage.until(lambda: len(collector.spans) == 1)
        stage.exporter.add(span())
        await stage.until(lambda: len(collector.spans) == 2)

    with_collector(test)


@pytest.mark.parametrize("script", [HANG, DRIP], ids=["hangs", "drips"])
def test_what_exceeds_the_queue_is_dropped_counted_and_logged_once(script: Script, logged: list[str]) -> None:
    async def test(stage: Stage, collector: OtlpCollector) -> None:
        stage.exporter.add(span())
        await stage.until(lambda: bool(collector.asked))
        for _ in range(300):
            stage.exporter.add(span())
        assert stage.dropped("queue_full") == 200
        await stage.close(0.01)
        assert stage.dropped("shutdown") == 101
        assert stage.exported == 0

    with_collector(test, script)
    assert len(logged) == 1
    assert "is dropping spans: queue_full" in logged[0]


@pytest.mark.parametrize("script", [HANG, DRIP], ids=["hangs", "drips"])
def test_an_export_ends_at_its_time_limit(script: Script, logged: list[str]) -> None:
    async def test(stage: Stage, _: OtlpCollector) -> None:
        stage.exporter.add(span())
        await stage.until(lambda: stage.dropped("export_failed") == 1)

    with_collector(test, script, timeout=0.05)
    assert "failed: no answer within 0.05 s" in logged[0]


def test_the_bytes_in_the_queue_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "QUEUE_BYTES", 10_000)
    monkeypatch.setattr(export, "BATCH_BYTES", 4000)

    async def test(stage: Stage, collector: OtlpCollector) -> None:
        for _ in range(20):
            stage.exporter.add(span(text="x" * 1000))
        stage.exporter.add(span(text="x" * 5000))
        await stage.close()
        assert stage.dropped("queue_full") == 12
        assert [each.headers["content-length"] for each in collector.asked]
        assert max(len(each.body) for each in collector.asked) < 4500

    assert len(with_collector(test).spans) == 9


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500])
def test_what_a_collector_refuses_is_not_sent_again(status: int, logged: list[str]) -> None:
    async def test(stage: Stage, _: OtlpCollector) -> None:
        stage.exporter.add(span())
        await stage.until(lambda: stage.dropped("export_failed") == 1)
        stage.exporter.add(span())
        await stage.until(lambda: stage.dropped("export_failed") == 2)

    found = with_collector(test, [answer(status, b"planted details")], waits=(0.001,) * 3)
    assert len(found.asked) == 2
    assert len(logged) == 2, "once that it fails, once that spans are dropped"
    assert f"failed: HTTP status {status}" in logged[0]
    assert "planted" not in str(logged)


@pytest.mark.parametrize(
    "script",
    [[answer(429, retry_after="0")], [answer(503)], [cut]],
    ids=["429", "503", "cut"],
)
def test_an_outage_that_ends_in_time_loses_nothing(script: Script, logged: list[str]) -> None:
    async def test(stage: Stage, collector: OtlpCollector) -> None:
        stage.exporter.add(span())
        await stage.until(lambda: len(collector.asked) >= 2)
        collector.script = ACCEPTED
        await stage.until(lambda: stage.exported == 1)
        assert stage.dropped("export_failed") == 0

    with_collector(test, script, waits=(0.001,) * 1000)
    assert logged[-1].endswith("/v1/traces works again")


def test_a_long_outage_costs_its_batches_and_says_how_many(logged: list[str]) -> None:
    async def test(stage: Stage, collector: OtlpCollector) -> None:
        for _ in range(3):
            stage.exporter.add(span())
        await stage.until(lambda: stage.dropped("export_failed") == 3)
        collector.script = ACCEPTED
        stage.exporter.add(span())
        await stage.until(lambda: stage.exported == 1)

    with_collector(test, [answer(503)], waits=(0.001,))
    assert logged[-1].endswith("works again; dropped in the meantime: 3 spans")


def test_a_collector_that_is_not_there_is_named(logged: list[str]) -> None:
    async def body() -> None:
        async with OtlpCollector() as collector:
            url = collector.url
        stage = Stage(url, headers={"x": "planted"})
        stage.exporter.add(span())
        await stage.until(lambda: stage.dropped("export_failed") == 1)
        await stage.close(1)

    run(body())
    assert "the export of traces to http://127.0.0.1:" in logged[0]
    assert "planted" not in str(logged)


def test_what_a_collector_rejects_of_a_batch_is_counted() -> None:
    partial = json.dumps({"partialSuccess": {"rejectedSpans": "2"}}).encode()

    async def test(stage: Stage, _: OtlpCollector) -> None:
        for _number in range(5):
            stage.exporter.add(span())
        await stage.until(lambda: stage.exported == 3)
        assert stage.dropped("rejected") == 2

    with_collector(test, [answer(200, partial, connection="keep-alive"), keep], protocol="http/json")


def test_a_bug_in_an_export_does_not_end_the_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(stage: Stage, collector: OtlpCollector) -> None:
        encoding = stage.collector.encoding

        class Broken:
            def __getattr__(self, name: str) -> Any:
                if name == "spans" and not collector.opened.is_set():
                    raise RuntimeError("a bug")
                return getattr(encoding, name)

        monkeypatch.setattr(stage.collector, "encoding", Broken())
        stage.exporter.add(span())
        await stage.until(lambda: stage.dropped("export_failed") == 1)
        collector.opened.set()
        stage.exporter.add(span())
        await stage.until(lambda: stage.exported == 1)

    with_collector(test)


def test_metrics_are_exported_at_intervals_and_at_the_end(logged: list[str]) -> None:
    async def body() -> None:
        metrics = Metrics()
        async with OtlpCollector([answer(500)]) as server:
            collector = Collector(OtlpEndpoint(url=f"{server.url}/v1/metrics"))
            exporter = MetricExporter(collector, lambda: b"body", 0.005, metrics)
            exporter.start()
            exporter.start()
            async with asyncio.timeout(5):
                while len(server.asked) < 3:
                    await asyncio.sleep(0.001)
            server.script = ACCEPTED
            await close_all([exporter], [collector], 5)
            assert metrics.total(export.EXPORTED, signal="metrics") >= 1
            assert {each.body for each in server.asked} == {b"body"}

    run(body())
    assert ["failed: HTTP status 500" in each for each in logged] == [True, False]


def test_without_metrics_nothing_is_sent() -> None:
    async def body() -> None:
        async with OtlpCollector() as server:
            collector = Collector(OtlpEndpoint(url=server.url))
            asked: list[None] = []

            def body() -> bytes:
                asked.append(None)
                return b""

            exporter = MetricExporter(collector, body, 0.001, Metrics())
            exporter.start()
            while len(asked) < 3:
                await asyncio.sleep(0.001)
            await close_all([exporter], [collector], 5)
            assert server.asked == []

    run(body())


def test_exporters_that_were_never_used_close_at_once() -> None:
    async def body() -> None:
        stage = Stage("http://127.0.0.1:9")
        other = MetricExporter(stage.collector, bytes, 60, stage.metrics)
        await close_all([stage.exporter, other], [stage.collector], 5)
        await close_all([], [], 5)

    run(body())
