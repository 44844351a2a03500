"""Figures of a sitting: samples of several lines, taken in turns, with a ratio, its spread and a target.

Absolute times depend on the machine and its other work, so a figure is compared only within one sitting. The
smallest of several samples counts, because other programs nearly always add to a cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import comb
from statistics import median
from typing import TypeVar

import msgspec

Measured = TypeVar("Measured")

LINES = {
    "penstock": "Penstock",
    "floor": "py-raw-translate",
    "agentic": "agentic-api",
}
"""The servers, with the names that are shown."""


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit for the ratio to a line, or for the value itself."""

    limit: float
    of: str = ""
    at_least: bool = False

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.limit:g}" + (f" × {LINES.get(self.of, self.of)}" if self.of else "")


class Figure(msgspec.Struct, omit_defaults=True):
    """One row: what was measured, of which lines, and how `ours` compares with `base`."""

    key: str
    title: str
    unit: str
    samples: dict[str, list[float]]
    ours: str = "penstock"
    base: str = "floor"
    target: Target | None = None
    by_median: bool = False
    """For costs that a busy machine can also reduce: a late server handles several chunks at once."""

    def best(self, line: str) -> float | None:
        """The sample that other programs disturbed least."""
        found = self.samples.get(line)
        if not found:
            return None
        if self.by_median:
            return median(found)
        return max(found) if self.target and self.target.at_least else min(found)

    def ratio(self, base: str = "") -> float | None:
        ours, other = self.best(self.ours), self.best(base or self.base)
        return ours / other if ours is not None and other is not None and other > 0 else None

    def spread(self) -> tuple[float, float] | None:
        """The smallest and the largest ratio of two samples of the same round."""
        pairs = zip(self.samples.get(self.ours, []), self.samples.get(self.base, []), strict=False)
        found = [ours / other for ours, other in pairs if other > 0]
        return (min(found), max(found)) if found else None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without a target, or without what it compares with."""
        if self.target is None:
            return None
        value = self.ratio(self.target.of) if self.target.of else self.best(self.ours)
        return None if value is None else self.target.holds(value)


def take_turns(sides: Mapping[str, Callable[[], Measured]], rounds: int) -> dict[str, list[Measured]]:
    """Measure each side once per round, in alternating order, so that a busy moment affects all of them."""
    found: dict[str, list[Measured]] = {name: [] for name in sides}
    for number in range(rounds):
        names = list(sides) if number % 2 == 0 else list(sides)[::-1]
        for name in names:
            found[name].append(sides[name]())
    return found


def fit(points: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the intercept and the slope of the line with the least squared error."""
    given = list(points)
    mean_x, mean_y = (sum(column) / len(given) for column in zip(*given, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in given) / sum((x - mean_x) ** 2 for x, _ in given)
    return mean_y - slope * mean_x, slope


def shown(value: float | None) -> str:
    """Three significant digits, without an exponent."""
    if value is None:
        return "–"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


HEADINGS = ("figure", "unit", "Penstock", "compared with", "ratio (spread)", "target", "met")


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """The table of a sitting, one figure per row."""
    return [
        (
            figure.title,
            figure.unit,
            shown(figure.best(figure.ours)),
            _others(figure),
            _ratio(figure),
            str(figure.target or ""),
            {True: "yes", False: "**no**", None: ""}[figure.is_met],
        )
        for figure in figures
    ]


def _others(figure: Figure) -> str:
    others = [line for line in figure.samples if line != figure.ours]
    return ", ".join(f"{LINES.get(line, line)} {shown(figure.best(line))}" for line in others)


def _ratio(figure: Figure) -> str:
    ratio, spread = figure.ratio(), figure.spread()
    if ratio is None or spread is None:
        return ""
    return f"{ratio:.2f} ({spread[0]:.2f} to {spread[1]:.2f})"


def as_text(headings: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """A table for a terminal."""
    plain = [[cell.replace("**", "") for cell in row] for row in (headings, *table)]
    widths = [max(map(len, column)) for column in zip(*plain, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in plain]
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(headings: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (headings, *table)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of ratios and, from their order alone, an interval that contains the true median with
    a probability of at least 95 % (if there are at least six)."""
    ordered, count = sorted(ratios), len(ratios)
    tails = accumulate(comb(count, below) / 2**count for below in range(count))
    outside = max(0, sum(tail <= 0.025 for tail in tails) - 1)
    return ordered[outside], median(ordered), ordered[count - 1 - outside]
