"""Compaction for any model: it writes a summary, and the gateway makes one sealed item of it (W02, G4).

A compaction is a turn like any other, so that retries, heartbeats, usage, the store and the ways to fail are
those of every turn. Only what the model says is not passed on: an upstream is wrapped so that its text
becomes the item. Nothing is lost by asking another one until the very end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from penstock.dialects.envelope import unseal
from penstock.dialects.plan import Dialect, Plan, Reader, Target, UpstreamError, UpstreamRequest
from penstock.gateway.errors import RequestRefused
from penstock.gateway.exchange import Exchange, Receive
from penstock.gateway.failures import refusal, with_request_id
from penstock.gateway.history import Resolved, resolve
from penstock.gateway.logs import log_verdict
from penstock.gateway.outlet import WholeOutlet
from penstock.gateway.requests import read_request
from penstock.gateway.responses import DIAGNOSTICS, Prepared, prepare, tenant_of
from penstock.gateway.sealing import Sealer
from penstock.gateway.services import Services
from penstock.gateway.settings import ClientKey
from penstock.gateway.stopwatch import Stopwatch
from penstock.gateway.turn import CLIENT_GONE, Turn
from penstock.protocol.errors import Diagnostic
from penstock.protocol.events import LifecycleEvent
from penstock.protocol.items import AdditionalTools, Compaction, Item, Message, ToolSearchOutput
from penstock.protocol.request import CompactRequest, CreateResponse
from penstock.protocol.response import CompactedResponse, Response
from penstock.protocol.usage import Usage
from penstock.protocol.wire import encode
from penstock.sse import Frame
from penstock.store.store import Store
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    ItemDelta,
    TextDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import INCOMPLETE_REASONS
from penstock.tokens.counter import TokenCounter
from penstock.upstream.attempts import Choice
from penstock.upstream.upstream import Upstream, UpstreamAnswer

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

TRIGGER = "compaction_trigger"
"""The type of an item at the end of an input: Codex asks for a compaction with it."""

INSTRUCTION = """\
The conversation up to here is about to be replaced by a summary, and whoever goes on with the work will see \
only that. Write this summary now. Do not go on with the work itself, and call no tools. Tell:
- what the user wants, and every wish, rule and limit that still holds, in the user's own words
- what was decided, and why
- what was done and found out: files that were read, made or changed and the state they are in, commands \
and their results, errors and what caused them
- what is open: the steps that are left, in order, and the one that was being worked on
- exact names: paths, identifiers, addresses, versions, numbers. Copy them letter by letter
Leave out what nobody needs any more. Answer with the summary alone."""

FRAME = """\
The conversation before this message was replaced by a summary, to save room. Go on from it as if you \
remembered all of it.

