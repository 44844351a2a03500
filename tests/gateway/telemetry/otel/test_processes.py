"""Gateways in processes of their own, and collectors that work, hang, or are not there."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from tests.client.server import answer, in_a_thread, stall
from tests.dialects.chat_streams import chunk
from tests.gateway.running import PLANTED, SECRET_ANSWER, SECRET_KEY, gateway
from tests.gateway.telemetry.otel.collector import OtlpCollector, variables, wait_until
from tests.gateway.telemetry.prometheus import parse
from tests.gateway.upstream import ScriptedUpstream, begun, said, streamed, until_gone
from tests.gateway.websocket_client import talking
from tests.gateway.workers.processes import answered_by

pytestmark = pytest.mark.e2e

CONFIG = """
passthrough = "chat"
[telemetry]
enabled = true
[limits]
retries = 0
[models.safe]
targets = ["chat/down", "other/safe"]
[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
[targets.other]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""
HEADER = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{SECRET_KEY}"}


def test_every_way_in_and_out_is_exported_and_nothing_of_the_content(tmp_path: Path) -> None:
    upstream, collector, gone = ScriptedUpstream(), OtlpCollector(), threading.Event()
    upstream.play("m", streamed(*said(SECRET_ANSWER)))
    upstream.play("safe", streamed(*said(SECRET_ANSWER)))
    upstream.play("down", [answer(503, {"error": {"message": f"{SECRET_KEY} is too busy"}})])
    upstream.play("cut", begun(chunk({"content": SECRET_ANSWER})))
    upstream.play("endless", [*begun(chunk({"content": SECRET_ANSWER})), until_gone(gone)])
    with in_a_thread(upstream), in_a_thread(collector):
        environment = {**variables(collector.url), **HEADER, "UPSTREAM_KEY": SECRET_KEY}
        with gateway(tmp_path, config=CONFIG.format(url=upstream.url), environment=environment) as running:
            assert running.stream("m").last["status"] == "completed"
            assert running.whole("m").status == 200
            assert running.stream("safe").last["status"] == "completed"
            assert running.stream("cut").last["status"] == "failed"
            assert running.whole("down").status >= 500
            with running.live("endless") as live:
                live.until(SECRET_ANSWER.encode())
            assert gone.wait(10)
            with talking(running) as talk:
                talk.response("m")
            assert running.whole("m", background=True).status == 200
            wait_until(lambda: len(collector.turns) == 8)
            running.signal(signal.SIGTERM)
            assert running.process.wait(20) == 0
            verdicts = [line for line in running.log if line.get("event") == "turn"]
    outcomes = [each["penstock.outcome"] for each in collector.turns]
    assert sorted(outcomes) == ["cancelled", *["completed"] * 5, "failed", "refused"]
    assert sorted(outcomes) == sorted(line["outcome"] for line in verdicts)
    assert {each.trace_id for each in collector.turns} == {line["trace_id"] for line in verdicts}
    assert len(collector.attempts) == 9
    assert [each["http.response.status_code"] for each in collector.attempts if each.is_error].count(503) == 2
    assert {each["server.port"] for each in collector.attempts} == {upstream.port}
    assert collector.total("penstock.turns") == 8
    assert collector.total("penstock.fallbacks") == 1
    exported = b"".join(each.body for each in collector.asked)
    assert [planted for planted in PLANTED if planted.encode() in exported] == []
    assert {each.headers["authorization"] for each in collector.asked} == {f"Bearer {SECRET_KEY}"}


def test_each_worker_exports_its_own_turns(tmp_path: Path) -> None:
    collector = OtlpCollector()
    config = "[telemetry]\nenabled = true\ncontent = true\n"
    with in_a_thread(collector):
        environment = variables(
            collector.url, OTEL_SERVICE_NAME="edge", OTEL_EXPORTER_OTLP_PROTOCOL="http/json"
        )
        with gateway(tmp_path, "--workers", "2", config=config, environment=environment) as running:
            for _ in range(200):
                if len(answered_by(running)) == 2:
                    break
                assert running.stream("demo", "say exactly: hi").text == "hi"
            assert answered_by(running) == {1, 2}
            running.signal(signal.SIGTERM)
            assert running.process.wait(30) == 0
            turns = [line for line in running.log if line.get("event") == "turn"]
    assert {each.trace_id for each in collector.turns} == {line["trace_id"] for line in turns}
    assert len({each.resource["service.instance.id"] for each in collector.turns}) == 2
    assert {each.resource["service.name"] for each in collector.turns} == {"edge"}
    assert collector.total("penstock.turns") == len(turns)


@pytest.mark.parametrize("is_there", [True, False], ids=["hangs", "is not there"])
def test_a_collector_that_does_not_answer_stops_nobody(tmp_path: Path, is_there: bool) -> None:
    collector = OtlpCollector([stall])
    config = "[telemetry]\nenabled = true\n[limits]\ndrain = 1\n"
    environment = {"OTEL_BSP_MAX_QUEUE_SIZE": "2", "OTEL_EXPORTER_OTLP_TIMEOUT": "60000"}
    with in_a_thread(collector):
        environment |= variables(collector.url if is_there else "http://127.0.0.1:9")
        with gateway(tmp_path, config=config, environment=environment) as running:
            for _ in range(5):
                assert running.stream("demo", "say exactly: hi").text == "hi"
            samples = parse(running.ask(path="/metrics", method="GET").body)
            dropped = [
                value for (name, _), value in samples.items() if name == "penstock_telemetry_dropped_total"
            ]
            assert sum(dropped) >= 1
            running.signal(signal.SIGTERM)
            assert running.process.wait(20) == 0
            warnings = [line["message"] for line in running.log if line.get("event") == "telemetry"]
    assert 1 <= len(warnings) <= 4
    assert any("is dropping spans" in each for each in warnings)
