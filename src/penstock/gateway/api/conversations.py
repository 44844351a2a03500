"""Conversations: a history under one id, which turns read and add to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from penstock.errors import DecodeError
from penstock.fairness import run_heavy, weight_of
from penstock.gateway.errors import RequestRefused
from penstock.gateway.history.chains import all_items, named_items, referred
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.http.paging import list_body, page_options
from penstock.gateway.refusals import wrong_request
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.turn.prepare import tenant_of
from penstock.gateway.turn.requests import parse_bounded
from penstock.protocol.content import JsonObject
from penstock.protocol.items import Item
from penstock.protocol.wire import Wire, read
from penstock.store.contract import Conversation, StoredItem

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

_MOST_ITEMS = 20
"""That can be added at once, as OpenAI has it for both ways of adding."""


class _Given(Wire):
    """What a request to make or change a conversation has."""

    items: list[Item] | None = None
    metadata: JsonObject | None = None


async def create_conversation(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    given, tenant = await _read(gateway, exchange), tenant_of(key)
    items = await _named(gateway, tenant, given.items or [])
    made = Conversation(f"conv_{uuid4().hex}", int(time.time()), msgspec.json.encode(given.metadata or {}))
    await gateway.store.create_conversation(tenant, made)
    if items:
        await gateway.store.add_items(tenant, made.id, items)
    await exchange.answer(200, _body(made))


async def get_conversation(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    await exchange.answer(200, _body(await _find(gateway, exchange, key)))


async def update_conversation(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    given, (id, *_) = await _read(gateway, exchange), _ids(exchange)
    if given.metadata is None:
        raise _missing("metadata")
    metadata = msgspec.json.encode(given.metadata)
    changed = await gateway.store.update_conversation(tenant_of(key), id, metadata)
    if changed is None:
        raise unknown_conversation(id)
    await exchange.answer(200, _body(changed))


async def delete_conversation(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    id = _ids(exchange)[0]
    if not await gateway.store.delete_conversation(tenant_of(key), id):
        raise unknown_conversation(id)
    told = {"id": id, "object": "conversation.deleted", "deleted": True}
    await exchange.answer(200, msgspec.json.encode(told))


async def list_items(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    id = _ids(exchange)[0]
    page = await gateway.store.conversation_items(tenant_of(key), id, **page_options(exchange.query))
    if page is None:
        raise unknown_conversation(id)
    await exchange.answer(200, list_body(page.items, has_more=page.has_more))


async def add_items(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    given, (id, *_), tenant = await _read(gateway, exchange), _ids(exchange), tenant_of(key)
    if not given.items:
        raise _missing("items")
    items = await _named(gateway, tenant, given.items)
    if not await gateway.store.add_items(tenant, id, items):
        raise unknown_conversation(id)
    await exchange.answer(200, list_body(items, has_more=False))


async def get_item(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    """One of this conversation: another one's is not here."""
    id, _, wanted = _ids(exchange)[:3]
    items = await all_items(gateway.store, tenant_of(key), id)
    if items is None:
        raise unknown_conversation(id)
    for item in items:
        if item.id == wanted:
            await exchange.answer(200, item.data)
            return
    raise _unknown_item(wanted)


async def delete_item(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    found, item = await _find(gateway, exchange, key), _ids(exchange)[2]
    if not await gateway.store.delete_item(tenant_of(key), found.id, item):
        raise _unknown_item(item)
    await exchange.answer(200, _body(found))


def unknown_conversation(id: str, param: str = "conversation_id") -> RequestRefused:
    """The same for what never was, what is gone and what is another's (K1)."""
    message = f"there is no conversation {id[:64]!r} here, or it is not kept any more"
    return RequestRefused(404, "conversation_not_found", message, type="not_found", param=param)


def _missing(name: str) -> RequestRefused:
    return RequestRefused(400, "missing_required_parameter", f"give `{name}`", param=name)


def _unknown_item(id: str) -> RequestRefused:
    message = f"there is no item {id[:64]!r} in this conversation"
    return RequestRefused(404, "item_not_found", message, type="not_found", param="item_id")


def _ids(exchange: Exchange) -> list[str]:
    """What stands behind `conversations/`: its id, and perhaps `items` and an item's id."""
    return exchange.path.strip("/").removeprefix("v1/").split("/")[1:]


async def _find(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> Conversation:
    id = _ids(exchange)[0]
    found = await gateway.store.get_conversation(tenant_of(key), id)
    if found is None:
        raise unknown_conversation(id)
    return found


async def _read(gateway: Gateway, exchange: Exchange) -> _Given:
    body = await gateway.read(exchange)
    if not body.strip():
        return _Given()
    return await run_heavy(weight_of(body), _given, body, gateway.services.settings.limits)


def _given(body: bytes, limits: Limits) -> _Given:
    try:
        raw = parse_bounded(body, limits, "items")
        if isinstance(raw, dict) and isinstance(items := raw.get("items"), list):
            _check_count(len(items))
        return read(raw, _Given)
    except DecodeError as error:
        raise wrong_request(error) from None


def _check_count(count: int) -> None:
    if count > _MOST_ITEMS:
        message = f"{_MOST_ITEMS} items can be added at once, not {count}"
        raise RequestRefused(400, "invalid_request", message, param="items")


async def _named(gateway: Gateway, tenant: str, items: Sequence[Item]) -> tuple[StoredItem, ...]:
    found = await referred(gateway.store, tenant, list(enumerate(items)), "items")
    return named_items(item for _, item in found)


def _body(conversation: Conversation) -> bytes:
    told: dict[str, Any] = {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": msgspec.Raw(conversation.metadata),
    }
    return msgspec.json.encode(told)
