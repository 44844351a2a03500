"""`GET inspector/api/threads` and `threads/{id}`: conversations, and chains of responses with their branches.

They are content, so everybody sees only their own, administrators included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import tenant_of
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import answer, desk_of, invalid, whole_number
from penstock.inspector.logged_events import json_or_none
from penstock.lenient import objects_of, text_of
from penstock.store.threads import StoredThread, ThreadKind, ThreadTurn

MOST_TURNS = 200
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of the items of a thread; the items of older turns are left out."""
LONGEST_TITLE = 80
_TEXT_FIELDS = ("text", "refusal", "transcript")


class ShownTurn(Struct, frozen=True):
    id: str
    previous_id: str | None
    created_at: float
    status: str
    model: str
    input: list[Any]
    output: list[Any]


async def list_threads(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    limit = whole_number(exchange, "limit", 50, least=1, most=MOST_TURNS)
    after = exchange.query.get("after", "")
    try:
        page = await gateway.store.threads(tenant_of(key), after=after, limit=limit)
    except ValueError as error:
        raise invalid("after", f"is not valid: {error}") from None
    await answer(exchange, {"data": [_listed(each) for each in page.threads], "next": page.next or None})


async def show_thread(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, thread_id: str) -> None:
    store, tenant = gateway.store, tenant_of(key)
    kind: ThreadKind = "conversation"
    if await store.get_conversation(tenant, thread_id) is not None:
        turns = await store.conversation_turns(tenant, thread_id, limit=MOST_TURNS)
    else:
        kind, turns = "chain", await store.chain_turns(tenant, thread_id, limit=MOST_TURNS)
        if not turns:
            message = f"there is no conversation and no response {thread_id[:64]!r}, or it is not stored"
            raise RequestRefused(404, "not_found", message, type="not_found")
    weight = sum(_size(turn) for turn in turns)
    await desk_of(gateway).answer(exchange, min(weight, MOST_BYTES), lambda: _thread(thread_id, kind, turns))


def _listed(thread: StoredThread) -> dict[str, Any]:
    return {
        "id": thread.id,
        "kind": thread.kind,
        "title": title_of(thread.opening),
        "turns": thread.turns,
        "changed_at": thread.changed_at,
        "model": thread.model,
        "last_id": thread.last_id,
    }


def title_of(opening: Iterable[bytes]) -> str:
    """Return the first words of a thread: those of its user, if there are any."""
    items = objects_of([json_or_none(data) for data in opening])
    by_user = [item for item in items if item.get("role") == "user"]
    texts = (" ".join(text.split()) for item in (*by_user, *items) for text in _texts(item))
    title = next((text for text in texts if text), "")
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"


def _texts(item: dict[str, Any]) -> Iterator[str]:
    content = item.get("content")
    if isinstance(content, str):
        yield content
    for part in objects_of(content):
        yield from (text_of(part.get(name)) for name in _TEXT_FIELDS)


def _thread(id: str, kind: ThreadKind, turns: list[ThreadTurn]) -> dict[str, Any]:
    missing: list[str] = []
    shown: list[ShownTurn] = []
    size = left_out = 0
    for turn in reversed(turns):
        size += _size(turn)
        is_shown = size <= MOST_BYTES
        left_out += not is_shown
        shown.append(_shown(turn, has_items=is_shown))
    if left_out:
        missing.append(f"The thread is large: the items of its {left_out} oldest turns are left out.")
    if len(turns) >= MOST_TURNS:
        missing.append(f"These are the newest {MOST_TURNS} turns; there may be older ones.")
    elif kind == "chain" and turns[0].previous_id is not None:
        missing.append("The first of these turns continues a response that is no longer stored.")
    elif not turns:
        missing.append("No turn of this conversation is stored.")
    return {
        "id": id,
        "kind": kind,
        "turns": shown[::-1],
        "is_complete": not missing,
        "missing": missing,
    }


def _shown(turn: ThreadTurn, *, has_items: bool) -> ShownTurn:
    input, output = (
        objects_of([json_or_none(data) for data in items]) if has_items else []
        for items in (turn.input, turn.output)
    )
    return ShownTurn(
        turn.id, turn.previous_id, float(turn.created_at), turn.status, turn.model, input, output
    )


def _size(turn: ThreadTurn) -> int:
    return sum(len(data) for data in (*turn.input, *turn.output))
