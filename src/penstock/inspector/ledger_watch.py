"""Finds the turns that start, change or end, of all workers, by reading the ledger again and again.

The ledger is ordered by the start of turns, and a turn may run for an hour. So the running turns and the
newest turns are read, and those that were running at the last reading are looked up by their start.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from penstock.store.ledger import UNFINISHED, Ledger, TurnFilter, TurnRecord

RECENT = 2.0
"""Seconds. The record of a short turn is written when it ends, later than that of the next turn."""
OVERLAP = 15.0
"""Seconds. A gateway whose disk is slow writes records even later. Reading these again each time would cost
the streams of a busy gateway more than everything else here."""
OVERLAP_EVERY = 5
"""Readings of which one reads the whole overlap: with one per second, a record may be ten seconds late."""
MOST = 5000
"""Turns of one reading."""
_PAGE = 500


class TooManyTurns(Exception):  # noqa: N818 - named after what happened
    """More turns than can be followed one by one."""


class LedgerWatch:
    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._running: dict[str, TurnRecord] = {}
        self._ended: dict[str, float] = {}
        """The start of each turn whose end was seen, as far back as the next reading goes."""
        self._begin = self._recent = clock() - OVERLAP
        self._readings = 0

    async def next(self) -> list[TurnRecord]:
        """Return the turns that have changed since the last call, in the order of their starts. Raise
        `TooManyTurns`: then the next call goes on from now."""
        since = self._recent if self._readings % OVERLAP_EVERY else self._begin
        try:
            found = await self._read(TurnFilter(outcome=UNFINISHED))
            found |= await self._read(TurnFilter(since=since))
        except TooManyTurns:
            self._running, self._ended = {}, {}
            self._begin = self._recent = self._clock()
            raise
        self._readings += 1
        for record in self._running.values():
            if record.id not in found and (now := await self._look_up(record)) is not None:
                found[now.id] = now
        changed = [record for record in found.values() if self._is_new(record)]
        self._note(found)
        return sorted(changed, key=lambda record: record.started_at)

    def _is_new(self, record: TurnRecord) -> bool:
        if record.ended_at is None:
            return self._running.get(record.id) != record
        return record.id not in self._ended

    def _note(self, found: dict[str, TurnRecord]) -> None:
        now = self._clock()
        newest = max((record.started_at for record in found.values()), default=now)
        self._begin = max(self._begin, min(newest, now) - OVERLAP)
        self._recent = max(self._recent, min(newest, now) - RECENT)
        self._running = {record.id: record for record in found.values() if record.ended_at is None}
        ended = {record.id: record.started_at for record in found.values() if record.ended_at is not None}
        self._ended = {id: start for id, start in {**self._ended, **ended}.items() if start >= self._begin}

    async def _read(self, filter: TurnFilter) -> dict[str, TurnRecord]:
        records: dict[str, TurnRecord] = {}
        after = ""
        while True:
            page = await self._ledger.turns(filter, after=after, limit=_PAGE)
            records.update((record.id, record) for record in page.turns)
            after = page.next
            if not after:
                return records
            if len(records) >= MOST:
                raise TooManyTurns

    async def _look_up(self, record: TurnRecord) -> TurnRecord | None:
        start = record.started_at
        filter = TurnFilter(tenant=record.tenant, since=start, until=math.nextafter(start, math.inf))
        page = await self._ledger.turns(filter, limit=_PAGE)
        return next((each for each in page.turns if each.id == record.id), None)
