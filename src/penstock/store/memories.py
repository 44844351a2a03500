"""The reasoning memory: what a client leaves out of its history, and its upstream must have back (W01).

Some clients return calls without the reasoning before them, or reasoning without what is sealed in it. An
upstream that wants either refuses the turn, or thinks less well (notes/asks C1 to C3). So for each call it is
remembered which reasoning came before it, and what is missing is put back.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.protocol.items import CLIENT_CALLS, Item, Message, ReasoningItem
from penstock.protocol.wire import decode, encode, to_builtins
from penstock.store.store import StoredItem

_NO_PART_OF_A_CALL = ("id", "status")


class Memory(Struct, frozen=True):
    """Of one call: which reasoning items led to it."""

    call: str
    """Tells it from other calls of the same id: some upstreams count anew in every conversation."""
    reasoning: list[str]


class Recalling(Protocol):
    """Where memories and items are kept. Every `Store` is one."""

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]: ...

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]: ...


def memories_of(output: Iterable[Item]) -> dict[str, bytes]:
    """What is to be remembered of an answer, by the ids of its calls."""
    found: dict[str, bytes] = {}
    thoughts: list[str] = []
    for item in output:
        if isinstance(item, ReasoningItem):
            thoughts.append(str(item.id))
        elif _is_call(item) and thoughts:
            found[_call_id(item)] = msgspec.json.encode(Memory(_fingerprint(item), thoughts))
            thoughts = []
    return found


async def restored(sources: Sequence[Recalling], tenant: str, items: Sequence[Item]) -> list[Item]:
    """The same history with the reasoning that was left out of it, as far as it is remembered."""
    whole = await _filled(sources, tenant, items)
    groups = _groups(whole)
    calls = [item for group in groups if not _is_sealed(group) for item in group if _is_call(item)]
    thoughts = await _thoughts_before(sources, tenant, calls) if calls else {}
    if not thoughts:
        return whole
    return list(chain.from_iterable(_completed(group, thoughts) for group in groups))


async def _filled(sources: Sequence[Recalling], tenant: str, items: Sequence[Item]) -> list[Item]:
    """Reasoning that came by its id, and without what is sealed in it, has that again."""
    bare = [str(item.id) for item in items if isinstance(item, ReasoningItem) and _is_bare(item)]
    if not bare:
        return list(items)
    known = await _items(sources, tenant, bare)
    return [_with_seal(item, known) if isinstance(item, ReasoningItem) else item for item in items]


def _is_bare(item: ReasoningItem) -> bool:
    return bool(item.id) and not item.encrypted_content


def _with_seal(item: ReasoningItem, known: Mapping[str, ReasoningItem]) -> ReasoningItem:
    kept = known.get(str(item.id)) if _is_bare(item) else None
    if kept is None:
        return item
    return replace(
        item,
        encrypted_content=kept.encrypted_content,
        content=item.content or kept.content,
        summary=item.summary or kept.summary,
    )


async def _thoughts_before(
    sources: Sequence[Recalling], tenant: str, calls: Sequence[Item]
) -> dict[str, list[ReasoningItem]]:
    """The remembered reasoning of these calls, by their ids."""
    found: dict[str, bytes] = {}
    for source in sources:
        found |= await source.recall(tenant, [id for call in calls if (id := _call_id(call)) not in found])
    memories = {id: msgspec.json.decode(data, type=Memory) for id, data in found.items()}
    true = {
        id: memory
        for call in calls
        if (memory := memories.get(id := _call_id(call))) is not None and memory.call == _fingerprint(call)
    }
    known = await _items(sources, tenant, [id for memory in true.values() for id in memory.reasoning])
    return {
        call: [known[id] for id in memory.reasoning]
        for call, memory in true.items()
        if all(id in known for id in memory.reasoning)
    }


async def _items(sources: Sequence[Recalling], tenant: str, ids: Sequence[str]) -> dict[str, ReasoningItem]:
    found: dict[str, StoredItem] = {}
    for source in sources:
        found |= await source.items(tenant, [id for id in ids if id not in found])
    # The ids of clients may be anything: what is kept under one need not be reasoning.
    reasoning = {id: item for id, item in found.items() if b'"type":"reasoning"' in item.data}
    return {id: decode(item.data, ReasoningItem) for id, item in reasoning.items()}


def _groups(items: Iterable[Item]) -> list[list[Item]]:
    """The history in what the model said at a time, and the single items between that."""
    groups: list[list[Item]] = []
    is_said = False
    for item in items:
        if is_said and _is_said(item):
            groups[-1].append(item)
        else:
            groups.append([item])
        is_said = _is_said(item)
    return groups


def _is_said(item: Item) -> bool:
    if isinstance(item, Message):
        return item.role == "assistant"
    return not item.type.endswith("_output")


def _is_sealed(group: Sequence[Item]) -> bool:
    return any(isinstance(item, ReasoningItem) and item.encrypted_content for item in group)


def _completed(group: Sequence[Item], thoughts: Mapping[str, list[ReasoningItem]]) -> Iterable[Item]:
    """Each call behind its reasoning. What the client made of that itself would say it twice."""
    if _is_sealed(group) or not any(_call_id(item) in thoughts for item in group):
        return group
    own = [item for item in group if not isinstance(item, ReasoningItem)]
    return chain.from_iterable((*thoughts.get(_call_id(item), ()), item) for item in own)


def _is_call(item: Item) -> bool:
    return item.type in CLIENT_CALLS and bool(_call_id(item))


def _call_id(item: Item) -> str:
    return getattr(item, "call_id", None) or "" if item.type in CLIENT_CALLS else ""


def _fingerprint(call: Item) -> str:
    fields = to_builtins(call)
    for name in _NO_PART_OF_A_CALL:
        fields.pop(name, None)
    for name, value in fields.items():
        fields[name] = _plain(value)
    return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()[:32]


def _plain(value: object) -> object:
    """Arguments as what they say: many clients write them anew (spaces, the order of fields)."""
    if not isinstance(value, str):
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
        self._kept: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()
        """By tenant and id, of calls and of items; the oldest first."""
        self.bytes = 0

    def remember(self, tenant: str, output: Sequence[Item]) -> None:
        memories = memories_of(output)
        for item in output:
            if isinstance(item, ReasoningItem):
                self._put((tenant, str(item.id)), encode(item))
        for key, data in memories.items():
            self._put((tenant, key), data)
        self._shed()

    async def recall(self, tenant: str, keys: Sequence[str]) -> dict[str, bytes]:
        self._shed()
        return {key: self._kept[tenant, key][1] for key in keys if (tenant, key) in self._kept}

    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, StoredItem]:
        return {id: StoredItem(id, data) for id, data in (await self.recall(tenant, ids)).items()}

    def _put(self, key: tuple[str, str], data: bytes) -> None:
        self._forget(key)
        self._kept[key] = (self._clock(), data)
        self.bytes += len(data)

    def _forget(self, key: tuple[str, str]) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self.bytes -= len(kept[1])

    def _shed(self) -> None:
        oldest = self._clock() - self._seconds
        while self._kept:
            key, (since, _) = next(iter(self._kept.items()))
            if since > oldest and self.bytes <= self._most_bytes:
                return
            self._forget(key)
