"""The reasoning memory: what a client leaves out of its history, and its upstream must have back (ask C1).

Some clients return calls without the reasoning before them, or reasoning without what is sealed in it. An
upstream that wants either refuses the turn, or thinks less well (ask C1 to ask C3). So for each call it is
remembered which reasoning came before it, and what is missing is put back.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.protocol.items import CLIENT_CALLS, Item, Message, ReasoningItem
from penstock.protocol.large import max_values
from penstock.protocol.wire import decode, encode, to_builtins
from penstock.store.contract import StoredItem

_NOT_COMPARED = ("id", "status")
_ARGUMENT_VALUES = 50_000
"""JSON values in the arguments of a call that is compared by what they say."""

T = TypeVar("T")

Slots = list[list[ReasoningItem]]
"""Reasoning by its place: before the first message since the call before, behind it, and so on."""


class CallReasoning(Struct, frozen=True):
    """Of one call: which reasoning items led to it."""

    call: str
    """Tells it from other calls of the same id: some upstreams count anew in every conversation. So it is
    made of what is called, and of what the model was told before."""
    reasoning: list[list[str]]
    """As `Slots`, by their ids."""

    @property
    def ids(self) -> list[str]:
        return [id for slot in self.reasoning for id in slot]


class ReasoningSource(Protocol):
    """Where the reasoning of calls and items are kept. Every `Store` is one."""

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]: ...

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]: ...


def reasoning_by_call(output: Iterable[Item], context: str = "") -> dict[str, bytes]:
    """What is to be remembered of an answer, by the ids of its calls. `context` is what it answers."""
    found: dict[str, bytes] = {}
    slots: list[list[str]] = [[]]
    for item in output:
        if isinstance(item, ReasoningItem):
            slots[-1].append(str(item.id))
        elif isinstance(item, Message):
            slots.append([])
        elif _is_call(item):
            if any(slots):
                found[_call_id(item)] = msgspec.json.encode(CallReasoning(_fingerprint(item, context), slots))
            slots = [[]]
    return found


def context_of(items: Sequence[Item]) -> str:
    """What the model answers: the last thing that it was told, whoever wrote it down in whichever way."""
    last = next((item for item in reversed(items) if not _is_model_output(item)), None)
    if last is None:
        return ""
    fields = getattr(last, "role", ""), getattr(last, "call_id", ""), item_text(last)
    return _digest(list(map(str, fields)))


async def restore_encrypted_content(
    sources: Sequence[ReasoningSource], tenant: str, items: Sequence[Item]
) -> list[Item]:
    """Reasoning that came by its id, and without what is sealed in it, has that again."""
    bare = [str(item.id) for item in items if isinstance(item, ReasoningItem) and _is_bare(item)]
    if not bare:
        return list(items)
    known = await _items(sources, tenant, bare)
    return [
        _with_seal(item, known[str(item.id)]) if _is_bare(item) and item.id in known else item
        for item in items
    ]


class FunctionRunner(Protocol):
    """Runs a function that may take a while, here or in a thread."""

    async def __call__(self, function: Callable[..., T], *args: Any) -> T: ...


async def run_here(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


async def restore_reasoning(
    sources: Sequence[ReasoningSource], tenant: str, items: Sequence[Item], run: FunctionRunner = run_here
) -> list[Item]:
    """The same history with the reasoning that was left out of it, as far as it is remembered.

    Nothing is ever taken away, and where there is reasoning none is added: whoever sends some knows better.
    """
    whole = await restore_encrypted_content(sources, tenant, items)
    groups, calls = await run(_open_calls, whole)
    recalled = await _recalled(sources, tenant, calls, _reasoning_ids(whole)) if calls else None
    if recalled is None or not recalled.calls:
        return whole
    return await run(_all_completed, groups, recalled)


def _open_calls(items: Sequence[Item]) -> tuple[list[_Group], list[str]]:
    """The history in groups, and the ids of the calls that may lack their reasoning."""
    groups = _groups(items)
    open_groups = [group for group in groups if not group.is_sealed]
    calls = {_call_id(item): None for group in open_groups for item in group.items if _is_call(item)}
    return groups, list(calls)


def _all_completed(groups: Sequence[_Group], recalled: _Recalled) -> list[Item]:
    return list(chain.from_iterable(_completed(group, recalled) for group in groups))


class _Group(Struct):
    """Consecutive items of the model, or a single other item; and the last input before it."""

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
    def is_sealed(self) -> bool:
        return any(isinstance(item, ReasoningItem) and item.encrypted_content for item in self.items)


class _Recalled(Struct, frozen=True):
    calls: dict[str, CallReasoning]
    """By the ids of calls."""
    reasoning: dict[str, ReasoningItem]

    def before(self, call: Item, group: _Group) -> Slots:
        """The reasoning before a call, if it is the one that is remembered."""
        memory = self.calls.get(_call_id(call))
        if memory is None or memory.call != _fingerprint(call, group.context):
            return []
        return [[self.reasoning[id] for id in slot] for slot in memory.reasoning]


async def _recalled(
    sources: Sequence[ReasoningSource], tenant: str, calls: Sequence[str], present: Collection[str]
) -> _Recalled:
    found: dict[str, bytes] = {}
    for source in sources:
        found |= await source.recall(tenant, [id for id in calls if id not in found])
    read = {id: memory for id, data in found.items() if (memory := _read_call_reasoning(data)) is not None}
    known = await _items(sources, tenant, [id for memory in read.values() for id in memory.ids])
    whole = {
        call: memory
        for call, memory in read.items()
        if all(id in known and id not in present for id in memory.ids)
    }
    return _Recalled(whole, known)


def _read_call_reasoning(data: bytes) -> CallReasoning | None:
    try:
        return msgspec.json.decode(data, type=CallReasoning)
    except msgspec.MsgspecError:
        return None


async def _items(
    sources: Sequence[ReasoningSource], tenant: str, ids: Sequence[str]
) -> dict[str, ReasoningItem]:
    found: dict[str, StoredItem] = {}
    for source in sources:
        found |= await source.items(tenant, [id for id in ids if id not in found])
    # The ids of clients may be anything: what is kept under one need not be reasoning.
    reasoning = {id: item for id, item in found.items() if b'"type":"reasoning"' in item.data}
    return {id: decode(item.data, ReasoningItem) for id, item in reasoning.items()}


def _groups(items: Sequence[Item]) -> list[_Group]:
    groups: list[_Group] = []
    last_input: Sequence[Item] = ()
    is_output = False
    for place, item in enumerate(items):
        if is_output and _is_model_output(item):
            groups[-1].items.append(item)
        else:
            groups.append(_Group([item], last_input))
        is_output = _is_model_output(item)
        if not is_output:
            last_input = items[place : place + 1]
    return groups


def _completed(group: _Group, recalled: _Recalled) -> Sequence[Item]:
    if group.is_sealed:
        return group.items
    if any(isinstance(item, ReasoningItem) for item in group.items):
        return _sealed_again(group, recalled)
    whole: list[Item] = []
    segment: list[Item] = []
    """Since the call before."""
    for item in group.items:
        segment.append(item)
        if _is_call(item):
            whole += _with_thoughts(segment, recalled.before(item, group))
            segment = []
    return whole + segment


def _with_thoughts(segment: Sequence[Item], slots: Slots) -> list[Item]:
    """A call and the text before it, with the reasoning in its places; some upstreams insist on them."""
    said = sum(isinstance(item, Message) for item in segment)
    if len(slots) != said + 1:  # the client has left out text, or joined it
        return [*chain.from_iterable(slots), *segment]
    whole: list[Item] = list(slots[0])
    behind = iter(slots[1:])
    for item in segment:
        whole.append(item)
        if isinstance(item, Message):
            whole += next(behind)
    return whole


def _sealed_again(group: _Group, recalled: _Recalled) -> list[Item]:
    """Reasoning that came in its own words, without an id, is known by them."""
    slots = (slot for item in group.items if _is_call(item) for slot in recalled.before(item, group))
    known = {item_text(thought): thought for slot in slots for thought in slot}
    return [
        _with_seal(item, known[item_text(item)])
        if isinstance(item, ReasoningItem) and not item.encrypted_content and item_text(item) in known
        else item
        for item in group.items
    ]


def _is_bare(item: Item) -> bool:
    return isinstance(item, ReasoningItem) and bool(item.id) and not item.encrypted_content


def _with_seal(item: Item, kept: ReasoningItem) -> Item:
    assert isinstance(item, ReasoningItem)
    return replace(
        item,
        encrypted_content=kept.encrypted_content,
        content=item.content or kept.content,
        summary=item.summary or kept.summary,
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
    """What an item says, as one text, however its content is written."""
    content = getattr(item, "content", None) or getattr(item, "output", None) or ""
    if isinstance(content, str):
        return content
    return "".join(text for part in content if isinstance(text := getattr(part, "text", ""), str))


def _fingerprint(call: Item, context: str) -> str:
    fields = to_builtins(call)
    for name in _NOT_COMPARED:
        fields.pop(name, None)
    return _digest([context, {name: _plain(value) for name, value in fields.items()}])


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:32]


def _plain(value: object) -> object:
    """Arguments as what they say: many clients write them anew (spaces, the order of fields)."""
    if not isinstance(value, str) or max_values(value) > _ARGUMENT_VALUES:
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, ValueError):
        return value


class ReasoningCache:
    """The memory of turns that are not stored: bounded, and gone after an hour."""

    def __init__(
        self, clock: Callable[[], float], *, most_bytes: int = 32 * 1024 * 1024, seconds: float = 3600.0
    ) -> None:
        self._clock, self._most_bytes, self._seconds = clock, most_bytes, seconds
        self._kept: OrderedDict[tuple[str, str, str], tuple[float, bytes]] = OrderedDict()
        """By tenant, what it is and its id; the oldest first."""
        self.bytes = 0

    def remember(self, tenant: str, output: Sequence[Item], context: str = "") -> None:
        for item in output:
            if isinstance(item, ReasoningItem):
                self._put((tenant, "item", str(item.id)), encode(item))
        for key, data in reasoning_by_call(output, context).items():
            self._put((tenant, "call", key), data)
        self._shed()

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        return self._found(tenant, "call", keys)

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        return {id: StoredItem(id, data) for id, data in self._found(tenant, "item", ids).items()}

    def _found(self, tenant: str, kind: str, ids: Sequence[str]) -> dict[str, bytes]:
        self._shed()
        return {id: self._kept[tenant, kind, id][1] for id in ids if (tenant, kind, id) in self._kept}

    def _put(self, key: tuple[str, str, str], data: bytes) -> None:
        self._forget(key)
        self._kept[key] = (self._clock(), data)
        self.bytes += len(data)

    def _forget(self, key: tuple[str, str, str]) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self.bytes -= len(kept[1])

    def _shed(self) -> None:
        oldest = self._clock() - self._seconds
        while self._kept:
            key, (since, _) = next(iter(self._kept.items()))
            if since > oldest and self.bytes <= self._most_bytes:
                return
            self._forget(key)
