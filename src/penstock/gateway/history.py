"""What a request leaves unsaid: the chain before it, the items that it names by id (decisions 14, 15).

The order is the specification's: what the earlier turns were given and gave, then the input (N44, N45).
Instructions are not inherited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from penstock.gateway.errors import RequestRefused
from penstock.protocol.errors import Diagnostic
from penstock.protocol.items import (
    CLIENT_CALLS,
    ID_PREFIXES,
    AdditionalTools,
    Item,
    ItemReference,
    Message,
    ToolSearchOutput,
)
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import public_tools
from penstock.protocol.wire import encode, parse, read
from penstock.store.memories import Recalling, filled
from penstock.store.store import Store, StoredItem

_LONGEST_ID = 64
_PAGE = 1000
_OUTPUTS = frozenset(f"{call}_output" for call in CLIENT_CALLS) | {"tool_search_output"}


class Resolved(Struct, frozen=True, kw_only=True):
    """A request with nothing left unsaid."""

    request: CreateResponse
    """Its `input` is the whole conversation."""
    brought: tuple[StoredItem, ...]
    """What this turn adds to it, under ids."""
    previous_id: str | None = None
    conversation_id: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    """What could not be understood of it."""


class Local(Struct, frozen=True):
    """The last response of a WebSocket, with all that led to it, stored or not (N18)."""

    id: str
    items: tuple[Item, ...]


async def resolve(
    store: Store,
    tenant: str,
    request: CreateResponse,
    local: Local | None = None,
    reasoning: Sequence[Recalling] = (),
) -> Resolved:
    """Look up what the request refers to; what is not there, or is another's, is refused by its name."""
    given = await referred(store, tenant, _items_of(request), "input")
    # Before it is kept as input: a bare copy must not be all that is left of it.
    whole_items = await filled(reasoning, tenant, [item for _, item in given])
    given = [(place, item) for (place, _), item in zip(given, whole_items, strict=True)]
    before: list[Item] = []
    previous, conversation = request.previous_response_id or None, _conversation_of(request)
    if previous is not None and conversation is not None:
        message = "a response continues another one, or a conversation: name one of them"
        raise RequestRefused(400, "invalid_request", message, param="conversation")
    if previous is not None:
        is_local = local is not None and local.id == previous
        before = list(local.items) if local and is_local else await _chain(store, tenant, previous)
    elif conversation is not None:
        before = await _conversation(store, tenant, conversation)
    if previous is not None or conversation is not None:
        given = _without_repeats(before, given)
        _check_outputs(before, given)
    brought = named_items(item for _, item in given)
    named = [_with_id(item, stored.id) for (_, item), stored in zip(given, brought, strict=True)]
    whole = replace(request, input=[*before, *named])
    return Resolved(request=whole, brought=brought, previous_id=previous, conversation_id=conversation)


def public_request(request: CreateResponse) -> CreateResponse:
    """A request as it may be written down."""
    tools = public_tools(request.tools) if isinstance(request.tools, list) else request.tools
    given = request.input
    items = [public_item(item) for item in given] if isinstance(given, list) else given
    return replace(request, tools=tools, input=items)


def named_items(items: Iterable[Item]) -> tuple[StoredItem, ...]:
    """Items of a request, each under its own id or a new one."""
    return tuple(_stored(item) for item in items)


def read_items(stored: Sequence[StoredItem]) -> list[Item]:
    if not stored:
        return []
    found = read({"input": [parse(each.data) for each in stored]}, CreateResponse).input
    return found if isinstance(found, list) else []


_Numbered = tuple[int, Item]
"""An item, and its place in the request: errors name it."""


def _items_of(request: CreateResponse) -> list[_Numbered]:
    if isinstance(request.input, str):
        return [(0, Message(role="user", content=request.input))]
    return list(enumerate(request.input or []))


