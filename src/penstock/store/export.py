"""Exports a store as lines of JSON. Only one record is in memory at a time, however large the store is."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw

from penstock.store.contract import StoreArchive
from penstock.store.records import ArchivedConversation, LoggedEvent, StoredItem, StoredResponse, Trace

Record = dict[str, object]

_NULL = Raw(b"null")


def export_all(archive: StoreArchive, since: float) -> Iterator[bytes]:
    """Yield a line for each response created, and each conversation changed, since a time."""
    for stored in archive.responses():
        if stored.created_at >= since:
            yield _line(response_record(archive, stored))
    for archived in archive.conversations():
        if archived.changed_at >= since:
            yield _line(conversation_record(archived))


def export_responses(archive: StoreArchive, ids: Sequence[str], missing: list[str]) -> Iterator[bytes]:
    """Yield a line for each of these responses; add the ids that do not exist to `missing`."""
    for id in ids:
        stored = archive.find(id)
        if stored is None:
            missing.append(id)
        else:
            yield _line(response_record(archive, stored))


def response_record(archive: StoreArchive, stored: StoredResponse) -> Record:
    tenant, id = stored.tenant, stored.id
    return {
        "object": "penstock.response",
        "id": id,
        "tenant": tenant,
        "created_at": stored.created_at,
        "status": stored.status,
        "previous_response_id": stored.previous_id,
        "conversation": stored.conversation_id,
        "background": stored.is_background,
        "accent": stored.accent,
        "dropped_events": stored.dropped,
        "request": _json(stored.request),
        "input": _items(archive.input(tenant, id)),
        "output": _items(archive.output(tenant, id)),
        "response": _json(stored.response),
        "verdict": _json(stored.verdict),
        "events": [_event(event) for event in archive.events(tenant, id)],
        "traces": [_trace(trace) for trace in archive.traces(tenant, id)],
    }


def conversation_record(archived: ArchivedConversation) -> Record:
    return {
        "object": "penstock.conversation",
        "id": archived.conversation.id,
        "tenant": archived.tenant,
        "created_at": archived.conversation.created_at,
        "changed_at": archived.changed_at,
        "metadata": _json(archived.conversation.metadata),
        "items": _items(archived.items),
    }


def _event(event: LoggedEvent) -> Record:
    return {"sequence": event.sequence, "time": event.time, "event": _json(event.data)}


def _trace(trace: Trace) -> Record:
    record: Record = {"kind": trace.kind, "time": trace.time, "size": trace.size}
    if trace.kind == "read":  # raw bytes of the upstream, if the gateway records: they may be cut anywhere
        return record | ({"base64": base64.b64encode(trace.data).decode()} if trace.data else {})
    return record | {"data": _json(trace.data)}


def _items(items: Iterable[StoredItem]) -> list[Raw]:
    return [_json(item.data) for item in items]


def _json(data: bytes) -> Raw:
    """Return stored JSON on one line: newlines occur only between tokens, where they are whitespace. Return
    null for invalid JSON: it would make the whole line unreadable."""
    try:
        msgspec.json.decode(data, type=Raw)
    except msgspec.DecodeError:
        return _NULL
    return Raw(data.replace(b"\r", b" ").replace(b"\n", b" "))


def _line(record: Record) -> bytes:
    return msgspec.json.encode(record) + b"\n"
