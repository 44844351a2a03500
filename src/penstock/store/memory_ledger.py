"""The ledger in memory: bounded, and lost when the process ends. The oldest turns are dropped first; what
budgets count is kept apart from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from penstock.store.latencies import TurnLatencies, latencies_of, marks_of
from penstock.store.ledger import (
    FAILED,
    HOUR,
    Budget,
    Dimension,
    Exceeded,
    KeyLimits,
    TurnFilter,
    TurnPage,
    TurnRecord,
    TurnTotals,
    cursor_of,
    hour_of,
    lower_ascii,
    position_of,
    searched_text,
    time_name,
    tokens_of,
)
from penstock.store.limits import check_limits

MOST_TURNS = 10_000
_DAY = 24 * HOUR
_LONGEST_MONTH = 31


class MemoryLedger:
    """See `penstock.store.ledger.Ledger` for what each method promises."""

    def __init__(self, *, most_turns: int = MOST_TURNS) -> None:
        self._most_turns = most_turns
        self._open: dict[str, TurnRecord] = {}
        self._settled: dict[str, TurnRecord] = {}
        """In the order in which they ended."""
        self._days: dict[tuple[str, int], list[float]] = {}
        """The tokens and the cost of each tenant and day since 1970."""

    async def admit(self, record: TurnRecord, limits: KeyLimits | None = None) -> Exceeded | None:
        return self.admit_now(record, limits)

    def admit_now(self, record: TurnRecord, limits: KeyLimits | None) -> Exceeded | None:
        exceeded = None if limits is None else check_limits(record, limits, _Counts(self, record.tenant))
        if exceeded is None:
            self._open[record.id] = record
        return exceeded

    def settle_turn(self, record: TurnRecord) -> None:
        if record.id in self._settled:
            return
        self._open.pop(record.id, None)
        self._settled[record.id] = record
        day = self._days.setdefault((record.tenant, int(record.started_at // _DAY)), [0, 0.0])
        day[0] += tokens_of(record)
        day[1] += record.cost or 0.0
        if len(self._settled) > self._most_turns:
            del self._settled[next(iter(self._settled))]

    async def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        limit = max(limit, 1)
        before = position_of(after) if after else None
        found = [each for each in self._selected(filter) if before is None or _position(each) < before]
        found.sort(key=_position, reverse=True)
        page = tuple(found[:limit])
        return TurnPage(page, cursor_of(page[-1]) if len(found) > limit else "")

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        groups: dict[tuple[str, ...], list[TurnRecord]] = {}
        for record in self._selected(filter):
            if record.ended_at is not None:
                groups.setdefault(tuple(_group(record, each) for each in by), []).append(record)
        return [_totals(dict(zip(by, names, strict=True)), groups[names]) for names in sorted(groups)]

    async def latencies(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnLatencies]:
        texts: dict[tuple[str, ...], list[str]] = {}
        for record in self._selected(filter):
            if record.ended_at is not None:
                marks = marks_of(record.first_output_ms, record.duration_ms)
                texts.setdefault(tuple(_group(record, each) for each in by), []).append(marks)
        return [latencies_of(dict(zip(by, names, strict=True)), texts[names]) for names in sorted(texts)]

    async def causes(self, filter: TurnFilter) -> list[tuple[str, int]]:
        failed = (each for each in self._selected(filter) if each.outcome in FAILED)
        codes = Counter(each.code for each in failed if each.ended_at is not None)
        return sorted(codes.items(), key=lambda cause: (-cause[1], cause[0]))

    def _selected(self, filter: TurnFilter) -> Iterator[TurnRecord]:
        search = lower_ascii(filter.search)
        for record in (*self._open.values(), *self._settled.values()):
            if (
                (filter.tenant is None or record.tenant == filter.tenant)
                and record.started_at >= filter.since
                and (filter.until is None or record.started_at < filter.until)
                and filter.model in ("", record.model)
                and filter.target in ("", record.target)
                and filter.outcome in ("", record.outcome)
                and filter.id in ("", record.id)
                and (not search or search in searched_text(record))
            ):
                yield record

    async def prune_ledger(self, *, older_than: float) -> int:
        hour = hour_of(older_than)
        old = [id for id, record in self._settled.items() if hour_of(record.started_at) < hour]
        for id in old:
            del self._settled[id]
        for key in [key for key in self._days if key[1] < hour * HOUR // _DAY - _LONGEST_MONTH]:
            del self._days[key]
        return len(old)

    def model_of(self, tenant: str, id: str) -> str:
        """Return the model of a turn; empty if it is not known any more."""
        record = self._open.get(id) or self._settled.get(id)
        return record.model if record is not None and record.tenant == tenant else ""

    # What counts towards limits

    def unfinished(self, tenant: str) -> Iterator[TurnRecord]:
        return (record for record in self._open.values() if record.tenant == tenant)

    def recent(self, tenant: str, since: float) -> Iterator[TurnRecord]:
        """Yield the turns that started after a time. A turn ends after it starts: older ends need no look."""
        yield from (record for record in self.unfinished(tenant) if record.started_at > since)
        for record in reversed(self._settled.values()):
            if (record.ended_at or 0.0) <= since:
                return
            if record.tenant == tenant and record.started_at > since:
                yield record

    def settled_sum(self, tenant: str, unit: int, begin: float, end: float) -> float:
        days = range(int(begin // _DAY), int(end // _DAY))
        return sum(self._days[tenant, day][unit] for day in days if (tenant, day) in self._days)


class _Counts:
    """See `store.limits.LedgerCounts`."""

    def __init__(self, ledger: MemoryLedger, tenant: str) -> None:
        self._ledger, self._tenant = ledger, tenant

    def running(self) -> int:
        return sum(1 for _ in self._ledger.unfinished(self._tenant))

    def recent(self, since: float) -> tuple[int, int]:
        found = [tokens_of(record) for record in self._ledger.recent(self._tenant, since)]
        return len(found), sum(found)

    def recent_turns(self, since: float) -> Iterable[tuple[float, int]]:
        return sorted((each.started_at, tokens_of(each)) for each in self._ledger.recent(self._tenant, since))

    def spent(self, budget: Budget, begin: float, end: float) -> float:
        is_cost = budget.unit == "cost"
        reserved = sum(
            record.reserved_cost if is_cost else record.reserved_tokens
            for record in self._ledger.unfinished(self._tenant)
            if begin <= record.started_at < end
        )
        return reserved + self._ledger.settled_sum(self._tenant, int(is_cost), begin, end)


def _position(record: TurnRecord) -> tuple[float, str]:
    return record.started_at, record.id


def _group(record: TurnRecord, dimension: Dimension) -> str:
    match dimension:
        case "key":
            return record.tenant
        case "model":
            return record.model
        case "target":
            return record.target
        case "outcome":
            return record.outcome
        case _:
            return time_name(dimension, hour_of(record.started_at))


def _totals(group: dict[str, str], records: Sequence[TurnRecord]) -> TurnTotals:
    return TurnTotals(
        group=group,
        turns=len(records),
        failed=sum(record.outcome in FAILED for record in records),
        input_tokens=sum(record.input_tokens for record in records),
        cached_tokens=sum(record.cached_tokens for record in records),
        output_tokens=sum(record.output_tokens for record in records),
        reasoning_tokens=sum(record.reasoning_tokens for record in records),
        cost=sum(record.cost or 0.0 for record in records),
        unpriced=sum(record.cost is None for record in records),
        estimated=sum(record.usage_estimated for record in records),
        duration_ms=sum(record.duration_ms for record in records),
    )