async def referred(store: Store, tenant: str, given: list[_Numbered], field: str) -> list[_Numbered]:
    """References, replaced by what they stand for: the AI SDK replays its history so (notes/clients 2)."""
    ids = [item.id for _, item in given if isinstance(item, ItemReference)]
    if not ids:
        return given
    stored = await store.items(tenant, ids)
    found: list[_Numbered] = []
    for index, item in given:
        if isinstance(item, ItemReference):
            if item.id not in stored:
                message = f"there is no item {item.id[:_LONGEST_ID]!r} here: send the item itself"
                raise RequestRefused(400, "item_not_found", message, param=f"{field}[{index}].id")
            item = read_items([stored[item.id]])[0]
        found.append((index, item))
    return found


async def _chain(store: Store, tenant: str, id: str) -> list[Item]:
    turns = await store.chain(tenant, id)
    if turns is None:
        message = f"there is no response {id[:_LONGEST_ID]!r} here, or not any more: send the whole history"
        raise RequestRefused(400, "previous_response_not_found", message, param="previous_response_id")
    return [item for turn in turns for item in read_items([*turn.input, *turn.output])]


def _conversation_of(request: CreateResponse) -> str | None:
    named = request.conversation
    if not named:
        return None
    return named if isinstance(named, str) else named.id


async def _conversation(store: Store, tenant: str, id: str) -> list[Item]:
    found = await all_items(store, tenant, id)
    if found is None:
        message = f"there is no conversation {id[:_LONGEST_ID]!r} here, or not any more"
        raise RequestRefused(404, "conversation_not_found", message, type="not_found", param="conversation")
    return read_items(found)


async def all_items(store: Store, tenant: str, id: str) -> list[StoredItem] | None:
    """All of a conversation, page by page; None: not there."""
    found: list[StoredItem] = []
    has_more = True
    while has_more:
        last = found[-1].id if found else None
        page = await store.conversation_items(tenant, id, after=last, limit=_PAGE, newest_first=False)
        if page is None:
            return None
        found += page.items
        has_more = page.has_more
    return found


def _without_repeats(before: list[Item], given: list[_Numbered]) -> list[_Numbered]:
    """Some clients name the response before and send its items again (notes/asks G9)."""
    known = {mark for item in before if (mark := _mark(item)) is not None}
    ids = {item.id for item in before if item.id}
    return [
        each for each in given if _mark(each[1]) not in known and (not each[1].id or each[1].id not in ids)
    ]


def _mark(item: Item) -> tuple[str, str] | None:
    """Tells calls and their outputs apart; other items have none."""
    call_id = getattr(item, "call_id", None)
    return (item.type, call_id) if isinstance(call_id, str) and call_id else None


def _check_outputs(before: list[Item], given: list[_Numbered]) -> None:
    """An output whose call is nowhere is a mistake of the client's: the chain is ours (decisions 14)."""
    calls = {item.call_id for item in (*before, *(each for _, each in given)) if _is_call(item)}  # type: ignore[union-attr]
    for index, item in given:
        call_id = getattr(item, "call_id", None)
        if item.type in _OUTPUTS and call_id and call_id not in calls:
            message = f"no call {str(call_id)[:_LONGEST_ID]!r} is in the conversation"
            raise RequestRefused(400, "invalid_request", message, param=f"input[{index}].call_id")


def _is_call(item: Item) -> bool:
    return item.type in CLIENT_CALLS and bool(getattr(item, "call_id", None))


def _stored(item: Item) -> StoredItem:
    """Under the client's own id, if it can be one; else under a new one (notes/asks G3)."""
    id = item.id if item.id and len(item.id) <= _LONGEST_ID else _new_id(item.type)
    return StoredItem(id, encode(public_item(_with_id(item, id))))


def public_item(item: Item) -> Item:
    """The same without the client's keys to its own servers."""
    if isinstance(item, AdditionalTools | ToolSearchOutput):
        return replace(item, tools=public_tools(item.tools))
    return item


def _with_id(item: Item, id: str) -> Item:
    return item if item.id == id else replace(item, id=id)


def _new_id(type: str) -> str:
    return f"{ID_PREFIXES.get(type, 'item')}_{uuid4().hex}"
