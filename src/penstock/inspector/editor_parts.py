"""`GET inspector/api/turns/{id}/parts`: the parts that an editor receives from this turn, in order."""

from __future__ import annotations

from typing import Any, cast

from penstock.errors import DecodeError
from penstock.explain.account import Account
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.inspector.answers import choice, desk_of, while_connected
from penstock.inspector.lookup import find_content
from penstock.inspector.turn_report import weight_of
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.parts.item_parts import Thinking
from penstock.parts.parts import Part
from penstock.parts.wire import error_to_json, part_to_json, result_to_json
from penstock.protocol.events import decode_event

Json = dict[str, Any]


async def show_parts(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, turn_id: str) -> None:
    thinking = cast(Thinking, choice(exchange, "thinking", "text", "part", "none"))
    account = await find_content(gateway, key, turn_id)
    await desk_of(gateway).answer(
        exchange, weight_of(account), lambda: editor_parts(account, thinking, exchange)
    )


def editor_parts(account: Account, thinking: Thinking, exchange: Exchange | None = None) -> Json:
    """Return the lines of `penstock parts`, each part with the event that completed it. A turn that is still
    running has no result yet."""
    adapter = OpenResponsesStreamAdapter(thinking=thinking)
    shown: list[Json] = []
    at_ms, sequence, skipped = 0.0, -1, 0
    begin = account.begin  # reads all times

    def show(parts: list[Part]) -> None:
        shown.extend({"at_ms": at_ms, "sequence": sequence, "part": part_to_json(part)} for part in parts)

    for logged in while_connected(exchange, account.events):
        at_ms, sequence = round((logged.time - begin) * 1000, 3), logged.sequence
        try:
            show(adapter.feed(decode_event(logged.data)))
        except DecodeError:
            skipped += 1
    if account.is_running:
        return {"parts": shown, "result": None, "error": None, "skipped": skipped}
    show(adapter.end())
    result = adapter.result
    error = error_to_json(result.error) if result.error is not None else None
    return {"parts": shown, "result": result_to_json(result), "error": error, "skipped": skipped}
