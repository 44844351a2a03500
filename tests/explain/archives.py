"""An archive with one turn in memory, and the account of it."""

from __future__ import annotations

from typing import Any, cast

from penstock.explain.account import Account, read_account
from penstock.store.contract import StoreArchive
from penstock.store.records import LoggedEvent, StoredItem, StoredResponse, Trace
from tests.stored_turns import ANSWER, Turn, answer, failure, log, request, trace

CREATED: dict[str, Any] = {"type": "response.created"}
IN_PROGRESS: dict[str, Any] = {"type": "response.in_progress"}
COMPLETED: dict[str, Any] = {"type": "response.completed"}
DELTA: dict[str, Any] = {"type": "response.output_text.delta", "delta": ANSWER}
MESSAGE: dict[str, Any] = {"type": "message", "id": "msg_1", "content": []}
CALL: dict[str, Any] = {"type": "function_call", "id": "fc_1", "name": "look_up", "arguments": ANSWER}
USAGE = {
    "input_tokens": 1_200,
    "output_tokens": 34,
    "input_tokens_details": {"cached_tokens": 1_000},
    "output_tokens_details": {"reasoning_tokens": 12},
}


def added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}}


def done(item: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": {**item, "status": status}}


def fallback_turn(**changes: Any) -> Turn:
    """Return a turn in which the first upstream failed and the second one answered."""
    values: dict[str, Any] = {
        "traces": [
            request(0.0, "first"),
            failure(0.2, "rate_limit_exceeded", 429),
            request(0.3, "second", "model-y"),
            answer(0.5),
            trace(0.6, "read", size=1_000),
            trace(1.8, "read", size=2_000),
            trace(1.9, "read", size=400),
            trace(2.6, "read"),
        ],
        "events": log(
            (0.5, CREATED),
            (0.5, IN_PROGRESS),
            (0.6, added(MESSAGE)),
            (0.6, DELTA),
            (1.8, DELTA),
            (1.85, done(MESSAGE)),
            (1.85, added(CALL)),
            (1.9, DELTA),
            (2.6, done(CALL)),
            (2.6, COMPLETED),
        ),
        "response": {"usage": USAGE},
        "verdict": {
            "closer": "upstream",
            "client": "laptop",
            "duration_ms": 2_100,
            "first_output_ms": 650,
            "overhead_ms": 3.2,
        },
    }
    return Turn("resp_a", **{**values, **changes})


class TurnArchive:
    """The part of `StoreArchive` that `explain` reads."""

    def __init__(self, turn: Turn, dropped: int = 0) -> None:
        self._turn, self._dropped = turn, dropped

    def find(self, id: str) -> StoredResponse | None:
        opened, closed = self._turn.opened, self._turn.closed
        if id != opened.id:
            return None
        return StoredResponse(
            id=opened.id,
            tenant=opened.tenant,
            created_at=opened.created_at,
            status=closed.status,
            previous_id=opened.previous_id,
            conversation_id=opened.conversation_id,
            is_background=opened.is_background,
            request=opened.request,
            response=closed.response,
            verdict=closed.verdict,
            dropped=self._dropped,
        )

    def events(self, _tenant: str, _id: str) -> list[LoggedEvent]:
        return [*self._turn.events]

    def traces(self, _tenant: str, _id: str) -> list[Trace]:
        return [*self._turn.traces]

    def input(self, _tenant: str, _id: str) -> list[StoredItem]:
        return [*self._turn.opened.input]

    def output(self, _tenant: str, _id: str) -> list[StoredItem]:
        return [*self._turn.closed.output]


def archive_of(turn: Turn, dropped: int = 0) -> StoreArchive:
    return cast(StoreArchive, TurnArchive(turn, dropped))


def account_of(turn: Turn, dropped: int = 0) -> Account:
    account = read_account(archive_of(turn, dropped), turn.opened.id)
    assert account is not None
    return account
