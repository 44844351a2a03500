"""`GET inspector/api/dashboard`: the ledger in sums over time, by model, key, target or outcome.

Every number is a sum of the ledger, as in `penstock usage`. A client sees the sums of its own turns, an
administrator those of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec.structs import replace

from penstock.fairness import ITEM_WEIGHT
from penstock.gateway.api.ledger import turn_filter
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import choice, desk_of, invalid
from penstock.inspector.day_sums import Question, day_sums_of
from penstock.store.latencies import LatencyHistogram, TurnLatencies, latencies_by, sum_of_latencies
from penstock.store.ledger import HOUR, Dimension, TurnFilter, TurnTotals, hour_of, sum_of, time_name

Bucket = Literal["hour", "day"]

MOST_HOURS, MOST_DAYS = 200, 1000
"""More hours would take too long, and nobody could read the plot: then there are days."""
MOST_LATENCY_HOURS = 48
MOST_GROUPS = 20
"""Groups with their own curve; the rest is one group."""
_HOURS: dict[Bucket, int] = {"hour": 1, "day": 24}
_USUAL_SPAN: dict[Bucket, int] = {"hour": 24 * HOUR, "day": 30 * 24 * HOUR}
_SUMS = (
    *("turns", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
    *("cost", "unpriced"),
)
_PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
_KINDS = ("first_output", "duration")


async def show_dashboard(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    by = cast(Dimension, choice(exchange, "by", "model", "key", "target", "outcome"))
    bucket = cast(Bucket, choice(exchange, "bucket", "hour", "day"))
    filter = turn_filter(exchange.query, key)
    filter, bucket = _bounded(filter, bucket, gateway.clock(), is_given=bool(exchange.query.get("since")))
    times = _times(filter, bucket)
    latency_bucket = _latency_bucket(filter, bucket)
    question = Question(replace(filter, since=0.0, until=None), (by, bucket), (by, latency_bucket))
    assert filter.until is not None
    found = await day_sums_of(gateway).read(gateway.store, question, filter.since, filter.until)
    sums, latencies = found.totals, found.latencies
    causes = await gateway.store.causes(filter)

    def dashboard() -> dict[str, Any]:
        grouped, over_time = latencies_by(by, latencies), latencies_by(latency_bucket, latencies)
        overall = sum_of_latencies({}, grouped)
        return {
            "bucket": bucket,
            "times": times,
            "groups": _groups(sums, by, bucket, times),
            "totals": sum_of(sums),
            "errors": [{"code": code, "turns": turns} for code, turns in causes],
            "latency": {
                "overall": {kind: _values(getattr(overall, kind)) for kind in _KINDS},
                "first_output": _percentiles((each.group[by], each.first_output) for each in grouped),
                "duration": _percentiles((each.group[by], each.duration) for each in grouped),
            },
            "latency_over_time": _over_time(over_time, latency_bucket, _times(filter, latency_bucket)),
        }

    weight = ITEM_WEIGHT * (len(sums) + len(latencies))
    await desk_of(gateway).answer(exchange, weight, dashboard)


# Times


def _bounded(filter: TurnFilter, bucket: Bucket, now: float, *, is_given: bool) -> tuple[TurnFilter, Bucket]:
    """Return the filter with a beginning and an end, and whether to show hours or days. `is_given`: the
    client has sent a beginning."""
    until = now if filter.until is None else filter.until
    since = filter.since if is_given else max(until - _USUAL_SPAN[bucket], 0.0)
    if since >= until:
        raise invalid("since", "must be before until")
    hours = (until - since) / HOUR
    if hours > MOST_DAYS * 24:
        raise invalid("since", f"must be at most {MOST_DAYS} days before until")
    return replace(filter, since=since, until=until), "day" if hours > MOST_HOURS else bucket


def _latency_bucket(filter: TurnFilter, bucket: Bucket) -> Bucket:
    """Return whether to show percentiles for hours or days: those of one hour say little about a week."""
    assert filter.until is not None
    return "day" if filter.until - filter.since > MOST_LATENCY_HOURS * HOUR else bucket


def _times(filter: TurnFilter, bucket: Bucket) -> list[str]:
    """Return the names of all hours or days, also of those without turns."""
    assert filter.until is not None
    step = _HOURS[bucket]
    first = hour_of(filter.since) // step * step
    return [time_name(bucket, hour) for hour in range(first, hour_of(filter.until) + 1, step)]


# Sums


def _groups(
    sums: Sequence[TurnTotals], by: Dimension, bucket: Bucket, times: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a curve for each group, those with the most turns first."""
    found: dict[str, list[TurnTotals]] = {}
    for each in sums:
        found.setdefault(each.group[by], []).append(each)
    names = sorted(found, key=lambda name: (-sum(each.turns for each in found[name]), name))
    groups = [_curve(name, found[name], bucket, times) for name in names[:MOST_GROUPS]]
    rest = [each for name in names[MOST_GROUPS:] for each in found[name]]
    if rest:
        groups.append({**_curve("others", rest, bucket, times), "is_rest": True})
    return groups


def _curve(name: str, sums: Iterable[TurnTotals], bucket: Bucket, times: Sequence[str]) -> dict[str, Any]:
    places = {time: place for place, time in enumerate(times)}
    curves: dict[str, list[Any]] = {field: [0] * len(times) for field in _SUMS}
    for each in sums:
        place = places.get(each.group[bucket])
        if place is not None:
            for field, curve in curves.items():
                curve[place] += getattr(each, field)
    return {"name": name, "is_rest": False, **curves}


# Latencies


def _percentiles(histograms: Iterable[tuple[str, LatencyHistogram]]) -> list[dict[str, Any]]:
    """Return the percentiles of each group that has any, those with the most turns first."""
    filled = [(name, histogram) for name, histogram in histograms if histogram.count]
    most = sorted(filled, key=lambda each: (-each[1].count, each[0]))[:MOST_GROUPS]
    return [{"group": name, **_values(each), "count": each.count} for name, each in most]


def _values(histogram: LatencyHistogram) -> dict[str, float | None]:
    """Return the milliseconds within which so many percent of the turns were."""
    values = {name: histogram.percentile(percent) for name, percent in _PERCENTILES.items()}
    return {name: None if value is None else round(value, 1) for name, value in values.items()}


def _over_time(latencies: Iterable[TurnLatencies], bucket: Bucket, times: Sequence[str]) -> Mapping[str, Any]:
    """Return the percentiles of each hour or day; None where there are no turns."""
    found = {each.group[bucket]: each for each in latencies}
    curves: dict[str, Any] = {"bucket": bucket, "times": times}
    for kind in _KINDS:
        rows = [_values(getattr(found[time], kind)) if time in found else {} for time in times]
        curves[kind] = {name: [row.get(name) for row in rows] for name in _PERCENTILES}
    return curves
