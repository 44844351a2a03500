"""Stored responses: `GET`, `DELETE`, `cancel`, `input_items`, and resuming a stream."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from penstock.dialects.client_rules import with_permitted_citations
from penstock.fairness import WorkSlice, run_heavy
from penstock.gateway.api.log_stream import LogStream
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import tenant_of
from penstock.gateway.http.client_accent import accent_for
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.http.paging import list_body, number, page_options
from penstock.gateway.settings import ClientKey
from penstock.gateway.turn.outlets import LARGE_ANSWER
from penstock.gateway.turn.prepare import limits_for
from penstock.gateway.turn.stop_reasons import CANCELLED
from penstock.gateway.turn.stream_outlet import STREAM_HEADERS
from penstock.protocol.events import TERMINAL, LifecycleEvent, decode_event
from penstock.protocol.items import ReasoningItem
from penstock.protocol.response import Response
from penstock.protocol.wire import decode, encode
from penstock.sse import DONE
from penstock.store.contract import Store
from penstock.store.keeper import not_durable
from penstock.store.records import RUNNING, StoredItem, StoredResponse
from penstock.stream.accents import ACCENTS, Accent
from penstock.stream.permissions import ORDER, Permissions, includes
from penstock.stream.recovery import INTERRUPTIONS, current_snapshot


async def get_response(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, response_id: str
) -> None:
    stored = await _find(gateway, key, response_id)
    if exchange.query.get("stream", "").lower() == "true":
        after = _after(exchange.query.get("starting_after"))
        await stream_stored(gateway, exchange, key, stored, after, store=gateway.store)
    else:
        await _show(gateway, exchange, key, stored)


async def delete_response(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, response_id: str
) -> None:
    stored = await _find(gateway, key, response_id)
    if not await gateway.store.delete(stored.tenant, stored.id):
        await _find(gateway, key, response_id)  # refuses if another request has deleted it meanwhile
        message = "a running response cannot be deleted: cancel it first"
        raise RequestRefused(409, "response_running", message)
    deleted = {"id": stored.id, "object": "response", "deleted": True}
    exchange.answer(200, msgspec.json.encode(deleted))


async def cancel_response(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, response_id: str
) -> None:
    """Cancel a running response; return an ended one unchanged, so that cancelling is idempotent (ask F3)."""
    stored = await _find(gateway, key, response_id)
    if stored.status in RUNNING:
        if (turn := gateway.turns.find(stored.tenant, stored.id)) is not None:
            turn.stop(CANCELLED)
        else:
            await gateway.store.cancel(stored.tenant, stored.id)  # another worker runs it
        async for _ in gateway.store.events(stored.tenant, stored.id):
            pass  # until the log ends
        stored = await gateway.store.get(stored.tenant, stored.id) or stored
    await _show(gateway, exchange, key, stored)


async def list_input_items(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, *, response_id: str
) -> None:
    stored = await _find(gateway, key, response_id)
    page = await gateway.store.input_items(stored.tenant, stored.id, **page_options(exchange.query))
    if page is None:
        raise _unknown(stored.id)
    name = accent_for(gateway.services.settings, key, exchange.query, exchange.headers)
    accent = ACCENTS[name](_response_of(stored))
    items = [_in_accent(item, accent) for item in page.items]
    exchange.answer(200, list_body(items, has_more=page.has_more))


def _in_accent(stored: StoredItem, accent: Accent) -> StoredItem:
    """Return an item of the input, which may be the output of an earlier turn. Reasoning is in the channel
    in which the client reads it (field F2); other items stay as they are stored."""
    if not stored.data.startswith(b'{"type":"reasoning"'):
        return stored
    return replace(stored, data=encode(accent.item(decode(stored.data, ReasoningItem))))


async def _show(gateway: Gateway, exchange: Exchange, key: ClientKey | None, stored: StoredResponse) -> None:
    exchange.answer(200, encode(accented_response(gateway, exchange, key, stored)))


def accented_response(
    gateway: Gateway, exchange: Exchange, key: ClientKey | None, stored: StoredResponse
) -> Response:
    """Return a response in the client's accent; it is stored in the state machine's own form."""
    accent = accent_for(gateway.services.settings, key, exchange.query, exchange.headers)
    response = _response_of(stored)
    if not includes(accent, _made_for(stored)):
        response = with_permitted_citations(response, accent)
    return accented(response, accent)


def accented(response: Response, accent: str) -> Response:
    """Return a response of the state machine as this accent has it."""
    event = LifecycleEvent(type="response.completed", sequence_number=0, response=response)
    converted = ACCENTS[accent]()(event)
    assert isinstance(converted, LifecycleEvent)
    return converted.response


async def _find(gateway: Gateway, key: ClientKey | None, id: str) -> StoredResponse:
    stored = await gateway.store.get(tenant_of(key), id)
    if stored is None:
        raise _unknown(id)
    if stored.status not in RUNNING:
        return stored
    if (turn := gateway.turns.find(stored.tenant, id)) is not None:
        now = _still_running(turn.snapshot)
        return replace(stored, status=now.status, response=encode(now))
    return await _running_elsewhere(gateway.store, stored)


async def _running_elsewhere(store: Store, stored: StoredResponse) -> StoredResponse:
    """Return a response that another worker runs as its log shows it at present."""
    log = [(logged.sequence, logged.data) for logged in await store.events_so_far(stored.tenant, stored.id)]
    now = await run_heavy(sum(len(data) for _, data in log), current_snapshot, stored.response, log)
    return replace(stored, status=now["status"], response=msgspec.json.encode(now))


def _still_running(now: Response) -> Response:
    """Return the response as running: until its end is stored, a crash could still change it."""
    if now.status in RUNNING:
        return now
    return replace(now, status="in_progress", completed_at=None, error=None, incomplete_details=None)


def _unknown(id: str) -> RequestRefused:
    """Return the same error for ids that never existed, were deleted or belong to another tenant (ask K1)."""
    message = f"there is no response {id[:64]!r}, or it is no longer stored"
    return RequestRefused(404, "response_not_found", message, type="not_found", param="response_id")


def _after(text: str | None) -> int:
    if text is None:
        return -1
    after = number(text, -1)
    if after < 0:
        message = "starting_after must be the sequence_number of the last event that you received"
        raise RequestRefused(400, "invalid_request", message, param="starting_after")
    return after


def _made_for(stored: StoredResponse) -> str:
    """Return the accent that decided which events a response has. Older versions did not store it."""
    return stored.accent or ORDER[-1]


async def _check_accent(store: Store, stored: StoredResponse, accent: str) -> None:
    """Refuse to stream events in an accent that cannot carry them (decision 1).

    An accent carries everything that was made for it or for a stricter one. It also carries other events if
    it permits each of them, which is known when the response has ended.
    """
    made_for = _made_for(stored)
    if includes(accent, made_for):
        return
    if stored.status in RUNNING:
        reason = f"while it runs, it is not known whether the accent {accent!r} can carry all of them"
    elif await _permits_log(store, stored, accent):
        return
    else:
        reason = f"the accent {accent!r} cannot carry all of them"
    message = (
        f"the events of this response were made for the accent {made_for!r}, and {reason}; stream it with "
        f"?accent={made_for}"
    )
    raise RequestRefused(400, "accent_not_available", message, param="accent")


async def _permits_log(store: Store, stored: StoredResponse, accent: str) -> bool:
    permissions, work = Permissions(accent, _response_of(stored).tools), WorkSlice()
    async for logged in store.events(stored.tenant, stored.id):
        if not permissions.event(decode_event(logged.data)):
            return False
        await work.pause()
    return True


async def stream_stored(
    gateway: Gateway,
    exchange: Exchange,
    key: ClientKey | None,
    stored: StoredResponse,
    after: int,
    *,
    store: Store,
    headers: Sequence[tuple[str, str]] = (),
) -> None:
    """Stream a response from `store` in the client's accent, if that accent can carry its events."""
    accent = accent_for(gateway.services.settings, key, exchange.query, exchange.headers)
    if not stored.has_log and stored.status not in RUNNING:
        message = "the events of this response are no longer stored: get the response without `stream`"
        raise RequestRefused(404, "response_not_found", message, type="not_found", param="response_id")
    await _check_accent(store, stored, accent)
    response = _response_of(stored)
    await stream_response(
        gateway, exchange, stored.tenant, response, after, accent, store=store, headers=headers
    )


