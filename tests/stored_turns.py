"""Turns to write into a store, or into an in-memory archive, for `explain` and `penstock store`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.store.records import Closed, LoggedEvent, Opened, StoredConversation, StoredItem, Trace
from penstock.store.sqlite.store import open_sqlite_store

BEGIN = 1_700_000_000.0
PROMPT = "planted-prompt-heron"
ANSWER = "planted-answer-otter"
ERROR = "planted-error-of-the-vendor"
CONTENT = (PROMPT, ANSWER, ERROR)
"""Texts that must not appear in output without `--content`."""


def data(value: object) -> bytes:
    return json.dumps(value).encode()


def log(*entries: tuple[float, dict[str, Any]], numbers: Sequence[int] = ()) -> list[LoggedEvent]:
    """Return events at offsets in seconds, with consecutive numbers unless `numbers` is given."""
    numbers = numbers or range(len(entries))
    return [
        LoggedEvent(number, BEGIN + at, data({"sequence_number": number, **event}))
        for number, (at, event) in zip(numbers, entries, strict=True)
    ]


def trace(at: float, kind: str, record: object = None, size: int = 0) -> Trace:
    return Trace(kind, BEGIN + at, b"" if record is None else data(record), size)


def request(at: float, target: str, model: str = "model-x", size: int = 1_200) -> Trace:
    body = {"messages": [{"role": "user", "content": PROMPT}]}
    record = {"target": target, "model": model, "dialect": "chat", "attempt": 1, "headers": {}, "body": body}
    return trace(at, "request", record, size)


def answer(at: float, status: int = 200) -> Trace:
    record = {"status": status, "content_type": "text/event-stream", "request_id": "up_1"}
    return trace(at, "answer", record)


def failure(at: float, code: str, status: int | None = None) -> Trace:
    return trace(at, "failure", {"code": code, "message": ERROR, "status": status})


def message(id: str, text: str, role: str = "user") -> StoredItem:
    content = [{"type": "input_text" if role == "user" else "output_text", "text": text}]
    return StoredItem(id, data({"type": "message", "id": id, "role": role, "content": content}))


class Turn:
    """A turn to store. With the status `in_progress` it is never closed, as if its gateway had crashed."""

    def __init__(
        self,
        id: str,
        *,
        status: str = "completed",
        events: Sequence[LoggedEvent] = (),
        traces: Sequence[Trace] = (),
        response: dict[str, Any] | None = None,
        verdict: dict[str, Any] | None = None,
        tenant: str = "local",
        age: int = 0,
        **opened: Any,
    ) -> None:
        created_at = int(BEGIN) - age
        self.opened = Opened(
            id=id,
            tenant=tenant,
            created_at=created_at,
            request=b'{\n  "model": "m"\n}',
            response=data({"id": id, "model": "m", "status": "in_progress"}),
            input=(message(f"{id}_in", PROMPT),),
            **opened,
        )
        self.ended_at = float(created_at)
        self.events, self.traces = events, traces
        snapshot = {"id": id, "model": "m", "status": status, **(response or {})}
        self.closed = Closed(
            status=status,
            response=data(snapshot),
            output=(message(f"{id}_out", ANSWER, "assistant"),),
            verdict=data({"request_id": "req_1", "model": "m", **verdict}) if verdict is not None else b"",
        )


def make_store(path: Path, *turns: Turn, conversations: Sequence[str] = ()) -> Path:
    asyncio.run(_fill(path, turns, conversations))
    return path


async def _fill(path: Path, turns: Sequence[Turn], conversations: Sequence[str]) -> None:
    times = [BEGIN]
    store = await open_sqlite_store(path, clock=lambda: times[-1])
    for id in conversations:
        await store.create_conversation("local", StoredConversation(id, int(BEGIN), b'{"topic":"birds"}'))
        await store.add_items("local", id, [message(f"{id}_in", PROMPT)])
    for turn in turns:
        times.append(turn.ended_at)
        await store.open(turn.opened)
        store.log(turn.opened.id, turn.events)
        store.trace(turn.opened.id, turn.traces)
        if turn.closed.status not in ("queued", "in_progress"):
            assert await store.close(turn.opened.id, turn.closed, patience=30)
    await store.aclose()
