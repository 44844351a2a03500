"""Reads everything of a file, to move it into another store."""

from __future__ import annotations

from penstock.store.sqlite.archive import SqliteArchive, select_rows
from penstock.store.sqlite.pruning import store_time

_ENDED = "SELECT ended_at FROM responses WHERE tenant = ? AND id = ?"
_MEMORIES = """
SELECT key, data FROM responses JOIN memories ON memories.response = responses.number
WHERE responses.tenant = ? AND responses.id = ? ORDER BY memories.number
"""
_DAYS = "SELECT tenant, day, tokens, cost FROM tenant_days ORDER BY tenant, day"


class SqliteSource(SqliteArchive):
    """An archive that also returns what no operator's tool shows. See `store.postgres.importing`."""

    def ended_at(self, tenant: str, id: str) -> float | None:
        """Return when a turn ended; None if its process died before that."""
        rows = self._run(select_rows, _ENDED, tenant, id)
        return rows[0][0] if rows else None

    def memories(self, tenant: str, id: str) -> dict[str, bytes]:
        """Return what is remembered for as long as a response exists."""
        return dict(self._run(select_rows, _MEMORIES, tenant, id))

    def tenant_days(self) -> list[tuple[str, int, int, float]]:
        """Return what budgets count: the tokens and the cost of each tenant and day since 1970."""
        return [(tenant, day, tokens, cost) for tenant, day, tokens, cost in self._run(select_rows, _DAYS)]

    def store_time(self, now: float) -> float:
        """Return the store's own time."""
        return self._run(store_time, now)
