"""`POST /v1/parts`: the lines of the editor host (docs/host.md), served by a gateway.

The two are joined here, because gateway and provider do not know each other. The endpoint is the gateway
itself, over its own socket and with the caller's credentials: a turn is authenticated, stored and explained
like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.editor.callers import CREDENTIALS, Caller, Callers
from penstock.editor.lines import LineWriter
from penstock.errors import DecodeError, OpenResponsesError
from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import code_of, invalid_request, status_of, type_of
from penstock.gateway.routes import Route, Routes
from penstock.gateway.settings import ClientKey
from penstock.provider.editor_turn import Host
from penstock.provider.host.answers import answer
from penstock.provider.host.error_messages import (
    ErrorContext,
    error_sentence,
    failure_line,
    internal_error_line,
)
from penstock.provider.host.figures import usage_to_json
from penstock.provider.host.lines import read_object
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

if TYPE_CHECKING:
    from penstock.gateway.gateway import Gateway

FORWARDED_HEADERS = (*CREDENTIALS, "traceparent", "tracestate")
"""The caller's headers that are forwarded, so that the request has the caller's identity."""


class EditorRoute:
    """Answers one request for one client. `url` is where the gateway listens."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._callers = Callers()

    async def __call__(self, gateway: Gateway, exchange: Exchange, key: ClientKey | None) -> None:
        id, request = _parse(await gateway.read(exchange))
        if isinstance(request, ConfigureRequest | CancelRequest):
            message = "not supported here: the endpoint is this gateway; to cancel, close the connection"
            raise RequestRefused(400, "invalid_request", message, param="method")
        if isinstance(request, RespondRequest):
            gateway.refuse_if_full()
        lines = LineWriter(exchange, id, gateway.services.settings.limits)
        tenant = key.name if key else ""
        config = self._config(exchange)
        caller = self._callers.find(tenant, config)
        async with _disconnect_watched(exchange) as is_disconnected, OpenResponsesClient(config) as client:
            provider = _provider(client, caller, tenant)
            try:
                async with lines.heartbeats():
                    done = await answer(
                        provider,
                        request,
                        lines.send,
                        is_disconnected,
                        lambda: usage_to_json({"": caller.tracker}),
                    )
            except OpenResponsesError as error:
                await _fail(exchange, lines, error, request)
            except ClientDisconnected:
                raise
            except Exception as error:
                if exchange.status:
                    await lines.end(internal_error_line(error))
                raise
            else:
                if not is_disconnected.is_set():
                    await lines.end({"type": "done", **done})

    def _config(self, exchange: Exchange) -> ClientConfig:
        """Return a configuration without timeouts and retries: the gateway has its own."""
        passed = {name: exchange.headers[name] for name in FORWARDED_HEADERS if name in exchange.headers}
        return ClientConfig(
            self._url,
            headers={**passed, "x-request-id": exchange.request_id},
            first_byte_timeout=None,
            idle_timeout=None,
            retries=0,
            resumes=0,
            proxy="",
        )


def editor_routes(url: str) -> Routes:
    """Return the routes. `url` is the gateway's own URL, from its socket."""
    return {"parts": {"POST": Route(EditorRoute(f"{url}/v1"))}}


def own_url(host: str, port: int) -> str:
    """Return the local URL of a gateway that listens at `host`, which may mean all addresses."""
    reached = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"


def _parse(body: bytes) -> tuple[Id | None, HostRequest]:
    try:
        raw = read_object(body)
        return id_of(raw), read_request(raw)
    except DecodeError as error:
        raise invalid_request(error) from None


def _provider(client: OpenResponsesClient, caller: Caller, tenant: str) -> LanguageModelProvider:
    # Markers must not depend on the port: the responses are in the store, by tenant.
    host = Host(
        markers=True,
        usage_parts=True,
        endpoint=f"parts\0{tenant}",
        describe_error=lambda error, model: error_sentence(error, ErrorContext("the gateway", model=model)),
    )
    return LanguageModelProvider(
        client, caller.directory, host=host, counter=caller.counter, tracker=caller.tracker
    )


def _context(request: HostRequest) -> ErrorContext:
    is_text = isinstance(request, RespondRequest) and request.settings.errors_as_text is True
    return ErrorContext(endpoint="the gateway", model=getattr(request, "model", ""), as_text=is_text)


async def _fail(
    exchange: Exchange, lines: LineWriter, error: OpenResponsesError, request: HostRequest
) -> None:
    line = failure_line(error, _context(request))
    if exchange.status:
        await lines.end(line)
        return
    code = error.code if error.status else code_of(error)
    headers = [("retry-after", str(max(1, round(error.retry_after))))] if error.retry_after else []
    status = error.status or status_of(code)
    raise RequestRefused(status, code, line["message"], type_of(code), error.param, headers)


@asynccontextmanager
async def _disconnect_watched(exchange: Exchange) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when the client disconnects, which cancels its turn."""
    is_disconnected = asyncio.Event()
    exchange.channel.on_disconnect(is_disconnected.set)
    try:
        yield is_disconnected
    finally:
        exchange.channel.on_disconnect(None)
