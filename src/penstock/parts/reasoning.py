"""Restore the reasoning items that an editor returns to the model.

The adapter reports a reasoning item as thinking parts and stores the item in the metadata of the last one,
with the id of its model (ask N3). The editor returns them within a turn. Editors join parts and repeat
metadata, so all parts with the same id form a block, and each item is sent once. This model cannot read the
thinking of other providers and other models, so it is omitted (ask N4).
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
"""The key of our metadata on thinking parts: the reasoning item to return, and its model."""

_PARAGRAPH = re.compile(r":[0-9]+\Z")
"""The suffix that the adapter adds to an item's id for the later parts of its summary."""


class ReturnedReasoning(Struct, frozen=True):
    """The reasoning items of one message, by the index of the part where their block begins.

    `omitted` counts the blocks of other models and providers.
    """

    items: dict[int, list[ReasoningItem]]
    omitted: int


def returned_reasoning(parts: Sequence[MessagePart], model: str) -> ReturnedReasoning:
    """Return the reasoning items in the parts of a message that belong to `model`."""
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
        # Parts have the id of their item; an item without an id is identified by its content.
        identity = item.id or encode(item).decode()
        if identity not in seen:
            start = min(first[block], first.get(identity, index))
            items.setdefault(start, []).append(item)
        seen.add(identity)
        returned |= {block, identity}
    not_empty = {block for index, block in blocks.items() if not _is_empty(parts[index])}
    return ReturnedReasoning(items, len(not_empty - returned))


def _blocks(parts: Sequence[MessagePart]) -> dict[int, str]:
    """Return the block of each thinking part by index: its id, or its neighbour's if it has none."""
    blocks: dict[int, str] = {}
    runs = groupby(enumerate(parts), key=lambda numbered: isinstance(numbered[1], ThinkingPart))
    for _, run in (each for each in runs if each[0]):
        numbered = [(index, _block_id(part)) for index, part in run if isinstance(part, ThinkingPart)]
        unnamed = f"\0{numbered[0][0]}"
        block = next((id for _, id in numbered if id), unnamed)
        for index, id in numbered:
            block = blocks[index] = id or block
    return blocks


def _block_id(part: ThinkingPart) -> str:
    return _PARAGRAPH.sub("", part.id or "")


def _is_empty(part: MessagePart) -> bool:
    return not isinstance(part, ThinkingPart) or not ("".join(part.value) or part.metadata)


def _item(part: MessagePart, model: str) -> ReasoningItem | None:
    """Return the reasoning item in a part's metadata, if it is ours and belongs to this model."""
    metadata = part.metadata if isinstance(part, ThinkingPart) else None
    ours: Any = (metadata or {}).get(METADATA)
    if not isinstance(ours, Mapping) or not isinstance(ours.get("reasoning"), Mapping):
        return None
    item_model = ours.get("model")
    if model and item_model and item_model != model:
        return None
    try:
        item = read(dict(ours["reasoning"]), ReasoningItem)
    except DecodeError:
        return None
    # Drop the status: a returned item is complete, and some endpoints reject the field.
    return replace(item, status=UNSET) if item.type == "reasoning" else None
