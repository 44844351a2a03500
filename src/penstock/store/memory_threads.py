"""Threads in memory, from the turns and conversations of one tenant. See `threads.Threads`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from penstock.store.records import StoredItem
from penstock.store.threads import (
    OPENING_BYTES,
    OPENING_ITEMS,
    ChainRow,
    ChainScan,
    ListedThread,
    StoredThread,
    ThreadPage,
    ThreadTurn,
)
from penstock.store.turn_buffer import TurnBuffer

ModelOf = Callable[[str], str]
"""Returns the model of a turn, as in the ledger."""
Talks = Mapping[str, tuple[float, Sequence[StoredItem]]]
"""When each conversation was changed, and its items."""


class TurnTree:
    """Turns, in the order in which they began, and the first turn of the chain that each belongs to."""

    def __init__(self, turns: Sequence[TurnBuffer], model_of: ModelOf) -> None:
        self.turns: dict[str, TurnBuffer] = {}
        self._first: dict[str, str] = {}
        self._by_conversation: dict[str | None, list[TurnBuffer]] = {}
        self._model_of = model_of
        for turn in turns:
            id, previous_id = turn.opened.id, turn.opened.previous_id
            self._first[id] = id if previous_id is None else self._first.get(previous_id, id)
            self.turns[id] = turn
            self._by_conversation.setdefault(turn.opened.conversation_id, []).append(turn)

    def continuations(self, id: str) -> list[str]:
        return [each for each, turn in self.turns.items() if turn.opened.previous_id == id]

    def chain_turns(self, id: str, limit: int) -> list[ThreadTurn]:
        first = self._first.get(id)
        return self._last(limit, (turn for each, turn in self.turns.items() if self._first[each] == first))

    def conversation_turns(self, id: str, limit: int) -> list[ThreadTurn]:
        return self._last(limit, self._by_conversation.get(id, ()))

    def _last(self, limit: int, turns: Iterable[TurnBuffer]) -> list[ThreadTurn]:
        return [self._thread_turn(turn) for turn in [*turns][-max(limit, 1) :]]

    def _thread_turn(self, turn: TurnBuffer) -> ThreadTurn:
        found = turn.turn()
        return ThreadTurn(
            id=found.id,
            previous_id=turn.opened.previous_id,
            created_at=turn.opened.created_at,
            status=found.status,
            model=self._model_of(found.id),
            input=tuple(item.data for item in found.input),
            output=tuple(item.data for item in found.output),
        )

    def threads(self, talks: Talks, after: str, limit: int) -> ThreadPage:
        scan = ChainScan(after, limit)
        scan.add(self._rows())
        scan.finish()
        found = sorted(((time, id) for id, (time, _) in talks.items()), reverse=True)
        page, cursor = scan.page([each for each in found if each < scan.after])
        return ThreadPage(tuple(self._details(each, talks) for each in page), cursor)

    def _rows(self) -> Iterable[ChainRow]:
        for id, turn in self.turns.items():
            opened = turn.opened
            yield self._first[id], id, opened.created_at, opened.previous_id is not None

    def _details(self, thread: ListedThread, talks: Talks) -> StoredThread:
        turns, last_id = thread.turns, thread.last_id
        if thread.kind == "conversation":
            own, items = self._by_conversation.get(thread.id, ()), talks[thread.id][1]
            turns, last_id = len(own), own[-1].opened.id if own else ""
        else:
            items = self.turns[thread.id].opened.input
        small = (item.data for item in items if len(item.data) <= OPENING_BYTES)
        return StoredThread(
            kind=thread.kind,
            id=thread.id,
            changed_at=thread.position[0],
            turns=turns,
            last_id=last_id,
            model=self._model_of(last_id),
            opening=tuple(islice(small, OPENING_ITEMS)),
        )
