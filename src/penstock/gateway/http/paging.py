"""Paginated lists, in OpenAI's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec

from penstock.gateway.errors import RequestRefused
from penstock.store.records import StoredItem

_MOST = 100
_LONGEST = 18
"""Maximum digits of a number."""


class PageOptions(TypedDict):
    """Options of a store query."""

    after: str | None
    limit: int
    newest_first: bool


def number(text: str, otherwise: int) -> int:
    """Return a number from a query string, or `otherwise` if it is invalid. `int` alone would accept digits
    of any script, and numbers beyond the 64 bits of a store."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else otherwise


def page_options(query: Mapping[str, str]) -> PageOptions:
    limit, order = query.get("limit", "20"), query.get("order", "desc")
    if not 1 <= number(limit, 0) <= _MOST:
        raise RequestRefused(
            400, "invalid_request", f"limit must be a number from 1 to {_MOST}", param="limit"
        )
    if order not in ("asc", "desc"):
        raise RequestRefused(400, "invalid_request", "order must be `asc` or `desc`", param="order")
    return PageOptions(after=query.get("after"), limit=number(limit, 0), newest_first=order == "desc")


def list_body(items: Sequence[StoredItem], *, has_more: bool) -> bytes:
    body = {
        "object": "list",
        "data": [msgspec.Raw(item.data) for item in items],
        "first_id": items[0].id if items else None,
        "last_id": items[-1].id if items else None,
        "has_more": has_more,
    }
    return msgspec.json.encode(body)
