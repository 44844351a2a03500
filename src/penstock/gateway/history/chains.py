"""Load the history of a request: the turns before it, and the items that it references by id (decision 14,
decision 15).

The order is the specification's: input and output of the earlier turns, then the new input (spec N44,
spec N45). Instructions are not inherited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from os import urandom
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.fairness import ITEM_WEIGHT, run_heavy
from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.connection_cache import ConnectionHistory
from penstock.gateway.history.repeats import Numbered, latest_outputs, without_repeats
from penstock.gateway.refusals import invalid_request
from penstock.protocol.call_outputs import with_call_ids
from penstock.protocol.content import InputText, OutputText
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import (
    CLIENT_CALLS,
    ID_PREFIXES,
    AdditionalTools,
    AgentMessage,
    Item,
    ItemReference,
    Message,
    ToolSearchOutput,
    UnknownItem,
)
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import public_tools
from penstock.protocol.wire import encode, parse, read, to_builtins
from penstock.store.contract import Store
from penstock.store.reasoning_memory import ReasoningSource, restore_known_reasoning
from penstock.store.records import StoredItem
from penstock.stream.accents import without_slug

_LONGEST_ID = 64
_GENERIC = "item_"
_ALL = 2**31 - 1
_OUTPUTS = frozenset(f"{call}_output" for call in CLIENT_CALLS) | {"tool_search_output"}


class Resolved(Struct, frozen=True, kw_only=True):
    """A request with its complete history."""

    request: CreateResponse
    """Its `input` is the whole conversation."""
    added: tuple[Item, ...]
    """The items that this turn adds to it, with ids."""
    previous_id: str | None = None
    conversation_id: str | None = None
    before: int = 0
    """How many of its items are from earlier turns."""
    weight: int = 0
    """How much work it causes, including its history (`fairness.run_heavy`)."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Diagnostics for parts that could not be read."""

    @property
    def new_items(self) -> tuple[StoredItem, ...]:
        """The added items for the store. Encoded on demand: agents often ask not to store a turn."""
        return tuple(map(_stored, self.added))


async def resolve(
    store: Store,
    tenant: str,
    request: CreateResponse,
    local: ConnectionHistory | None = None,
    reasoning: Sequence[ReasoningSource] = (),
    weight: int = 0,
) -> Resolved:
    """Look up what the request refers to; raise `RequestRefused` if it is unknown or another tenant's."""
    given = await referred(store, tenant, _items_of(request), "input")
    weight += ITEM_WEIGHT * len(given)
    # Before the input is stored: otherwise only the copy without encrypted content would remain.
    restored = await restore_known_reasoning(
        reasoning, tenant, [item for _, item in given], partial(run_heavy, weight)
    )
    given = [(place, item) for (place, _), item in zip(given, restored, strict=True)]
    before: list[Item] = []
    unstored: list[Item] = []
    """Earlier items that are not in the store: they become part of this turn, so that it can be continued."""
    previous, conversation = request.previous_response_id or None, _conversation_of(request)
    if previous is not None and conversation is not None:
        message = "set either `previous_response_id` or `conversation`, not both"
        raise RequestRefused(400, "invalid_request", message, param="conversation")
    parent = previous
    if previous is not None and local is not None and local.id == previous:
        before, weight = list(local.items), weight + local.weight
        if not local.is_stored:
            parent, unstored = None, before
    elif previous is not None:
        before, history_weight = await _chain(store, tenant, previous)
        weight += history_weight
    elif conversation is not None:
        before, history_weight = await _conversation(store, tenant, conversation)
        weight += history_weight
    continues = previous is not None or conversation is not None
    items, added = await run_heavy(weight, _joined, before, given, unstored, continues)
    return Resolved(
        request=replace(request, input=items),
        added=added,
        previous_id=parent,
        conversation_id=conversation,
        before=len(before),
        weight=weight,
    )


def _joined(
    before: list[Item], given: list[Numbered], unstored: list[Item], continues: bool
) -> tuple[list[Item], tuple[Item, ...]]:
    """Return the whole conversation, and the items that this turn adds to it."""
    before, given = _with_call_ids(before, given)
    given = [(place, normalised(item)) for place, item in given]
    if continues:
        given = without_repeats(before, given)
        _check_outputs(before, given)
    named = [_named(item) for _, item in given]
    added = (*(_named(normalised(item)) for item in unstored), *named)
    return latest_outputs([*before, *named]) if before else named, added


def _with_call_ids(before: list[Item], given: list[Numbered]) -> tuple[list[Item], list[Numbered]]:
    """Return both lists with the call ids that outputs leave out."""
    try:
        items = with_call_ids([*before, *(item for _, item in given)], len(before))
    except DecodeError as error:
        raise invalid_request(error) from None
    places = [place for place, _ in given]
    return items[: len(before)], list(zip(places, items[len(before) :], strict=True))


def public_request(request: CreateResponse) -> CreateResponse:
    """Return a request without secrets, so that it can be stored."""
    tools = public_tools(request.tools) if isinstance(request.tools, list) else request.tools
    given = request.input
    items = [public_item(item) for item in given] if isinstance(given, list) else given
    # An unknown field may contain anything, even a key.
    return replace(request, tools=tools, input=items, extra=UNSET)


def named_items(items: Iterable[Item]) -> tuple[StoredItem, ...]:
    """Return the items of a request for the store, each with its own id or a new one."""
    return tuple(_stored(_named(normalised(item))) for item in items)


