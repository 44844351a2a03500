"""Whether a series of samples is flat."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

HOUR = 3600.0
SHARE = 0.05
"""How much of its level a value may grow in an hour."""
_MOST_POINTS = 400
"""Of a series: the number of pairs is the square of it."""


class Trend(Struct, frozen=True):
    """How a value develops after the warm-up."""

    level: float
    """The median."""
    per_hour: float
    """The median of the slopes between all pairs of samples (Theil and Sen): outliers do not change it."""
    growth: float
    """In an hour; if less than a quarter of it was measured, in that time."""
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed


def trend(samples: Sequence[tuple[float, float]], *, slack: float = 0.0) -> Trend:
    """Return the trend of samples, each a time in seconds and a value, which may grow by `SHARE` of its level
    or by `slack`, whichever is more."""
    if len(samples) < 2:
        raise ValueError("a trend needs at least two samples")
    thinned = thin(samples, _MOST_POINTS)
    level = median(value for _, value in samples)
    slope = median(
        (later - value) / (after - at)
        for number, (at, value) in enumerate(thinned)
        for after, later in thinned[number + 1 :]
    )
    span = samples[-1][0] - samples[0][0]
    return Trend(
        level=level,
        per_hour=slope * HOUR,
        growth=slope * (HOUR if span >= HOUR / 4 else span),
        allowed=max(SHARE * abs(level), slack),
    )


def thin(samples: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Return at most this many samples, evenly distributed, with the first and the last."""
    if len(samples) <= most:
        return [*samples]
    step = (len(samples) - 1) / (most - 1)
    return [samples[round(number * step)] for number in range(most)]
