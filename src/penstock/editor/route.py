"""`POST /v1/parts`: the lines of the editor's host (docs/host.md), served by a gateway.

Composed here, because neither the gateway nor the provider knows the other. The endpoint is the gateway
itself, over its own socket and with what the caller showed: a turn is authenticated, kept and explained like
any other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import DecodeError, OpenResponsesError
from penstock.gateway.errors import ClientGone, RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import code_of, status_of, type_of, wrong_request
from penstock.gateway.routes import Route, Routes
from penstock.gateway.settings import ClientKey, Limits
from penstock.models.directory import ModelDirectory
from penstock.parts.wire import encode_line
from penstock.protocol.content import JsonObject
from penstock.provider.editor_turn import Host
from penstock.provider.host.answers import answer
from penstock.provider.host.error_messages import ErrorContext, failure_line, fault_line
from penstock.provider.host.figures import usage_to_json
from penstock.provider.host.lines import JSON, read_object
from penstock.provider.host.requests import (
    CancelRequest,
    ConfigureRequest,
    HostRequest,
    Id,
    RespondRequest,
    id_of,
    read_request,
)
from penstock.provider.provider import LanguageModelProvider
from penstock.provider.tracker import UsageTracker
from penstock.tokens.counter import TokenCounter

if TYPE_CHECKING:
    from penstock.gateway.app import Gateway

SHOWN = ("authorization", "x-api-key")
"""What tells who a caller is."""

PASSED_ON = (*SHOWN, "traceparent", "tracestate")
"""What of a caller's headers goes along. Whoever calls is who asks."""

MOST_CALLERS = 256
"""Callers whose figures are kept. Of more, those that were silent the longest are forgotten."""

_MODELS_FOR = 15.0
"""Seconds for which a list of models is good: the gateway keeps one of its own, and settings change."""

_HEADERS = [
    ("content-type", "application/x-ndjson"),
    # What stands in between must neither keep, nor gather, nor compress it (notes/asks A14).
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),
]


class Caller(Struct, frozen=True, eq=False):
    """What is kept for one who calls: models, counts and figures that nobody else sees."""

    directory: ModelDirectory
    counter: TokenCounter
    tracker: UsageTracker


class _Listing:
    """Lists models with a connection of its own, which nobody has to close when the gateway ends."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    async def models(self) -> list[JsonObject]:
        async with OpenResponsesClient(self._config) as client:
            return await client.models()


class _Lines:
    """Lines to one client. The answer begins with the first: until then there may be an HTTP error."""

    def __init__(self, exchange: Exchange, id: Id | None, limits: Limits) -> None:
        self._exchange = exchange
        self._about = {} if id is None else {"id": id}
        self._limits = limits
        self._lock = asyncio.Lock()
        self._last_write = 0.0

    async def tell(self, line: JSON) -> None:
        await self._send(encode_line({**self._about, **line}))

    async def end(self, line: JSON) -> None:
        await self._send(encode_line({**self._about, **line}), is_last=True)

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """While this lasts, the client hears something: it, and what stands between, give up in silence."""
        beating = asyncio.create_task(self._beat(), name="penstock parts heart")
        try:
            yield
        finally:
            async with self._lock:  # what is on its way goes out whole, and nothing follows
                beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self) -> None:
        """Empty lines mean nothing (docs/host.md)."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._limits.patience)
        if not self._exchange.status:
            await self._send(b"\n")
        while True:
            due = self._last_write + self._limits.comment_every - clock()
            if due > 0:
                await asyncio.sleep(due)
            else:
                await self._send(b"\n")

    async def _send(self, body: bytes, *, is_last: bool = False) -> None:
        """Waits while the client does not read, but not for ever."""
        try:
            async with self._lock, asyncio.timeout(self._limits.client_timeout):
                if not self._exchange.status:
                    await self._exchange.begin(200, _HEADERS)
                await self._exchange.send(
                    {"type": "http.response.body", "body": body, "more_body": not is_last}
                )
                self._last_write = asyncio.get_running_loop().time()
        except TimeoutError:
            self._exchange.abort()
            raise ClientGone from None


