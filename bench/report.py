"""The result of a sitting as JSON, as charts, and as the generated parts of docs/performance.md."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench import charts, layers
from bench.figures import HEADINGS, LINES, Figure, as_markdown, rows, shown

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
NAMES = {**LINES, "before": "Penstock, before"}
BARS = ("flood", "paced-64", "paced-256", "request-1k", "first-event", "idle")
"""The figures of the first chart."""


class Result(msgspec.Struct):
    """A sitting."""

    date: str
    machine: str
    rounds: int
    load_average: tuple[float, float]
    """Of one minute, at the beginning and at the end."""
    figures: list[Figure]
    lags: dict[str, list[tuple[int, float]]]
    layers: dict[str, float]
    system_share: dict[str, float]
    notes: list[str]

    @property
    def by_key(self) -> dict[str, Figure]:
        return {figure.key: figure for figure in self.figures}


def machine() -> str:
    """Describe the machine without naming it."""
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    model = found[1] if found else platform.machine()
    return f"{os.cpu_count()} cores ({model}), {platform.system()}, Python {platform.python_version()}"


def save(result: Result, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def stored(name: str) -> Result | None:
    file = RESULTS / f"{name}.json"
    return msgspec.json.decode(file.read_bytes(), type=Result) if file.exists() else None


def comparison(before: Result | None, now: Result | None) -> str:
    """Before and after: the value, and the ratio, which is the part that can be compared across sittings."""
    first = before.by_key if before else {}
    last = now.by_key if now else {}
    table = [
        (figure.title, figure.unit, _cell(first.get(key)), _cell(last.get(key)), str(figure.target or "–"))
        for key, figure in {**first, **last}.items()
    ]
    return as_markdown(("figure", "unit", "before", "now", "target"), table)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    ratio = figure.ratio()
    return shown(figure.best(figure.ours)) + (f" ({shown(ratio)} ×)" if ratio is not None else "")


def sitting(result: Result | None) -> str:
    if result is None:
        return "Not measured yet: run `make bench`."
    notes = "".join(f"\n- {note}" for note in result.notes)
    low, high = sorted(result.load_average)
    how = f"{result.rounds} rounds, load average {low:.1f} to {high:.1f}"
    return f"Measured on {result.date}: {result.machine}; {how}." + (f"\n{notes}" if notes else "")


def layer_table(before: Result | None, now: Result | None) -> str:
    columns = [
        dict(layers.rows(each.layers, each.by_key, each.system_share)) if each else {}
        for each in (before, now)
    ]
    names = {**columns[0], **columns[1]}
    table = [(name, *(column.get(name, "–") for column in columns)) for name in names]
    return as_markdown(("layer, µs of CPU per chunk", "before", "now"), table)


def parts(before: Result | None, now: Result | None) -> dict[str, str]:
    """The generated parts of the page, by name."""
    return {
        "sitting": sitting(now),
        "table": as_markdown(HEADINGS, rows(now.figures)) if now else "",
        "before": sitting(before),
        "comparison": comparison(before, now),
        "layers": layer_table(before, now),
    }


def with_parts(page: str, contents: Mapping[str, str]) -> str:
    """Replace what is between the markers `<!-- bench: NAME -->` and `<!-- end of bench -->`."""
    for name, content in contents.items():
        marker = f"<!-- bench: {name} -->"
        head, found, tail = page.partition(marker)
        if not found or "<!-- end of bench -->" not in tail:
            raise ValueError(f"the page has no part {name!r}")
        rest = tail.partition("<!-- end of bench -->")[2]
        page = f"{head}{marker}\n{content}\n<!-- end of bench -->{rest}"
    return page


def pictures(before: Result | None, now: Result | None) -> dict[str, str]:
    """The charts, by file name."""
    latest = now or before
    if latest is None:
        return {}
    groups = {}
    for key in BARS:
        if figure := latest.by_key.get(key):
            values = {line: figure.best(line) for line in LINES if line in figure.samples}
            if before and now and key in before.by_key:
                values = {"before": before.by_key[key].best("penstock"), **values}
            groups[f"{figure.title}, {figure.unit}"] = {k: v for k, v in values.items() if v is not None}
    curves: dict[str, list[tuple[int, float]]] = dict(latest.lags)
    if before and now and "penstock" in before.lags:
        curves = {"before": before.lags["penstock"], **curves}
    title = "Delay of a chunk by the number of streams, one chunk per 20 ms"
    labels = {"x_label": "streams", "y_label": "ms, 99th percentile (logarithmic); dashed: 50 ms"}
    return {
        "cost.svg": charts.bars("Cost by line; shorter is better", groups, NAMES),
        "lag.svg": charts.lines(title, curves, NAMES, limit=50, **labels),
    }


def publish() -> None:
    """Write the charts and the page from the stored results."""
    before, now = stored("before"), stored("lab")
    for name, picture in pictures(before, now).items():
        (RESULTS / name).write_text(picture)
    PAGE.write_text(with_parts(PAGE.read_text(), parts(before, now)))
