"""The tool-call assembler: turns whatever an upstream sends into calls that are announced once and end once.

Upstreams disagree on everything about a call: whether it has an index, when its id arrives, whether both are
repeated, and whether arguments arrive in fragments, complete, twice, or as one text for several calls. One
table, `POLICY`, decides which call a delta belongs to; `_take_name` and `_take_arguments` process its name
and its arguments. Every anomaly is reported as a diagnostic.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec
from msgspec import Struct

from penstock.errors import BridgeError
from penstock.lenient import is_json, join_surrogates
from penstock.protocol.events import Event
from penstock.protocol.items import CLIENT_CALLS, Item
from penstock.stream.calls.call_block import Piece, ToolCallBlock
from penstock.stream.calls.trailing_arguments import TrailingKind
from penstock.stream.deltas import Key, ToolCallDelta
from penstock.stream.diagnostics import Diagnostics
from penstock.stream.output import COMPLETED, INCOMPLETE, Output
from penstock.tools.call_ids import CallIds
from penstock.tools.families import FAMILIES
from penstock.tools.family import ToolIdentity
from penstock.tools.identity import ToolIdentityMap


class Sighting(StrEnum):
    """Whether a delta's id, or its key, was seen before. An empty id counts as absent (quirk C17)."""

    ABSENT = "absent"
    NEW = "new"
    KNOWN = "known"


class Action(StrEnum):
    OPEN = "open a new call"
    LATEST = "continue the latest call; open a new call if it has ended or there is none"
    BY_KEY = "continue the call with this key"
    BY_ID = "continue the call with this id"
    ADOPT = (
        "assign the id to the call with this key, unless it has an id or this is clearly another call; "
        "else open a new call"
    )
    TWIN = (
        "open a second call with this id, unless the known call has no key yet or this is a complete repeat "
        "of it"
    )
    AGREED = "continue the call with this id, or the call with this key if that has no other id"


class AssemblyRule(Struct, frozen=True):
    action: Action
    reason: str


POLICY: dict[tuple[Sighting, Sighting], AssemblyRule] = {
    # (id, key)
    (Sighting.ABSENT, Sighting.ABSENT): AssemblyRule(
        Action.LATEST, "some upstreams send neither (quirk C15)"
    ),
    (Sighting.ABSENT, Sighting.NEW): AssemblyRule(
        Action.OPEN, "the id is late or missing (quirk C19); one is generated"
    ),
    (Sighting.ABSENT, Sighting.KNOWN): AssemblyRule(Action.BY_KEY, "a normal fragment"),
    (Sighting.NEW, Sighting.ABSENT): AssemblyRule(Action.OPEN, "calls identified by id alone (quirk C15)"),
    (Sighting.NEW, Sighting.NEW): AssemblyRule(Action.OPEN, "a normal start"),
    (Sighting.NEW, Sighting.KNOWN): AssemblyRule(
        Action.ADOPT, "a late id, or parallel calls on one index (quirk C20, ask B5)"
    ),
    (Sighting.KNOWN, Sighting.ABSENT): AssemblyRule(Action.BY_ID, "calls identified by id alone"),
    (Sighting.KNOWN, Sighting.NEW): AssemblyRule(
        Action.TWIN, "the same id for two parallel calls (quirk C19)"
    ),
    (Sighting.KNOWN, Sighting.KNOWN): AssemblyRule(
        Action.AGREED, "the id is repeated with every fragment (quirk C17)"
    ),
}
"""Which call a delta belongs to. A repeated start or a repeated complete call opens no call (ask B4)."""


