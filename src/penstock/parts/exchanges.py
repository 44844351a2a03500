"""Tool calls and their outputs in the messages of an editor: which belong together, and under which id.

A conversation may hold calls of several providers (ask N4). Ours carry a prefix there and lose it
here; the others keep their ids. Whatever the ids are, no two calls are sent under one, and an id depends
only on what came before it, so that a longer conversation begins with the same bytes (ask D5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count

from msgspec import Struct
from msgspec.structs import replace

from penstock.parts.parts import ChatMessage, MessagePart, ToolCallPart, ToolResultPart
from penstock.tools.call_ids import fitting

PREFIX = "gw-"
"""Marks our call ids in the editor, which keeps the calls of all providers in one conversation.
It is put on when a call leaves for the editor and taken off when it comes back, once each, so the endpoint's
id is always restored; the prefix never counts towards the limit of 64 (decision 21)."""

Spot = tuple[int, int]
"""Where a part stands: the index of its message, and its own in there."""

NOWHERE: Spot = (-1, -1)


def to_editor(call_id: str) -> str:
    """The id of one of our calls, as the editor gets it."""
    return PREFIX + call_id


def from_editor(call_id: str) -> str:
    """The endpoint's own id; a foreign one is as it was."""
    return call_id.removeprefix(PREFIX)


class ToolExchange(Struct):
    """A call and what it gave back: where each stands first in the conversation."""

    wire_id: str = ""
    is_kept: bool = False
    """Is the id on the wire the one that the call came with? An endpoint knows its calls by no other."""
    call: Spot = NOWHERE
    output: Spot = NOWHERE
    result: ToolResultPart | None = None


class ToolExchanges:
    """Every call and every output of a conversation, found by its spot."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._at: dict[Spot, ToolExchange] = {}
        self._latest: dict[tuple[str, int], ToolExchange] = {}
        self._taken: set[str] = set()
        self._made_up = count(1)
        nameless = {ToolCallPart: count(1), ToolResultPart: count(1)}
        for spot, part in _tool_parts(messages):
            # Without an id the first output belongs to the first call, and so on.
            key = (part.call_id, 0 if part.call_id else next(nameless[type(part)]))
            if isinstance(part, ToolCallPart):
                self._at[spot] = self._called(key, spot)
            else:
                self._at[spot] = self._answered(key, spot, part)

    def _called(self, key: tuple[str, int], spot: Spot) -> ToolExchange:
        """The exchange that a call opens, or repeats.

        An id that comes again before its output is a call that was doubled. After its output it is another
        call: some endpoints count from nought in every response, and ids are theirs (decision 7).
        """
        exchange = self._latest.get(key)
        if exchange is None or exchange.output > exchange.call > NOWHERE:
            exchange = self._latest[key] = ToolExchange()
        if exchange.call == NOWHERE:
            exchange.call = spot
            self._name(exchange, from_editor(key[0]))
        return exchange

    def _answered(self, key: tuple[str, int], spot: Spot, part: ToolResultPart) -> ToolExchange:
        exchange = self._latest.setdefault(key, ToolExchange())
        if exchange.result is None:
            exchange.output, exchange.result = spot, part
        return exchange

    def __getitem__(self, spot: Spot) -> ToolExchange:
        return self._at[spot]

    def __iter__(self) -> Iterator[ToolExchange]:
        """Those that have a call, in the order of the calls."""
        return (each for spot, each in self._at.items() if each.call == spot)

    def _name(self, exchange: ToolExchange, own: str) -> None:
        """Short enough, and nobody else's: `gw-x` of ours and a foreign `x` may meet in one conversation."""
        wanted = fitting(own) or f"call_{next(self._made_up)}"
        others = (fitting(f"{wanted}-{number}") for number in count(2))
        exchange.wire_id = next(each for each in chain([wanted], others) if each not in self._taken)
        exchange.is_kept = exchange.wire_id == own
        self._taken.add(exchange.wire_id)


def without_repeats(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The messages as they are sent: of a call that another provider doubled one, with one output."""
    exchanges = ToolExchanges(messages)

    def is_sent(spot: Spot, part: MessagePart) -> bool:
        if isinstance(part, ToolCallPart):
            return exchanges[spot].call == spot
        if isinstance(part, ToolResultPart):
            return exchanges[spot].call == NOWHERE or exchanges[spot].output == spot
        return True

    kept = [
        [part for index, part in enumerate(message.content) if is_sent((number, index), part)]
        for number, message in enumerate(messages)
    ]
    return [
        message if len(parts) == len(message.content) else replace(message, content=parts)
        for message, parts in zip(messages, kept, strict=True)
    ]


def _tool_parts(messages: Sequence[ChatMessage]) -> Iterator[tuple[Spot, ToolCallPart | ToolResultPart]]:
    for number, message in enumerate(messages):
        for index, part in enumerate(message.content):
            if isinstance(part, ToolCallPart | ToolResultPart):
                yield (number, index), part
