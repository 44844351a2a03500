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
from penstock.protocol.events import Event
from penstock.protocol.items import CLIENT_CALLS, Item
from penstock.stream.deltas import Key, ToolCallDelta
from penstock.stream.diagnostics import Diagnostics
from penstock.stream.output import COMPLETED, IN_PROGRESS, INCOMPLETE, Output
from penstock.tools.call_ids import distinct
from penstock.tools.families import FAMILIES
from penstock.tools.family import CallStream
from penstock.tools.identity import ToolIdentity, ToolIdentityMap
from penstock.tools.jsontext import ObjectScanner, parse


class Seen(StrEnum):
    """What is known of a delta's id, or of its key. An empty id is no id (notes/dialects C17)."""

    ABSENT = "absent"
    NEW = "new"
    KNOWN = "known"


class Action(StrEnum):
    OPEN = "open a new call"
    LATEST = "go on with the latest call; open one if that has ended or there is none"
    BY_KEY = "go on with the call at this key"
    BY_ID = "go on with the call of this id"
    ADOPT = "the call at this key takes the id if it has none, else open a new call"
    TWIN = "open a second call that shares the id; but a call that had no key until now takes the key"
    AGREED = "go on with the call of this id; but with the call at this key if that has no other id"


class Row(Struct, frozen=True):
    action: Action
    why: str


POLICY: dict[tuple[Seen, Seen], Row] = {
    # (id, key)
    (Seen.ABSENT, Seen.ABSENT): Row(Action.LATEST, "some upstreams send neither (C15)"),
    (Seen.ABSENT, Seen.NEW): Row(Action.OPEN, "the id is late or never comes (C19); one is made up"),
    (Seen.ABSENT, Seen.KNOWN): Row(Action.BY_KEY, "the ordinary fragment"),
    (Seen.NEW, Seen.ABSENT): Row(Action.OPEN, "calls told apart by id alone (C15)"),
    (Seen.NEW, Seen.NEW): Row(Action.OPEN, "the ordinary start"),
    (Seen.NEW, Seen.KNOWN): Row(Action.ADOPT, "a late id, or parallel calls on one index (C20, B5)"),
    (Seen.KNOWN, Seen.ABSENT): Row(Action.BY_ID, "calls told apart by id alone"),
    (Seen.KNOWN, Seen.NEW): Row(Action.TWIN, "one id for two parallel calls (C19)"),
    (Seen.KNOWN, Seen.KNOWN): Row(Action.AGREED, "the id is repeated with every fragment (C17)"),
}
"""Which call a delta belongs to. A start or a whole call for a known one opens nothing (seed 002)."""


class Piece(Struct, frozen=True):
    """Arguments as a delta brought them: a fragment, or all of them."""

    text: str
    whole: bool
    has_id: bool


