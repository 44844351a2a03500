"""The result of the soak as JSON, as a chart, and as the generated part of docs/soak.md."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.charts import panels
from bench.figures import as_markdown, shown
from bench.report import RESULTS, machine, with_parts
from bench.soak.run import CLIENTS, Result, Schedule
from penstock.version import VERSION

RESULT, CHART = RESULTS / "soak.json", RESULTS / "soak.svg"
PAGE = Path(__file__).parents[2] / "docs" / "soak.md"
TITLES = {
    "rss_mib": "memory, MiB (resident)",
    "uss_mib": "memory, MiB (of these processes alone)",
    "files": "open files and connections",
    "sockets": "connections of them",
    "upstream_connections": "connections to the upstream",
    "store_connections": "connections to the store",
    "threads": "threads",
    "tasks": "tasks of the event loop",
    "objects": "objects that the garbage collector tracks",
    "responses": "stored responses",
}
"""What is judged, in the order of the tables."""
CHARTED = ("rss_mib", "files", "upstream_connections", "tasks", "objects", "responses")
SITES = {"sqlite": "SQLite, one process", "postgres": "PostgreSQL and Redis, two workers"}


class Soak(msgspec.Struct):
    """A whole run."""

    date: str
    commit: str
    version: str
    machine: str
    load_average: float
    """Of the last 15 minutes."""
    plan: Schedule
    clients: int
    """Of each site."""
    sites: list[Result]
    notes: list[str] = []

    @property
    def is_passed(self) -> bool:
        return all(site.is_passed for site in self.sites)


def soak_of(plan: Schedule, sites: list[Result]) -> Soak:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return Soak(
        date=datetime.now(UTC).date().isoformat(),
        commit=commit.stdout.strip(),
        version=VERSION,
        machine=machine(),
        load_average=os.getloadavg()[2],
        plan=plan,
        clients=CLIENTS,
        sites=sites,
    )


def save(soak: Soak, file: Path) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(soak), indent=1) + b"\n")


def stored(file: Path = RESULT) -> Soak | None:
    return msgspec.json.decode(file.read_bytes(), type=Soak) if file.exists() else None


def chart(soak: Soak) -> str:
    series = {
        TITLES[name]: {
            SITES[site.name]: [(at / 60, value) for at, value in site.samples.get(name, ())]
            for site in soak.sites
        }
        for name in CHARTED
    }
    title = f"{soak.plan.seconds / 60:.0f} minutes of load and faults; shaded: the warm-up"
    return panels(title, series, x_label="minutes", from_x=soak.plan.warm_up / 60)


def page_parts(soak: Soak) -> dict[str, str]:
    """Return the generated parts of the page, by name."""
    return {"soak": "\n\n".join([_summary(soak), _trends(soak), _at_rest(soak), _counts(soak)])}


def _summary(soak: Soak) -> str:
    turns = sum(site.totals["turns in the ledger"] for site in soak.sites)
    faults = sum(sum(site.faults.values()) for site in soak.sites)
    verdict = "Nothing grew, and every count was right." if soak.is_passed else "The run found problems."
    run = (
        f"{soak.plan.seconds / 60:.0f} minutes on {soak.date}, Penstock {soak.version}, commit "
        f"`{soak.commit[:12]}`, seed {soak.plan.seed}: {turns:,} turns of {soak.clients} clients per site, "
        f"and {faults:,} faults. {verdict}"
    )
    where = f"{soak.machine}; load average of the last 15 minutes {soak.load_average:.1f}."
    problems = [f"- {site.name}: {problem}" for site in soak.sites for problem in site.problems]
    return "\n\n".join([run, where, *soak.notes, *(["\n".join(problems)] if problems else [])])


def _trends(soak: Soak) -> str:
    table = []
    for name, title in TITLES.items():
        for site in soak.sites:
            found = site.trends.get(name)
            if found is not None:
                share = found.growth / found.level if found.level else 0.0
                growth, allowed = f"{found.growth:+.1f} ({share:+.1%})", f"+{found.allowed:.1f}"
                table.append((title, SITES[site.name], shown(found.level), growth, allowed))
    return as_markdown(("what", "site", "level", "growth in an hour", "allowed"), table)


def _at_rest(soak: Soak) -> str:
    names = ("files", "sockets", "upstream_connections", "store_connections", "threads", "tasks")
    table = [
        (TITLES[name], SITES[site.name], f"{site.before[name]:g}", f"{site.after[name]:g}")
        for name in names
        for site in soak.sites
    ]
    return as_markdown(("at rest", "site", "before the load", "after it"), table)


def _counts(soak: Soak) -> str:
    groups = {
        "totals": "Turns and calls",
        "counts": "What clients did and saw",
        "faults": "Faults",
    }
    found = []
    for field, title in groups.items():
        columns = [getattr(site, field) for site in soak.sites]
        names = sorted({name for column in columns for name in column})
        rows = [(name, *(f"{column.get(name, 0):,}" for column in columns)) for name in names]
        found.append(as_markdown((title, *(SITES[site.name] for site in soak.sites)), rows))
    return "\n\n".join(found)


def publish() -> None:
    """Write the chart and the page from the stored result."""
    soak = stored()
    if soak is not None:
        CHART.write_text(chart(soak))
        PAGE.write_text(with_parts(PAGE.read_text(), page_parts(soak)))
