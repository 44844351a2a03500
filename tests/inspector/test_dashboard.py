"""The dashboard: sums of the ledger over time."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.fairness import HEAVY
from penstock.inspector import dashboard
from penstock.store.ledger import TurnRecord
from tests.cli.running import penstock
from tests.inspector.sites import Site, with_site
from tests.store.ledger_records import NOON

HOUR = 3600.0


async def fill(site: Site, *records: TurnRecord) -> None:
    for record in records:
        await site.gateway.store.admit(record)
        if record.ended_at is not None:
            site.gateway.store.settle_turn(record)


def turn(id: str, at: float, tenant: str = "anna", model: str = "m", **fields: Any) -> TurnRecord:
    record = TurnRecord(
        id=id,
        tenant=tenant,
        started_at=NOON + at,
        ended_at=NOON + at + 2,
        model=model,
        target="t",
        outcome="completed",
        input_tokens=100,
        cached_tokens=40,
        output_tokens=20,
        reasoning_tokens=5,
        cost=0.5,
        duration_ms=2000,
        first_output_ms=300,
    )
    return replace(record, **fields)


TURNS = (
    turn("a", 60),
    turn("b", 120, model="n", duration_ms=4000, first_output_ms=-1),
    turn("c", HOUR + 1, outcome="failed", code="upstream_timeout", closer="timeout"),
    turn("d", 2 * HOUR + 1, tenant="ben", cost=None),
    turn("e", 2 * HOUR + 2, tenant="ben", ended_at=None, outcome="running"),
)
SPAN = f"since={NOON}&until={NOON + 3 * HOUR - 1}"


def test_each_group_has_a_value_for_every_hour() -> None:
    async def scenario(site: Site) -> None:
        await fill(site, *TURNS)
        found = await site.get(f"dashboard?{SPAN}", who="root")
        assert found["times"] == ["2026-11-18T12:00Z", "2026-11-18T13:00Z", "2026-11-18T14:00Z"]
        first, second = found["groups"]
        assert (first["name"], first["turns"], first["failed"]) == ("m", [1, 1, 1], [0, 1, 0])
        assert (second["name"], second["turns"]) == ("n", [1, 0, 0])
        assert (first["input_tokens"], first["cached_tokens"]) == ([100] * 3, [40] * 3)
        assert (first["output_tokens"], first["reasoning_tokens"]) == ([20] * 3, [5] * 3)
        assert (first["cost"], first["unpriced"]) == ([0.5, 0.5, 0], [0, 0, 1])
        totals = found["totals"]
        assert (totals["turns"], totals["failed"], totals["cost"], totals["unpriced"]) == (4, 1, 1.5, 1)
        assert found["errors"] == [{"code": "upstream_timeout", "turns": 1}]

    with_site(scenario, keys=True)


def test_it_has_percentiles_by_group_and_over_time() -> None:
    async def scenario(site: Site) -> None:
        await fill(site, *TURNS)
        found = await site.get(f"dashboard?{SPAN}", who="root")
        durations = {each["group"]: each for each in found["latency"]["duration"]}
        assert (durations["m"]["count"], durations["n"]["count"]) == (3, 1)
        assert durations["m"]["p50"] == pytest.approx(2000, rel=0.06)
        assert durations["n"]["p99"] == pytest.approx(4000, rel=0.06)
        outputs = {each["group"]: each for each in found["latency"]["first_output"]}
        assert outputs.keys() == {"m"}
        overall = found["latency"]["overall"]
        assert overall["first_output"]["p50"] == pytest.approx(300, rel=0.06)
        assert overall["duration"]["p99"] == pytest.approx(4000, rel=0.06)
        over_time = found["latency_over_time"]
        assert over_time["times"] == found["times"]
        assert over_time["duration"]["p99"][0] == pytest.approx(4000, rel=0.06)
        assert over_time["first_output"]["p50"] == [pytest.approx(300, rel=0.06)] * 3

    with_site(scenario, keys=True)


@pytest.mark.parametrize(
    ("by", "names"),
    [("key", {"anna", "ben"}), ("outcome", {"completed", "failed"}), ("target", {"t"})],
)
def test_it_can_be_grouped_otherwise(by: str, names: set[str]) -> None:
    async def scenario(site: Site) -> None:
        await fill(site, *TURNS)
        found = await site.get(f"dashboard?{SPAN}&by={by}", who="root")
        assert {group["name"] for group in found["groups"]} == names
        assert {each["group"] for each in found["latency"]["duration"]} == names
        assert sum(sum(group["turns"]) for group in found["groups"]) == found["totals"]["turns"]

    with_site(scenario, keys=True)


def test_days_and_filters() -> None:
    async def scenario(site: Site) -> None:
        await fill(site, *TURNS, turn("old", -24 * HOUR))
        span = f"since={NOON - 30 * HOUR}&until={NOON + 3 * HOUR}"
        found = await site.get(f"dashboard?{span}&bucket=day", who="root")
        assert found["times"] == ["2026-11-17", "2026-11-18"]
        assert found["groups"][0]["turns"] == [1, 3]
        failed = await site.get(f"dashboard?{SPAN}&outcome=failed", who="root")
        assert failed["totals"]["turns"] == 1

    with_site(scenario, keys=True)


def test_many_hours_are_shown_as_days() -> None:
    async def scenario(site: Site) -> None:
        for days, bucket in ((8, "hour"), (9, "day")):
            found = await site.get(f"dashboard?since={NOON}&until={NOON + days * 24 * HOUR}&bucket=hour")
            assert found["bucket"] == bucket
            assert len(found["times"]) == (days * 24 + 1 if bucket == "hour" else days + 1)

    with_site(scenario)


def test_percentiles_of_more_than_two_days_are_those_of_days() -> None:
    async def scenario(site: Site) -> None:
        await fill(site, *TURNS)
        for hours, bucket, most in ((48, "hour", 49), (49, "day", 4)):
            query = f"since={NOON}&until={NOON + hours * HOUR}&bucket=hour"
            over_time = (await site.get(f"dashboard?{query}", who="root"))["latency_over_time"]
            assert over_time["bucket"] == bucket
            assert len(over_time["times"]) <= most
            assert over_time["duration"]["p99"][0] == pytest.approx(4000, rel=0.06)

    with_site(scenario, keys=True)


def test_everybody_sees_only_their_own_sums() -> None:
    async def scenario(site: Site) -> None:
        await fill(site, *TURNS)
        found = await site.get(f"dashboard?{SPAN}&by=key", who="ben")
        assert [group["name"] for group in found["groups"]] == ["ben"]
        assert (found["totals"]["turns"], found["errors"]) == (1, [])
        assert [each["group"] for each in found["latency"]["duration"]] == ["ben"]
        refused = await site.get(f"dashboard?{SPAN}&key=anna", who="ben", status=403)
        assert refused["error"]["param"] == "key"
        anna = await site.get(f"dashboard?{SPAN}&key=anna", who="root")
        assert anna["totals"]["turns"] == 3

    with_site(scenario, keys=True)


def test_nothing_is_zero() -> None:
    async def scenario(site: Site) -> None:
        found = await site.get("dashboard")
        assert found["groups"] == found["errors"] == []
        assert found["totals"]["turns"] == 0
        assert len(found["times"]) in (24, 25)
        assert set(found["latency_over_time"]["duration"]["p50"]) == {None}
        assert len((await site.get("dashboard?bucket=day"))["times"]) in (30, 31)

    with_site(scenario)


@pytest.mark.parametrize(
    "query",
    [
        "by=tenant",
        "bucket=month",
        "since=5&until=4",
        "since=1&bucket=hour",
        "since=0",
        "colour=red",
        "since=x",
    ],
)
def test_wrong_options_are_refused(query: str) -> None:
    async def scenario(site: Site) -> None:
        assert (await site.get(f"dashboard?{query}", status=400))["error"]["message"]

    with_site(scenario)


def test_many_groups_share_one_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "MOST_GROUPS", 2)

    async def scenario(site: Site) -> None:
        records = [turn(f"{n}-{m}", n, model=f"model {n}") for n in range(4) for m in range(5 - n)]
        await fill(site, *records)
        found = await site.get(f"dashboard?{SPAN}", who="root")
        assert [(group["name"], group["is_rest"], sum(group["turns"])) for group in found["groups"]] == [
            ("model 0", False, 5),
            ("model 1", False, 4),
            ("others", True, 5),
        ]
        assert [each["group"] for each in found["latency"]["duration"]] == ["model 0", "model 1"]

    with_site(scenario, keys=True)


def test_many_sums_are_drawn_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    original = dashboard._groups
    names: list[str] = []

    def noted(*args: Any) -> Any:
        names.append(threading.current_thread().name)
        return original(*args)

    monkeypatch.setattr(dashboard, "_groups", noted)
    monkeypatch.setattr(dashboard, "ITEM_WEIGHT", HEAVY)

    async def scenario(site: Site) -> None:
        await fill(site, turn("1", 1))
        assert (await site.get(f"dashboard?{SPAN}", who="root"))["totals"]["turns"] == 1

    with_site(scenario, keys=True)
    (name,) = names
    assert name.startswith("penstock-heavy")


def test_the_numbers_are_those_of_usage(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"

    async def scenario(site: Site) -> None:
        for body in ({"stream": True}, {"input": "think"}, {"store": False}):
            await site.ask(**body)
        await site.call("/v1/responses", method="POST", input="fail")
        await site.gateway.store.stats()  # what is read next is written
        found = await site.get("dashboard?by=model")
        printed = penstock("usage", "--by", "model", "--json", "--store", str(file)).stdout
        (row,) = map(json.loads, printed.splitlines())
        (group,) = found["groups"]
        assert group["name"] == row["group"]["model"]
        for name in dashboard._SUMS:
            assert sum(group[name]) == pytest.approx(row[name])
            assert found["totals"][name] == pytest.approx(row[name])
        usage = (await site.call("/v1/usage")).json["data"][0]
        assert {**found["totals"]} == usage

    with_site(scenario, file=file)