<summary>
{summary}
</summary>"""

_PASSED = (UsageDelta, UpstreamInfo, DiagnosticDelta, ErrorDelta)
"""What is passed on of an answer that becomes a summary."""

_CUT_OFF = {"content_filter": "content_filter"}
"""The code for a summary that did not come to its end, by the reason; any other was cut off."""

_NO_TOOLS = dict.fromkeys(("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "text"), UNSET)
"""A summary is plain text: neither a call nor JSON can be wanted."""

_COMPACTED_FIELDS = tuple(name for name in CompactRequest.__struct_fields__ if name != "extra")


class Summary(Struct, frozen=True):
    """What is in a compaction item of ours."""

    summary: str
    model: str = ""
    created_at: int = 0


# What comes back


def expand(request: CreateResponse, sealer: Sealer, tenant: str) -> tuple[CreateResponse, list[Diagnostic]]:
    """The request with every compaction of ours as the message that it stands for, in its place.

    An upstream's own goes on to its dialect, which knows whom it can be given back to. One that nobody here
    can read is left out, whoever's it is (K1). A trigger that is not the last item was answered before.
    """
    if not isinstance(request.input, list) or not any(_concerns(item) for item in request.input):
        return request, []
    items: list[Item] = []
    unreadable = 0
    for place, item in enumerate(request.input, start=1):
        if isinstance(item, Compaction) and unseal(item.encrypted_content) is None:
            summary = _opened(sealer, tenant, item)
            if summary is None:
                unreadable += 1
            else:
                items.append(_framed(item, summary))
        elif item.type != TRIGGER or place == len(request.input):
            items.append(item)
    return replace(request, input=items), _told(unreadable)


def _concerns(item: Item) -> bool:
    return isinstance(item, Compaction) or item.type == TRIGGER


def _opened(sealer: Sealer, tenant: str, item: Compaction) -> Summary | None:
    data = sealer.open(tenant, item.encrypted_content)
    try:
        return None if data is None else msgspec.json.decode(data, type=Summary)
    except msgspec.MsgspecError:
        return None  # sealed by us, and something else


def _framed(item: Compaction, summary: Summary) -> Message:
    return Message(id=item.id, role="user", content=FRAME.format(summary=summary.summary))


def _told(unreadable: int) -> list[Diagnostic]:
    if not unreadable:
        return []
    message = "a compaction that this gateway cannot read was left out"
    return [Diagnostic(code="compaction_unreadable", message=message, count=unreadable)]


# What is asked


def wants_compaction(request: CreateResponse) -> bool:
    """Does the input end in a trigger?"""
    return isinstance(request.input, list) and bool(request.input) and request.input[-1].type == TRIGGER


def prepare_compaction(
    services: Services,
    exchange: Exchange,
    key: ClientKey | None,
    resolved: Resolved,
    store: Store,
    watch: Stopwatch,
    sealer: Sealer,
    *,
    error_event: bool = True,
) -> Prepared:
    """A turn like that of `prepare`, whose only output is a compaction. It is run as any other."""
    request = resolved.request

    def sealed(summary: str) -> str:
        made = Summary(summary, str(request.model), int(time.time()))
        return sealer.seal(tenant_of(key), msgspec.json.encode(made))

    return prepare(
        SummarisingServices(services, sealed, lambda item: _opened(sealer, tenant_of(key), item)),
        exchange,
        key,
        replace(resolved, request=_asking(request)),
        store,
        watch,
        error_event=error_event,
    )


def _asking(request: CreateResponse) -> CreateResponse:
    """The conversation, and behind it what we want of it."""
    given = request.input if isinstance(request.input, list) else []
    items = [_without_tools(item) for item in given if item.type != TRIGGER]
    items = [item for item in items if not isinstance(item, AdditionalTools)]
    if not items:
        raise RequestRefused(400, "invalid_request", "there is no conversation to compact", param="input")
    asked = Message(role="user", content=INSTRUCTION)
    return replace(request, input=[*items, asked], **_NO_TOOLS)


def _without_tools(item: Item) -> Item:
    return replace(item, tools=[]) if isinstance(item, ToolSearchOutput) else item


# How a summary is made


class SummarisingServices(Services):
    """The same services, with upstreams whose text becomes an item: `seal` makes it, `opened` reads it."""

    def __init__(
        self,
        services: Services,
        seal: Callable[[str], str],
        opened: Callable[[Compaction], Summary | None],
    ) -> None:
        super().__init__(services.settings, {}, services.metrics, TokenCounter(), services.clock)
        self._services, self._seal, self._opened = services, seal, opened

    def choices(self, model: str) -> list[Choice]:
        return [
            replace(choice, upstream=SummarisingUpstream(choice.upstream, self._seal))
            for choice in self._services.choices(model)
        ]

    def estimate(self, request: CreateResponse, model: str, output: Sequence[Item]) -> UsageDelta:
        """What the model wrote is counted, and not what sealing made of it."""
        written: list[Item] = [
            Message(role="assistant", content=summary.summary)
            for item in output
            if isinstance(item, Compaction) and (summary := self._opened(item)) is not None
        ]
        return self._services.estimate(request, model, written)


class SummarisingUpstream:
    """An upstream, read by `SummaryReader`."""

    def __init__(self, upstream: Upstream, seal: Callable[[str], str]) -> None:
        self.name, self.keys, self.pass_key = upstream.name, upstream.keys, upstream.pass_key
        self.dialect: Dialect = SummarisingDialect(upstream.dialect, seal)
        self._upstream = upstream

    def target(self, model: str, key: str) -> Target:
        return self._upstream.target(model, key)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamAnswer:
        return await self._upstream.send(request, key=key, headers=headers)

    async def aclose(self) -> None:
        """It belongs to somebody else."""


class SummarisingDialect:
    def __init__(self, dialect: Dialect, seal: Callable[[str], str]) -> None:
        self.name = dialect.name
        self._dialect, self._seal = dialect, seal

    def render(self, plan: Plan) -> UpstreamRequest:
        return self._dialect.render(plan)

    def reader(self, plan: Plan) -> Reader:
        return SummaryReader(self._dialect.reader(plan), self._seal)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return Summarising(self._seal).take(self._dialect.read_body(plan, body))

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        return self._dialect.classify(status, headers, body)


class SummaryReader:
    def __init__(self, reader: Reader, seal: Callable[[str], str]) -> None:
        self._reader, self._summarising = reader, Summarising(seal)

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def feed(self, frame: Frame) -> list[Delta]:
        return self._summarising.take(self._reader.feed(frame))

    def end(self) -> list[Delta]:
        return self._summarising.take(self._reader.end())


class Summarising:
    """Gathers the text of an answer; at its end there is one item instead."""

    def __init__(self, seal: Callable[[str], str]) -> None:
        self._seal = seal
        self._pieces: list[str] = []
        self._is_made = False

    def take(self, deltas: Iterable[Delta]) -> list[Delta]:
        taken: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._pieces.append(delta.text)
            elif isinstance(delta, FinishDelta):
                taken += [*self._made(delta), delta]
            elif isinstance(delta, _PASSED):
                taken.append(delta)
        return taken

    def _made(self, finish: FinishDelta) -> list[Delta]:
        """Nothing for a summary that was cut off: what is missing would be forgotten for good."""
        if self._is_made or finish.reason in INCOMPLETE_REASONS:
            return []
        self._is_made = True
        summary = "".join(self._pieces).strip()
        if not summary:
            return [ErrorDelta("upstream_empty", "the model wrote no summary")]
        return [ItemDelta(TRIGGER, Compaction(encrypted_content=self._seal(summary)), done=True)]


# POST /v1/responses/compact


async def compact(gateway: Gateway, exchange: Exchange, key: ClientKey | None, sealer: Sealer) -> None:
    """One compaction of what is sent, or of what a response and those before it hold."""
    services, body = gateway.services, await gateway.read(exchange)
    watch = Stopwatch(services.clock)
    # The model is required here, so that none is put in its place (notes/spec (a)).
    given = read_request(body, "", services.settings.limits.input_items)
    request = CreateResponse(store=False, **{name: getattr(given, name) for name in _COMPACTED_FIELDS})
    with watch.waiting():
        resolved = await resolve(gateway.store, tenant_of(key), request)
    expanded, told = expand(resolved.request, sealer, tenant_of(key))
    resolved = replace(resolved, request=expanded)
    prepared = prepare_compaction(services, exchange, key, resolved, gateway.store, watch, sealer)
    await _answer(services, exchange, prepared, told)


async def _answer(services: Services, exchange: Exchange, prepared: Prepared, told: list[Diagnostic]) -> None:
    turn, verdict = prepared.turn, prepared.verdict
    services.begin(turn, exchange)
    leaving = asyncio.create_task(_watch_client(turn, exchange.receive))
    try:
        await turn.run(CompactOutlet(exchange, prepared, told))
    finally:
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        services.end(turn, verdict)
        log_verdict(verdict)
    if verdict.closer == "client":
        await exchange.cut()


async def _watch_client(turn: Turn, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    turn.stop(CLIENT_GONE)


class CompactOutlet(WholeOutlet):
    """One JSON answer, which is no response."""

    def __init__(self, exchange: Exchange, prepared: Prepared, told: list[Diagnostic]) -> None:
        def head() -> list[tuple[str, str]]:
            known = [f"{each.code}: {each.message}" for each in (*told, *prepared.turn.known)]
            return [(DIAGNOSTICS, "; ".join(known))] if known else []

        speak = ACCENTS[prepared.accent]()
        super().__init__(exchange, speak, prepared.keeper, prepared.verdict, head)

    async def _answer(self, event: LifecycleEvent) -> None:
        response, verdict = event.response, self._verdict
        if response.error is not None:
            await super()._answer(event)
            return
        verdict.last_event, verdict.last_sequence = event.type, event.sequence_number
        if response.incomplete_details is not None:
            await self.refuse(_cut_off(response.incomplete_details.reason, verdict.request_id))
        else:
            body = encode(_compacted(response))
            verdict.status, verdict.bytes_out = 200, len(body)
            await self._exchange.answer(200, body, headers=self._head())
        verdict.terminal_sent = True


def _compacted(response: Response) -> CompactedResponse:
    return CompactedResponse(
        id=response.id,
        output=response.output,
        created_at=response.created_at,
        usage=response.usage or Usage(),
    )


def _cut_off(reason: str, request_id: str) -> RequestRefused:
    message = with_request_id(f"the summary did not come to its end: {reason}", request_id)
    return refusal(_CUT_OFF.get(reason, "upstream_truncated"), message)
