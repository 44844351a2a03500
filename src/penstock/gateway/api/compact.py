"""Compaction for any model: the model writes a summary, and the gateway seals it into one item (ask G4).

A compaction is a turn like any other, with the same retries, heartbeats, usage, storage and errors. The only
difference is that the model's text is not sent to the client: a wrapper around the upstream turns it into the
item. So another target can be tried until the very end.
"""

from __future__ import annotations

import time

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from penstock.fairness import run_heavy, weight_of
from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.chains import Resolved
from penstock.gateway.history.compactions import TRIGGER, Summary, opened, wants_compaction
from penstock.gateway.history.resolve import complete
from penstock.gateway.http.access import tenant_of
from penstock.gateway.http.exchange import ClientRequest, Exchange
from penstock.gateway.refusals import refusal, with_request_id
from penstock.gateway.settings import ClientKey
from penstock.gateway.turn.compaction import CompactionCodec
from penstock.gateway.turn.idempotency import Claim
from penstock.gateway.turn.json_outlet import JsonOutlet
from penstock.gateway.turn.prepare import Prepared, StoredStart, diagnostics_header, prepare
from penstock.gateway.turn.requests import read_request
from penstock.gateway.turn.run import run_turn
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.events import LifecycleEvent
from penstock.protocol.items import AdditionalTools, Item, Message, ToolSearchOutput
from penstock.protocol.request import CompactRequest, CreateResponse
from penstock.protocol.response import CompactedResponse, Response, Usage
from penstock.protocol.wire import encode
from penstock.stream.accents import ACCENTS

INSTRUCTION = """\
The conversation up to here is about to be replaced by a summary, and whoever continues the work will see \
only that. Write this summary now. Do not continue the work itself, and call no tools. Include:
- what the user wants, and every request, rule and constraint that still applies, in the user's own words
- what was decided, and why
- what was done and found out: files that were read, created or changed and the state they are in, commands \
and their results, errors and what caused them
- what is open: the remaining steps, in order, and the one that was being worked on
- exact names: paths, identifiers, addresses, versions, numbers. Copy them letter by letter
Leave out what is no longer needed. Answer with the summary alone."""

_INCOMPLETE_CODES = {"content_filter": "content_filter"}
"""The error code of an incomplete summary, by reason; for any other reason it was truncated."""

_NO_TOOLS = dict.fromkeys(("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "text"), UNSET)
"""A summary is plain text: neither tool calls nor JSON are allowed."""

_COMPACTED_FIELDS = tuple(name for name in CompactRequest.__struct_fields__ if name != "extra")


# Preparing the turn


def prepare_any(
    gateway: Gateway,
    exchange: ClientRequest,
    key: ClientKey | None,
    resolved: Resolved,
    watch: Stopwatch,
    *,
    error_event: bool = True,
    claim: Claim | None = None,
    stored: StoredStart | None = None,
) -> Prepared:
    """Prepare a turn. If the input ends with a trigger, its only output is a compaction."""
    prepare_turn = prepare_compaction if wants_compaction(resolved.request) else prepare
    return prepare_turn(
        gateway, exchange, key, resolved, watch, error_event=error_event, claim=claim, stored=stored
    )


def prepare_compaction(
    gateway: Gateway,
    exchange: ClientRequest,
    key: ClientKey | None,
    resolved: Resolved,
    watch: Stopwatch,
    *,
    error_event: bool = True,
    claim: Claim | None = None,
    stored: StoredStart | None = None,
) -> Prepared:
    """Prepare a turn whose only output is a compaction. It is run like any other."""
    request, sealer = resolved.request, gateway.sealer

    def seal(text: str) -> str:
        summary = Summary(text, str(request.model), int(time.time()))
        return sealer.seal(tenant_of(key), msgspec.json.encode(summary))

    codec = CompactionCodec(seal, lambda item: opened(sealer, tenant_of(key), item))
    summarising = replace(resolved, request=_summary_request(request))
    return prepare(
        gateway,
        exchange,
        key,
        summarising,
        watch,
        summary=codec,
        error_event=error_event,
        claim=claim,
        stored=stored,
    )


def _summary_request(request: CreateResponse) -> CreateResponse:
    """Return the conversation followed by the instruction to summarise it."""
    given = request.input if isinstance(request.input, list) else []
    items = [_without_tools(item) for item in given if item.type != TRIGGER]
    items = [item for item in items if not isinstance(item, AdditionalTools)]
    if not items:
        message = "there is no conversation to compact: send it as `input`, or set `previous_response_id`"
        raise RequestRefused(400, "invalid_request", message, param="input")
    instruction = Message(role="user", content=INSTRUCTION)
    return replace(request, input=[*items, instruction], **_NO_TOOLS)


def _without_tools(item: Item) -> Item:
    return replace(item, tools=[]) if isinstance(item, ToolSearchOutput) else item


# POST /v1/responses/compact


async def compact(gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
    """Compact the input of the request, or the history of a response."""
    gateway.refuse_if_full()
    services, body = gateway.services, await gateway.read(exchange)
    watch = Stopwatch(services.clock)
    # The model is required here, so the default model is not used (spec S2).
    weight = weight_of(body)
    given = await run_heavy(weight, read_request, body, "", services.settings.limits)
    del body  # it may be large, and the turn may be long
    request = CreateResponse(store=False, **{name: getattr(given, name) for name in _COMPACTED_FIELDS})
    with watch.waiting():
        resolved = await gateway.unless_disconnected(exchange, complete(gateway, key, request, weight))
    prepared = await run_heavy(resolved.weight, prepare_compaction, gateway, exchange, key, resolved, watch)
    await run_turn(
        gateway, prepared, CompactOutlet(exchange, prepared), exchange, exchange.channel.on_disconnect
    )
    if prepared.verdict.closer == "client" and not prepared.verdict.terminal_sent:
        exchange.abort()


class CompactOutlet(JsonOutlet):
    """Sends one JSON body, which is a compaction and not a response."""

    def __init__(self, exchange: Exchange, prepared: Prepared) -> None:
        def head() -> list[tuple[str, str]]:
            return diagnostics_header(prepared.turn.known)

        accent = ACCENTS[prepared.accent]()
        super().__init__(exchange, accent, prepared.keeper, prepared.verdict, head)

    async def _answer(self, event: LifecycleEvent) -> None:
        response, verdict = event.response, self._verdict
        if response.error is not None:
            await super()._answer(event)
            return
        verdict.last_event, verdict.last_sequence = event.type, event.sequence_number
        if response.incomplete_details is not None:
            self.refuse(_incomplete(response.incomplete_details.reason, verdict.request_id))
        else:
            body = encode(_compacted(response))
            verdict.status, verdict.bytes_out = 200, len(body)
            self._exchange.answer(200, body, headers=self._head())
        verdict.terminal_sent = True


def _compacted(response: Response) -> CompactedResponse:
    return CompactedResponse(
        id=response.id,
        output=response.output,
        created_at=response.created_at,
        usage=response.usage or Usage(),
    )


def _incomplete(reason: str, request_id: str) -> RequestRefused:
    message = with_request_id(f"the summary is incomplete: {reason}", request_id)
    return refusal(_INCOMPLETE_CODES.get(reason, "upstream_truncated"), message)
