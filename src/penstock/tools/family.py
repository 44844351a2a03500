"""The interface of a family of tools: how calls of one tool type are written to the wire.

A family is one file with one class. It defines the item type of a call, and turns the arguments, which an
upstream streams as the JSON text of a function's arguments, into the fields and events of that item as they
arrive. `families.py` lists the families.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from penstock.protocol.events import Event
from penstock.protocol.items import Item
from penstock.tools.identity import ToolIdentity

Numbers = Callable[[], int]
"""Returns the next sequence number."""


class CallStream(ABC):
    """One call, from its announcement to its end."""

    item_type: ClassVar[str]

    def __init__(
        self, identity: ToolIdentity, *, item_id: str, call_id: str, output_index: int, raw: bool = False
    ) -> None:
        """`raw`: the arguments are the tool's own text, not wrapped in JSON."""
        self.identity = identity
        self.item_id = item_id
        self.call_id = call_id
        self.output_index = output_index
        self.raw = raw
        self._chunks: list[str] = []

    @property
    def received(self) -> str:
        """The arguments as received from the upstream."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, fragment: str, number: Numbers) -> list[Event]:
        """Add a fragment of the arguments; return its events."""
        self._chunks.append(fragment)
        return self._emit(fragment, number)

    def may_end_with(self, arguments: str) -> bool:  # noqa: ARG002 - families that care override this
        """Return whether this complete object can be all of the arguments, so that other text may follow."""
        return True

    @abstractmethod
    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        """Return the events for a fragment that was just received."""

    @abstractmethod
    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        """Return the events that end the arguments. Unless `complete`, the call was cut off."""

    @abstractmethod
    def item(self, status: str) -> Item:
        """Return the call as an item, with the arguments received so far."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the arguments can end here."""

    @property
    def flaw(self) -> str:
        """What is wrong with the arguments, for a diagnostic; empty if nothing is."""
        return ""
