"""The output of a response: its items in order, and the sequence numbers of their events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.protocol.events import Event, OutputItemEvent
from penstock.protocol.items import ID_PREFIXES, Item

IN_PROGRESS, COMPLETED, INCOMPLETE = "in_progress", "completed", "incomplete"


class Slot(Protocol):
    """A position in the output. It is assigned when an item is announced, and never changes."""

    output_index: int

    @property
    def item(self) -> Item:
        """The item in its current state."""


class Output:
    """The output so far: the slots in order, and the sources of sequence numbers and ids."""

    __slots__ = ("end_current", "new_id", "number", "slots")

    def __init__(self, number: Callable[[], int], new_id: Callable[[str], str]) -> None:
        self.number = number
        self.new_id = new_id
        self.slots: list[Slot] = []
        self.end_current: Callable[[], list[Event]] = list
        """Ends the current block, which takes deltas without a key; called when another item begins."""

    def place(self, slot: Slot) -> None:
        slot.output_index = len(self.slots)
        self.slots.append(slot)

    def item_id(self, item_type: str) -> str:
        return self.new_id(ID_PREFIXES.get(item_type, "item"))

    def added(self, slot: Slot) -> Event:
        """Return the event that announces the item of a slot that was just placed."""
        return self._item_event("response.output_item.added", slot)

    def done(self, slot: Slot) -> Event:
        return self._item_event("response.output_item.done", slot)

    def _item_event(self, type: str, slot: Slot) -> Event:
        return OutputItemEvent(
            type=type, sequence_number=self.number(), output_index=slot.output_index, item=slot.item
        )
