"""The SQL of several processes that share a file: which worker runs which turn, and which workers are alive.

A row of `running` exists only while a turn runs. All processes are on one machine, so leases are measured by
its monotonic clock, which is the same for all of them.
"""

from __future__ import annotations

import sqlite3
import time
from uuid import uuid4

from msgspec import Struct

from penstock.store.backend import ClaimedTurn, Orphan
from penstock.store.packing import item_of, unpack_document
from penstock.store.records import HELD_KEY_SECONDS, HeldKey, Opened

clock = time.monotonic

_CLAIM = """
INSERT INTO running (response, tenant, id, conversation_id, worker, token, is_started)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_ORPHANS = """
SELECT response FROM running
WHERE worker != ? AND worker NOT IN (SELECT id FROM workers WHERE lease_until >= ?) AND is_started >= ?
LIMIT ?
"""
_ORPHAN = """
SELECT responses.tenant, responses.id, created_at, status, previous_id, responses.conversation_id,
    is_background, accent, request, responses.response, is_started,
    (SELECT ifnull(max(last), -1) FROM events WHERE events.response = responses.number)
FROM responses JOIN running ON running.response = responses.number WHERE number = ?
"""
_WITHOUT_END = "SELECT number FROM responses WHERE ended_at IS NULL"


class TurnTakenOver(Exception):  # noqa: N818 - named after what happened
    """Another worker holds the turn."""


class TurnClaim(Struct, frozen=True):
    """How a worker holds a new turn. Without a token, no other process shares the file."""

    worker: str = ""
    token: str = ""


UNCLAIMED = TurnClaim()


# Turns


def claim_new(connection: sqlite3.Connection, number: int, turn: Opened, claim: TurnClaim) -> None:
    if claim.token:
        is_started = not turn.is_background
        values = (turn.tenant, turn.id, turn.conversation_id, claim.worker, claim.token, is_started)
        connection.execute(_CLAIM, (number, *values))


def number_claimed(connection: sqlite3.Connection, token: str) -> int:
    """Return the number of the running turn with this token; raise `TurnTakenOver`."""
    row = connection.execute("SELECT response FROM running WHERE token = ?", (token,)).fetchone()
    if row is None:
        raise TurnTakenOver
    number: int = row[0]
    return number


def release(connection: sqlite3.Connection, number: int, token: str) -> None:
    """Delete the row of a running turn that has ended."""
    if token:
        connection.execute("DELETE FROM running WHERE response = ?", (number,))


def start(connection: sqlite3.Connection, token: str) -> bool:
    query = "UPDATE running SET is_started = 1 WHERE token = ?"
    return connection.execute(query, (token,)).rowcount > 0


def owner(connection: sqlite3.Connection, tenant: str, id: str) -> str | None:
    query = "SELECT worker FROM running WHERE tenant = ? AND id = ?"
    row = connection.execute(query, (tenant, id)).fetchone()
    return row[0] if row is not None else None


def running_in(connection: sqlite3.Connection, tenant: str, conversation_id: str) -> list[str]:
    query = "SELECT id FROM running WHERE tenant = ? AND conversation_id = ?"
    return [id for (id,) in connection.execute(query, (tenant, conversation_id))]


def request_cancel(connection: sqlite3.Connection, tenant: str, id: str) -> str | None:
    query = "UPDATE running SET is_cancelled = 1 WHERE tenant = ? AND id = ?"
    connection.execute(query, (tenant, id))
    return owner(connection, tenant, id)


def disown(connection: sqlite3.Connection, token: str) -> None:
    connection.execute("UPDATE running SET worker = '', is_started = 1 WHERE token = ?", (token,))


def hand_over(connection: sqlite3.Connection, token: str) -> None:
    connection.execute("UPDATE running SET worker = '' WHERE token = ? AND NOT is_started", (token,))


def fail_queued(connection: sqlite3.Connection) -> int:
    """Let no worker start what has not started: it ends as failed."""
    return connection.execute("UPDATE running SET is_started = 1 WHERE NOT is_started").rowcount


# Keys


def hold(
    connection: sqlite3.Connection, tenant: str, key: str, worker: str, data: bytes, now: float
) -> HeldKey | None:
    forget_keys(connection, now)
    query = "SELECT worker, data FROM held_keys WHERE tenant = ? AND key = ?"
    row = connection.execute(query, (tenant, key)).fetchone()
    if row is not None and row[0] != worker:
        return HeldKey(row[1], is_alive=row[0] in living(connection))
    values = (tenant, key, worker, data, now + HELD_KEY_SECONDS)
    connection.execute("INSERT OR REPLACE INTO held_keys VALUES (?, ?, ?, ?, ?)", values)
    return None


def release_key(connection: sqlite3.Connection, tenant: str, key: str, worker: str) -> None:
    query = "DELETE FROM held_keys WHERE tenant = ? AND key = ? AND worker = ?"
    connection.execute(query, (tenant, key, worker))


def retire_key(
    connection: sqlite3.Connection, tenant: str, key: str, worker: str, data: bytes, until: float
) -> None:
    query = """
    UPDATE held_keys SET worker = '', data = ?, until = ? WHERE tenant = ? AND key = ? AND worker = ?
    """
    connection.execute(query, (data, until, tenant, key, worker))


def forget_keys(connection: sqlite3.Connection, now: float) -> None:
    """Delete the keys of dead workers that have been held for too long, and those that were retired."""
    query = "DELETE FROM held_keys WHERE until < ? AND worker NOT IN (SELECT id FROM workers)"
    connection.execute(query, (now,))


# Workers


def renew(connection: sqlite3.Connection, worker: str, lease: float) -> None:
    query = "INSERT OR REPLACE INTO workers (id, lease_until) VALUES (?, ?)"
    connection.execute(query, (worker, clock() + lease))


def leave(connection: sqlite3.Connection, worker: str) -> None:
    connection.execute("DELETE FROM workers WHERE id = ?", (worker,))


def forget_all(connection: sqlite3.Connection) -> None:
    """Remove all workers and their turns, except those that have no end: no process uses the file. The keys
    that they held stay held: it is not known what became of their requests."""
    connection.execute("DELETE FROM workers")
    connection.execute(f"DELETE FROM running WHERE response NOT IN ({_WITHOUT_END})")


def claimed(connection: sqlite3.Connection, worker: str) -> list[ClaimedTurn]:
    query = "SELECT tenant, id, token, is_cancelled FROM running WHERE worker = ?"
    return [
        ClaimedTurn(tenant=tenant, id=id, token=token, is_cancelled=bool(is_cancelled))
        for tenant, id, token, is_cancelled in connection.execute(query, (worker,))
    ]


def has_orphans(connection: sqlite3.Connection, worker: str, *, only_started: bool = False) -> bool:
    return connection.execute(_ORPHANS, (worker, clock(), only_started, 1)).fetchone() is not None


def claim_orphans(
    connection: sqlite3.Connection, worker: str, most: int, *, only_started: bool = False
) -> list[Orphan]:
    found = []
    for (number,) in connection.execute(_ORPHANS, (worker, clock(), only_started, most)).fetchall():
        token = uuid4().hex
        query = "UPDATE running SET worker = ?, token = ? WHERE response = ?"
        connection.execute(query, (worker, token, number))
        found.append(_orphan(connection, number, token))
    return found


def _orphan(connection: sqlite3.Connection, number: int, token: str) -> Orphan:
    tenant, id, created_at, status, previous_id, conversation_id, *rest = connection.execute(
        _ORPHAN, (number,)
    ).fetchone()
    is_background, accent, request, response, is_started, last = rest
    query = "SELECT id, data FROM items WHERE response = ? AND is_output = 0 ORDER BY number"
    turn = Opened(
        id=id,
        tenant=tenant,
        created_at=created_at,
        status=status,
        previous_id=previous_id,
        conversation_id=conversation_id,
        request=request,
        response=unpack_document(response),
        input=tuple(item_of(*row) for row in connection.execute(query, (number,))),
        is_background=bool(is_background),
        accent=accent,
    )
    return Orphan(turn=turn, token=token, last_sequence=last, is_started=bool(is_started))


def forget_dead(connection: sqlite3.Connection) -> None:
    """Remove workers whose lease has expired and whose turns have been taken over."""
    query = "DELETE FROM workers WHERE lease_until < ? AND id NOT IN (SELECT worker FROM running)"
    connection.execute(query, (clock(),))


def has_dead(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM workers WHERE lease_until < ?"
    return connection.execute(query, (clock(),)).fetchone() is not None


def living(connection: sqlite3.Connection) -> list[str]:
    query = "SELECT id FROM workers WHERE lease_until >= ?"
    return [id for (id,) in connection.execute(query, (clock(),))]
