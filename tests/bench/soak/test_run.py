"""What the soak reports about a site: its log, its ledger, and the calls of its upstream."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from bench.soak.clients import Clients
from bench.soak.run import grown, log_problems, schedule_of
from bench.soak.sites import LedgerRow, Site

from bench.soak import run

TURN = {"level": "info", "event": "turn"}
STORE_AWAY = {"level": "error", "event": "store", "code": "unreachable"}


class SiteOfRows(Site):
    """A site without processes: what it would say is given."""

    unended_rows = 0
    metrics: dict[str, float]
    ledger_rows: list[LedgerRow]
    upstream_calls: Counter[str]

    async def unended(self) -> int:
        return self.unended_rows

    async def ledger(self) -> list[LedgerRow]:
        return self.ledger_rows

    def calls(self) -> Counter[str]:
        return self.upstream_calls


def site_of(folder: Path, lines: list[Any]) -> SiteOfRows:
    site = SiteOfRows(folder / "site")
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    site.log.write_text("".join(f"{text}\n" for text in texts))
    return site


def logged(folder: Path, *lines: Any, turns: int = 1) -> list[str]:
    return log_problems(site_of(folder, [TURN, *lines]), {"turns in the metrics": turns})


def test_a_log_with_turns_and_failures_of_the_store_is_right(tmp_path: Path) -> None:
    assert logged(tmp_path, STORE_AWAY, {"level": "warning", "event": "turn"}, turns=2) == []


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        {"level": "error", "event": "fault", "kind": "KeyError"},
        {"level": "error", "message": "something else"},
        {"level": "error", "event": "store", "code": "given_up"},
        {"level": "info", "exception": "KeyError"},
    ],
)
def test_every_other_error_in_the_log_is_reported(tmp_path: Path, line: Any) -> None:
    (problem,) = logged(tmp_path, line)
    assert problem.startswith("logged: ")


def test_a_turn_that_the_log_does_not_have_is_reported(tmp_path: Path) -> None:
    assert logged(tmp_path, turns=2) == ["the log has 1 turns, the metrics 2"]


def totals_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, calls: Counter[str], *rows: LedgerRow, **changes: Any
) -> list[str]:
    """Compare these rows with one turn that its client has seen complete."""
    site = site_of(folder, [])
    site.ledger_rows, site.upstream_calls = [*rows], calls
    site.unended_rows = changes.get("unended", 0)

    async def metrics_of(_: Site) -> dict[str, dict[str, float]]:
        return {"penstock_turns_total": {"": changes.get("metrics", float(len(rows)))}}

    monkeypatch.setattr(run, "metrics_of", metrics_of)

    async def compare() -> list[str]:
        async with aiohttp.ClientSession() as session:
            clients = Clients(site, session, "1")
            clients.outcomes["resp_1"] = ("t1", "completed")
            problems: list[str] = []
            await run.totals_of(site, clients, problems)
            return problems

    return asyncio.run(compare())


ROW = LedgerRow("resp_1", "completed", 2)


@pytest.mark.parametrize(
    ("calls", "row", "changes", "problem"),
    [
        (2, ROW, {}, ""),
        (1, ROW, {}, ""),
        (3, ROW, {}, "2 attempts, 3 calls"),
        (0, ROW, {}, "2 attempts, 0 calls"),
        (1, LedgerRow("resp_1", "failed", 1), {}, "the ledger says failed"),
        (1, LedgerRow("resp_2", "completed", 1), {}, "is not in the ledger"),
        (1, ROW, {"metrics": 2.0}, "the metrics have 2 turns, and the ledger 1"),
        (1, ROW, {"unended": 1}, "1 responses and turns have no end"),
    ],
)
def test_the_counts_are_compared(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls: int,
    row: LedgerRow,
    changes: dict[str, Any],
    problem: str,
) -> None:
    problems = totals_of(tmp_path, monkeypatch, Counter(t1=calls), row, **changes)
    assert problem in "; ".join(problems)
    assert bool(problems) == bool(problem)


def test_the_types_that_have_grown_the_most_come_first() -> None:
    found = grown([{"a": 1, "b": 5}, {"a": 9}, {"a": 3, "b": 6, "c": 9}])
    assert list(found.items()) == [("c", [0, 9]), ("a", [1, 3]), ("b", [5, 6])]
    assert grown([{"a": 1}]) == {}


def test_an_hour_warms_up_until_all_caches_are_full_and_a_short_run_for_a_third() -> None:
    short, hour = schedule_of(1.5, "1"), schedule_of(60, "1")
    assert (short.warm_up, hour.warm_up) == (30, 2400)
    assert set(short.not_judged) - set(hour.not_judged) == {"responses"}
    assert short.sample_every < hour.sample_every
