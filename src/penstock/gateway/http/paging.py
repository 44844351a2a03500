"""Lists that are given page by page, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec

from penstock.gateway.errors import RequestRefused
from penstock.store.contract import StoredItem

_MOST = 100
_LONGEST = 18
"""Digits of a number."""


class PageOptions(TypedDict):
    """What a store is asked for."""

    after: str | None
    limit: int
    newest_first: bool


def number(text: str, otherwise: int) -> int:
    """A number out of a query. Python takes digits of any script, and stores take no more than 64 bits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else otherwise


def page_options(query: Mapping[str, str]) -> PageOptions:
    limit, order = query.get("limit", "20"), query.get("order", "desc")
    if not 1 <= number(limit, 0) <= _MOST:
        raise RequestRefused(400, "invalid_request", f"limit is a number from 1 to {_MOST}", param="limit")
    if order not in ("asc", "desc"):
        raise RequestRefused(400, "invalid_request", "order is `asc` or `desc`", param="order")
    return PageOptions(after=query.get("after"), limit=number(limit, 0), newest_first=order == "desc")


def list_body(items: Sequence[StoredItem], *, has_more: bool) -> bytes:
    told = {
        "object": "list",
        "data": [msgspec.Raw(item.data) for item in items],
        "first_id": items[0].id if items else None,
        "last_id": items[-1].id if items else None,
        "has_more": has_more,
    }
    return msgspec.json.encode(told)
