"""The records of the ledger that wait to be written."""

from __future__ import annotations

import logging

from penstock.store.ledger import TurnRecord

_log = logging.getLogger("penstock.store")

MOST_RECORDS = 10_000
"""About 10 MB."""


class LedgerQueue:
    """Records by the ids of their turns, oldest first. A later record of a turn replaces an earlier one."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._most = most
        self._records: dict[str, TurnRecord] = {}
        self._dropped = 0
        """Records lost since the store was opened."""

    def __len__(self) -> int:
        return len(self._records)

    def put(self, record: TurnRecord) -> None:
        self._records[record.id] = record
        if len(self._records) > self._most:
            self._drop_oldest()

    def take(self) -> dict[str, TurnRecord]:
        """Return all records: they are being written."""
        taken, self._records = self._records, {}
        return taken

    def put_back(self, records: dict[str, TurnRecord]) -> None:
        """Keep records that could not be written for the next attempt."""
        self._records = records | self._records
        while len(self._records) > self._most:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        del self._records[next(iter(self._records))]
        self._dropped += 1
        # At the first record, and then less and less often.
        if self._dropped & (self._dropped - 1) == 0:
            _log.error(
                "records of the ledger are lost: too many are waiting to be written to disk",
                extra={"fields": {"event": "store", "code": "given_up", "count": self._dropped}},
            )
