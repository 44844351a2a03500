"""The sums of the dashboard, kept for each day that is over: a dashboard that is open asks for them again and
again, and only those of today change.

A turn counts for the day on which it started, so a day that is over may still change, and old turns are
deleted. So the sums of a day are used only while its totals are the same, which are cheap to read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from penstock.gateway.gateway import Gateway
from penstock.store.latencies import TurnLatencies
from penstock.store.ledger import HOUR, Dimension, Ledger, TurnFilter, TurnTotals, hour_of, sum_of, time_name

DAY = 24 * HOUR
MOST_NUMBERS = 250_000
"""Numbers that are kept, of 80 bytes each. Thirty days of twenty models have a quarter of them."""
MOST_SPANS = 8
"""If more pieces of time are missing, one query for everything is faster."""


class LedgerSums(Struct, frozen=True):
    """What the ledger's `totals` and `latencies` return."""

    totals: tuple[TurnTotals, ...]
    latencies: tuple[TurnLatencies, ...]

    @property
    def numbers(self) -> int:
        counts = sum(len(each.marks) for each in self.latencies)
        return counts + len(self.totals) * len(TurnTotals.__struct_fields__)


class Question(Struct, frozen=True):
    """What is asked about a day."""

    filter: TurnFilter
    """Without times."""
    totals_by: tuple[Dimension, ...]
    """These and `latencies_by` contain `hour` or `day`."""
    latencies_by: tuple[Dimension, ...]


class _Day(Struct, frozen=True):
    fingerprint: TurnTotals
    sums: LedgerSums


_NOTHING = LedgerSums((), ())


class DaySums:
    """Reads sums from a ledger, and keeps those of days that are over."""

    def __init__(self, most: int = MOST_NUMBERS) -> None:
        self._most = most
        self._numbers = 0
        self._days: OrderedDict[tuple[Question, str], _Day] = OrderedDict()
        """By question and name of the day; the least recently used one comes first."""

    async def read(self, ledger: Ledger, question: Question, since: float, until: float) -> LedgerSums:
        """Return the sums of the turns that started between two times."""
        if question.filter.search:  # there are no sums to read: every question looks at every turn
            return await _read(ledger, question, since, until)
        whole = {time_name("day", hour_of(day)) for day in _whole_days(since, until)}
        known = await self._known(ledger, question, since, until, whole)
        spans = _spans(since, until, known)
        if len(spans) > MOST_SPANS:
            known, spans = {}, [(since, until)]
        found = list(known.values())
        for begin, end in spans:
            sums = await _read(ledger, question, begin, end)
            found.append(sums)
            for day, each in _by_day(sums).items():
                if day in whole:
                    self._keep(question, day, _Day(_fingerprint(each.totals), each))
        return LedgerSums(
            tuple(each for sums in found for each in sums.totals),
            tuple(each for sums in found for each in sums.latencies),
        )

    async def _known(
        self, ledger: Ledger, question: Question, since: float, until: float, days: set[str]
    ) -> dict[str, LedgerSums]:
        """Return the sums of the days that need not be read."""
        kept = {day: self._days[question, day] for day in days if (question, day) in self._days}
        if not kept:
            return {}
        totals = await ledger.totals(replace(question.filter, since=since, until=until), ("day",))
        now = {each.group["day"]: _fingerprint([each]) for each in totals}
        known = {day: kept[day].sums for day in kept if kept[day].fingerprint == now.get(day)}
        for day in known:
            self._days.move_to_end((question, day))
        return known | {day: _NOTHING for day in days if day not in now}

    def _keep(self, question: Question, name: str, day: _Day) -> None:
        before = self._days.pop((question, name), None)
        self._numbers -= before.sums.numbers if before is not None else 0
        self._days[question, name] = day
        self._numbers += day.sums.numbers
        while self._numbers > self._most:
            _, oldest = self._days.popitem(last=False)
            self._numbers -= oldest.sums.numbers


async def _read(ledger: Ledger, question: Question, since: float, until: float) -> LedgerSums:
    filter = replace(question.filter, since=since, until=until)
    totals = await ledger.totals(filter, question.totals_by)
    return LedgerSums(tuple(totals), tuple(await ledger.latencies(filter, question.latencies_by)))


def _fingerprint(totals: Sequence[TurnTotals]) -> TurnTotals:
    """Return what changes with every turn of a day. Costs are left out: their sum depends on their order."""
    return replace(sum_of(totals), cost=0.0)


def _whole_days(since: float, until: float) -> Iterator[int]:
    """Return when the days begin that are completely between two times."""
    first = -int(-since // DAY) * DAY
    return iter(range(first, int(until // DAY) * DAY, DAY))


def _spans(since: float, until: float, known: Iterable[str]) -> list[tuple[float, float]]:
    """Return what is between two times without the days that are known, in as few pieces as possible."""
    known, spans, begin = set(known), [], since
    for day in _whole_days(since, until):
        if time_name("day", hour_of(day)) in known:
            spans.append((begin, float(day)))
            begin = float(day + DAY)
    return [(begin, end) for begin, end in [*spans, (begin, until)] if begin < end]


def _by_day(sums: LedgerSums) -> dict[str, LedgerSums]:
    totals: dict[str, list[TurnTotals]] = {}
    latencies: dict[str, list[TurnLatencies]] = {}
    for each in sums.totals:
        totals.setdefault(_day_of(each), []).append(each)
    for one in sums.latencies:
        latencies.setdefault(_day_of(one), []).append(one)
    return {day: LedgerSums(tuple(totals[day]), tuple(latencies.get(day, ()))) for day in totals}


def _day_of(sums: TurnTotals | TurnLatencies) -> str:
    """Return the day: the beginning of the name of an hour."""
    return (sums.group.get("hour") or sums.group["day"])[: len("2026-11-18")]


_sums: WeakKeyDictionary[Gateway, DaySums] = WeakKeyDictionary()


def day_sums_of(gateway: Gateway) -> DaySums:
    """Return the sums that are kept for a gateway."""
    return _sums.setdefault(gateway, DaySums())
