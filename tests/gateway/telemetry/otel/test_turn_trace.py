"""What a turn's trace notes while the turn runs, and how an upstream is called."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.presets import PRESETS
from penstock.dialects.registry import RENDERED
from penstock.errors import NetworkError, RateLimitError
from penstock.gateway.telemetry.otel.attributes import GenAiServer
from penstock.gateway.telemetry.otel.trace_context import TraceContext, read_context
from penstock.gateway.telemetry.otel.turn_trace import TurnTrace, genai_server, genai_servers
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.request import CreateResponse
from penstock.upstream.attempts import Attempt
from penstock.upstream.target import UpstreamTarget
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.telemetry.otel.ended import verdict

CONTEXT = TraceContext(b"trace_0123456789", b"span_012", True, "a=1")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def begun(clock: Clock, **options: Any) -> TurnTrace:
    watch = Stopwatch(clock)
    clock.now += 1
    return TurnTrace(CONTEXT, None, CreateResponse(), watch, clock=lambda: 5_000_000_000, **options)


def attempt(number: int = 1, name: str = "one", wait: float = 0.0) -> Attempt:
    return Attempt(FakeUpstream(name, answer("a")), f"m-at-{name}", "key", wait, number)


def test_a_turn_begins_when_its_watch_does() -> None:
    assert begun(Clock()).start == 4_000_000_000


def test_attempts_are_noted_one_after_the_other() -> None:
    clock = Clock()
    trace = begun(clock)
    headers = trace.attempt_begins(attempt(), {"x": "y"})
    assert headers == {"x": "y"}
    clock.now += 2
    trace.attempt_failed(RateLimitError("slow down", status=429))
    trace.attempt_begins(attempt(2, "two", wait=0.5), {})
    clock.now += 3
    trace.attempt_accepted(200)
    trace.attempt_answered()
    trace.conclude(verdict(first_output_ms=4000, upstream_id="up_1", duration_ms=6000))
    first, second = trace.attempts
    assert (first.target, first.model, first.number) == ("one", "m-at-one", 1)
    assert (first.began, first.ended, first.status) == (1, 3, 429)
    assert (first.error, first.result, first.is_failed) == ("rate_limit_exceeded",) * 2 + (True,)
    assert (first.upstream_id, first.first_output) == ("", -1)
    assert (second.target, second.number, second.wait) == ("two", 2, 0.5)
    assert (second.began, second.ended, second.status) == (3, 6, 200)
    assert (second.error, second.result, second.is_failed) == ("", "answered", False)
    assert (second.upstream_id, second.first_output) == ("up_1", 1.0)
    assert first.span_id != second.span_id


def test_an_upstream_gets_the_context_of_its_attempt_if_that_is_wanted() -> None:
    trace = begun(Clock(), is_propagated=True)
    headers = trace.attempt_begins(attempt(), {"traceparent": "the client's", "x": "y"})
    sent = read_context(headers)
    assert sent is not None
    assert (sent.trace_id, sent.span_id) == (CONTEXT.trace_id, trace.attempts[0].span_id)
    assert (sent.state, headers["x"]) == ("a=1", "y")


def test_an_answer_that_breaks_has_its_status() -> None:
    trace = begun(Clock())
    trace.attempt_begins(attempt(), {})
    trace.attempt_accepted(200)
    trace.attempt_failed(NetworkError("cut", phase="cut"))
    assert (trace.attempts[0].status, trace.attempts[0].error) == (200, "upstream_truncated")


def test_a_failure_before_the_request_is_no_attempt() -> None:
    trace = begun(Clock())
    trace.attempt_failed(NetworkError("no network"))
    trace.conclude(verdict(outcome="failed"))
    assert trace.attempts == []


@pytest.mark.parametrize(
    ("fields", "error", "is_failed"),
    [
        ({"outcome": "cancelled", "closer": "client", "code": "client_gone"}, "client_gone", False),
        ({"outcome": "cancelled", "closer": "client", "code": ""}, "cancelled", False),
        ({"outcome": "failed", "closer": "gateway", "code": "shutting_down"}, "shutting_down", True),
    ],
)
def test_an_attempt_that_is_stopped_ends_with_the_turn(
    fields: dict[str, Any], error: str, is_failed: bool
) -> None:
    clock = Clock()
    trace = begun(clock)
    trace.attempt_begins(attempt(), {})
    trace.attempt_accepted(200)
    clock.now += 4
    trace.conclude(verdict(**fields, first_output_ms=-1))
    (last,) = trace.attempts
    assert (last.ended, last.error, last.is_failed, last.status) == (5, error, is_failed, 200)
    assert last.result == "", "/metrics does not count it either"


@pytest.mark.parametrize(("closer", "error"), [("upstream", "upstream_error"), ("gateway", "")])
def test_an_upstream_that_fails_in_its_answer_has_failed(closer: str, error: str) -> None:
    trace = begun(Clock())
    trace.attempt_begins(attempt(), {})
    trace.attempt_accepted(200)
    trace.attempt_answered()
    trace.conclude(verdict(outcome="failed", closer=closer, code="upstream_error"))
    (last,) = trace.attempts
    assert (last.error, last.is_failed, last.result) == (error, bool(error), "answered")


@pytest.mark.parametrize(
    ("target", "server"),
    [
        ({"base_url": "https://a.example/v1"}, GenAiServer("openai", "a.example", 443)),
        ({"base_url": "http://a.example", "dialect": "responses"}, GenAiServer("openai", "a.example", 80)),
        ({"base_url": "http://[::1]:8000", "dialect": "anthropic"}, GenAiServer("anthropic", "::1", 8000)),
        ({"base_url": "http://a", "dialect": "gemini"}, GenAiServer("gcp.gemini", "a", 80)),
        ({"base_url": "http://a", "preset": "mistral"}, GenAiServer("mistral_ai", "a", 80)),
        ({"base_url": "http://a", "preset": "openrouter"}, GenAiServer("openrouter", "a", 80)),
    ],
)
def test_the_provider_of_a_target(target: dict[str, Any], server: GenAiServer) -> None:
    assert genai_server(UpstreamTarget(name="t", **target)) == server


def test_every_preset_and_every_dialect_has_a_provider() -> None:
    for preset in PRESETS:
        assert genai_server(UpstreamTarget(name="t", base_url="http://a", preset=preset)).provider
    for dialect in RENDERED:
        assert genai_server(
            UpstreamTarget(name="t", base_url="http://a", dialect=dialect)
        ).provider in PRESETS or (dialect == "gemini")


def test_the_built_in_model_is_a_server_without_an_address() -> None:
    target = UpstreamTarget(name="t", base_url="http://a")
    assert genai_servers((target,)) == {"demo": GenAiServer("penstock"), "t": GenAiServer("openai", "a", 80)}
