"""Items of tools that the vendor runs: web searches, code execution, calls to MCP servers.

The vendor's item is passed on unchanged, except for its id and its call id, which are ours.
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
"""Types that have their own deltas, or that never occur in a response: here they would bypass the rules."""

_CONSTANT = ("name", "namespace", "role", "call_id")
_ENDED = (COMPLETED, INCOMPLETE)
_FAILED = "failed"
_SPECIFIED = ("function_call_output", "compaction")
"""Items of the specification, which cannot end as `failed`; a vendor's own items can."""


class HostedItem:
    """One item of a tool that the vendor runs."""

    def __init__(self, item: Item, *, item_id: str, call_id: str | None) -> None:
        self.item_id = item_id
        self.output_index = -1
        self.is_open = True
        self.postponed: Item | None = None
        """Its final state, if it is done but ends with the response."""
        self._call_id = call_id
        self._announced = item
        self._item = item
        # An item that is left incomplete is open until the response ends.
        self._status = IN_PROGRESS if self._vendor_status in ("", INCOMPLETE) else self._vendor_status

    @property
    def _vendor_status(self) -> str:
        """The vendor's status, if it is a final status of the specification; `searching` is not."""
        status: str = getattr(self._item, "status", "")
        ended = _ENDED if self._item.type in _SPECIFIED else (*_ENDED, _FAILED)
        return status if status in ended else ""

    @property
    def item(self) -> Item:
        ours: dict[str, Any] = {"id": self.item_id, "status": self._status}
        if self._call_id is not None:
            ours["call_id"] = self._call_id
        declared = {name: value for name, value in ours.items() if name in self._item.__struct_fields__}
        # The vendor's own values, including nulls, must not override ours through the unknown fields.
        rest = {name: value for name, value in (self._item.extra or {}).items() if name not in ours}
        rest |= {name: value for name, value in ours.items() if name not in declared}
        return replace(self._item, **declared, extra=rest or UNSET)

    def end(self, item: Item | None, status: str) -> None:
        """End the item, as `item` if the vendor sent its final state, else with `status`.

        A done item is never `in_progress` (quirk R7), and no item of a complete response is `incomplete`.
        """
        if item is not None and item.type == self._announced.type:
            self._item = _with_constants(item, self._announced)
        self._status = self._vendor_status or status
        if (self._status, status) == (INCOMPLETE, COMPLETED):
            self._status = COMPLETED if self._item.type in _SPECIFIED else _FAILED
        self.is_open = False


def _with_constants(item: Item, announced: Item) -> Item:
    """Return `item` with the fields that must not change after the announcement (decision 4)."""
    constants = {name: value for name, value in (announced.extra or {}).items() if name in _CONSTANT}
    return replace(item, extra={**(item.extra or {}), **constants}) if constants else item
