"""Items that a vendor makes whole: web searches, code it executes, calls to its own MCP servers.

The vendor's item is kept as it is; its id is ours, and so is the call id where it has one.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from penstock.protocol.items import Item
from penstock.stream.output import COMPLETED, IN_PROGRESS, INCOMPLETE

NEVER_HOSTED = frozenset(
    {"message", "reasoning", "function_call", "custom_tool_call", "item_reference", "additional_tools"}
)
"""Types that have deltas of their own, or no place in an answer: here they would bypass the rules."""

_CONSTANT = ("name", "namespace", "role", "call_id")
_ENDED = (COMPLETED, INCOMPLETE)
_SPECIFIED = ("function_call_output", "compaction")
"""Items of the specification, which know no other ends; a vendor's own may also have failed."""


class HostedItem:
    """One such item."""

    def __init__(self, item: Item, *, item_id: str, call_id: str | None) -> None:
        self.item_id = item_id
        self.output_index = -1
        self.is_open = True
        self._call_id = call_id
        self._announced = item
        self._item = item
        self._status = self._told_status or IN_PROGRESS

    @property
    def _told_status(self) -> str:
        """What the vendor says, if it is one of the specification's; `searching` and its like are not."""
        status: str = getattr(self._item, "status", "")
        ended = _ENDED if self._item.type in _SPECIFIED else (*_ENDED, "failed")
        return status if status in ended else ""

    @property
    def item(self) -> Item:
        ours: dict[str, Any] = {"id": self.item_id, "status": self._status}
        if self._call_id is not None:
            ours["call_id"] = self._call_id
        declared = {name: value for name, value in ours.items() if name in self._item.__struct_fields__}
        # The vendor's own values, nulls among them, must not come back from among the unknown fields.
        rest = {name: value for name, value in (self._item.extra or {}).items() if name not in ours}
        rest |= {name: value for name, value in ours.items() if name not in declared}
        return replace(self._item, **declared, extra=rest or UNSET)

    def end(self, item: Item | None, status: str) -> None:
        """The item is done, as `item` if the vendor said how, else with `status`.

        What is done is never left in progress (quirk R7).
        """
        if item is not None and item.type == self._announced.type:
            self._item = _with_constants(item, self._announced)
        self._status = self._told_status or status
        self.is_open = False


def _with_constants(item: Item, announced: Item) -> Item:
    """`item` with what an item never changes after it was announced (decision 4)."""
    told = {name: value for name, value in (announced.extra or {}).items() if name in _CONSTANT}
    return replace(item, extra={**(item.extra or {}), **told}) if told else item
