"""What a family of tools is: how calls of one tool type stand on the wire.

A family is one file with one class. It says which item a call is, and turns the arguments, which an upstream
streams as the JSON text of a function's arguments, into the item's own fields and events as they come.
`families.py` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from penstock.protocol.events import Event
from penstock.protocol.items import Item
from penstock.tools.identity import ToolIdentity

Numbers = Callable[[], int]
"""Gives the next sequence number."""


class CallStream(ABC):
    """One call, from its announcement to its end."""

    item_type: ClassVar[str]

    def __init__(
        self, identity: ToolIdentity, *, item_id: str, call_id: str, output_index: int, raw: bool = False
    ) -> None:
        """`raw`: what is fed is the tool's own text already, and not JSON around it."""
        self.identity = identity
        self.item_id = item_id
        self.call_id = call_id
        self.output_index = output_index
        self.raw = raw
        self._chunks: list[str] = []

    @property
    def received(self) -> str:
        """The arguments as the upstream sent them."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def feed(self, fragment: str, number: Numbers) -> list[Event]:
        """The events for the next piece of the arguments."""
        self._chunks.append(fragment)
        return self._emit(fragment, number)

    def may_end_with(self, arguments: str) -> bool:  # noqa: ARG002 - families that care override this
        """Is this whole object all that the call says, so that what follows is something else?"""
        return True

    @abstractmethod
    def _emit(self, fragment: str, number: Numbers) -> list[Event]:
        """The events for a piece that was just received."""

    @abstractmethod
    def close(self, number: Numbers, *, complete: bool) -> list[Event]:
        """The events that end the arguments. Not `complete`: the call was cut and stays as it is."""

    @abstractmethod
    def item(self, status: str) -> Item:
        """The call as an item, with what was fed so far."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Could the arguments end here?"""

    @property
    def flaw(self) -> str:
        """What is odd about the arguments, for a diagnostic; empty when nothing is."""
        return ""