async def stream_response(
    gateway: Gateway,
    exchange: Exchange,
    tenant: str,
    response: Response,
    after: int,
    accent: str,
    *,
    store: Store | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> None:
    """Send the logged events after a sequence number, and then new events as they arrive (ask G6).
    `response` is any snapshot of the response. `store` has the log, if it is not in the gateway's own."""
    limits = limits_for(gateway.services.settings.limits, exchange)
    stream, id = LogStream(exchange, limits, [*STREAM_HEADERS, *headers]), response.id
    replaying = _replay(store or gateway.store, stream, tenant, id, after, ACCENTS[accent](response))
    with gateway.followers.following((tenant, id)):
        await stream.run(replaying)


async def _replay(
    store: Store, stream: LogStream, tenant: str, id: str, after: int, apply_accent: Accent
) -> None:
    begin, last_sequence = -1 if apply_accent.needs_every_event else after, after
    end: LifecycleEvent | None = None
    async for logged in store.events(tenant, id, begin):
        event = decode_event(logged.data)
        last_sequence = max(last_sequence, logged.sequence)
        if isinstance(event, LifecycleEvent) and event.type in TERMINAL:
            end = event if logged.sequence > after else None
            continue
        accented = apply_accent(event)
        if logged.sequence > after:
            await stream.write_event(accented, is_large=len(logged.data) > LARGE_ANSWER)
    # The terminal event is sent when it is durable (decision 17): the store waits for that here.
    stored = await store.get(tenant, id)
    end = end if stored is None else _last_event(stored, end, last_sequence)
    if end is not None:
        is_large = stored is None or len(stored.response) > LARGE_ANSWER
        await stream.write_event(apply_accent(end), is_large=is_large)
    await stream.write(DONE, is_last=True)


def _last_event(
    stored: StoredResponse, end: LifecycleEvent | None, last_sequence: int
) -> LifecycleEvent | None:
    """Return the terminal event to send after a log. None: the client already has it."""
    if end is not None and (stored.status != "failed" or end.response.status == "failed"):
        return end if stored.is_durable else replace(end, response=not_durable(end.response))
    response = _response_of(stored)
    if end is not None:
        # Another worker took the turn over before its end was stored, and ended it: the record counts.
        return LifecycleEvent(
            type=f"response.{response.status}", sequence_number=end.sequence_number, response=response
        )
    is_interrupted = response.error is not None and response.error.code in INTERRUPTIONS
    if stored.status in RUNNING or not (is_interrupted or stored.dropped):
        return None
    # The log is shorter than what was sent, and the numbers of lost events are not used again. It is unknown
    # whether this client has the terminal event: sending it twice is better than never.
    if stored.status == "cancelled":  # the stream has no such end (decision 6)
        response = replace(response, status="incomplete")
    return LifecycleEvent(
        type=f"response.{response.status}", sequence_number=last_sequence + 1, response=response
    )


def _response_of(stored: StoredResponse) -> Response:
    response = decode(stored.response, Response)
    return response if stored.is_durable else not_durable(response)
