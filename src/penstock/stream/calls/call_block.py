"""One tool call while it is put together."""

from __future__ import annotations

from msgspec import Struct

from penstock.protocol.items import Item
from penstock.stream.calls.trailing_arguments import TrailingArguments
from penstock.stream.deltas import Key
from penstock.stream.output import IN_PROGRESS
from penstock.tools.family import CallStream
from penstock.tools.jsontext import ObjectScanner


class Piece(Struct, frozen=True):
    """Arguments as a delta brought them: a fragment, or all of them."""

    text: str
    whole: bool
    has_id: bool


class ToolCallBlock:
    """One call: what the upstream said of it, and, from its announcement on, its place in the output."""

    def __init__(self, key: Key | None, id: str | None, tail: TrailingArguments | None = None) -> None:
        self.key = key
        self.id = id
        self.output_index = -1
        self.status = IN_PROGRESS
        self.name = ""
        self.name_is_final = False
        self.namespace: str | None = None
        self.raw = False
        """The arguments are a custom tool's own text, and no JSON."""
        self.call: CallStream | None = None
        """The announced call."""
        self.suppressed = False
        self.waiting: list[Piece] = []
        """Arguments that came before any name."""
        self.scanner = ObjectScanner()
        self.splits = True
        """False once the arguments have shown to have no end: no part of them can be another call's then."""
        self.is_whole = False
        """The arguments are one whole object. What follows is no part of them."""
        self.ended = False
        """The upstream said that no more arguments follow."""
        self.tail = tail or TrailingArguments()
        self.slots_at_last_fragment = 0

    @property
    def is_open(self) -> bool:
        return self.status == IN_PROGRESS and not self.suppressed

    @property
    def announced(self) -> CallStream:
        assert self.call is not None, "the call has been announced"
        return self.call

    @property
    def item(self) -> Item:
        return self.announced.item(self.status)

    @property
    def problem(self) -> str:
        """Why this call cannot end well now; empty if it can."""
        if self.tail.cut_short:
            return f"a second call to {self.name!r} was cut in the middle of its arguments"
        if not self.is_open:
            return ""
        if not self.name:
            return "a tool call never got a name"
        if self.call is not None and not self.call.is_complete:
            return f"the arguments of the call to {self.name!r} are not whole JSON"
        return ""

    def may_be_called(self, name: str | None) -> bool:
        """Could a delta with this name be about this call?"""
        return not name or name == self.name or not self.name_is_final
