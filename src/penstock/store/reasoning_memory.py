"""The reasoning memory restores reasoning that a client omits from its history (ask C1).

Some clients return calls without the reasoning before them, or reasoning without its encrypted content. An
upstream that needs either refuses the turn, or reasons less well (ask C1 to ask C3). So the reasoning before
each call is remembered, and restored where it is missing.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.protocol.items import CLIENT_CALLS, Item, Message, ReasoningItem
from penstock.protocol.large_json import max_values
from penstock.protocol.wire import decode, encode, to_builtins
from penstock.store.records import StoredItem

_NOT_COMPARED = ("id", "status")
_ARGUMENT_VALUES = 50_000
"""The most JSON values in arguments that are compared as parsed JSON, and not as text."""

T = TypeVar("T")

Slots = list[list[ReasoningItem]]
"""Reasoning by position since the previous call: before the first message, after it, after the second, …"""


class CallReasoning(Struct, frozen=True):
    """The reasoning items that led to one call."""

    call: str
    """The fingerprint of the call and of the input before it. It distinguishes calls with the same id: some
    upstreams number calls from the start in every conversation."""
    reasoning: list[list[str]]
    """The ids of the reasoning items, arranged as in `Slots`."""

    @property
    def ids(self) -> list[str]:
        return [id for slot in self.reasoning for id in slot]


class ReasoningSource(Protocol):
    """Where reasoning and items are stored. Every `Store` is one."""

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]: ...

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]: ...


def reasoning_by_call(output: Iterable[Item], context: str = "") -> dict[str, bytes]:
    """Return what to remember of an output, by the ids of its calls. `context` is that of the input."""
    by_call: dict[str, bytes] = {}
    slots: list[list[str]] = [[]]
    for item in output:
        if isinstance(item, ReasoningItem):
            slots[-1].append(str(item.id))
        elif isinstance(item, Message):
            slots.append([])
        elif _is_call(item):
            if any(slots):
                reasoning = CallReasoning(_fingerprint(item, context), slots)
                by_call[_call_id(item)] = msgspec.json.encode(reasoning)
            slots = [[]]
    return by_call


def has_reasoning(output: Iterable[Item]) -> bool:
    """Return whether there may be something to remember of an output."""
    return any(isinstance(item, ReasoningItem) for item in output)


def context_of(items: Sequence[Item]) -> str:
    """Return a digest of the last input item, which the model answers. It does not depend on how the client
    writes the content."""
    last = next((item for item in reversed(items) if not _is_model_output(item)), None)
    if last is None:
        return ""
    fields = getattr(last, "role", ""), getattr(last, "call_id", ""), item_text(last)
    return _digest(list(map(str, fields)))


class FunctionRunner(Protocol):
    """Runs a function that may take long, in place or in a thread."""

    async def __call__(self, function: Callable[..., T], *args: Any) -> T: ...


async def run_here(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


async def restore_known_reasoning(
    sources: Sequence[ReasoningSource], tenant: str, items: Sequence[Item], run: FunctionRunner = run_here
) -> list[Item]:
    """Restore reasoning items without encrypted content that are known by their id."""
    missing = [str(item.id) for item in items if isinstance(item, ReasoningItem) and _lacks_content(item)]
    known = await _items(sources, tenant, missing, run) if missing else {}
    return await run(_restore_by_id, items, known) if known else list(items)


def _restore_by_id(items: Sequence[Item], known: Mapping[str, ReasoningItem]) -> list[Item]:
    return [
        _as_stored(item, known[str(item.id)]) if _lacks_content(item) and item.id in known else item
        for item in items
    ]


async def restore_reasoning(
    sources: Sequence[ReasoningSource], tenant: str, items: Sequence[Item], run: FunctionRunner = run_here
) -> list[Item]:
    """Return the history with omitted reasoning restored, as far as it is remembered.

    Nothing is ever removed, and nothing is added where the client sent reasoning itself.
    """
    history = await restore_known_reasoning(sources, tenant, items, run)
    groups, calls = await run(_incomplete_calls, history)
    recalled = await _recall(sources, tenant, calls, _reasoning_ids(history), run) if calls else None
    if recalled is None or not recalled.calls:
        return history
    return await run(_restore_all, groups, recalled)


def _incomplete_calls(items: Sequence[Item]) -> tuple[list[_Group], list[str]]:
    """Return the history in groups, and the ids of the calls whose reasoning may be missing."""
    groups = _groups(items)
    incomplete = [group for group in groups if not group.has_encrypted_content]
    calls = {_call_id(item): None for group in incomplete for item in group.items if _is_call(item)}
    return groups, list(calls)


def _restore_all(groups: Sequence[_Group], recalled: _Recalled) -> list[Item]:
    return list(chain.from_iterable(_restore(group, recalled) for group in groups))


class _Group(Struct):
    """Consecutive output items of the model, or a single other item; and the last input before it."""

    items: list[Item]
    input: Sequence[Item]
    _context: str | None = None

    @property
    def context(self) -> str:
        """Computed once for all calls of the group: the input may be long."""
        if self._context is None:
            self._context = context_of(self.input)
        return self._context

    @property
    def has_encrypted_content(self) -> bool:
        return any(isinstance(item, ReasoningItem) and item.encrypted_content for item in self.items)


class _Recalled(Struct, frozen=True):
    calls: dict[str, CallReasoning]
    """By call id."""
    reasoning: dict[str, ReasoningItem]

    def before(self, call: Item, group: _Group) -> Slots:
        """Return the reasoning before a call, if this very call is remembered."""
        memory = self.calls.get(_call_id(call))
        if memory is None or memory.call != _fingerprint(call, group.context):
            return []
        return [[self.reasoning[id] for id in slot] for slot in memory.reasoning]


async def _recall(
    sources: Sequence[ReasoningSource],
    tenant: str,
    calls: Sequence[str],
    present: Collection[str],
    run: FunctionRunner,
) -> _Recalled:
    stored: dict[str, bytes] = {}
    for source in sources:
        stored |= await source.recall(tenant, [id for id in calls if id not in stored])
    if not stored:
        return _Recalled({}, {})
    read = await run(_read_all, stored)
    known = await _items(sources, tenant, [id for memory in read.values() for id in memory.ids], run)
    restorable = {
        call: memory
        for call, memory in read.items()
        if all(id in known and id not in present for id in memory.ids)
    }
    return _Recalled(restorable, known)


def _read_all(stored: Mapping[str, bytes]) -> dict[str, CallReasoning]:
    return {id: memory for id, data in stored.items() if (memory := _read_call_reasoning(data)) is not None}


def _read_call_reasoning(data: bytes) -> CallReasoning | None:
    try:
        return msgspec.json.decode(data, type=CallReasoning)
    except msgspec.MsgspecError:
        return None


async def _items(
    sources: Sequence[ReasoningSource], tenant: str, ids: Sequence[str], run: FunctionRunner
) -> dict[str, ReasoningItem]:
    found: dict[str, StoredItem] = {}
    for source in sources:
        found |= await source.items(tenant, [id for id in ids if id not in found])
    return await run(_read_items, found) if found else {}


def _read_items(found: Mapping[str, StoredItem]) -> dict[str, ReasoningItem]:
    # Clients choose ids freely: the item with this id need not be reasoning.
    return {
        id: decode(item.data, ReasoningItem)
        for id, item in found.items()
        if b'"type":"reasoning"' in item.data
    }


def _groups(items: Sequence[Item]) -> list[_Group]:
    groups: list[_Group] = []
    last_input: Sequence[Item] = ()
    is_output = False
    for position, item in enumerate(items):
        if is_output and _is_model_output(item):
            groups[-1].items.append(item)
        else:
            groups.append(_Group([item], last_input))
        is_output = _is_model_output(item)
        if not is_output:
            last_input = items[position : position + 1]
    return groups


def _restore(group: _Group, recalled: _Recalled) -> Sequence[Item]:
    if group.has_encrypted_content:
        return group.items
    if any(isinstance(item, ReasoningItem) for item in group.items):
        return _restore_by_text(group, recalled)
    restored: list[Item] = []
    segment: list[Item] = []
    """Items since the previous call."""
    for item in group.items:
        segment.append(item)
        if _is_call(item):
            restored += _insert_reasoning(segment, recalled.before(item, group))
            segment = []
    return restored + segment


def _insert_reasoning(segment: Sequence[Item], slots: Slots) -> list[Item]:
    """Insert reasoning into a call and the text before it. Some upstreams require the original positions."""
    messages = sum(isinstance(item, Message) for item in segment)
    if len(slots) != messages + 1:  # the client has omitted or joined text
        return [*chain.from_iterable(slots), *segment]
    restored: list[Item] = list(slots[0])
    after_messages = iter(slots[1:])
    for item in segment:
        restored.append(item)
        if isinstance(item, Message):
            restored += next(after_messages)
    return restored


def _restore_by_text(group: _Group, recalled: _Recalled) -> list[Item]:
    """Restore reasoning without ids, which is identified by its text."""
    slots = (slot for item in group.items if _is_call(item) for slot in recalled.before(item, group))
    known = {reasoning_text(reasoning): reasoning for slot in slots for reasoning in slot}
    return [
        _as_stored(item, known[reasoning_text(item)])
        if isinstance(item, ReasoningItem) and not item.encrypted_content and reasoning_text(item) in known
        else item
        for item in group.items
    ]


def _lacks_content(item: Item) -> bool:
    return isinstance(item, ReasoningItem) and bool(item.id) and not item.encrypted_content


def _as_stored(item: Item, stored: ReasoningItem) -> Item:
    """Return the stored item, which is what the upstream sent: clients lose text, change it, or received raw
    reasoning as a summary and return it as one."""
    assert isinstance(item, ReasoningItem)
    return replace(
        item, encrypted_content=stored.encrypted_content, content=stored.content, summary=stored.summary
    )


def _is_model_output(item: Item) -> bool:
    if isinstance(item, Message):
        return item.role == "assistant"
    return not item.type.endswith("_output")


def _reasoning_ids(items: Iterable[Item]) -> set[str]:
    return {str(item.id) for item in items if isinstance(item, ReasoningItem) and item.id}


def _is_call(item: Item) -> bool:
    return item.type in CLIENT_CALLS and bool(_call_id(item))


def _call_id(item: Item) -> str:
    return getattr(item, "call_id", None) or "" if item.type in CLIENT_CALLS else ""


def item_text(item: Item) -> str:
    """Return the text of an item, whether its content is a string or a list of parts."""
    content = getattr(item, "content", None) or getattr(item, "output", None) or ""
    if isinstance(content, str):
        return content
    return "".join(text for part in content if isinstance(text := getattr(part, "text", ""), str))


def reasoning_text(item: ReasoningItem) -> str:
    """Return the text of reasoning, or else of its summary: a client may return one as the other."""
    return item_text(item) or "".join(getattr(part, "text", "") for part in item.summary)


def _fingerprint(call: Item, context: str) -> str:
    fields = to_builtins(call)
    for name in _NOT_COMPARED:
        fields.pop(name, None)
    return _digest([context, {name: _plain(value) for name, value in fields.items()}])


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:32]


def _plain(value: object) -> object:
    """Parse arguments, because many clients rewrite them with different whitespace or field order."""
    if not isinstance(value, str) or max_values(value) > _ARGUMENT_VALUES:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, ValueError):
        return value


class ReasoningCache:
    """The reasoning memory of turns that are not stored. It is bounded, and forgets after an hour."""

    def __init__(
        self, clock: Callable[[], float], *, most_bytes: int = 32 * 1024 * 1024, seconds: float = 3600.0
    ) -> None:
        self._clock, self._most_bytes, self._seconds = clock, most_bytes, seconds
        self._entries: OrderedDict[tuple[str, str, str], tuple[float, bytes]] = OrderedDict()
        """Time and data by tenant, kind and id; oldest first."""
        self.bytes = 0

    def remember(self, tenant: str, output: Sequence[Item], context: str = "") -> None:
        for item in output:
            if isinstance(item, ReasoningItem):
                self._put((tenant, "item", str(item.id)), encode(item))
        for key, data in reasoning_by_call(output, context).items():
            self._put((tenant, "call", key), data)
        self._evict()

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        return self._find(tenant, "call", keys)

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        return {id: StoredItem(id, data) for id, data in self._find(tenant, "item", ids).items()}

    def _find(self, tenant: str, kind: str, ids: Sequence[str]) -> dict[str, bytes]:
        self._evict()
        return {id: self._entries[tenant, kind, id][1] for id in ids if (tenant, kind, id) in self._entries}

    def _put(self, key: tuple[str, str, str], data: bytes) -> None:
        self._forget(key)
        self._entries[key] = (self._clock(), data)
        self.bytes += len(data)

    def _forget(self, key: tuple[str, str, str]) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self.bytes -= len(entry[1])

    def _evict(self) -> None:
        oldest = self._clock() - self._seconds
        while self._entries:
            key, (since, _) = next(iter(self._entries.items()))
            if since > oldest and self.bytes <= self._most_bytes:
                return
            self._forget(key)
