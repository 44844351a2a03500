"""What is not known about a turn, and why, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.formatting import counted
from penstock.inspector.lookup import FoundTurn

_PLAN = "plan"
"""The kind of the trace that only a gateway which records writes."""
RECORD = "start the gateway with --record; turns that run from then on can be replayed"


def missing_parts(found: FoundTurn) -> list[str]:
    return list(_missing(found))


def _missing(found: FoundTurn) -> Iterator[str]:
    account = found.account
    record = account.record
    if not found.is_own:
        yield (
            f"This turn belongs to the key {account.stored.tenant}: an administrator sees its record in the "
            "ledger, but not its prompt, its answer or its events."
        )
        return
    if not account.is_stored:
        if record is not None and not record.is_stored:
            compaction = "" if record.stream else ", or it was a compaction, which is never stored"
            yield f'The request said "store": false{compaction}: prompt, answer and events were not kept.'
        elif account.stored.status == "refused":
            yield "The turn was refused before its response began, so nothing of it was stored."
        elif account.is_running:
            yield "The response is not in the store yet."
        else:
            yield "The response is no longer in the store: it was deleted, or it never began."
        return
    if record is None:
        yield (
            "The ledger has no record of this turn: it has expired, or an older version ran the turn. Client "
            "and cost are unknown."
        )
    if "events" in found.unreadable:
        yield "The events cannot be read: their rows in the store are damaged."
    elif not account.stored.has_log and not account.events:
        yield "The events are no longer stored: logs may be kept for a shorter time than responses."
    if dropped := account.stored.dropped:
        yield f"{counted(dropped, 'event')} could not be written in time, and are missing from the log."
    if "traces" in found.unreadable:
        yield "The traffic with the upstream cannot be read: its rows in the store are damaged."
    elif not account.traces and not account.is_running:
        yield "The traffic with the upstream was not traced, or its traces are no longer stored."
    elif not account.is_running and not _is_recorded(found):
        yield "The bytes of the upstream were not kept: only a gateway with --record keeps them."


def why_no_replay(found: FoundTurn) -> str:
    """Return why a turn cannot be replayed; empty if it seems to be recorded."""
    account = found.account
    if not found.is_own:
        return "this turn belongs to another key"
    if not account.is_stored:
        return "this turn is not stored"
    if account.is_running:
        return "this turn is still running"
    if not account.events or not _is_recorded(found):
        return f"this turn was not recorded: {RECORD}"
    return ""


def _is_recorded(found: FoundTurn) -> bool:
    return any(trace.kind == _PLAN for trace in found.account.traces)
