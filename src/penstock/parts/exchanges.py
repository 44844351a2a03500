"""Match tool calls with their outputs in an editor's messages, and assign the ids to send.

A conversation may contain calls from several providers (ask N4). Ours have a prefix in the editor, which is
removed here; the others keep their ids. No two calls are sent with the same id, and an id depends only on
what precedes it, so that a longer conversation begins with the same bytes (ask D5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count

from msgspec import Struct
from msgspec.structs import replace

from penstock.parts.parts import ChatMessage, MessagePart, ToolCallPart, ToolResultPart
from penstock.tools.call_ids import fitting

PREFIX = "gw-"
"""Marks our call ids in the editor, which stores the calls of all providers in one conversation.
It is added once when a call goes to the editor and removed once when the call returns, so the endpoint's id
is always restored. The prefix does not count towards the limit of 64 (decision 21)."""

Position = tuple[int, int]
"""The position of a part: the index of its message, and its index in that message."""

NO_POSITION: Position = (-1, -1)


def to_editor(call_id: str) -> str:
    """Return the id of one of our calls as the editor sees it."""
    return PREFIX + call_id


def from_editor(call_id: str) -> str:
    """Return the endpoint's own id; ids of other providers are unchanged."""
    return call_id.removeprefix(PREFIX)


class ToolExchange(Struct):
    """A call and its output, with the first position of each in the conversation."""

    wire_id: str = ""
    has_original_id: bool = False
    """Whether the call is sent with its original id, the only one that its endpoint knows."""
    call: Position = NO_POSITION
    output: Position = NO_POSITION
    result: ToolResultPart | None = None


class ToolExchanges:
    """All calls and outputs of a conversation, by position."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._by_position: dict[Position, ToolExchange] = {}
        self._latest: dict[tuple[str, int], ToolExchange] = {}
        self._used_ids: set[str] = set()
        self._generated_numbers = count(1)
        unnamed = {ToolCallPart: count(1), ToolResultPart: count(1)}
        for position, part in _tool_parts(messages):
            # Without ids, the first output belongs to the first call, and so on.
            key = (part.call_id, 0 if part.call_id else next(unnamed[type(part)]))
            if isinstance(part, ToolCallPart):
                self._by_position[position] = self._exchange_of_call(key, position)
            else:
                self._by_position[position] = self._exchange_of_output(key, position, part)

    def _exchange_of_call(self, key: tuple[str, int], position: Position) -> ToolExchange:
        """Return the exchange that a call starts or repeats.

        An id that repeats before its output is a duplicate call. After its output it is a new call: some
        endpoints number calls from 0 in every response, and the ids are theirs (decision 7).
        """
        exchange = self._latest.get(key)
        if exchange is None or exchange.output > exchange.call > NO_POSITION:
            exchange = self._latest[key] = ToolExchange()
        if exchange.call == NO_POSITION:
            exchange.call = position
            self._assign_id(exchange, from_editor(key[0]))
        return exchange

    def _exchange_of_output(
        self, key: tuple[str, int], position: Position, part: ToolResultPart
    ) -> ToolExchange:
        exchange = self._latest.setdefault(key, ToolExchange())
        if exchange.result is None:
            exchange.output, exchange.result = position, part
        return exchange

    def __getitem__(self, position: Position) -> ToolExchange:
        return self._by_position[position]

    def __iter__(self) -> Iterator[ToolExchange]:
        """Iterate over the exchanges that have a call, in the order of the calls."""
        return (each for position, each in self._by_position.items() if each.call == position)

    def _assign_id(self, exchange: ToolExchange, original_id: str) -> None:
        """Assign a short, unique id: our `gw-x` and another provider's `x` may be in one conversation."""
        preferred = fitting(original_id) or f"call_{next(self._generated_numbers)}"
        alternatives = (fitting(f"{preferred}-{number}") for number in count(2))
        exchange.wire_id = next(
            each for each in chain([preferred], alternatives) if each not in self._used_ids
        )
        exchange.has_original_id = exchange.wire_id == original_id
        self._used_ids.add(exchange.wire_id)


def without_repeats(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return the messages without duplicate calls and outputs, as they are sent."""
    exchanges = ToolExchanges(messages)

    def is_sent(position: Position, part: MessagePart) -> bool:
        if isinstance(part, ToolCallPart):
            return exchanges[position].call == position
        if isinstance(part, ToolResultPart):
            return exchanges[position].call == NO_POSITION or exchanges[position].output == position
        return True

    remaining = [
        [part for index, part in enumerate(message.content) if is_sent((number, index), part)]
        for number, message in enumerate(messages)
    ]
    return [
        message if len(parts) == len(message.content) else replace(message, content=parts)
        for message, parts in zip(messages, remaining, strict=True)
    ]


def _tool_parts(messages: Sequence[ChatMessage]) -> Iterator[tuple[Position, ToolCallPart | ToolResultPart]]:
    for number, message in enumerate(messages):
        for index, part in enumerate(message.content):
            if isinstance(part, ToolCallPart | ToolResultPart):
                yield (number, index), part
