"""Thinking on its way back: the reasoning items that a model gets again.

The adapter shows a reasoning item as thinking parts and puts the item itself into the metadata of the last
one, with the model that thought it (ask N3). The editor gives them back within a turn. Editors join
parts and repeat metadata, so a block is whatever shares an id, and an item comes once. Thinking of other
providers and of other models is nothing that this model could read: it is left out (ask N4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.parts.parts import MessagePart, ThinkingPart
from penstock.protocol.items import ReasoningItem
from penstock.protocol.wire import encode, read

METADATA = "openresponses"
"""The key of our metadata on thinking: the reasoning item to send back, and the model that it is of."""

_PARAGRAPH = re.compile(r":[0-9]+\Z")
"""What the adapter puts behind an item's id for the later parts of its summary."""


class ReturnedReasoning(Struct, frozen=True):
    """The reasoning of one message: items by the index of the part where their block begins.

    `left_out` counts the blocks that are not this model's.
    """

    items: dict[int, list[ReasoningItem]]
    left_out: int


def returned_reasoning(parts: Sequence[MessagePart], model: str) -> ReturnedReasoning:
    blocks = _blocks(parts)
    first: dict[str, int] = {}
    for index, block in blocks.items():
        first.setdefault(block, index)
    items: dict[int, list[ReasoningItem]] = {}
    returned: set[str] = set()
    seen: set[str] = set()
    for index, block in blocks.items():
        item = _item(parts[index], model)
        if item is None:
            continue
        # Parts are named after their item; one that has no id is known by what it holds.
        identity = item.id or encode(item).decode()
        if identity not in seen:
            start = min(first[block], first.get(identity, index))
            items.setdefault(start, []).append(item)
        seen.add(identity)
        returned |= {block, identity}
    said = {block for index, block in blocks.items() if _says_something(parts[index])}
    return ReturnedReasoning(items, len(said - returned))


def _blocks(parts: Sequence[MessagePart]) -> dict[int, str]:
    """The block of each thinking part, by the part's index: its id, or for one without the neighbour's."""
    blocks: dict[int, str] = {}
    runs = groupby(enumerate(parts), key=lambda numbered: isinstance(numbered[1], ThinkingPart))
    for _, run in (each for each in runs if each[0]):
        numbered = [(index, _block_id(part)) for index, part in run if isinstance(part, ThinkingPart)]
        nameless = f"\0{numbered[0][0]}"
        block = next((id for _, id in numbered if id), nameless)
        for index, id in numbered:
            block = blocks[index] = id or block
    return blocks


def _block_id(part: ThinkingPart) -> str:
    return _PARAGRAPH.sub("", part.id or "")


def _says_something(part: MessagePart) -> bool:
    return isinstance(part, ThinkingPart) and bool("".join(part.value) or part.metadata)


def _item(part: MessagePart, model: str) -> ReasoningItem | None:
    """The reasoning item that a part brings back, if it is ours and of this model."""
    metadata = part.metadata if isinstance(part, ThinkingPart) else None
    ours: Any = (metadata or {}).get(METADATA)
    if not isinstance(ours, Mapping) or not isinstance(ours.get("reasoning"), Mapping):
        return None
    thought_by = ours.get("model")
    if model and thought_by and thought_by != model:
        return None
    try:
        item = read(dict(ours["reasoning"]), ReasoningItem)
    except DecodeError:
        return None
    # The status was the stream's; what is given back is whole, and some endpoints refuse the field.
    return replace(item, status=UNSET) if item.type == "reasoning" else None
