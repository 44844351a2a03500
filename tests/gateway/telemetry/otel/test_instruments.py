"""The metrics for OpenTelemetry: names and bounds of the conventions, a limited number of series."""

from __future__ import annotations

import re

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes

from penstock.gateway.telemetry.metrics import MOST_VALUES, Metrics
from penstock.gateway.telemetry.otel.instruments import INSTRUMENTS, as_markdown, otlp_metrics, record_turn
from penstock.gateway.telemetry.otel.otlp import OtlpMetric
from tests.gateway.telemetry.otel import ended

NAMES = {value for value in vars(gen_ai_metrics).values() if isinstance(value, str)}
LABELS = {
    value
    for module in (gen_ai_attributes, error_attributes)
    for value in vars(module).values()
    if isinstance(value, str)
}


def recorded(registry: Metrics) -> dict[str, OtlpMetric]:
    return {each.name: each for each in otlp_metrics(registry)}


def test_names_attributes_and_bounds_are_those_of_the_conventions() -> None:
    for name, declared in INSTRUMENTS.items():
        assert name.startswith("penstock.") or name in NAMES
        assert all(label.startswith("penstock.") or label in LABELS for label in declared.labels)
        assert (declared.kind == "histogram") == bool(declared.bounds)
        assert list(declared.bounds) == sorted(set(declared.bounds))
    tokens = INSTRUMENTS["gen_ai.client.token.usage"].bounds
    assert (len(tokens), tokens[0], tokens[-1]) == (14, 1, 67_108_864)
    assert INSTRUMENTS["gen_ai.client.operation.duration"].bounds[-1] == 81.92


def test_before_a_turn_has_ended_there_is_nothing() -> None:
    assert recorded(Metrics(INSTRUMENTS)) == {}


def test_a_turn_is_counted() -> None:
    registry = Metrics(INSTRUMENTS)
    failed = ended.attempt(result="upstream_error", error="upstream_error")
    other = ended.attempt(number=2, target="two", began=1.0, ended=1.25)
    for _ in range(2):
        record_turn(
            registry,
            ended.turn(target="two", cached_tokens=3, diagnostics=["fell_back"]),
            [failed, other],
            is_public=True,
        )
    found = recorded(registry)
    assert found["penstock.turns"].numbers[0].attributes == {
        "gen_ai.request.model": "m",
        "penstock.target": "two",
        "penstock.outcome": "completed",
        "penstock.closer": "upstream",
        "penstock.client": "local",
    }
    assert found["penstock.turns"].numbers[0].value == 2
    assert found["penstock.fallbacks"].numbers[0].value == 2
    assert found["penstock.cost"].numbers[0].value == 0.5
    tokens = {each.attributes["gen_ai.token.type"]: each.value for each in found["penstock.tokens"].numbers}
    assert tokens == {"input": 20, "cached": 6, "output": 10}
    attempts = {
        (each.attributes["penstock.target"], each.attributes["penstock.result"]): each.value
        for each in found["penstock.upstream.attempts"].numbers
    }
    assert attempts == {("one", "upstream_error"): 2, ("two", "answered"): 2}
    durations = {
        each.attributes.get("error.type"): (sum(each.counts), each.total)
        for each in found["gen_ai.client.operation.duration"].histograms
    }
    assert durations == {"upstream_error": (2, 1.0), None: (2, 0.5)}
    (first,) = found["gen_ai.server.time_to_first_token"].histograms
    assert (sum(first.counts), first.total) == (2, 0.4)
    usage = {
        each.attributes["gen_ai.token.type"]: each.total
        for each in found["gen_ai.client.token.usage"].histograms
    }
    assert usage == {"input": 20, "output": 10}
    (request,) = found["gen_ai.server.request.duration"].histograms
    assert request.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
    }


def test_a_turn_that_fails_has_no_first_token() -> None:
    registry = Metrics(INSTRUMENTS)
    record_turn(registry, ended.turn(outcome="failed", code="upstream_error"), [], is_public=True)
    found = recorded(registry)
    assert "gen_ai.server.time_to_first_token" not in found
    (request,) = found["gen_ai.server.request.duration"].histograms
    assert request.attributes["error.type"] == "upstream_error"


def test_a_retry_at_the_same_target_is_no_fallback() -> None:
    registry = Metrics(INSTRUMENTS)
    record_turn(registry, ended.turn(), [ended.attempt(), ended.attempt(number=2)], is_public=True)
    assert "penstock.fallbacks" not in recorded(registry)


def test_an_attempt_that_was_stopped_is_measured_but_has_no_result() -> None:
    registry = Metrics(INSTRUMENTS)
    stopped = ended.attempt(result="", error="client_gone")
    record_turn(registry, ended.turn(outcome="cancelled"), [stopped], is_public=True)
    found = recorded(registry)
    assert "penstock.upstream.attempts" not in found
    assert found["gen_ai.client.operation.duration"].histograms


def test_a_name_that_a_client_made_up_is_no_attribute() -> None:
    registry = Metrics(INSTRUMENTS)
    turn = ended.turn(model="planted", upstream_model="planted")
    record_turn(registry, turn, [ended.attempt(model="planted")], is_public=False)
    assert "planted" not in str(list(otlp_metrics(registry)))


def test_the_number_of_series_is_limited() -> None:
    registry = Metrics(INSTRUMENTS)
    for number in range(3 * MOST_VALUES):
        turn = ended.turn(
            model=f"m{number}", upstream_model=f"u{number}", code=f"c{number}", outcome="failed"
        )
        record_turn(registry, turn, [ended.attempt(model=f"u{number}")], is_public=True)
    for metric in otlp_metrics(registry):
        assert len([*metric.numbers, *metric.histograms]) <= 4 * (MOST_VALUES + 1)


def test_the_table_of_the_documentation_has_every_metric() -> None:
    rows = as_markdown().splitlines()[2:]
    assert [re.match(r"\| `([\w.]+)`", row)[1] for row in rows] == list(INSTRUMENTS)  # type: ignore[index]
