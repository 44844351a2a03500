"""What a collector gets about turns, whatever way they come in and however they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from penstock.errors import ConfigError, RateLimitError, ServerError
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import key_digest
from penstock.gateway.settings import ClientKey, Limits, Routing, Settings, TelemetrySettings
from penstock.gateway.telemetry.otel.telemetry import Telemetry
from penstock.gateway.telemetry.otel.trace_context import IN_MESSAGE
from penstock.gateway.turn.stop_reasons import SHUTTING_DOWN
from penstock.store.ledger import KeyLimits, TurnFilter
from penstock.store.memory import MemoryStore
from tests.client.server import answer as http_answer
from tests.client.server import stall
from tests.dialects.chat_streams import chunk
from tests.gateway.fake_upstreams import FakeUpstream, answer, paused_upstream
from tests.gateway.in_process import Caller, call, chain
from tests.gateway.scripts import call as tool_call
from tests.gateway.scripts import calls
from tests.gateway.telemetry.otel.collector import OtlpCollector, traced
from tests.gateway.upstream import frames
from tests.gateway.websocket_client import Conversation

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
PROMPT, ANSWER, ARGUMENTS, RULES, KEY = (
    "planted-prompt-quetzal",
    "planted-answer-ocelot",
    "planted-arguments-ibex",
    "planted-rules-heron",
    "sk-planted-7fQ2x9LmZt4w",
)
T = TypeVar("T")

CONTENT = TelemetrySettings(enabled=True, content=True)


def only(found: Sequence[T]) -> T:
    (each,) = found
    return each


def talks(text: str = "Hello") -> FakeUpstream:
    return FakeUpstream("one", answer(text))


# How a turn comes in


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_over_http_has_a_span_and_one_for_its_attempt(stream: bool) -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", stream=stream, headers={"x-request-id": "mine"})

    found = traced(test, talks())
    turn, attempt = only(found.turns), only(found.attempts)
    assert (turn.name, turn.parent_id, turn.is_error) == ("chat m", "", False)
    assert turn.attributes.get("gen_ai.request.stream") == (True if stream else None)
    assert ("gen_ai.response.time_to_first_chunk" in turn.attributes) == stream
    assert turn["penstock.outcome"] == "completed"
    assert turn["penstock.request_id"] == "mine"
    assert turn["penstock.terminal_sent"] is True
    assert turn["http.response.status_code"] == 200
    assert turn["gen_ai.response.finish_reasons"] == ["stop"]
    assert turn.resource["service.name"] == "penstock"
    assert turn.resource["service.instance.id"]
    assert (attempt.name, attempt.is_error) == ("chat m-at-one", False)
    assert (attempt.trace_id, attempt.parent_id) == (turn.trace_id, turn.span_id)
    assert turn.start <= attempt.start <= attempt.end <= turn.end
    assert attempt["gen_ai.request.model"] == "m-at-one"


def test_a_background_turn() -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", background=True, headers={"traceparent": PARENT})
        await gateway.turns.ended.wait()

    found = traced(test, talks())
    turn = only(found.turns)
    assert turn["penstock.background"] is True
    assert turn["penstock.outcome"] == "completed"
    assert (turn.trace_id, turn.parent_id) == (TRACE, SPAN)
    assert len(found.attempts) == 1


def test_a_compaction() -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, "/v1/responses/compact", model="m", input="Hi")

    found = traced(test, talks())
    assert only(found.turns)["penstock.outcome"] == "completed"
    assert len(found.attempts) == 1


def test_each_turn_of_a_websocket_has_its_own_trace() -> None:
    message = {IN_MESSAGE["traceparent"]: PARENT}

    async def test(gateway: Gateway) -> None:
        talk = Conversation(gateway)
        await talk.turn()
        await talk.turn(client_metadata=message)
        await talk.turn(generate=False)
        await talk.close()

    found = traced(test, talks())
    first, second, warm_up = found.turns
    assert first["gen_ai.request.stream"] is True
    assert first.parent_id == ""
    assert (second.trace_id, second.parent_id) == (TRACE, SPAN)
    assert len({each.trace_id for each in found.turns}) == 3
    assert warm_up["penstock.attempts"] == 0
    assert [each.trace_id for each in found.attempts] == [first.trace_id, second.trace_id]


def test_the_context_of_a_websocket_is_that_of_its_handshake() -> None:
    async def test(gateway: Gateway) -> None:
        talk = Conversation(gateway)
        talk.client.channel.headers["traceparent"] = PARENT
        await talk.turn()
        await talk.close()

    assert only(traced(test, talks()).turns).parent_id == SPAN


# How it ends


def test_a_fallback_has_a_span_for_each_attempt() -> None:
    down = FakeUpstream("one", ServerError("planted details", status=503), RateLimitError("slow", status=429))

    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", stream=True)

    settings = chain(down, FakeUpstream("two", answer("Hello")), limits=Limits(retries=0))
    found = traced(test, down, FakeUpstream("two", answer("Hello")), settings=settings)
    turn = only(found.turns)
    first, second = found.attempts
    assert not turn.is_error
    assert (turn["penstock.target"], turn["penstock.attempts"]) == ("two", 2)
    assert "fell_back" in turn["penstock.diagnostics"]
    assert (first["penstock.target"], first["http.response.status_code"], first.is_error) == (
        "one",
        503,
        True,
    )
    assert first["error.type"] == "server_error"
    assert (second["penstock.target"], second["http.request.resend_count"]) == ("two", 1)
    assert not second.is_error
    assert first.end <= second.start
    assert b"planted" not in found.bytes
    assert found.total("penstock.fallbacks") == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_that_its_upstream_refuses_is_an_error(stream: bool) -> None:
    async def test(gateway: Gateway) -> None:
        caller = await call(gateway, model="m", input="Hi", stream=stream)
        assert caller.status == 500

    down = FakeUpstream("one", ServerError("down", status=500))
    found = traced(test, down, settings=chain(down, limits=Limits(retries=0)))
    turn = only(found.turns)
    assert turn.is_error
    assert (turn["penstock.outcome"], turn["http.response.status_code"]) == ("refused", 500)
    assert turn["error.type"] == only(found.attempts)["error.type"]
    assert "gen_ai.response.finish_reasons" not in turn.attributes


def test_a_stream_that_breaks_is_an_error_with_what_was_said() -> None:
    broken = FakeUpstream("one", [frames(chunk({"content": ANSWER}), done=False)])

    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input=PROMPT, stream=True)

    settings = chain(broken, telemetry=CONTENT)
    found = traced(test, broken, settings=settings)
    turn = only(found.turns)
    assert turn.is_error
    assert (turn["penstock.outcome"], turn["error.type"]) == ("failed", "upstream_truncated")
    assert turn["gen_ai.response.finish_reasons"] == ["error"]
    assert ANSWER in turn["gen_ai.output.messages"]
    assert only(found.attempts).is_error


def test_a_client_that_disconnects_is_no_error_and_what_was_said_is_there() -> None:
    upstream, _ = paused_upstream()

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input=PROMPT, stream=True)
        await caller.received(b"delta")
        caller.disconnect()
        await caller.task

    found = traced(test, upstream, settings=chain(upstream, telemetry=CONTENT))
    turn, attempt = only(found.turns), only(found.attempts)
    assert (turn["penstock.outcome"], turn["penstock.closer"]) == ("cancelled", "client")
    assert turn["penstock.terminal_sent"] is False
    assert not turn.is_error
    assert "error.type" not in turn.attributes
    message = only(json.loads(turn["gen_ai.output.messages"]))
    assert message["parts"] == [{"type": "text", "content": "a"}]
    assert (attempt["error.type"], attempt.is_error) == ("client_gone", False)
    assert attempt.end >= attempt.start


def test_a_turn_that_is_cancelled_over_another_connection() -> None:
    upstream, _ = paused_upstream()

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", stream=True)
        await caller.received(b"delta")
        await call(gateway, f"/v1/responses/{caller.id}/cancel")
        await caller.task

    turn = only(traced(test, upstream).turns)
    assert (turn["penstock.outcome"], turn["penstock.terminal_sent"], turn.is_error) == (
        "cancelled",
        True,
        False,
    )


def test_a_shutdown_exports_the_turns_that_it_stops() -> None:
    upstream, _ = paused_upstream()

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", stream=True)
        await caller.received(b"delta")
        gateway.turns.stop(SHUTTING_DOWN)
        await caller.task

    found = traced(test, upstream)
    turn = only(found.turns)
    assert (turn["penstock.outcome"], turn["error.type"], turn.is_error) == ("failed", "shutting_down", True)


def test_a_turn_that_its_key_may_not_run_has_a_span_but_is_not_counted() -> None:
    key = "sk-penstock-anna"
    client = ClientKey(name="anna", digest=key_digest(key), limits=KeyLimits(requests_per_minute=1))
    upstream = talks()

    async def test(gateway: Gateway) -> None:
        headers = {"authorization": f"Bearer {key}"}
        assert (await call(gateway, model="m", input="Hi", headers=headers)).status == 200
        assert (await call(gateway, model="m", input="Hi", headers=headers)).status == 429

    found = traced(test, upstream, settings=chain(upstream, keys=(client,)))
    _, refused = found.turns
    assert (refused["penstock.outcome"], refused["error.type"]) == ("refused", "rate_limit_exceeded")
    assert refused["http.response.status_code"] == 429
    assert not refused.is_error
    assert refused["penstock.client"] == "anna"
    assert key.encode() not in found.bytes
    assert found.total("penstock.turns") == 1


# Traces


def test_a_client_continues_its_own_trace() -> None:
    async def test(gateway: Gateway) -> None:
        headers = {"traceparent": PARENT, "tracestate": "vendor=1"}
        await call(gateway, model="m", input="Hi", headers=headers)

    upstream = talks()
    found = traced(test, upstream)
    turn = only(found.turns)
    assert (turn.trace_id, turn.parent_id, turn.state) == (TRACE, SPAN, "vendor=1")
    assert upstream.headers == [{"traceparent": PARENT, "tracestate": "vendor=1"}], "passed on unchanged"


def test_an_upstream_gets_the_context_of_the_attempt_if_that_is_turned_on() -> None:
    upstream = talks()

    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", headers={"traceparent": PARENT})
        await call(gateway, model="m", input="Hi")

    settings = chain(upstream, telemetry=TelemetrySettings(enabled=True, propagate=True))
    found = traced(test, upstream, settings=settings)
    assert [each["traceparent"] for each in upstream.headers] == [
        f"00-{each.trace_id}-{each.span_id}-01" for each in found.attempts
    ]
    assert found.attempts[0].trace_id == TRACE


def test_what_the_client_does_not_sample_is_counted_and_has_no_span(verdicts: list[dict[str, Any]]) -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", headers={"traceparent": f"00-{TRACE}-{SPAN}-00"})

    found = traced(test, talks())
    assert found.spans == []
    assert found.total("penstock.turns") == 1
    assert verdicts[0]["trace_id"] == TRACE


def test_the_log_has_the_trace(verdicts: list[dict[str, Any]]) -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi")

    assert only(traced(test, talks()).turns).trace_id == verdicts[0]["trace_id"]


# Content


def with_everything() -> FakeUpstream:
    call = calls(tool_call(0, "c1", "run", json.dumps({"a": ARGUMENTS})))
    return FakeUpstream(
        "one", [frames(chunk({"content": f"{ANSWER} {KEY}"}), call, chunk(finish="tool_calls"))]
    )


async def ask_everything(gateway: Gateway) -> None:
    tools = [{"type": "function", "name": "run", "parameters": {"type": "object", "description": RULES}}]
    for stream in (True, False):
        await call(
            gateway,
            model="m",
            input=[{"role": "user", "content": f"{PROMPT} {KEY}"}],
            instructions=RULES,
            tools=tools,
            stream=stream,
            metadata={"note": PROMPT},
            headers={"authorization": f"Bearer {KEY}", "x-api-key": KEY},
        )
    await call(gateway, model="m", input=PROMPT, instructions=5)


def test_without_content_nothing_of_it_is_exported() -> None:
    upstream = with_everything()
    found = traced(ask_everything, upstream)
    assert len(found.turns) == 2
    assert only(found.turns[:1])["gen_ai.response.finish_reasons"] == ["tool_call"]
    for planted in (PROMPT, ANSWER, ARGUMENTS, RULES, KEY):
        assert planted.encode() not in found.bytes


def test_with_content_the_client_and_the_collector_see_the_same() -> None:
    upstream = with_everything()
    found = traced(ask_everything, upstream, settings=chain(upstream, telemetry=CONTENT))
    for turn in found.turns:
        message = only(json.loads(turn["gen_ai.output.messages"]))
        assert message == {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": f"{ANSWER} [key]"},
                {"type": "tool_call", "id": "c1", "name": "run", "arguments": {"a": ARGUMENTS}},
            ],
            "finish_reason": "tool_call",
        }
        assert PROMPT in turn["gen_ai.input.messages"]
        assert RULES in turn["gen_ai.system_instructions"]
    assert KEY.encode() not in found.bytes


# Numbers


def test_the_metrics_agree_with_those_of_the_gateway_and_the_ledger() -> None:
    down = FakeUpstream("one", ServerError("down", status=500), answer("Hello"), answer("again"))
    other = FakeUpstream("two", answer("Hello"))
    rows: list[Any] = []

    async def test(gateway: Gateway) -> None:
        for stream in (True, False, True):
            await call(gateway, model="m", input="Hi", stream=stream)
        page = await gateway.store.turns(TurnFilter(), after="", limit=50)
        rows.extend(page.turns)
        for kind in ("input", "output"):
            expected[kind] = gateway.metrics.total("penstock_tokens_total", kind=kind)
        expected["turns"] = gateway.metrics.total("penstock_turns_total")
        expected["attempts"] = gateway.metrics.total("penstock_upstream_attempts_total")

    expected: dict[str, float] = {}
    settings = chain(down, other, limits=Limits(retries=0))
    found = traced(test, down, other, settings=settings)
    assert found.total("penstock.turns") == expected["turns"] == len(rows) == 3
    assert found.total("penstock.upstream.attempts") == expected["attempts"] == 4
    for kind in ("input", "output"):
        total = sum(getattr(row, f"{kind}_tokens") for row in rows)
        assert found.total("penstock.tokens", gen_ai_token_type=kind) == expected[kind] == total > 0
    assert found.total("gen_ai.client.operation.duration") == 4
    assert found.total("gen_ai.server.request.duration") == 3


def test_an_ejection_is_counted() -> None:
    down = FakeUpstream("one", ServerError("down", status=500))
    other = FakeUpstream("two", answer("Hello"))

    async def test(gateway: Gateway) -> None:
        for _ in range(3):
            await call(gateway, model="m", input="Hi")

    routing = Routing(eject_after=2, eject_time=300.0)
    settings = chain(down, other, limits=Limits(retries=0), routing=routing)
    found = traced(test, down, other, settings=settings)
    assert found.total("penstock.ejections", penstock_target="one") == 1
    assert found.total("penstock.fallbacks", penstock_target="two") == 3
    assert [each["penstock.target"] for each in found.attempts] == ["one", "two", "one", "two", "two"]


# Never in the way


@pytest.mark.parametrize("script", [[stall], [http_answer(500)]], ids=["hangs", "fails"])
def test_a_collector_that_does_not_work_changes_no_answer(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.gateway.telemetry.otel.telemetry.FLUSH", 0.01)

    async def test(gateway: Gateway) -> None:
        for _ in range(3):
            assert (await call(gateway, model="m", input="Hi", stream=True)).text == "Hello"

    traced(test, talks(), collector=OtlpCollector(script))


def test_a_fault_in_the_telemetry_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("penstock.gateway.telemetry.otel.telemetry.attributes_of", broken)

    async def test(gateway: Gateway) -> None:
        assert (await call(gateway, model="m", input="Hi", stream=True)).text == "Hello"

    assert traced(test, talks()).spans == []


def test_a_fault_in_the_content_costs_only_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("penstock.gateway.telemetry.otel.telemetry.content_of", broken)

    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", stream=True)

    upstream = talks()
    found = traced(test, upstream, settings=chain(upstream, telemetry=CONTENT))
    assert only(found.turns)["penstock.outcome"] == "completed"


# Settings


def open_gateway(telemetry: TelemetrySettings, **environment: str) -> Telemetry | None:
    async def run() -> Telemetry | None:
        gateway = Gateway(Settings(telemetry=telemetry), store=MemoryStore(), environment=environment)
        found = gateway.telemetry
        await gateway.aclose()
        return found

    return asyncio.run(run())


def test_telemetry_is_off_unless_it_is_turned_on() -> None:
    assert open_gateway(TelemetrySettings(), OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9") is None
    assert open_gateway(TelemetrySettings(enabled=True)) is not None
    assert open_gateway(TelemetrySettings(enabled=True), OTEL_SDK_DISABLED="true") is None


def test_an_invalid_variable_is_an_error_only_if_telemetry_is_on() -> None:
    assert open_gateway(TelemetrySettings(), OTEL_TRACES_SAMPLER="x") is None
    with pytest.raises(ConfigError, match="OTEL_TRACES_SAMPLER"):
        open_gateway(TelemetrySettings(enabled=True), OTEL_TRACES_SAMPLER="x")


@pytest.mark.parametrize(("signal", "other"), [("traces", "metrics"), ("metrics", "traces")])
def test_one_signal_can_be_turned_off(signal: str, other: str) -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi")

    off: dict[str, Any] = {f"OTEL_{signal.upper()}_EXPORTER": "none"}
    found = traced(test, talks(), **off)
    assert {asked.target for asked in found.asked} == {f"/v1/{other}"}


def test_the_attributes_of_the_resource() -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi")

    attributes = "deployment.environment.name=test,service.instance.id=mine"
    found = traced(test, talks(), OTEL_SERVICE_NAME="edge", OTEL_RESOURCE_ATTRIBUTES=attributes)
    resource = only(found.turns).resource
    assert resource["service.name"] == "edge"
    assert resource["service.instance.id"] == "mine"
    assert resource["deployment.environment.name"] == "test"
    assert resource["telemetry.sdk.language"] == "python"


def test_each_worker_is_an_instance_of_its_own() -> None:
    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi")

    upstream = talks()
    settings = chain(upstream, workers=2)
    found = traced(test, upstream, settings=settings, OTEL_RESOURCE_ATTRIBUTES="service.instance.id=mine")
    instance = only(found.turns).resource["service.instance.id"]
    assert instance.startswith("mine-")


def test_a_reload_turns_content_and_telemetry_on_and_off() -> None:
    upstream = talks()
    on, off = TelemetrySettings(enabled=True), TelemetrySettings()

    async def test(gateway: Gateway) -> None:
        upstreams = gateway.services
        for telemetry in (CONTENT, on, off, on):
            gateway.reload(chain(upstream, telemetry=telemetry))
            gateway.services = upstreams
            await call(gateway, model="m", input=PROMPT)

    found = traced(test, upstream, settings=chain(upstream, telemetry=on))
    assert ["gen_ai.input.messages" in each.attributes for each in found.turns] == [True, False, False]


def test_variables_that_cannot_be_used_change_nothing_in_a_reload() -> None:
    async def run() -> None:
        gateway = Gateway(Settings(), store=MemoryStore(), environment={"OTEL_TRACES_SAMPLER": "x"})
        services = gateway.services
        with pytest.raises(ConfigError, match="OTEL_TRACES_SAMPLER"):
            gateway.reload(Settings(telemetry=CONTENT))
        assert gateway.services is services
        assert gateway.telemetry is None
        await gateway.aclose()

    asyncio.run(run())
