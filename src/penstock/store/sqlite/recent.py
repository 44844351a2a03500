"""The latest events of running turns, until they are written to the table `events`.

A commit every tenth of a second writes a few events of each running turn. A row for each turn would cost more
than its data, so one row of the table `recent` holds those of all turns. The writer keeps the same events in
memory. About once per second it writes them to `events`, in larger rows, and clears this table.

So it is read only where that memory is missing: after a crash, in other processes, and for a turn whose end
was given up.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Iterator, Sequence

import msgspec

from penstock.store.packing import in_rows, pack_events, pack_recent, unpack_recent
from penstock.store.records import LoggedEvent
from penstock.store.turn_buffer import UnwrittenLog

_log = logging.getLogger("penstock.store")

_APPEND = "INSERT INTO events (response, last, count, data) VALUES (?, ?, ?, ?)"
_ROWS = "SELECT number, data FROM recent ORDER BY number"
_UNFINISHED = "SELECT number FROM responses WHERE tenant = ? AND id = ? AND ended_at IS NULL"


def append(connection: sqlite3.Connection, number: int, events: Sequence[LoggedEvent]) -> None:
    """Append to the log of the response with this number."""
    for row in in_rows(events):
        connection.execute(_APPEND, (number, row[-1].sequence, len(row), pack_events(row)))


def add_recent(connection: sqlite3.Connection, logs: Sequence[UnwrittenLog]) -> None:
    connection.execute("INSERT INTO recent (data) VALUES (?)", (pack_recent(logs),))


def recent_events(connection: sqlite3.Connection, tenant: str, id: str, after: int) -> list[LoggedEvent]:
    """Return the recent events of a turn after a sequence number, in the transaction that has read its other
    events. A turn that has ended has none: writing its end wrote them to its log."""
    if connection.execute(_UNFINISHED, (tenant, id)).fetchone() is None:
        return []
    mine = (log for log in _all_logs(connection) if (log.tenant, log.id) == (tenant, id))
    return [event for log in mine for event in log.events if event.sequence > after]


def move_recent(connection: sqlite3.Connection) -> None:
    """Write the recent events of running turns to their logs, except those that are there already, and clear
    the table. Turns are found by their ids, because the number of a deleted row may be used again."""
    for log in _all_logs(connection):
        row = connection.execute(_UNFINISHED, (log.tenant, log.id)).fetchone()
        if row is not None:
            (last,) = connection.execute("SELECT max(last) FROM events WHERE response = ?", row).fetchone()
            missing = [event for event in log.events if last is None or event.sequence > last]
            append(connection, row[0], missing)
    clear_recent(connection)


def _all_logs(connection: sqlite3.Connection) -> Iterator[UnwrittenLog]:
    """Yield all recent events. A row that cannot be read must not keep the store from opening."""
    for number, blob in connection.execute(_ROWS).fetchall():
        try:
            logs = unpack_recent(blob)
        except (msgspec.MsgspecError, zlib.error):
            _log.error("a row with recent events cannot be read", extra={"row": number})
        else:
            yield from logs


def clear_recent(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM recent")
