"""`GET inspector/api/turns/{id}/content`: what was said in a turn, and what was sent to its upstreams.

`request` is the client's request without its input, which the store keeps item by item: see `input`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.explain.account import Account
from penstock.formatting import format_size
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.settings import ClientKey
from penstock.gateway.telemetry.traces import LONGEST_BODY, RequestTrace, read_trace
from penstock.inspector.answers import desk_of
from penstock.inspector.logged_events import json_or_none
from penstock.inspector.lookup import find_content
from penstock.inspector.request_differences import RequestDifference, request_differences
from penstock.store.contract import Store
from penstock.store.records import StoredItem, StoredResponse
from penstock.stream.recovery import current_snapshot

MOST_ITEMS = 2000
MOST_BYTES = 64 * 1024 * 1024
_PAGE = 200

Json = dict[str, Any]


class RenderedRequest(Struct):
    attempt: int
    target: str
    model: str
    dialect: str
    headers: dict[str, str]
    body: Any
    note: str = ""


async def show_content(gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, turn_id: str) -> None:
    account = await find_content(gateway, key, turn_id)
    input, has_all = await own_input(gateway.store, account.stored)
    weight = len(account.stored.response) + sum(len(item.data) for item in input)
    weight += sum(len(trace.data) for trace in account.traces if trace.kind == "request")
    if account.is_running:
        weight += sum(len(event.data) for event in account.events)
    await desk_of(gateway).answer(exchange, weight, lambda: _content(account, input, has_all))


async def own_input(store: Store, stored: StoredResponse) -> tuple[list[StoredItem], bool]:
    """Return the input items of a turn without those of earlier turns in its chain, oldest first, and whether
    these are all. The store lists a chain as one history, so the newest items are those of this turn."""
    earlier: set[str] = set()
    if stored.previous_id is not None:
        before = await store.get(stored.tenant, stored.previous_id)
        earlier = {str(item.get("id")) for item in output_of(before)} if before is not None else set()
    found: list[StoredItem] = []
    after, size = None, 0
    while True:
        page = await store.input_items(stored.tenant, stored.id, after=after, limit=_PAGE)
        for item in page.items if page is not None else ():
            size += len(item.data)
            if item.id in earlier:
                return found[::-1], True
            if len(found) >= MOST_ITEMS or size > MOST_BYTES:
                return found[::-1], False
            found.append(item)
        if page is None or not page.has_more or not page.items:
            return found[::-1], True
        after = page.items[-1].id


def output_of(stored: StoredResponse) -> list[Json]:
    """Return the output items in the last snapshot of a response."""
    response = json_or_none(stored.response)
    output = response.get("output") if isinstance(response, dict) else None
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _content(account: Account, input: list[StoredItem], has_all: bool) -> Json:
    stored = account.stored
    missing: list[str] = []
    if not has_all:
        missing.append(f"The input is long: these are its last {len(input)} items.")
    items = [json_or_none(item.data) for item in input]
    if None in items:
        missing.append("Some items of the input cannot be read.")
    if account.is_running:
        log = [(event.sequence, event.data) for event in account.events]
        output = current_snapshot(stored.response, log)["output"]
    else:
        output = output_of(stored)
        if json_or_none(stored.response) is None:
            missing.append("The stored response cannot be read.")
    request = json_or_none(stored.request)
    if not isinstance(request, dict):
        request = None
        missing.append("The client's request was not kept.")
    rendered = _rendered(account)
    if not rendered:
        missing.append("No request to an upstream was kept.")
    return {
        "input": [item for item in items if item is not None],
        "output": output,
        "request": request,
        "rendered": rendered,
        "differences": _differences(request, items, rendered),
        "missing": missing,
    }


def _rendered(account: Account) -> list[RenderedRequest]:
    requests: list[RenderedRequest] = []
    for trace in account.traces:
        sent = read_trace(trace)
        if not isinstance(sent, RequestTrace):
            continue
        body = json_or_none(sent.body)
        note = ""
        if body is None and trace.size > LONGEST_BODY:
            note = f"The body had {format_size(trace.size)}; only a gateway with --record keeps such bodies."
        elif body is None:
            note = "The body was not kept."
        requests.append(
            RenderedRequest(len(requests), sent.target, sent.model, sent.dialect, sent.headers, body, note)
        )
    return requests


def _differences(
    request: Json | None, input: list[Any], rendered: list[RenderedRequest]
) -> list[RequestDifference] | None:
    """Compare the client's request with the last one that was sent."""
    body = next((each.body for each in reversed(rendered) if isinstance(each.body, dict)), None)
    if request is None or body is None:
        return None
    return request_differences({"input": input, **request}, body)
