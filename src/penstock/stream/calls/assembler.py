"""The tool-call assembler: from whatever an upstream sends to calls that are announced once and end once.

Upstreams disagree on everything about a call: whether it has an index, when its id comes, whether both are
repeated, whether arguments come in pieces, whole, twice, or several calls' worth glued together. Which call
a delta belongs to is decided by one table, `POLICY`; what its name and its arguments then do is in
`_take_name` and `_take`. Every anomaly leaves a diagnostic.
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
from penstock.tools.identity import ToolIdentity, ToolIdentityMap


class Sighting(StrEnum):
    """What is known of a delta's id, or of its key. An empty id is no id (quirk C17)."""

    ABSENT = "absent"
    NEW = "new"
    KNOWN = "known"


class Action(StrEnum):
    OPEN = "open a new call"
    LATEST = "go on with the latest call; open one if that has ended or there is none"
    BY_KEY = "go on with the call at this key"
    BY_ID = "go on with the call of this id"
    ADOPT = (
        "the call at this key takes the id, unless it has one or this is clearly another; else open a call"
    )
    TWIN = "open a second call with this id; but a call that had no key takes it, and a whole repeat is one"
    AGREED = "go on with the call of this id; but with the call at this key if that has no other id"


class AssemblyRule(Struct, frozen=True):
    action: Action
    why: str


POLICY: dict[tuple[Sighting, Sighting], AssemblyRule] = {
    # (id, key)
    (Sighting.ABSENT, Sighting.ABSENT): AssemblyRule(
        Action.LATEST, "some upstreams send neither (quirk C15)"
    ),
    (Sighting.ABSENT, Sighting.NEW): AssemblyRule(
        Action.OPEN, "the id is late or never comes (quirk C19); one is made up"
    ),
    (Sighting.ABSENT, Sighting.KNOWN): AssemblyRule(Action.BY_KEY, "the ordinary fragment"),
    (Sighting.NEW, Sighting.ABSENT): AssemblyRule(Action.OPEN, "calls told apart by id alone (quirk C15)"),
    (Sighting.NEW, Sighting.NEW): AssemblyRule(Action.OPEN, "the ordinary start"),
    (Sighting.NEW, Sighting.KNOWN): AssemblyRule(
        Action.ADOPT, "a late id, or parallel calls on one index (quirk C20, ask B5)"
    ),
    (Sighting.KNOWN, Sighting.ABSENT): AssemblyRule(Action.BY_ID, "calls told apart by id alone"),
    (Sighting.KNOWN, Sighting.NEW): AssemblyRule(Action.TWIN, "one id for two parallel calls (quirk C19)"),
    (Sighting.KNOWN, Sighting.KNOWN): AssemblyRule(
        Action.AGREED, "the id is repeated with every fragment (quirk C17)"
    ),
}
"""Which call a delta belongs to. A start or a whole call for a known one opens nothing (ask B4)."""


