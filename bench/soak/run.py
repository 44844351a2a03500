"""One site under load for a while: the load, the faults, the samples, and what must hold at the end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from time import monotonic

import aiohttp
from msgspec import Struct

from bench.soak.clients import TOO_LATE, Clients
from bench.soak.faults import Faults
from bench.soak.sampling import NEEDS_PRUNING, NOT_JUDGED, SLACK, Sampler, gauges, metrics_of
from bench.soak.sites import SITES, Site
from bench.soak.trend import Trend, thin, trend

CLIENTS = 10
"""At the same time, for each site."""
PAUSE = 0.6
"""Seconds of a client between two actions, on average."""
_POINTS = 240
"""Of each series that is kept."""
_IDLE_SECONDS = 20.0
"""After the load: idle upstream connections are closed after 15 seconds."""
_SETTLE_SECONDS = 60.0
_MOST_SHOWN = 40
_PRUNED_SECONDS = 1500.0
"""A run of this length has pruned its store a few times after the warm-up."""
_FILLED = 2 / 3
"""When all bounded caches of a gateway are full, as a part of an hour."""
_EXPECTED_CODES = frozenset(
    ("unreachable", "busy", "io", "full", "timeout", "closed", "redis_unreachable", "taken_over", "slow")
)
"""Of errors in the log that say that the store has failed, which the faults cause."""
_MOST_TOO_LATE = 0.2
"""For each failed turn."""
_MOST_UNKNOWN = 0.2
"""For each burst of a key with limits: on a busy machine, the ledger may need more than a second."""
_MOST_MISSED = 0.1
"""Of the samples: those that cannot be taken while a store is away."""
_LEFT = {"files": 10.0, "threads": 12.0, "tasks": 3.0, "upstream_connections": 1.0, "store_connections": 6.0}
"""By how much the site at rest may differ from the site before the load: threads of a pool stay, and so do
connections of pools. A leak has thousands of chances to exceed this."""


class Schedule(Struct, frozen=True):
    """How long and how hard. Times are in seconds."""

    seconds: float
    seed: str
    pause: float
    """Of a client between two actions, on average."""
    fault_every: float
    sample_every: float
    census_every: float

    @property
    def warm_up(self) -> float:
        return _FILLED * self.seconds if self.seconds >= _PRUNED_SECONDS else self.seconds / 3

    @property
    def not_judged(self) -> tuple[str, ...]:
        return NOT_JUDGED if self.seconds >= _PRUNED_SECONDS else (*NOT_JUDGED, NEEDS_PRUNING)


def schedule_of(minutes: float, seed: str, pause: float = PAUSE) -> Schedule:
    return Schedule(
        seconds=60 * minutes,
        seed=seed,
        pause=pause,
        fault_every=max(3.0, min(15.0, 15 * minutes / 10)),
        sample_every=max(1.0, min(5.0, minutes)),
        census_every=max(6.0, min(60.0, 6 * minutes)),
    )


class Result(Struct):
    """What one site did, and what was wrong."""

    name: str
    seconds: float
    counts: dict[str, int]
    faults: dict[str, int]
    totals: dict[str, int]
    """Turns as the metrics, the log and the ledger count them, and calls of the upstream."""
    trends: dict[str, Trend]
    types: dict[str, list[float]]
    """Types of objects that have grown the most: their number after the warm-up, and at the end."""
    before: dict[str, float]
    after: dict[str, float]
    """The site at rest, before the load and after it."""
    samples: dict[str, list[tuple[float, float]]]
    problems: list[str]

    @property
    def is_passed(self) -> bool:
        return not self.problems


async def run_all(folder: Path, names: list[str], plan: Schedule) -> list[Result]:
    """Run the sites at the same time."""
    sites = [SITES[name](folder / name) for name in names]
    try:
        return await asyncio.gather(*(run(site, plan) for site in sites))
    finally:
        for site in sites:
            site.end()


async def run(site: Site, plan: Schedule) -> Result:
    """Start a site, run the load and the faults, and check everything."""
    await site.start()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        clients = Clients(site, session, f"{plan.seed}/{site.name}")
        faults = Faults(site, clients, f"{plan.seed}/{site.name}/faults")
        before = await _at_rest(site)
        sampler = Sampler(site)
        began = monotonic()
        async with (
            clients.running(CLIENTS, plan.pause),
            sampler.running(plan.sample_every, plan.census_every),
            faults.running(plan.fault_every),
        ):
            await _until(site, clients, faults, sampler, began + plan.seconds)
    seconds = monotonic() - began
    after = await _at_rest(site)
    problems = [*clients.problems]
    missed = sampler.missed.total()
    if missed > _MOST_MISSED * seconds / plan.sample_every:
        problems.append(f"{missed} samples could not be taken: {dict(sampler.missed)}")
    trends = {
        name: trend(later, slack=SLACK[name])
        for name, series in sampler.samples.items()
        if len(later := [each for each in series if each[0] >= plan.warm_up]) > 1
    }
    problems += [
        f"{name} grows: {each.growth:+.1f} at a level of {each.level:.1f} (allowed: {each.allowed:.1f})"
        for name, each in trends.items()
        if name not in plan.not_judged and not each.is_flat
    ]
    problems += [
        f"at rest, there are {after[name]:g} {name}; before the load, there were {before[name]:g}"
        for name, slack in _LEFT.items()
        if after[name] > before[name] + slack * len(site.pids)
    ]
    unknown = clients.counts["refused: budget not known"]
    if unknown > _MOST_UNKNOWN * clients.counts["limited"]:
        problems.append(
            f"{unknown} turns of a key with a budget were refused because the ledger was too slow"
        )
    failed = clients.counts["turns seen as failed"]
    if clients.counts[TOO_LATE] > _MOST_TOO_LATE * failed:
        problems.append(f"{clients.counts[TOO_LATE]} {TOO_LATE}, and only {failed} failed turns")
    totals = await totals_of(site, clients, problems)
    code = await site.stop()
    if code:
        problems.append(f"the gateway has ended with the exit code {code}")
    problems += log_problems(site, totals)
    return Result(
        name=site.name,
        seconds=round(seconds, 1),
        counts=dict(sorted(clients.counts.items())),
        faults=dict(sorted(faults.counts.items())),
        totals=totals,
        trends=trends,
        types=grown([types for at, types in sampler.types if at >= plan.warm_up]),
        before=before,
        after=after,
        samples={
            name: [(round(at, 1), round(value, 2)) for at, value in thin(series, _POINTS)]
            for name, series in sampler.samples.items()
        },
        problems=problems[:_MOST_SHOWN],
    )


async def _until(site: Site, clients: Clients, faults: Faults, sampler: Sampler, end: float) -> None:
    """Wait, and say now and then how it goes."""
    said = 0.0
    while monotonic() < end:
        await asyncio.sleep(min(1.0, max(0.0, end - monotonic())))
        if not site.is_running:
            clients.report("the gateway has ended")
            return
        if monotonic() > said + 30:
            said = monotonic()
            last = {name: round(series[-1][1], 1) for name, series in sampler.samples.items() if series}
            print(
                f"{site.name}: {end - said:.0f} s left, {clients.counts['turns']} turns, "
                f"{faults.counts.total()} faults, {clients.counts['problems']} problems, {last}",
                flush=True,
            )
            for problem in clients.problems[-2:]:
                print(f"  {problem[:300]}", flush=True)


async def _at_rest(site: Site) -> dict[str, float]:
    """Run a few turns, so that everything that a gateway loads later is loaded; wait, and take a sample."""
    await site.upstream_answers()
    async with aiohttp.ClientSession() as session:
        clients = Clients(site, session, "rest")
        await clients.try_each_model()
        if clients.problems:
            raise AssertionError(clients.problems)
    deadline = monotonic() + _SETTLE_SECONDS
    while (await gauges(site))["penstock_turns_running"] or await site.unended():
        if monotonic() > deadline:
            break  # `totals_of` reports it
        await asyncio.sleep(0.2)
    await asyncio.sleep(_IDLE_SECONDS)
    return {name: round(value, 1) for name, value in (await Sampler(site).take()).items()}


async def totals_of(site: Site, clients: Clients, problems: list[str]) -> dict[str, int]:
    """Compare what clients, the upstream, the metrics and the ledger have counted."""
    if unended := await site.unended():
        problems.append(f"{unended} responses and turns have no end")
    rows = {row.id: row for row in await site.ledger()}
    calls = site.calls()
    allowed = Counter[str]()
    """Attempts by the name of a turn, which may have run again under its idempotency key."""
    for id, (name, _) in clients.outcomes.items():
        allowed[name] += rows[id].attempts if id in rows else 0
    for id, (name, outcome) in clients.outcomes.items():
        row = rows.get(id)
        if row is None:
            problems.append(f"{name} ({id}) is not in the ledger")
        elif outcome and row.outcome != outcome:
            problems.append(f"{name} ({id}) ended as {outcome}; the ledger says {row.outcome}")
        elif calls[name] > allowed[name] or (row.outcome == "completed" and not calls[name]):
            problems.append(f"{name} ({id}): {allowed[name]} attempts, {calls[name]} calls of the upstream")
    turns = (await metrics_of(site)).get("penstock_turns_total", {})
    attempts = sum(row.attempts for row in rows.values())
    if calls.total() > attempts:
        problems.append(f"{calls.total()} calls of the upstream, {attempts} attempts in the ledger")
    if sum(turns.values()) != len(rows):
        problems.append(f"the metrics have {sum(turns.values()):.0f} turns, and the ledger {len(rows)}")
    return {
        "turns in the metrics": int(sum(turns.values())),
        "turns in the ledger": len(rows),
        "turns of which clients know the id": len(clients.outcomes),
        "attempts in the ledger": attempts,
        "calls of the upstream": calls.total(),
    }


def log_problems(site: Site, totals: dict[str, int]) -> list[str]:
    """Return what a log must not have, and count its turns."""
    problems, verdicts, errors = [], 0, Counter[str]()
    with site.log.open() as lines:
        for line in lines:
            try:
                fields = json.loads(line)
            except ValueError:
                problems.append(f"logged: {line.strip()[:500]}")
                continue
            verdicts += fields.get("event") == "turn"
            if fields.get("level") == "error" or "exception" in fields or fields.get("event") == "fault":
                errors[str(fields.get("code"))] += 1
                if not (fields.get("event") == "store" and fields.get("code") in _EXPECTED_CODES):
                    problems.append(f"logged: {line.strip()[:500]}")
    totals["turns in the log"] = verdicts
    totals |= {f"errors in the log: {code}": number for code, number in errors.items()}
    if verdicts != totals["turns in the metrics"]:
        problems.append(f"the log has {verdicts} turns, the metrics {totals['turns in the metrics']}")
    return problems


def grown(types: list[dict[str, int]]) -> dict[str, list[float]]:
    """Return the types of which there are the most more at the end."""
    if len(types) < 2:
        return {}
    first, last = types[0], types[-1]
    more = sorted(last, key=lambda name: first.get(name, 0) - last[name])[:12]
    return {name: [first.get(name, 0), last[name]] for name in more}
