"""One tool call while it is assembled."""

from __future__ import annotations

from msgspec import Struct

from penstock.protocol.items import Item
from penstock.stream.calls.trailing_arguments import TrailingArguments
from penstock.stream.deltas import Key, ToolCallDelta
from penstock.stream.output import IN_PROGRESS
from penstock.tools.family import CallStream
from penstock.tools.jsontext import ObjectScanner


class Piece(Struct, frozen=True):
    """The arguments of one delta: a fragment, or all of them (`is_complete`)."""

    text: str
    is_complete: bool
    has_id: bool


class ToolCallBlock:
    """One call: what the upstream sent and, once announced, its position in the output."""

    def __init__(self, key: Key | None, id: str | None, tail: TrailingArguments | None = None) -> None:
        self.key = key
        self.id = id
        self.output_index = -1
        self.status = IN_PROGRESS
        self.name = ""
        self.name_is_final = False
        self.namespace: str | None = None
        self.raw = False
        """The arguments are a custom tool's own text, not JSON."""
        self.call: CallStream | None = None
        """The call, once its name is final."""
        self.suppressed = False
        self.pending: list[Piece] = []
        """Arguments that arrived before the name."""
        self.scanner = ObjectScanner()
        self.splits = True
        """False if the end of the arguments cannot be detected: all text then belongs to this call."""
        self.is_complete = False
        """The arguments are one complete object. Text that follows is not part of them."""
        self.ended = False
        """The upstream signalled the end of the arguments."""
        self.tail = tail or TrailingArguments()
        self.slots_at_last_fragment = 0

    @property
    def is_open(self) -> bool:
        return self.status == IN_PROGRESS and not self.suppressed

    @property
    def is_placed(self) -> bool:
        """Whether the call is in the output, which means that it was announced."""
        return self.output_index >= 0

    @property
    def announced(self) -> CallStream:
        assert self.call is not None, "the name of the call is not final"
        return self.call

    @property
    def item(self) -> Item:
        return self.announced.item(self.status)

    @property
    def problem(self) -> str:
        """Why this call cannot end normally now; empty if it can."""
        if self.tail.cut_short:
            return f"a second call to {self.name!r} was cut off in the middle of its arguments"
        if not self.is_open:
            return ""
        if not self.name:
            return "a tool call has no name"
        if self.call is not None and not self.call.is_complete:
            return f"the arguments of the call to {self.name!r} are not complete JSON"
        return ""

    @property
    def is_placeholder(self) -> bool:
        """Whether the upstream sent neither a name nor arguments: some end their calls with such an entry."""
        return not self.name and not any(piece.text for piece in self.pending)

    def takes(self, delta: ToolCallDelta) -> bool:
        """Return whether a delta with this call's key is nothing but the next fragment of its arguments."""
        return self.call is not None and (delta.type is None or self.raw) and bool(delta.fragment)

    def may_be_called(self, name: str | None) -> bool:
        """Return whether a delta with this name can belong to this call."""
        return not name or name == self.name or not self.name_is_final