class ToolCallAssembler:
    """Assembles the calls of one response."""

    __slots__ = ("_blocks", "_by_id", "_by_key", "_call_ids", "_claimed", "_diagnostics", "_output", "_tools")

    def __init__(
        self,
        output: Output,
        tools: ToolIdentityMap,
        used_call_ids: Collection[str],
        diagnostics: Diagnostics,
    ) -> None:
        self._output = output
        self._tools = tools
        self._call_ids = CallIds(used_call_ids)
        self._claimed: set[str] = set()
        """The upstream's ids of the calls that were sent in this response."""
        self._diagnostics = diagnostics
        self._blocks: list[ToolCallBlock] = []
        self._by_key: dict[Key, ToolCallBlock] = {}
        self._by_id: dict[str, ToolCallBlock] = {}

    @property
    def suppressed(self) -> bool:
        """Whether any call was dropped because the request does not allow it."""
        return any(block.suppressed for block in self._blocks)

    def claim(self, item: Item) -> str | None:
        """Return the call id for a vendor's complete item: "" if it was already sent, None if it needs none.

        An item that a client acts on must not be sent twice, whatever its item ids (ask B4).
        """
        if item.type not in CLIENT_CALLS:
            return None
        id = getattr(item, "call_id", None) or (item.extra or {}).get("call_id")
        if not isinstance(id, str) or not id:
            return self._distinct(self._output.new_id("call"))
        if id in self._claimed:
            return ""
        self._claimed.add(id)
        return self._distinct(id)

    def _distinct(self, id: str) -> str:
        """Return the client's id for a call; report an upstream's id that had to be hashed (decision 7)."""
        call_id = self._call_ids.distinct(id)
        self._diagnostics.add_long_call_id(call_id, id)
        return call_id

    def feed(self, delta: ToolCallDelta) -> list[Event]:
        """Process a delta; return its events. Raise `TypeError` and change nothing if a field is invalid."""
        known = self._by_key.get(delta.key) if delta.key is not None else None
        if known is not None and known.takes(delta):
            return self._take_fragment(known, join_surrogates(delta.fragment))  # the usual case
        text, is_complete = _arguments_of(delta)
        if not (delta.id or delta.name or text or is_complete):
            return []  # ignore an empty entry (ask B6)
        block = self._find(delta, text if is_complete else "")
        block, events = self._take_name(block, delta)
        if text or is_complete:
            events += self._take_arguments(block, Piece(join_surrogates(text), is_complete, bool(delta.id)))
        return events

    # Which call

    def _find(self, delta: ToolCallDelta, arguments: str) -> ToolCallBlock:
        id, key = delta.id or None, delta.key
        with_id = None if id is None else self._by_id.get(id)
        with_key = None if key is None else self._by_key.get(key)
        found: ToolCallBlock | None = None
        match POLICY[_sighting(id, with_id), _sighting(key, with_key)].action:
            case Action.LATEST:
                found = self._blocks[-1] if self._blocks and not self._blocks[-1].ended else None
            case Action.BY_KEY:
                found = with_key
            case Action.BY_ID:
                found = with_id
            case Action.AGREED:
                found = with_key if with_key is not None and with_key.id in (id, None) else with_id
            case Action.ADOPT if with_key is not None and with_key.id is None:
                is_new_call = bool(delta.name) and (with_key.is_complete or with_key.ended)
                found = with_key if with_key.may_be_called(delta.name) and not is_new_call else None
            case Action.TWIN if with_id is not None:
                repeated = (
                    bool(arguments) and with_id.may_be_called(delta.name) and with_id.tail.knows(arguments)
                )
                found = with_id if with_id.key is None or repeated else None
                if found is None:
                    self._diagnostics.add("shared_call_id")
        if found is None:
            return self._open(ToolCallBlock(key, id))
        self._bind(found, key, id)
        return found

    def _open(self, block: ToolCallBlock) -> ToolCallBlock:
        self._blocks.append(block)
        if block.key is not None:
            self._by_key[block.key] = block
        if block.id is not None:
            self._by_id[block.id] = block
        return block

    def _bind(self, block: ToolCallBlock, key: Key | None, id: str | None) -> None:
        """Store a key or an id that is new for a known call."""
        if key is not None and key not in self._by_key:
            self._by_key[key] = block
            block.key = key if block.key is None else block.key
        if id is not None and block.id is None:
            block.id = id
            self._by_id[id] = block
            if block.call is not None:
                self._diagnostics.add("late_call_id")

    # Name

    def _take_name(self, block: ToolCallBlock, delta: ToolCallDelta) -> tuple[ToolCallBlock, list[Event]]:
        """Process the delta's name. If it begins another call, return that call instead of `block`."""
        name = join_surrogates(delta.name or "")
        if not name or name == block.name:
            self._set_kind(block, delta)
            return block, []
        events: list[Event] = []
        if not block.name_is_final:
            extended = self._extended_name(block.name, name)
            if extended is not None:
                self._set_kind(block, delta)
                block.name = extended
                if self._tools.may_grow(extended) and not block.pending and block.namespace is None:
                    return block, []
                return block, self._settle_name(block)
            events = self._settle_name(block)
        if delta.id and not (block.is_complete or block.ended):
            self._diagnostics.add("name_changed")
            return block, events
        # A different name, without an id or with the id of a complete call: another call (quirk C19, ask B5).
        self._diagnostics.add("shared_call_id" if delta.id else "unmarked_call")
        other = self._open(ToolCallBlock(delta.key, delta.id or None))
        other, more = self._take_name(other, delta)
        return other, events + more

    @staticmethod
    def _set_kind(block: ToolCallBlock, delta: ToolCallDelta) -> None:
        block.namespace = block.namespace or delta.namespace
        block.raw = block.raw or delta.type == "custom"

    def _extended_name(self, name: str, piece: str) -> str | None:
        """Return the name extended by its next piece; None if no declared name begins with the result."""
        if not name:
            return piece
        for candidate in (name + piece, piece if piece.startswith(name) else ""):
            if candidate and (self._tools.called(candidate) or self._tools.may_grow(candidate)):
                return candidate
        return None

    def _settle_name(self, block: ToolCallBlock) -> list[Event]:
        """Treat the name as final and announce the call."""
        if block.name_is_final or not block.name:
            return []
        block.name_is_final = True
        identity = self._tools.called(block.name, block.namespace)
        if identity is None and self._tools.is_hosted(block.name):
            # The client declared the tool, but cannot run it: such a call would end its turn (ask B3).
            block.suppressed = True
            self._diagnostics.add("hosted_tool_called", name=block.name)
            return []
        if identity is None:
            kind = "custom" if block.raw else "function"
            identity = ToolIdentity(kind, block.name, block.namespace, block.name)
            self._diagnostics.add("undeclared_tool", name=block.name)
        if not self._tools.allows(identity):
            block.suppressed = True
            self._diagnostics.add("tool_not_allowed", name=block.name)
            return []
        events = self._announce(block, identity)
        for piece in block.pending:
            events += self._take_arguments(block, piece)
        return events

    def _announce(self, block: ToolCallBlock, identity: ToolIdentity) -> list[Event]:
        stream = FAMILIES[identity.type].stream
        call_id = self._distinct(join_surrogates(block.id or "") or self._output.new_id("call"))
        self._claimed.add(block.id or call_id)
        block.call = stream(
            identity, item_id=self._output.item_id(stream.item_type), call_id=call_id, raw=block.raw
        )
        block.slots_at_last_fragment = len(self._output.slots)
        return self._place(block)

    def _place(self, block: ToolCallBlock) -> list[Event]:
        """Add the call to the output, unless it is there or its item still lacks a required field."""
        call = block.announced
        if call.output_index >= 0 or not call.is_ready:
            return []
        events = self._output.end_current()
        self._output.place(block)
        call.output_index = block.output_index
        block.slots_at_last_fragment = len(self._output.slots)
        return [*events, self._output.added(block), *call.feed("", self._output.number)]

    # Arguments

    def _take_arguments(self, block: ToolCallBlock, piece: Piece) -> list[Event]:
        if not block.name:
            block.pending.append(piece)
            return []
        events = self._settle_name(block)
        if block.suppressed:
            return events
        if piece.is_complete:
            return events + self._take_complete(block, piece)
        return events + self._take_fragment(block, piece.text)

    def _take_fragment(self, block: ToolCallBlock, text: str) -> list[Event]:
        if block.is_complete or not block.is_open:
            return self._take_trailing(block, text)
        end = block.scanner.feed(text) if block.splits and not block.raw else -1
        if end >= 0:
            arguments = block.announced.received + text[:end]
            if not is_json(arguments) or not block.announced.may_end_with(arguments):
                block.splits, end = False, -1
        fragment, rest = (text, "") if end < 0 else (text[:end], text[end:])
        block.slots_at_last_fragment = len(self._output.slots)
        events = block.announced.feed(fragment, self._output.number)
        if not block.is_placed:
            events = events + self._place(block)
        if end >= 0:
            self._mark_complete(block)
            events += self._take_trailing(block, rest)
        return events

    def _take_complete(self, block: ToolCallBlock, piece: Piece) -> list[Event]:
        """End the call. The text, unless empty, is all of its arguments; send only what is missing."""
        text, received = piece.text, block.announced.received
        events: list[Event] = []
        if block.is_open and text.startswith(received):
            missing = text[len(received) :]
            events = self._take_fragment(block, missing) if missing else []
        elif text and (block.is_complete or not block.is_open) and not piece.has_id:
            # Parallel calls share one index and have no ids: this may be the next call (ask B5).
            return self._take_trailing(block, text, ended=True)
        elif text and text != received and not block.tail.knows(text):
            self._diagnostics.add("arguments_disagree")
        block.ended = True
        if block.is_open and not block.problem:
            events += self._close(block, COMPLETED)
        return events

    def _mark_complete(self, block: ToolCallBlock) -> None:
        block.is_complete = True
        block.tail.remember(block.announced.received or "{}")

    def _take_trailing(self, block: ToolCallBlock, text: str, *, ended: bool = False) -> list[Event]:
        """Process text after complete arguments."""
        if block.raw or not block.splits:
            if text != block.announced.received:
                self._diagnostics.add("trailing_arguments")
            return []
        events: list[Event] = []
        for kind, value in block.tail.feed(text):
            if kind is TrailingKind.OTHER:
                events += self._split_off(block, value, is_complete=True, ended=ended)
            else:
                self._diagnostics.add(_TRAILING_DIAGNOSTICS[kind])
        return events

    def _split_off(self, block: ToolCallBlock, text: str, *, is_complete: bool, ended: bool) -> list[Event]:
        """Open another call for arguments that arrived under the key of `block` (ask B5)."""
        self._diagnostics.add("glued_calls")
        other = self._open(ToolCallBlock(block.key, None, block.tail))
        other.namespace, other.name, other.name_is_final = block.namespace, block.name, True
        other.is_complete, other.ended = is_complete, ended
        events = self._announce(other, block.announced.identity)
        events += other.announced.feed(text, self._output.number) + self._place(other)
        return events + (self._close(other, COMPLETED) if ended else [])

    # End

    def check_complete(self) -> None:
        """Raise `BridgeError` if a call is incomplete. Change nothing.

        An empty placeholder is ignored, unless it is all that the model answered.
        """
        for block in self._blocks:
            if (problem := block.problem) and not (block.is_placeholder and self._has_answer):
                raise BridgeError(BridgeError.INCOMPLETE_TOOL_CALL, problem)

    @property
    def _has_answer(self) -> bool:
        return any(slot.item.type != "reasoning" for slot in self._output.slots)

    def settle_names(self) -> list[Event]:
        """Announce calls whose name waited for another piece: the stream ended normally, so it is final."""
        for block in self._blocks:
            if block.is_placeholder and not block.suppressed:
                self._diagnostics.add("unannounced_call")
        return [event for block in self._blocks[:] for event in self._settle_name(block)]

    def open_calls(self, *, truncated: bool) -> list[tuple[ToolCallBlock, str]]:
        """Return the open calls, each with the status that it ends with.

        If the response is truncated, a call is completed only if its end is certain (decision 5).
        """
        calls: list[tuple[ToolCallBlock, str]] = []
        for block in self._blocks:
            if block.call is not None and block.is_open and (block.is_placed or not truncated):
                followed = len(self._output.slots) > block.slots_at_last_fragment or block.tail.cut_short
                certain = not truncated or (block.is_complete and followed)
                calls.append((block, COMPLETED if certain else INCOMPLETE))
        return calls

    def settle_rest(self) -> list[tuple[ToolCallBlock, list[Event]]]:
        """Report calls that cannot be sent, and announce calls in trailing text: the stream was cut off."""
        announced: list[tuple[ToolCallBlock, list[Event]]] = []
        for block in self._blocks[:]:
            if not block.is_placed and not block.suppressed:
                self._diagnostics.add("unannounced_call")
            if text := block.tail.cut_short:
                block.tail.clear()
                events = self._split_off(block, text, is_complete=False, ended=False)
                announced.append((self._blocks[-1], events))
        return announced

    def close(self, block: ToolCallBlock, status: str) -> list[Event]:
        if block.tail.is_pending:
            block.tail.clear()
            self._diagnostics.add("repeated_arguments")
        return self._close(block, status)

    def _close(self, block: ToolCallBlock, status: str) -> list[Event]:
        call = block.announced
        events: list[Event] = []
        if not block.is_placed:
            call.make_ready()
            events = self._place(block)
        events += call.close(self._output.number, complete=status == COMPLETED)
        block.status = status
        if not block.is_complete and status == COMPLETED:
            self._mark_complete(block)
        if status == COMPLETED and call.flaw:
            self._diagnostics.add("odd_arguments", name=block.name, flaw=call.flaw)
        return [*events, self._output.done(block)]


_TRAILING_DIAGNOSTICS = {
    TrailingKind.REPEAT: "repeated_arguments",
    TrailingKind.RUBBISH: "trailing_arguments",
}


def _arguments_of(delta: ToolCallDelta) -> tuple[str, bool]:
    """Return the arguments of a delta as text, and whether they are complete."""
    for name in ("id", "name", "namespace", "type"):
        value = getattr(delta, name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"the {name} of a tool call must be a string")
    if delta.arguments is None or isinstance(delta.arguments, str):
        return delta.arguments or "", delta.whole
    return msgspec.json.encode(delta.arguments).decode(), True


def _sighting(value: Key | None, block: ToolCallBlock | None) -> Sighting:
    if value is None:
        return Sighting.ABSENT
    return Sighting.NEW if block is None else Sighting.KNOWN