class ToolCallAssembler:
    """Holds the calls of one response."""

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
        """The upstream's ids of the calls that went out in this response."""
        self._diagnostics = diagnostics
        self._blocks: list[ToolCallBlock] = []
        self._by_key: dict[Key, ToolCallBlock] = {}
        self._by_id: dict[str, ToolCallBlock] = {}

    @property
    def suppressed(self) -> bool:
        """Was any call kept back because the request does not allow it?"""
        return any(block.suppressed for block in self._blocks)

    def claim(self, item: Item) -> str | None:
        """The call id for a vendor's whole item: "" if it already went out, None if it needs none.

        An item that makes the client act must not come twice, under whatever item ids (ask B4).
        """
        if item.type not in CLIENT_CALLS:
            return None
        id = getattr(item, "call_id", None) or (item.extra or {}).get("call_id")
        if not isinstance(id, str) or not id:
            return self._call_ids.distinct(self._output.new_id("call"))
        if id in self._claimed:
            return ""
        self._claimed.add(id)
        return self._call_ids.distinct(id)

    def feed(self, delta: ToolCallDelta) -> list[Event]:
        """Take a piece of a call. One with fields of the wrong type is refused before anything is done."""
        text, whole = _arguments_of(delta)
        if not (delta.id or delta.name or text or whole):
            return []  # an empty entry means nothing (ask B6)
        block = self._find(delta, text if whole else "")
        block, events = self._take_name(block, delta)
        if text or whole:
            events += self._take(block, Piece(join_surrogates(text), whole, bool(delta.id)))
        return events

    # Which call

    def _find(self, delta: ToolCallDelta, whole: str) -> ToolCallBlock:
        id, key = delta.id or None, delta.key
        of_id = None if id is None else self._by_id.get(id)
        at_key = None if key is None else self._by_key.get(key)
        found: ToolCallBlock | None = None
        match POLICY[_seen(id, of_id), _seen(key, at_key)].action:
            case Action.LATEST:
                found = self._blocks[-1] if self._blocks and not self._blocks[-1].ended else None
            case Action.BY_KEY:
                found = at_key
            case Action.BY_ID:
                found = of_id
            case Action.AGREED:
                found = at_key if at_key is not None and at_key.id in (id, None) else of_id
            case Action.ADOPT if at_key is not None and at_key.id is None:
                begun_anew = bool(delta.name) and (at_key.is_whole or at_key.ended)
                found = at_key if at_key.may_be_called(delta.name) and not begun_anew else None
            case Action.TWIN if of_id is not None:
                repeated = bool(whole) and of_id.may_be_called(delta.name) and of_id.tail.knows(whole)
                found = of_id if of_id.key is None or repeated else None
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
        """A known call was named by a key or an id that is new to it."""
        if key is not None and key not in self._by_key:
            self._by_key[key] = block
            block.key = key if block.key is None else block.key
        if id is not None and block.id is None:
            block.id = id
            self._by_id[id] = block
            if block.call is not None:
                self._diagnostics.add("late_call_id")

    # Its name

    def _take_name(self, block: ToolCallBlock, delta: ToolCallDelta) -> tuple[ToolCallBlock, list[Event]]:
        """Settle the name. It may turn out that the delta begins another call, which is then returned."""
        name = join_surrogates(delta.name or "")
        if not name or name == block.name:
            self._note_kind(block, delta)
            return block, []
        events: list[Event] = []
        if not block.name_is_final:
            longer = self._longer_name(block.name, name)
            if longer is not None:
                self._note_kind(block, delta)
                block.name = longer
                if self._tools.may_grow(longer) and not block.waiting and block.namespace is None:
                    return block, []
                return block, self._settle_name(block)
            events = self._settle_name(block)
        if delta.id and not (block.is_whole or block.ended):
            self._diagnostics.add("name_changed")
            return block, events
        # Another name, and no id or the id of a call that is whole: another call (quirk C19, ask B5).
        self._diagnostics.add("shared_call_id" if delta.id else "unmarked_call")
        other = self._open(ToolCallBlock(delta.key, delta.id or None))
        other, more = self._take_name(other, delta)
        return other, events + more

    @staticmethod
    def _note_kind(block: ToolCallBlock, delta: ToolCallDelta) -> None:
        block.namespace = block.namespace or delta.namespace
        block.raw = block.raw or delta.type == "custom"

    def _longer_name(self, name: str, piece: str) -> str | None:
        """The name with its next piece; None when the piece does not lead on to a declared name."""
        if not name:
            return piece
        for candidate in (name + piece, piece if piece.startswith(name) else ""):
            if candidate and (self._tools.called(candidate) or self._tools.may_grow(candidate)):
                return candidate
        return None

    def _settle_name(self, block: ToolCallBlock) -> list[Event]:
        """No more pieces of the name will come: announce the call."""
        if block.name_is_final or not block.name:
            return []
        block.name_is_final = True
        identity = self._tools.called(block.name, block.namespace)
        if identity is None:
            kind = "custom" if block.raw else "function"
            identity = ToolIdentity(kind, block.name, block.namespace, block.name)
            self._diagnostics.add("undeclared_tool", name=block.name)
        if not self._tools.allows(identity):
            block.suppressed = True
            self._diagnostics.add("tool_not_allowed", name=block.name)
            return []
        events = self._announce(block, identity)
        for piece in block.waiting:
            events += self._take(block, piece)
        return events

    def _announce(self, block: ToolCallBlock, identity: ToolIdentity) -> list[Event]:
        events = self._output.end_current()
        family = FAMILIES[identity.type]
        call_id = self._call_ids.distinct(join_surrogates(block.id or "") or self._output.new_id("call"))
        self._claimed.add(block.id or call_id)
        self._output.place(block)
        block.call = family(
            identity,
            item_id=self._output.item_id(family.item_type),
            call_id=call_id,
            output_index=block.output_index,
            raw=block.raw,
        )
        block.slots_at_last_fragment = len(self._output.slots)
        return [*events, self._output.added(block)]

    # Its arguments

    def _take(self, block: ToolCallBlock, piece: Piece) -> list[Event]:
        if not block.name:
            block.waiting.append(piece)
            return []
        events = self._settle_name(block)
        if block.suppressed:
            return events
        if piece.whole:
            return events + self._take_whole(block, piece)
        return events + self._take_fragment(block, piece.text)

    def _take_fragment(self, block: ToolCallBlock, text: str) -> list[Event]:
        if block.is_whole or not block.is_open:
            return self._take_behind(block, text)
        end = block.scanner.feed(text) if block.splits and not block.raw else -1
        if end >= 0:
            whole = block.announced.received + text[:end]
            if not is_json(whole) or not block.announced.may_end_with(whole):
                block.splits, end = False, -1
        fragment, rest = (text, "") if end < 0 else (text[:end], text[end:])
        block.slots_at_last_fragment = len(self._output.slots)
        events = block.announced.feed(fragment, self._output.number)
        if end >= 0:
            self._mark_whole(block)
            events += self._take_behind(block, rest)
        return events

    def _take_whole(self, block: ToolCallBlock, piece: Piece) -> list[Event]:
        """The call ends, and the text, unless empty, is all of it. Only what is missing is sent."""
        text, received = piece.text, block.announced.received
        events: list[Event] = []
        if block.is_open and text.startswith(received):
            missing = text[len(received) :]
            events = self._take_fragment(block, missing) if missing else []
        elif text and (block.is_whole or not block.is_open) and not piece.has_id:
            # Parallel calls on one index without ids: this may be the next one (ask B5).
            return self._take_behind(block, text, ended=True)
        elif text and text != received and not block.tail.knows(text):
            self._diagnostics.add("arguments_disagree")
        block.ended = True
        if block.is_open and not block.problem:
            events += self._close(block, COMPLETED)
        return events

    def _mark_whole(self, block: ToolCallBlock) -> None:
        block.is_whole = True
        block.tail.remember(block.announced.received or "{}")

    def _take_behind(self, block: ToolCallBlock, text: str, *, ended: bool = False) -> list[Event]:
        """Take text behind whole arguments."""
        if block.raw or not block.splits:
            if text != block.announced.received:
                self._diagnostics.add("trailing_arguments")
            return []
        events: list[Event] = []
        for found, whole in block.tail.feed(text):
            if found is TrailingKind.OTHER:
                events += self._split_off(block, whole, is_whole=True, ended=ended)
            else:
                self._diagnostics.add(_BEHIND[found])
        return events

    def _split_off(self, block: ToolCallBlock, text: str, *, is_whole: bool, ended: bool) -> list[Event]:
        """Arguments of several calls came under one key (ask B5): these are a call of their own."""
        self._diagnostics.add("glued_calls")
        other = self._open(ToolCallBlock(block.key, None, block.tail))
        other.namespace, other.name, other.name_is_final = block.namespace, block.name, True
        other.is_whole, other.ended = is_whole, ended
        events = self._announce(other, block.announced.identity)
        events += other.announced.feed(text, self._output.number)
        return events + (self._close(other, COMPLETED) if ended else [])

    # Its end

    def check_complete(self) -> None:
        """Raise unless every call can end well. Changes nothing."""
        for block in self._blocks:
            if problem := block.problem:
                raise BridgeError(BridgeError.INCOMPLETE_TOOL_CALL, problem)

    def settle_names(self) -> list[Event]:
        """The stream ends well: a name that waited for its next piece is whole as it is."""
        return [event for block in self._blocks[:] for event in self._settle_name(block)]

    def open_calls(self, *, truncated: bool) -> list[tuple[ToolCallBlock, str]]:
        """The open calls, each with the status it will end with.

        At truncation a call is complete only if its end is beyond doubt (decision 5).
        """
        calls: list[tuple[ToolCallBlock, str]] = []
        for block in self._blocks:
            if block.call is not None and block.is_open:
                followed = len(self._output.slots) > block.slots_at_last_fragment or block.tail.cut_short
                sure = not truncated or (block.is_whole and followed)
                calls.append((block, COMPLETED if sure else INCOMPLETE))
        return calls

    def settle_rest(self) -> list[tuple[ToolCallBlock, list[Event]]]:
        """The stream was cut: tell what cannot be sent, and announce the calls that were only held."""
        cut: list[tuple[ToolCallBlock, list[Event]]] = []
        for block in self._blocks[:]:
            if block.call is None and not block.suppressed:
                self._diagnostics.add("unannounced_call")
            if text := block.tail.cut_short:
                block.tail.clear()
                events = self._split_off(block, text, is_whole=False, ended=False)
                cut.append((self._blocks[-1], events))
        return cut

    def close(self, block: ToolCallBlock, status: str) -> list[Event]:
        if block.tail.is_holding:
            block.tail.clear()
            self._diagnostics.add("repeated_arguments")
        return self._close(block, status)

    def _close(self, block: ToolCallBlock, status: str) -> list[Event]:
        call = block.announced
        events = call.close(self._output.number, complete=status == COMPLETED)
        block.status = status
        if not block.is_whole and status == COMPLETED:
            self._mark_whole(block)
        if status == COMPLETED and call.flaw:
            self._diagnostics.add("odd_arguments", name=block.name, flaw=call.flaw)
        return [*events, self._output.done(block)]


_BEHIND = {TrailingKind.REPEAT: "repeated_arguments", TrailingKind.RUBBISH: "trailing_arguments"}


def _arguments_of(delta: ToolCallDelta) -> tuple[str, bool]:
    """The arguments of a delta as text, and whether they are all of them."""
    for name in ("id", "name", "namespace", "type"):
        if not isinstance(getattr(delta, name), str | None):
            raise TypeError(f"the {name} of a tool call is a string")
    if isinstance(delta.arguments, str | None):
        return delta.arguments or "", delta.whole
    return msgspec.json.encode(delta.arguments).decode(), True


def _seen(value: Key | None, block: ToolCallBlock | None) -> Sighting:
    if value is None:
        return Sighting.ABSENT
    return Sighting.NEW if block is None else Sighting.KNOWN