class EditorRoute:
    """Answers one request for one client. `url` is where the gateway listens."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._callers: OrderedDict[bytes, Caller] = OrderedDict()

    async def __call__(self, gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
        id, request = _understood(await gateway.read(exchange))
        if isinstance(request, ConfigureRequest | CancelRequest):
            message = "not here: the endpoint is this gateway, and closing the connection cancels"
            raise RequestRefused(400, "invalid_request", message, param="method")
        if isinstance(request, RespondRequest):
            gateway.refuse_if_full()
        lines = _Lines(exchange, id, gateway.services.settings.limits)
        tenant = key.name if key else ""
        config = self._config(exchange)
        caller = self._caller(tenant, config)
        async with _client_watched(exchange) as gone, OpenResponsesClient(config) as client:
            provider = _provider(client, caller, tenant)
            try:
                async with lines.kept_alive():
                    done = await answer(
                        provider, request, lines.tell, gone, lambda: usage_to_json({"": caller.tracker})
                    )
            except OpenResponsesError as error:
                await _fail(exchange, lines, error, request)
            except ClientGone:
                raise
            except Exception as error:
                if exchange.status:
                    await lines.end(fault_line(error))
                raise
            else:
                if not gone.is_set():
                    await lines.end({"type": "done", **done})

    def _config(self, exchange: Exchange) -> ClientConfig:
        """The gateway has its own patience and its own retries; here nothing is asked twice."""
        passed = {name: exchange.headers[name] for name in PASSED_ON if name in exchange.headers}
        return ClientConfig(
            self._url,
            headers={**passed, "x-request-id": exchange.request_id},
            first_byte_timeout=None,
            idle_timeout=None,
            retries=0,
            resumes=0,
            proxy="",
        )

    def _caller(self, tenant: str, config: ClientConfig) -> Caller:
        """By what they showed: where the gateway has no keys, that is their key for the upstream."""
        shown = [tenant, *(config.headers.get(name, "") for name in SHOWN)]
        name = sha256("\0".join(shown).encode("utf-8", "surrogatepass")).digest()
        if name not in self._callers:
            lasting = {name: value for name, value in config.headers.items() if name in SHOWN}
            directory = ModelDirectory(_Listing(replace(config, headers=lasting)), ttl=_MODELS_FOR)
            self._callers[name] = Caller(directory, TokenCounter(), UsageTracker())
            if len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)
        self._callers.move_to_end(name)
        return self._callers[name]


def editor_routes(url: str) -> Routes:
    """`url` is the gateway's own, as its socket has it."""
    return {"parts": {"POST": Route(EditorRoute(f"{url}/v1"))}}


def own_url(host: str, port: int) -> str:
    """Where this machine reaches a gateway that listens at `host`: perhaps on all addresses."""
    reached = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"


def _understood(body: bytes) -> tuple[Id | None, HostRequest]:
    try:
        raw = read_object(body)
        return id_of(raw), read_request(raw)
    except DecodeError as error:
        raise wrong_request(error) from None


def _provider(client: OpenResponsesClient, caller: Caller, tenant: str) -> LanguageModelProvider:
    # Markers outlive the port: what they name is in the store, under the tenant.
    host = Host(markers=True, usage_parts=True, endpoint=f"parts\0{tenant}")
    return LanguageModelProvider(
        client, caller.directory, host=host, counter=caller.counter, tracker=caller.tracker
    )


async def _fail(exchange: Exchange, lines: _Lines, error: OpenResponsesError, request: HostRequest) -> None:
    line = failure_line(error, ErrorContext(endpoint="the gateway", model=getattr(request, "model", "")))
    if exchange.status:
        await lines.end(line)
        return
    code = error.code if error.status else code_of(error)
    headers = [("retry-after", str(max(1, round(error.retry_after))))] if error.retry_after else []
    status = error.status or status_of(code)
    raise RequestRefused(status, code, line["message"], type_of(code), error.param, headers)


@asynccontextmanager
async def _client_watched(exchange: Exchange) -> AsyncIterator[asyncio.Event]:
    """Set when the client has left, which cancels its turn."""
    gone = asyncio.Event()

    async def watch() -> None:
        await exchange.gone()
        gone.set()

    watching = asyncio.create_task(watch(), name="penstock parts")
    try:
        yield gone
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
