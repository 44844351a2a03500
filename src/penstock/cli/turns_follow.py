"""`penstock turns --follow`: print turns as they end.

The ledger is read again and again. It is ordered by the start of turns, and a turn may end long after its
start, so each reading goes back to the start of the oldest turn that was running.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.cli import OK, UsageError
from penstock.cli.ledger_source import LedgerSource, each_turn, newest_turns, open_ledger

if TYPE_CHECKING:
    from penstock.cli.turns_table import TurnPrinter
    from penstock.store.ledger import TurnFilter, TurnRecord

_INTERVAL = 0.5
"""Seconds between two readings."""
_OVERLAP = 10.0
"""Seconds. A gateway whose disk is slow writes the record of a turn later than that of the next one."""


def follow(
    options: argparse.Namespace,
    filter: TurnFilter,
    outcomes: Sequence[str],
    printer: TurnPrinter,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Print the newest turns that have ended, then each turn that ends, until Ctrl-C."""
    try:
        with open_ledger(options) as ledger:
            turns = EndedTurns(ledger, filter, outcomes)
            printer.print(turns.begin(options.limit), time.time())
        if turns.running:
            printer.terminal.note(f"{turns.running} running; waiting for turns to end")
        problem = ""
        while True:
            sleep(_INTERVAL)
            try:
                with open_ledger(options) as ledger:  # a file may have been replaced by another
                    ended = turns.next(ledger)
                problem = ""
            except UsageError as error:  # the gateway may be restarting
                ended = []
                if not problem:
                    printer.terminal.note(f"{error}; trying again")
                problem = str(error)
            if ended:
                printer.print(ended, time.time())
    except KeyboardInterrupt:
        return OK


class EndedTurns:
    """Finds the turns that have ended since the last reading."""

    def __init__(self, ledger: LedgerSource, filter: TurnFilter, outcomes: Sequence[str]) -> None:
        self._ledger, self._filter, self._outcomes = ledger, filter, outcomes
        self._known: dict[str, float] = {}
        """The start of each turn whose end was seen, as far back as the next reading goes."""
        self._begin = filter.since
        self.running = 0
        """The turns that were running at the last reading."""

    def begin(self, limit: int) -> list[TurnRecord]:
        """Return the newest turns that have ended. They are not returned again."""
        from msgspec.structs import replace

        from penstock.store.ledger import UNFINISHED

        newest = newest_turns(self._ledger, self._filter, 1)
        running = each_turn(self._ledger, replace(self._filter, outcome=UNFINISHED))
        starts = [record.started_at for record in running]
        if newest:
            self._begin = max(min([newest[0].started_at - _OVERLAP, *starts]), self._filter.since)
        self.next(self._ledger)
        shown = newest_turns(self._ledger, self._filter, limit + len(starts), self._outcomes) if limit else []
        ended = [record for record in shown if record.id in self._known or record.started_at < self._begin]
        return ended[-limit:] if limit else []

    def next(self, ledger: LedgerSource) -> list[TurnRecord]:
        """Return the turns that have ended since the last call, in the order of their ends."""
        from msgspec.structs import replace

        found = list(each_turn(ledger, replace(self._filter, since=self._begin)))
        ended = [record for record in found if record.ended_at is not None and record.id not in self._known]
        self._known.update((record.id, record.started_at) for record in ended)
        starts = [record.started_at for record in found if record.ended_at is None]
        self.running = len(starts)
        if found:
            self._begin = max(self._begin, min([found[0].started_at - _OVERLAP, *starts]))
            self._known = {id: start for id, start in self._known.items() if start >= self._begin}
        wanted = [record for record in ended if self._outcomes == ("",) or record.outcome in self._outcomes]
        return sorted(wanted, key=lambda record: record.ended_at or 0.0)
