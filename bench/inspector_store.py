"""A month of a busy gateway in an SQLite file, for `bench.inspector`: written by the store's own code."""

from __future__ import annotations

import asyncio
import json
import random
import time
from pathlib import Path

from penstock.store.contract import Store
from penstock.store.ledger import HOUR, TurnFilter, TurnRecord
from penstock.store.records import LOCAL, Closed, LoggedEvent, Opened, StoredConversation, StoredItem
from penstock.store.sqlite.store import open_sqlite_store

TURNS, DAYS = 100_000, 30
MODELS = [f"model-{number}" for number in range(20)]
KEYS = [LOCAL, *(f"key-{number}" for number in range(1, 20))]
TARGETS = ["east", "west", "local", "spare"]
RARE_MODEL, RARE = MODELS[-1], 5_000
"""One of so many turns has the rare model."""
SEARCHED = "req_500"
"""A part of the request ids of about a thousand turns."""
RESPONSES, LINKS, EVENTS = 5_000, 5, 10
"""The newest turns of the key without a name are stored. A chain or a conversation has five of them."""
_AT_ONCE = 1_000
_EVENT = b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","delta":"word "}'
_PADDING = 600 * "x"


def fill(file: Path) -> None:
    asyncio.run(_fill(file, time.time()))


async def _fill(file: Path, now: float) -> None:
    store = await open_sqlite_store(file)
    try:
        records = _records(now)
        for begin in range(0, TURNS, _AT_ONCE):
            for record in records[begin : begin + _AT_ONCE]:
                store.settle_turn(record)
            await store.turns(TurnFilter(), limit=1)  # now they are in the file
        stored = [record for record in records if record.tenant == LOCAL][-RESPONSES:]
        for begin in range(0, len(stored), _AT_ONCE):
            numbers = range(begin, min(begin + _AT_ONCE, len(stored)))
            await asyncio.gather(*(_keep(store, stored, number) for number in numbers))
    finally:
        await store.aclose()


def _records(now: float) -> list[TurnRecord]:
    """Return the turns of the last days, oldest first."""
    dice = random.Random(1)
    span = DAYS * 24 * HOUR
    return [_record(dice, number, now - span * (1 - number / TURNS)) for number in range(TURNS)]


def _record(dice: random.Random, number: int, start: float) -> TurnRecord:
    place = len(MODELS) - 1 if dice.randrange(RARE) == 0 else dice.randrange(len(MODELS) - 1)
    outcome = dice.choices(("completed", "incomplete", "failed", "refused"), (92, 2, 4, 2))[0]
    is_failed = outcome in ("failed", "refused")
    duration = dice.randrange(500, 60_000)
    return TurnRecord(
        id=f"resp_{number:06}{dice.randbytes(12).hex()}",
        tenant=dice.choice(KEYS),
        started_at=start,
        ended_at=start + duration / 1000,
        user_agent=dice.choice(("codex_cli_rs/0.58.0", "OpenAI/Python 2.8.0", "ai-sdk/5.0.0")),
        cost=None if is_failed else dice.random() / 10,
        request_id=f"req_{number:05}{dice.randbytes(8).hex()}",
        model=MODELS[place],
        target=TARGETS[place % len(TARGETS)],
        upstream_model=MODELS[place],
        upstream_id=f"chatcmpl-{dice.randbytes(12).hex()}",
        upstream_status=200,
        stream=True,
        outcome=outcome,
        closer="upstream" if is_failed else "",
        code=dice.choice(("timeout", "overloaded", "connection_lost")) if is_failed else "",
        status=200,
        attempts=1,
        last_event=f"response.{outcome}",
        last_sequence=dice.randrange(2_000),
        terminal_sent=True,
        duration_ms=duration,
        first_output_ms=-1 if is_failed else dice.randrange(100, 5_000),
        input_tokens=dice.randrange(50_000),
        cached_tokens=dice.randrange(10_000),
        output_tokens=dice.randrange(5_000),
        reasoning_tokens=dice.randrange(2_000),
    )


async def _keep(store: Store, stored: list[TurnRecord], number: int) -> None:
    """Store the response of a turn. Every other group of turns is a conversation; the rest are chains."""
    record, place = stored[number], number % LINKS
    conversation = f"conv_{number // LINKS}" if number // LINKS % 2 else None
    is_linked = place > 0 and conversation is None
    if conversation and not place:
        talk = StoredConversation(conversation, int(record.started_at), b"{}")
        await store.create_conversation(record.tenant, talk)
    turn = Opened(
        id=record.id,
        tenant=record.tenant,
        created_at=int(record.started_at),
        previous_id=stored[number - 1].id if is_linked else None,
        conversation_id=conversation,
        request=b'{"model":"m","stream":true}',
        response=_response(record, "in_progress"),
        input=(_message(f"msg_in_{record.id}", "user", "input_text"),),
    )
    await store.open(turn, patience=60)
    log = [LoggedEvent(each, record.started_at + each / 10, _EVENT % each) for each in range(EVENTS)]
    store.log(record.id, log)
    output = (_message(f"msg_out_{record.id}", "assistant", "output_text"),)
    end = Closed(status="completed", response=_response(record, "completed"), output=output)
    await store.close(record.id, end, patience=60)


def _response(record: TurnRecord, status: str) -> bytes:
    response = {"id": record.id, "object": "response", "status": status, "model": record.model}
    return json.dumps({**response, "output": [], "padding": _PADDING}).encode()


def _message(id: str, role: str, part: str) -> StoredItem:
    content = [{"type": part, "text": "a few words that somebody said"}]
    item = {"type": "message", "id": id, "status": "completed", "role": role, "content": content}
    return StoredItem(id, json.dumps(item).encode())
