"""What a store holds as lines of JSON, one at a time: however much there is, one record is in memory."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw

from penstock.store.contract import (
    ArchivedConversation,
    LoggedEvent,
    StoreArchive,
    StoredItem,
    StoredResponse,
    Trace,
)

Record = dict[str, object]

_NOTHING = Raw(b"null")


def everything(archive: StoreArchive, since: float) -> Iterator[bytes]:
    """Responses that were made since then, and conversations that were changed since then."""
    for stored in archive.responses():
        if stored.created_at >= since:
            yield _line(response_record(archive, stored))
    for kept in archive.conversations():
        if kept.changed_at >= since:
            yield _line(conversation_record(kept))


def named(archive: StoreArchive, ids: Sequence[str], missing: list[str]) -> Iterator[bytes]:
    """These responses; `missing` gets the ids of those that are not there."""
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
        "dropped_events": stored.dropped,
        "request": _json(stored.request),
        "input": _items(archive.input(tenant, id)),
        "output": _items(archive.output(tenant, id)),
        "response": _json(stored.response),
        "verdict": _json(stored.verdict),
        "events": [_event(event) for event in archive.events(tenant, id)],
        "traces": [_trace(trace) for trace in archive.traces(tenant, id)],
    }


def conversation_record(kept: ArchivedConversation) -> Record:
    return {
        "object": "penstock.conversation",
        "id": kept.conversation.id,
        "tenant": kept.tenant,
        "created_at": kept.conversation.created_at,
        "changed_at": kept.changed_at,
        "metadata": _json(kept.conversation.metadata),
        "items": _items(kept.items),
    }


def _event(event: LoggedEvent) -> Record:
    return {"sequence": event.sequence, "time": event.time, "event": _json(event.data)}


def _trace(trace: Trace) -> Record:
    record: Record = {"kind": trace.kind, "time": trace.time, "size": trace.size}
    if trace.kind == "read":  # the upstream's own bytes, where the gateway records: they may be cut anywhere
        return record | ({"base64": base64.b64encode(trace.data).decode()} if trace.data else {})
    return record | {"data": _json(trace.data)}


def _items(items: Iterable[StoredItem]) -> list[Raw]:
    return [_json(item.data) for item in items]


def _json(data: bytes) -> Raw:
    """JSON as it was stored, fit for one line: outside of its strings a newline is only space, and inside of
    them there is none. What is no JSON is null: a line that nobody can read would spoil all behind it."""
    try:
        msgspec.json.decode(data, type=Raw)
    except msgspec.DecodeError:
        return _NOTHING
    return Raw(data.replace(b"\r", b" ").replace(b"\n", b" "))


def _line(record: Record) -> bytes:
    return msgspec.json.encode(record) + b"\n"
