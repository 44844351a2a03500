"""Conversations: a history with its own id, which turns read and extend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from penstock.errors import DecodeError
from penstock.fairness import run_heavy, weight_of
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import all_items, named_items, referred
from penstock.gateway.http.access import tenant_of
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.http.paging import list_body, page_options
from penstock.gateway.refusals import invalid_request
from penstock.gateway.settings import ClientKey, Limits
from penstock.gateway.turn.requests import parse_bounded
from penstock.protocol.chat_requests import refuse_chat_items
from penstock.protocol.content import JsonObject
from penstock.protocol.items import Item
from penstock.protocol.wire import Wire, read
from penstock.store.records import StoredConversation, StoredItem

MOST_ITEMS = 20
"""How many items can be added at once; OpenAI's limit, when a conversation is created and later."""


class _ConversationBody(Wire):
    """The body of a request that creates or changes a conversation."""

    items: list[Item] | None = None
    metadata: JsonObject | None = None


async def create_conversation(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    body, tenant = await _read(gateway, exchange), tenant_of(key)
    items = await _with_ids(gateway, tenant, body.items or [])
    conversation = StoredConversation(
        f"conv_{uuid4().hex}", int(gateway.store.clock()), msgspec.json.encode(body.metadata or {})
    )
    await gateway.store.create_conversation(tenant, conversation)
    if items:
        await gateway.store.add_items(tenant, conversation.id, items)
    exchange.answer(200, _body(conversation))


async def get_conversation(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str
) -> None:
    exchange.answer(200, _body(await _find(gateway, key, conversation_id)))


async def update_conversation(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str
) -> None:
    body = await _read(gateway, exchange)
    if body.metadata is None:
        raise _missing("metadata")
    metadata = msgspec.json.encode(body.metadata)
    changed = await gateway.store.update_conversation(tenant_of(key), conversation_id, metadata)
    if changed is None:
        raise unknown_conversation(conversation_id)
    exchange.answer(200, _body(changed))


async def delete_conversation(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str
) -> None:
    if not await gateway.store.delete_conversation(tenant_of(key), conversation_id):
        raise unknown_conversation(conversation_id)
    deleted = {"id": conversation_id, "object": "conversation.deleted", "deleted": True}
    exchange.answer(200, msgspec.json.encode(deleted))


async def list_items(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str
) -> None:
    options = page_options(exchange.query)
    page = await gateway.store.conversation_items(tenant_of(key), conversation_id, **options)
    if page is None:
        raise unknown_conversation(conversation_id)
    exchange.answer(200, list_body(page.items, has_more=page.has_more))


async def add_items(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str
) -> None:
    body, tenant = await _read(gateway, exchange), tenant_of(key)
    if not body.items:
        raise _missing("items")
    items = await _with_ids(gateway, tenant, body.items)
    if not await gateway.store.add_items(tenant, conversation_id, items):
        raise unknown_conversation(conversation_id)
    exchange.answer(200, list_body(items, has_more=False))


async def get_item(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str, item_id: str
) -> None:
    """Return an item of this conversation; items of other conversations are not found."""
    items = await all_items(gateway.store, tenant_of(key), conversation_id)
    if items is None:
        raise unknown_conversation(conversation_id)
    for item in items:
        if item.id == item_id:
            exchange.answer(200, item.data)
            return
    raise _unknown_item(item_id)


async def delete_item(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, conversation_id: str, item_id: str
) -> None:
    found = await _find(gateway, key, conversation_id)
    if not await gateway.store.delete_item(tenant_of(key), conversation_id, item_id):
        raise _unknown_item(item_id)
    exchange.answer(200, _body(found))


def unknown_conversation(id: str, param: str = "conversation_id") -> RequestRefused:
    """Return the same error for ids that never existed, were deleted or belong to another tenant (ask K1)."""
    message = f"there is no conversation {id[:64]!r}, or it is no longer stored"
    return RequestRefused(404, "conversation_not_found", message, type="not_found", param=param)


def _missing(name: str) -> RequestRefused:
    message = f"`{name}` is missing: add it to the request"
    return RequestRefused(400, "missing_required_parameter", message, param=name)


def _unknown_item(id: str) -> RequestRefused:
    message = f"there is no item {id[:64]!r} in this conversation"
    return RequestRefused(404, "item_not_found", message, type="not_found", param="item_id")


async def _find(gateway: Gateway, key: ClientKey | None, id: str) -> StoredConversation:
    found = await gateway.store.get_conversation(tenant_of(key), id)
    if found is None:
        raise unknown_conversation(id)
    return found


async def _read(gateway: Gateway, exchange: Exchange) -> _ConversationBody:
    body = await gateway.read(exchange)
    if not body.strip():
        return _ConversationBody()
    return await run_heavy(weight_of(body), _decode, body, gateway.services.settings.limits)


def _decode(body: bytes, limits: Limits) -> _ConversationBody:
    try:
        raw = parse_bounded(body, limits, "items")
        if isinstance(raw, dict) and isinstance(items := raw.get("items"), list):
            _check_count(len(items))
            refuse_chat_items(items, "items")
        return read(raw, _ConversationBody)
    except DecodeError as error:
        raise invalid_request(error) from None


def _check_count(count: int) -> None:
    if count > MOST_ITEMS:
        message = f"at most {MOST_ITEMS} items can be added at once, not {count}"
        raise RequestRefused(400, "invalid_request", message, param="items")


async def _with_ids(gateway: Gateway, tenant: str, items: Sequence[Item]) -> tuple[StoredItem, ...]:
    found = await referred(gateway.store, tenant, list(enumerate(items)), "items")
    return named_items(item for _, item in found)


def _body(conversation: StoredConversation) -> bytes:
    body: dict[str, Any] = {
        "id": conversation.id,
        "object": "conversation",
        "created_at": conversation.created_at,
        "metadata": msgspec.Raw(conversation.metadata),
    }
    return msgspec.json.encode(body)
