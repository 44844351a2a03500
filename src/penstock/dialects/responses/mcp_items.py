"""Items of MCP servers that the endpoint calls itself: lists of tools, calls, approval requests and answers.

Clients see item ids of ours. But an approval names the id of its request, and the endpoint requires an id in
each of these items, with a prefix by type. So the endpoint's own id is kept in the item, in a field of ours,
and restored when the item is sent back.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import UnsetType

from penstock.lenient import text_of
from penstock.protocol.items import ID_PREFIXES, Item
from penstock.protocol.wire import to_builtins

_Json = dict[str, Any]

UPSTREAM_ID = "upstream_id"
"""The field of an item with the id that it has at the endpoint."""

APPROVAL = "approval_request_id"
"""The field of a call or an approval response that names the approval request."""

_REQUEST, _RESPONSE = "mcp_approval_request", "mcp_approval_response"
TYPES = frozenset({"mcp_list_tools", "mcp_call", _REQUEST, _RESPONSE})

_WITH_STATUS = frozenset({"mcp_call"})
"""Types that have a status at the endpoint. All of ours have one, but it refuses unknown fields."""


def type_of(item: Item) -> str:
    """Return the type without the prefix that it has in the strict accent."""
    return item.type.removeprefix("openai:")


class McpHistory:
    """The MCP items of a request's input, with the ids on both sides of each approval request."""

    def __init__(self, request_input: str | list[Item] | UnsetType) -> None:
        items = request_input if isinstance(request_input, list) else []
        requests = [item for item in items if type_of(item) == _REQUEST]
        self._upstream_ids = {item.id: upstream_id(item) for item in requests if item.id}
        self._client_ids = {theirs: ours for ours, theirs in self._upstream_ids.items()}

    def received(self, raw: _Json) -> _Json:
        """Return an item of the endpoint's answer for the client."""
        id, approval = text_of(raw.get("id")), text_of(raw.get(APPROVAL))
        ours: _Json = {UPSTREAM_ID: id} if id else {}
        if approval:
            ours[APPROVAL] = self._client_ids.get(approval, approval)
        return raw | ours

    def rendered(self, item: Item) -> _Json:
        """Return an item as the endpoint knows it."""
        type = type_of(item)
        fields: _Json = {**to_builtins(item), "type": type}
        if type == _RESPONSE:
            fields.pop("id", None)
        else:
            fields["id"] = upstream_id(item)
        if type not in _WITH_STATUS:
            fields.pop("status", None)
        fields.pop(UPSTREAM_ID, None)
        approval = text_of(fields.get(APPROVAL))
        if approval:
            fields[APPROVAL] = self._upstream_ids.get(approval, approval)
        return fields


def upstream_id(item: Item) -> str:
    """Return the endpoint's id of an item.

    If the client did not keep it, it is an id with the right prefix: the endpoint stores nothing for us and
    can compare ids only within the request, but it refuses other prefixes, such as `item_`.
    """
    kept, prefix = text_of((item.extra or {}).get(UPSTREAM_ID)), ID_PREFIXES[type_of(item)]
    own = text_of(getattr(item, "id", ""))
    id = kept or own
    return id if id.startswith(f"{prefix}_") else f"{prefix}_{re.sub(r'[^A-Za-z0-9]', '', id) or '0'}"[:64]
