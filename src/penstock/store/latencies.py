"""How long turns take: histograms of the time to the first output, and of the whole turn.

The sums of an hour or a day have a histogram as a text of marks, two for each turn: two letters stand for a
bucket, digits after them for how often it occurs. A turn is added by appending its marks, in the statement
that adds it to the sums, so it costs no statement of its own; texts are added to each other in the same way.
Now and then a text is replaced by a shorter one with the same meaning.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from zlib import crc32

from msgspec import Struct

_DAY_MS = 24 * 3600 * 1000


def _bounds() -> tuple[int, ...]:
    """Return the least value of each bucket. A bucket is a tenth as wide as its least value, or one
    millisecond. The last one has everything from a day on."""
    bounds = [0, 1]
    while bounds[-1] < _DAY_MS:
        bounds.append(bounds[-1] + max(bounds[-1] // 10, 1))
    return tuple(bounds)


BOUNDS = _bounds()
"""Milliseconds. Marks are stored: the bounds never change."""
DURATIONS = 13 * 26
"""The number of the first mark for durations. Those before are for first outputs."""
_SHORTEN_EVERY = 128
"""Turns after which a text is made shorter, on average. It has no more marks than these turns and all buckets
together."""

_MARKS = tuple(chr(65 + number // 26) + chr(97 + number % 26) for number in range(26 * 26))
_COUNTED = re.compile("([A-Z][a-z])([0-9]+)")
_PAIRS = {mark: memoryview(mark.encode()).cast("H")[0] for mark in _MARKS}
"""Each mark as an integer of two bytes, which is how marks are counted: with a hundred thousand turns,
comparing integers is several times faster than cutting a text."""
_NUMBERS = {pair: number for number, pair in enumerate(_PAIRS.values())}


def bucket_of(milliseconds: int) -> int:
    return bisect_right(BOUNDS, max(milliseconds, 0)) - 1


def marks_of(first_output_ms: int, duration_ms: int) -> str:
    """Return what a turn that has ended adds to the histograms of its hour and its day."""
    duration = _MARKS[DURATIONS + bucket_of(duration_ms)]
    return duration if first_output_ms < 0 else _MARKS[bucket_of(first_output_ms)] + duration


def compact(text: str) -> str:
    """Return a shorter text with the same meaning."""
    counts = sorted((_NUMBERS[pair], count) for pair, count in _count([text]).items())
    return "".join(_MARKS[number] + (str(count) if count > 1 else "") for number, count in counts)


def shortens(id: str) -> bool:
    """Return whether to make the texts shorter that this turn was added to. The id decides, because asking
    the database how long a text is would cost more than adding to it."""
    return crc32(id.encode(errors="replace")) % _SHORTEN_EVERY == 0


def _count(texts: Iterable[str]) -> Mapping[int, int]:
    """Return how often each mark occurs; marks as in `_PAIRS`."""
    counted: list[tuple[str, str]] = []
    plain: list[str] = []
    for text in texts:
        if text.isalpha():
            plain.append(text)
            continue
        parts = _COUNTED.split(text)  # marks that occur once, a mark, its number, marks that occur once, ...
        plain += parts[::3]
        counted += zip(parts[1::3], parts[2::3], strict=True)
    counts = Counter(memoryview("".join(plain).encode()).cast("H"))
    for mark, digits in counted:
        counts[_PAIRS[mark]] += int(digits)
    return counts


class LatencyHistogram(Struct, frozen=True):
    """How many turns took how long."""

    counts: Mapping[int, int]
    """The number of turns in each bucket of `BOUNDS` that has any."""

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def percentile(self, percent: float) -> float | None:
        """Return the milliseconds within which so many percent of the turns are; None without turns.

        It is the middle of the bucket that contains this turn, so it is wrong by at most 5 %, whatever the
        times are. Interpolation between the bounds could be wrong by 10 %.
        """
        rank = max(math.ceil(self.count * percent / 100), 1)
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return _middle(bucket)
        return None


def _middle(bucket: int) -> float:
    """Return the value whose relative distance from both ends of a bucket is the same."""
    low = BOUNDS[bucket]
    high = BOUNDS[bucket + 1] - 1 if bucket + 1 < len(BOUNDS) else low
    return 2 * low * high / (low + high) if high > low else float(low)


class TurnLatencies(Struct, frozen=True, kw_only=True):
    """The times of the turns that have ended, for one combination of the requested dimensions."""

    group: Mapping[str, str]
    """The value of each dimension, in the requested order, as in `TurnTotals`."""
    marks: Mapping[int, int]
    """How often each mark occurs, as `_count` returns it."""

    @property
    def first_output(self) -> LatencyHistogram:
        """From the request to the first output, of turns that had any."""
        return self._histogram(range(DURATIONS))

    @property
    def duration(self) -> LatencyHistogram:
        return self._histogram(range(DURATIONS, len(_MARKS)))

    def _histogram(self, numbers: range) -> LatencyHistogram:
        found = ((_NUMBERS[pair], count) for pair, count in self.marks.items())
        return LatencyHistogram({number - numbers.start: n for number, n in found if number in numbers})


def latencies_of(group: Mapping[str, str], texts: Iterable[str]) -> TurnLatencies:
    """Return the times of a group from its texts."""
    return TurnLatencies(group=group, marks=_count(texts))


def sum_of_latencies(group: Mapping[str, str], latencies: Iterable[TurnLatencies]) -> TurnLatencies:
    """Add the times of groups to each other."""
    marks: defaultdict[int, int] = defaultdict(int)
    for each in latencies:
        for pair, count in each.marks.items():
            marks[pair] += count
    return TurnLatencies(group=group, marks=marks)


def latencies_by(dimension: str, latencies: Iterable[TurnLatencies]) -> list[TurnLatencies]:
    """Add up the times of the groups that have the same value of a dimension."""
    groups: defaultdict[str, list[TurnLatencies]] = defaultdict(list)
    for each in latencies:
        groups[each.group[dimension]].append(each)
    return [sum_of_latencies({dimension: value}, group) for value, group in groups.items()]
