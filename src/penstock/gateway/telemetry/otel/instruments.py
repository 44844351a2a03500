"""The metrics for OpenTelemetry: those of the GenAI conventions, and the counters of `/metrics`.

They are counted from the same verdicts as the ledger and `/metrics`, so that the numbers agree. Like there,
each attribute has a limited number of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.gateway.telemetry.metrics import OTHER, Declared, Metrics
from penstock.gateway.telemetry.otel.attributes import OPERATION, EndedAttempt, EndedTurn
from penstock.gateway.telemetry.otel.otlp import HistogramPoint, NumberPoint, OtlpMetric
from penstock.store.records import LOCAL

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
    *(0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
_TOKENS = tuple(float(4**power) for power in range(14))
"""The bounds that the conventions advise, for durations, first tokens and numbers of tokens."""

_GEN_AI = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")

EJECTIONS = "penstock.ejections"
FELL_BACK = "fell_back"
"""The diagnostic of such a turn."""

INSTRUMENTS: Mapping[str, Declared] = {
    "gen_ai.client.operation.duration": Declared(
        "histogram",
        "Duration of each request to an upstream.",
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type"),
        _SECONDS,
        "s",
    ),
    "gen_ai.client.token.usage": Declared(
        "histogram",
        "Input and output tokens of each turn.",
        (*_GEN_AI, "gen_ai.token.type"),
        _TOKENS,
        "{token}",
    ),
    "gen_ai.server.request.duration": Declared(
        "histogram", "Duration of each turn.", (*_GEN_AI, "error.type"), _SECONDS, "s"
    ),
    "gen_ai.server.time_to_first_token": Declared(
        "histogram", "Time from the request to the first output of a completed turn.", _GEN_AI, _FIRST, "s"
    ),
    "penstock.turns": Declared(
        "counter",
        "Turns that ended.",
        ("gen_ai.request.model", "penstock.target", "penstock.outcome", "penstock.closer", "penstock.client"),
        unit="{turn}",
    ),
    "penstock.upstream.attempts": Declared(
        "counter",
        "Requests to upstreams, by result.",
        ("penstock.target", "penstock.result"),
        unit="{request}",
    ),
    "penstock.fallbacks": Declared(
        "counter",
        "Turns that another target than the preferred one has answered.",
        ("gen_ai.request.model", "penstock.target"),
        unit="{turn}",
    ),
    EJECTIONS: Declared(
        "counter",
        "Times that a target was left out for a while, because it kept failing.",
        ("penstock.target",),
        unit="{ejection}",
    ),
    "penstock.tokens": Declared(
        "counter",
        "Tokens used: `input` with `cached` ones, and `output` with those of `reasoning`.",
        ("gen_ai.request.model", "gen_ai.token.type", "penstock.client"),
        unit="{token}",
    ),
    "penstock.cost": Declared(
        "counter",
        "Cost of the turns in dollars, as far as prices are known.",
        ("gen_ai.request.model", "penstock.client"),
        unit="{USD}",
    ),
}


def record_turn(
    registry: Metrics, turn: EndedTurn, attempts: Sequence[EndedAttempt], *, is_public: bool
) -> None:
    """Count a turn that has ended. `is_public`: the names of its models are defined by the operator or by an
    upstream. A name that a client made up is not an attribute."""
    verdict, client = turn.verdict, turn.verdict.client or LOCAL
    model = verdict.model if is_public else OTHER
    common = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": turn.server.provider,
        "gen_ai.request.model": model,
        "gen_ai.response.model": verdict.upstream_model if is_public else OTHER,
    }
    error = verdict.code if verdict.outcome in ("failed", "refused") else ""
    seconds = verdict.duration_ms / 1000
    registry.observe("gen_ai.server.request.duration", seconds, **common, **{"error.type": error})
    if verdict.first_output_ms >= 0 and verdict.outcome in ("completed", "incomplete"):
        registry.observe("gen_ai.server.time_to_first_token", verdict.first_output_ms / 1000, **common)
    for kind in ("input", "output"):
        if tokens := getattr(verdict, f"{kind}_tokens"):
            registry.observe("gen_ai.client.token.usage", tokens, **common, **{"gen_ai.token.type": kind})
    named = {"gen_ai.request.model": model, "penstock.client": client}
    for kind in ("input", "cached", "output", "reasoning"):
        tokens = getattr(verdict, f"{kind}_tokens")
        registry.count("penstock.tokens", tokens, **named, **{"gen_ai.token.type": kind})
    registry.count("penstock.cost", turn.cost or 0.0, **named)
    ended = {
        "penstock.target": verdict.target,
        "penstock.outcome": verdict.outcome,
        "penstock.closer": verdict.closer,
    }
    registry.count("penstock.turns", **named, **ended)
    if FELL_BACK in verdict.diagnostics:
        target = {"gen_ai.request.model": model, "penstock.target": verdict.target}
        registry.count("penstock.fallbacks", **target)
    for attempt in attempts:
        _record_attempt(registry, attempt, is_public)


def _record_attempt(registry: Metrics, attempt: EndedAttempt, is_public: bool) -> None:
    if attempt.result:
        target = {"penstock.target": attempt.target, "penstock.result": attempt.result}
        registry.count("penstock.upstream.attempts", **target)
    labels = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": attempt.server.provider,
        "gen_ai.request.model": attempt.model if is_public else OTHER,
        "error.type": attempt.error,
    }
    seconds = 0.0 if attempt.ended is None else attempt.ended - attempt.began
    registry.observe("gen_ai.client.operation.duration", seconds, **labels)


def otlp_metrics(registry: Metrics) -> Iterator[OtlpMetric]:
    """Yield what was counted so far. An attribute without a value is left out."""
    counted = registry.counted()
    for name, declared in INSTRUMENTS.items():
        numbers = counted.counters.get(name, ())
        histograms = counted.histograms.get(name, ())
        if numbers or histograms:
            yield OtlpMetric(
                name=name,
                description=declared.help,
                unit=declared.unit,
                bounds=declared.bounds,
                numbers=[NumberPoint(_attributes(declared, key), value) for key, value in numbers],
                histograms=[
                    HistogramPoint(_attributes(declared, key), counts, total)
                    for key, counts, total in histograms
                ],
            )


def _attributes(declared: Declared, key: Sequence[str]) -> dict[str, str]:
    return {label: value for label, value in zip(declared.labels, key, strict=True) if value}


def as_markdown() -> str:
    """Return the table of docs/telemetry.md."""
    rows = []
    for name, each in INSTRUMENTS.items():
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{name}` | {each.kind}, {each.unit} | {each.help} | {labels} |")
    return "\n".join(["| metric | kind, unit | meaning | attributes |", "|---|---|---|---|", *rows])