def normalised(item: Item) -> Item:
    """Return an item as SDKs expect stored input: content as a list of parts, and a status (decision 35,
    field F9)."""
    changes: dict[str, Any] = {}
    item = _without_prefix(item)
    if isinstance(item, (Message, AgentMessage)) and isinstance(item.content, str):
        is_output = isinstance(item, Message) and item.role == "assistant"
        changes["content"] = [OutputText(text=item.content) if is_output else InputText(text=item.content)]
    if getattr(item, "status", None) is UNSET:
        changes["status"] = "completed"
    return replace(item, **changes) if changes else item


def _without_prefix(item: Item) -> Item:
    """Return an item that a client sends back under the name that the strict accent gave it, as it was
    (decision 1)."""
    if not isinstance(item, UnknownItem) or without_slug(item.type) == item.type:
        return item
    plain = {**to_builtins(item), "type": without_slug(item.type)}
    try:
        found = read({"input": [plain]}, CreateResponse).input
    except DecodeError:
        return item
    return found[0] if isinstance(found, list) else item


def read_items(stored: Sequence[StoredItem]) -> list[Item]:
    if not stored:
        return []
    found = read({"input": [parse(each.data) for each in stored]}, CreateResponse).input
    return found if isinstance(found, list) else []


def _items_of(request: CreateResponse) -> list[Numbered]:
    if isinstance(request.input, str):
        return [(0, Message(role="user", content=request.input))]
    return list(enumerate(request.input or []))


async def referred(store: Store, tenant: str, given: list[Numbered], field: str) -> list[Numbered]:
    """Replace item references with the items: the AI SDK sends its history this way (client 4)."""
    ids = [item.id for _, item in given if isinstance(item, ItemReference)]
    if not ids:
        return given
    stored = await store.items(tenant, ids)
    return await run_heavy(_weight(stored.values()), _dereferenced, given, stored, field)


def _dereferenced(given: list[Numbered], stored: dict[str, StoredItem], field: str) -> list[Numbered]:
    found: list[Numbered] = []
    for index, item in given:
        if isinstance(item, ItemReference):
            if item.id not in stored:
                message = f"there is no stored item {item.id[:_LONGEST_ID]!r}: send the item itself"
                raise RequestRefused(400, "item_not_found", message, param=f"{field}[{index}].id")
            item = read_items([stored[item.id]])[0]
        found.append((index, item))
    return found


async def _chain(store: Store, tenant: str, id: str) -> tuple[list[Item], int]:
    """Return every item of a chain, and their weight."""
    turns = await store.chain(tenant, id)
    if turns is None:
        shown = repr(id[:_LONGEST_ID])
        message = f"there is no response {shown}, or it is no longer stored: send the whole history"
        raise RequestRefused(400, "previous_response_not_found", message, param="previous_response_id")
    stored = [item for turn in turns for item in (*turn.input, *turn.output)]
    weight = _weight(stored)
    return await run_heavy(weight, read_items, stored), weight


def _weight(stored: Collection[StoredItem]) -> int:
    return sum(len(item.data) for item in stored) + ITEM_WEIGHT * len(stored)


def _conversation_of(request: CreateResponse) -> str | None:
    named = request.conversation
    if not named:
        return None
    return named if isinstance(named, str) else named.id


async def _conversation(store: Store, tenant: str, id: str) -> tuple[list[Item], int]:
    await store.wait_for_turns(tenant, id)
    found = await all_items(store, tenant, id)
    if found is None:
        message = f"there is no conversation {id[:_LONGEST_ID]!r}, or it is no longer stored"
        raise RequestRefused(404, "conversation_not_found", message, type="not_found", param="conversation")
    weight = _weight(found)
    return await run_heavy(weight, read_items, found), weight


async def all_items(store: Store, tenant: str, id: str) -> list[StoredItem] | None:
    """Return all items of a conversation; None if it does not exist. They are read at once: with pages, a
    duplicate id or an item that is deleted meanwhile would lose the rest."""
    page = await store.conversation_items(tenant, id, limit=_ALL, newest_first=False)
    return None if page is None else list(page.items)


def _check_outputs(before: list[Item], given: list[Numbered]) -> None:
    """Refuse an output without its call: the history is ours, so this is the client's error (decision 14)."""
    calls = {item.call_id for item in (*before, *(each for _, each in given)) if _is_call(item)}  # type: ignore[union-attr]
    for index, item in given:
        call_id = getattr(item, "call_id", None)
        if item.type in _OUTPUTS and call_id and call_id not in calls:
            message = f"the conversation has no call {str(call_id)[:_LONGEST_ID]!r} for this output"
            raise RequestRefused(400, "invalid_request", message, param=f"input[{index}].call_id")


def _is_call(item: Item) -> bool:
    return item.type in CLIENT_CALLS and bool(getattr(item, "call_id", None))


def _named(item: Item) -> Item:
    """Return an item with the client's own id if it is valid, otherwise with a new one (ask G3).

    An id that another server gave to any kind of item (`item_0`) is not unique, and upstreams refuse it.
    """
    id = item.id
    if id and len(id) <= _LONGEST_ID and not (id.startswith(_GENERIC) and item.type in ID_PREFIXES):
        return item
    return replace(item, id=new_id(ID_PREFIXES.get(item.type, "item")))


def _stored(item: Item) -> StoredItem:
    return StoredItem(str(item.id), encode(public_item(item)))


def public_item(item: Item) -> Item:
    """Return the item without the client's keys to its own servers."""
    if isinstance(item, AdditionalTools | ToolSearchOutput):
        return replace(item, tools=public_tools(item.tools))
    return item


def new_id(prefix: str) -> str:
    """Return a new id of a response or an item: the prefix, and 128 random bits."""
    return f"{prefix}_{urandom(16).hex()}"