class ToolCallBlock:
    """One call: what the upstream said of it, and, from its announcement on, its place in the output."""

    def __init__(self, key: Key | None, id: str | None) -> None:
        self.key = key
        self.id = id
        self.bound = False
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
        self.ended = False
        """The upstream said that no more arguments follow."""
        self.waiting: list[Piece] = []
        """Arguments that came before any name."""
        self.slots_at_last_fragment = 0
        self.scanner = ObjectScanner()
        self.splits = True
        """False once the arguments have shown to be no JSON: no part of them can be another call's then."""
        self.earlier: list[str] = []
        """The whole arguments of the calls that this one was split off from."""
        self.wholes: list[str] = []
        """Once the arguments are a whole object: `earlier` and they. What equals one of them is a repeat."""
        self.held: list[str] = []
        """Text behind the whole arguments: a repeat, or the arguments of another call."""
        self.held_scanner = ObjectScanner()
        self._chunks: list[str] = []

    @property
    def arguments(self) -> str:
        """The arguments as the upstream sent them."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

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
    def cut_short(self) -> bool:
        """Is the held text the beginning of another call, and not of a repeat?"""
        held = "".join(self.held)
        return bool(held) and not any(whole.startswith(held) for whole in self.wholes)

    @property
    def problem(self) -> str:
        """Why this call cannot end well now; empty if it can."""
        if self.cut_short:
            return f"a second call to {self.name!r} was cut in the middle of its arguments"
        if not self.is_open:
            return ""
        if not self.name:
            return "a tool call never got a name"
        if self.call is not None and not self.call.whole:
            return f"the arguments of the call to {self.name!r} are not whole JSON"
        return ""

    def take(self, fragment: str) -> None:
        self._chunks.append(fragment)


class ToolCallAssembler:
    """Holds the calls of one response."""

    def __init__(
        self, output: Output, tools: ToolIdentityMap, used_call_ids: Collection[str], diagnostics: Diagnostics
    ) -> None:
        self._output = output
        self._tools = tools
        self._call_ids = set(used_call_ids)
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
        """The call id under which a vendor's whole item goes out: "" if it already did, None if it has none.

        An item that makes the client act must not come twice, under whatever item ids (seed 002).
        """
        id = getattr(item, "call_id", None) if item.type in CLIENT_CALLS else None
        if not id:
            return None
        if id in self._claimed:
            return ""
        self._claimed.add(id)
        return self._unique(id)

    def feed(self, delta: ToolCallDelta) -> list[Event]:
        arguments, whole = delta.arguments, delta.whole
        if arguments is not None and not isinstance(arguments, str):
            arguments, whole = msgspec.json.encode(arguments).decode(), True
        if not (delta.id or delta.name or arguments or whole):
            return []  # an empty entry means nothing (notes/asks B6)
        block = self._find(delta)
        block.namespace = block.namespace or delta.namespace
        block.raw = block.raw or delta.type == "custom"
        block, events = self._take_name(block, delta)
        if arguments or whole:
            events += self._take(block, Piece(arguments or "", whole, bool(delta.id)))
        return events

    # Which call

    def _find(self, delta: ToolCallDelta) -> ToolCallBlock:
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
            case Action.ADOPT:
                found = at_key if at_key is not None and at_key.id is None else None
            case Action.TWIN:
                found = of_id if of_id is not None and of_id.key is None else None
                if found is None:
                    self._diagnostics.add("shared_call_id")
        return self._bind(found or ToolCallBlock(key, id), key, id)

    def _bind(self, block: ToolCallBlock, key: Key | None, id: str | None) -> ToolCallBlock:
        """From now on `key` and `id` mean this call."""
        if not block.bound:
            block.bound = True
            self._blocks.append(block)
        if key is not None:
            block.key = key if block.key is None else block.key
            self._by_key[key] = block
        if id is not None:
            if block.id is None and block.call is not None:
                self._diagnostics.add("late_call_id")
            block.id = id if block.id is None else block.id
            self._by_id[id] = block
        return block

    # Its name

    def _take_name(self, block: ToolCallBlock, delta: ToolCallDelta) -> tuple[ToolCallBlock, list[Event]]:
        """Settle the name. It may turn out that the delta begins another call, which is then returned."""
        name = delta.name
        if not name or name == block.name:
            return block, []
        events: list[Event] = []
        if not block.name_is_final:
            longer = self._longer_name(block.name, name)
            if longer is not None:
                block.name = longer
                block.name_is_final = delta.namespace is not None or not self._tools.may_grow(longer)
                return block, self._announce(block) if block.name_is_final else []
            events = self._settle_name(block)
        if delta.id:
            self._diagnostics.add("name_changed")
            return block, events
        # No id and another name: parallel calls that all have one index, or none (notes/asks B5).
        self._diagnostics.add("unmarked_call")
        other = self._bind(ToolCallBlock(delta.key, None), delta.key, None)
        other.namespace, other.raw = delta.namespace, delta.type == "custom"
        other, more = self._take_name(other, delta)
        return other, events + more

    def _longer_name(self, name: str, piece: str) -> str | None:
        """The name with its next piece; None when the piece does not lead on to a declared name."""
        if not name:
            return piece
        for candidate in (name + piece, piece if piece.startswith(name) else ""):
            if candidate and (self._tools.called(candidate) or self._tools.may_grow(candidate)):
                return candidate
        return None

    def _settle_name(self, block: ToolCallBlock) -> list[Event]:
        """No more pieces of the name will come."""
        if block.name_is_final or not block.name:
            return []
        block.name_is_final = True
        return self._announce(block)

    def _announce(self, block: ToolCallBlock) -> list[Event]:
        identity = self._tools.called(block.name, block.namespace)
        if identity is None:
            kind = "custom" if block.raw else "function"
            identity = ToolIdentity(kind, block.name, block.namespace, block.name)
            self._diagnostics.add("undeclared_tool", name=block.name)
        if not self._tools.allows(identity):
            block.suppressed = True
            self._diagnostics.add("tool_not_allowed", name=block.name)
            return []
        events = self._open_item(block, identity)
        for piece in block.waiting:
            events += self._take(block, piece)
        return events

    def _open_item(self, block: ToolCallBlock, identity: ToolIdentity) -> list[Event]:
        events = self._output.end_current()
        family = FAMILIES[identity.type]
        call_id = self._unique(block.id or self._output.new_id("call"))
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

    def _unique(self, id: str) -> str:
        call_id = distinct(id, self._call_ids)
        self._call_ids.add(call_id)
        return call_id

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
        return events + self._take_arguments(block, piece.text)

    def _take_arguments(self, block: ToolCallBlock, text: str) -> list[Event]:
        if block.status != IN_PROGRESS and block.raw:
            self._diagnostics.add("trailing_arguments")
            return []
        if block.wholes:
            return self._hold(block, text)[1]
        end = block.scanner.feed(text) if block.splits and not block.raw else -1
        if end >= 0 and not _is_json(block.arguments + text[:end]):
            # A custom tool's text can begin like an object. It is all one text then.
            block.splits, end = False, -1
        fragment, rest = (text, "") if end < 0 else (text[:end], text[end:])
        block.take(fragment)
        block.slots_at_last_fragment = len(self._output.slots)
        events = block.announced.feed(fragment, self._output.number)
        if end >= 0:
            block.wholes = [*block.earlier, block.arguments]
            events += self._hold(block, rest)[1]
        return events

    def _take_whole(self, block: ToolCallBlock, piece: Piece) -> list[Event]:
        """The call ends, and the text, unless empty, is all of it. Only what is missing is sent."""
        events: list[Event] = []
        arguments, streamed = piece.text, block.arguments
        if arguments.startswith(streamed) and not block.ended:
            missing = arguments[len(streamed) :]
            events += self._take_arguments(block, missing) if missing else []
        elif arguments and block.wholes and not piece.has_id:
            # Parallel calls on one index without ids: this may be the next one (notes/asks B5).
            block, more = self._hold(block, arguments)
            events += more
        elif arguments and arguments != streamed and not _same_json(arguments, streamed):
            self._diagnostics.add("arguments_disagree")
        block.ended = True
        if block.is_open and not block.problem:
            events += self._close(block, COMPLETED)
        return events

    def _hold(self, block: ToolCallBlock, text: str) -> tuple[ToolCallBlock, list[Event]]:
        """Take text behind whole arguments. Once it is whole itself it is a repeat, or another call.

        Returns the call that text at this key belongs to from now on.
        """
        events: list[Event] = []
        while text:
            if not block.held:
                text = self._next_object(block, text)
            end = block.held_scanner.feed(text)
            if end < 0:
                block.held += [text] if text else []
                break
            whole = "".join([*block.held, text[:end]])
            text = text[end:]
            block.held.clear()
            block.held_scanner = ObjectScanner()
            if any(_same_json(whole, earlier) for earlier in block.wholes):
                self._diagnostics.add("repeated_arguments")
            else:
                block, more = self._split_off(block, whole)
                events += more
        return block, events

    def _next_object(self, block: ToolCallBlock, text: str) -> str:
        """`text` from its first brace on. What is before it can be no arguments."""
        start = text.find("{")
        before = text if start < 0 else text[:start]
        if before.lstrip().startswith('"') and _is_encoded(text, block.wholes):
            # The arguments once more, as a JSON string around JSON (notes/asks B4).
            self._diagnostics.add("repeated_arguments")
            return ""
        if before.strip(" \t\r\n,"):
            self._diagnostics.add("trailing_arguments")
        return "" if start < 0 else text[start:]

    def _split_off(self, block: ToolCallBlock, arguments: str) -> tuple[ToolCallBlock, list[Event]]:
        """Arguments of several calls came under one key (notes/asks B5): these are a call of their own."""
        self._diagnostics.add("glued_calls")
        other = self._bind(ToolCallBlock(block.key, None), block.key, None)
        other.namespace, other.name, other.name_is_final = block.namespace, block.name, True
        other.earlier = block.wholes
        events = self._open_item(other, block.announced.identity)
        return other, events + self._take_arguments(other, arguments)

    # Its end

    def check_complete(self) -> None:
        """Raise unless every call can end well. Changes nothing."""
        for block in self._blocks:
            if problem := block.problem:
                raise BridgeError(BridgeError.INCOMPLETE_TOOL_CALL, problem)

    def settle(self, *, truncated: bool) -> list[Event]:
        """The stream is ending: announce what can still be announced, and tell what cannot."""
        events: list[Event] = []
        for block in self._blocks[:]:
            if not truncated:
                events += self._settle_name(block)
            elif block.call is None and not block.suppressed:
                self._diagnostics.add("unannounced_call")
            if truncated and block.cut_short:
                events += self._split_off(block, "".join(block.held))[1]
            elif block.held:
                self._diagnostics.add("repeated_arguments")
            block.held.clear()
        return events

    def open_calls(self) -> list[ToolCallBlock]:
        return [block for block in self._blocks if block.call is not None and block.is_open]

    def close(self, block: ToolCallBlock, *, truncated: bool) -> list[Event]:
        """End an open call. At truncation it is complete only if its end is beyond doubt (decisions 5)."""
        moved_on = len(self._output.slots) > block.slots_at_last_fragment
        complete = not truncated or (bool(block.wholes) and moved_on)
        return self._close(block, COMPLETED if complete else INCOMPLETE)

    def _close(self, block: ToolCallBlock, status: str) -> list[Event]:
        call = block.announced
        events = call.close(self._output.number, complete=status == COMPLETED)
        block.status = status
        block.wholes = block.wholes or [*block.earlier, block.arguments or "{}"]
        if status == COMPLETED and call.flaw:
            self._diagnostics.add("odd_arguments", name=block.name, flaw=call.flaw)
        return [*events, self._output.done(block)]


def _seen(value: Key | None, block: ToolCallBlock | None) -> Seen:
    if value is None:
        return Seen.ABSENT
    return Seen.NEW if block is None else Seen.KNOWN


def _is_json(text: str) -> bool:
    return _same_json(text, text)


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(parse(one) == parse(other))
    except ValueError:
        return False


def _is_encoded(text: str, wholes: list[str]) -> bool:
    """Is `text` a JSON string that holds one of `wholes`?"""
    try:
        inner = parse(text)
    except ValueError:
        return False
    return isinstance(inner, str) and any(_same_json(inner, whole) for whole in wholes)
