"""Sends HTTP requests to one endpoint with aiohttp."""

from __future__ import annotations

import asyncio
import inspect
import os
import select
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING
from weakref import WeakSet

import aiohttp

from penstock.errors import OpenResponsesError
from penstock.net import network_errors
from penstock.net.answer import HttpAnswer
from penstock.net.config import ConnectionConfig, KeySource, check_key
from penstock.net.error_responses import redirected, refusal
from penstock.net.masking import Secrets, secrets_in, secrets_in_query, secrets_of
from penstock.net.tls import supports_tls, tls_context
from penstock.net.urls import Address, Proxy, proxy_for
from penstock.version import VERSION

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

JSON = "application/json"
_SAFE = ("GET", "HEAD", "DELETE")
"""Methods whose requests may be sent twice."""

Refusal = Callable[[int, Mapping[str, str], bytes, Secrets, str], OpenResponsesError]
"""Converts the status, headers and body of an error response to an exception; takes advice for a 404."""

_Call = Callable[[], Awaitable[aiohttp.ClientResponse]]
_NO_HEADERS: Mapping[str, str] = {}

_LARGE = 1024 * 1024
_HEADER_LINE = 64 * 1024
"""aiohttp allows 8 KB, which the policy header of a proxy may exceed."""


class Transport:
    """Sends requests to one endpoint. The first request opens the session on its event loop."""

    def __init__(self, config: ConnectionConfig, address: Address, explain: Refusal = refusal) -> None:
        self._config = config
        self._address = address
        self._explain = explain
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | bool | None = None
        self._is_known_plain = self._address.scheme != "http"
        """Whether the server is known to accept plain HTTP, or TLS is used anyway."""

    def check(self) -> None:
        """Raise the errors of the first request now: certificate files and proxies that cannot be used."""
        self._tls_context()
        proxy_for(self._address, self._config.proxy, os.environ)

    async def send(
        self,
        method: str,
        url: str,
        *,
        accept: str = JSON,
        body: bytes | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> HttpAnswer:
        """Send a request and return its response; raise unless it is a success.

        `headers` are for this request; those of the configuration override them.
        """
        proxy = proxy_for(self._address, self._config.proxy, os.environ)
        all_headers, secrets = await self._headers(accept, body is not None, proxy, headers)
        call = self._call(method, url, all_headers, body, proxy)
        response = await self._respond(call, proxy, secrets, may_repeat=method in _SAFE)
        answer = HttpAnswer(response, self._config, secrets, self._address.authority)
        if 200 <= answer.status < 300:
            return answer
        try:
            raise await self._refusal(answer)
        finally:
            answer.close()

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _headers(
        self, accept: str, has_body: bool, proxy: Proxy | None, more: Mapping[str, str]
    ) -> tuple[dict[str, str], Secrets]:
        headers = {
            "accept": accept,
            # A proxy may delay a stream in order to compress it.
            "accept-encoding": "identity",
            "user-agent": f"penstock/{VERSION}",
        }
        if has_body:
            headers["content-type"] = JSON
        if self._config.key is not None and (key := await _get_key(self._config.key)):
            headers["authorization"] = f"Bearer {key}"
        for extra in (more, self._config.headers):
            headers.update((name.lower(), value) for name, value in extra.items())
        headers.update(self._proxy_headers(proxy, "http"))
        sent = headers | self._proxy_headers(proxy, "https")
        known = secrets_of(self._config.secrets)
        return headers, Secrets([*secrets_in(sent), *secrets_in_query(self._address.query), *known])

    def _call(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, proxy: Proxy | None
    ) -> _Call:
        session = self._session = self._session or _open_session(keep_alive=self._config.keep_alive)
        return lambda: session.request(
            method,
            url,
            headers=headers,
            # Send a large body in pieces, as aiohttp recommends: the event loop has other work to do.
            data=BytesIO(body) if body and len(body) > _LARGE else body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=self._config.connect_timeout),
            proxy=proxy.url if proxy else None,
            proxy_headers=self._proxy_headers(proxy, "https"),
            ssl=self._tls_context() if self._address.scheme == "https" else True,
        )

    async def _respond(
        self, call: _Call, proxy: Proxy | None, secrets: Secrets, *, may_repeat: bool
    ) -> aiohttp.ClientResponse:
        """Send the request and wait for the headers of the response. If a reused connection breaks before
        that, the server has probably closed it because it was idle. Only then, and only if it `may_repeat`,
        the request is sent again: a POST may have been processed (decision 32)."""
        while True:
            opening = _Opening(self._config.first_byte_timeout)
            token = _OPENING.set(opening)
            try:
                async with asyncio.timeout(None) as opening.deadline:
                    response = await call()
                    self._is_known_plain = True
                    return response
            except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
                failure = self._failure(error, opening, proxy, secrets)
                is_direct = opening.is_connected and proxy is None
                may_require_tls = is_direct and network_errors.may_require_tls(error)
            except BaseException:
                opening.abort()
                raise
            finally:
                _OPENING.reset(token)
            opening.abort()
            is_closed = self._session is None
            if may_require_tls and not is_closed and not self._is_known_plain:
                if await supports_tls(self._address.host, self._address.port):
                    raise network_errors.tls_required(self._address.authority)
                self._is_known_plain = True  # one check is enough
            if is_closed or not may_repeat or not opening.was_reused or failure.phase != "cut":
                raise failure  # outside the handler, so that nothing is chained: see `network_errors`

    def _proxy_headers(self, proxy: Proxy | None, scheme: str) -> dict[str, str]:
        """Return the proxy's authorization: sent with an HTTP request, or before an HTTPS tunnel."""
        if proxy is None or not proxy.authorization or self._address.scheme != scheme:
            return {}
        return {"proxy-authorization": proxy.authorization}

    def _failure(
        self, error: Exception, opening: _Opening, proxy: Proxy | None, secrets: Secrets
    ) -> OpenResponsesError:
        server = self._address.authority
        if isinstance(error, aiohttp.ClientHttpProxyError):
            error.message = secrets.mask(error.message)
        if not opening.is_connected:
            seconds = self._config.connect_timeout
            return network_errors.connection_failed(error, server, proxy.authority if proxy else "", seconds)
        if opening.deadline.expired():
            return network_errors.timed_out(server, "first_byte", self._config.first_byte_timeout)
        return network_errors.disconnected(error, server)

    async def _refusal(self, answer: HttpAnswer) -> OpenResponsesError:
        if answer.status < 400:
            return redirected(answer.status, answer.headers, answer.secrets)
        body = await answer.error_body()
        if self._address.scheme == "http" and network_errors.body_asks_for_tls(body):
            return network_errors.tls_required(self._address.authority)
        return self._explain(answer.status, answer.headers, body, answer.secrets, self._address.advice)

    def _tls_context(self) -> ssl.SSLContext | bool:
        if self._tls is None:
            self._tls = tls_context(self._config.ca_file, self._config.client_cert, self._config.client_key)
        return self._tls


class _Opening:
    """A request without a response yet. The first-byte timeout starts when there is a connection."""

    def __init__(self, first_byte_timeout: float | None) -> None:
        self._seconds = first_byte_timeout
        self._transport: asyncio.Transport | None = None
        self.deadline: asyncio.Timeout
        self.is_connected = False
        self.was_reused = False

    def connected(self, connection: Connection, was_reused: bool) -> None:
        self._transport = connection.transport
        self.is_connected = True
        self.was_reused = was_reused
        if self._seconds is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def abort(self) -> None:
        """Close at once. aiohttp closes gracefully, which waits for a peer that does not read."""
        if self._transport is not None:
            self._transport.abort()


_OPENING: ContextVar[_Opening] = ContextVar("penstock_opening")


class _Connector(aiohttp.TCPConnector):
    """Reports when a request has its connection, which aiohttp does not expose before the headers arrive."""

    def __init__(self, *, keep_alive: bool) -> None:
        # No limit: streams are long, and a request must not wait for one to end.
        super().__init__(limit=0, force_close=not keep_alive)
        self._known: WeakSet[object] = WeakSet()

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        while (was_reused := connection.protocol in self._known) and is_ended(connection.transport):
            connection.close()
            connection = await super().connect(req, traces, timeout)
        _OPENING.get().connected(connection, was_reused=was_reused)
        self._known.add(connection.protocol)
        return connection


def is_ended(transport: asyncio.BaseTransport | None) -> bool:
    """Return whether the server has closed an idle connection, although the event loop does not know it yet.
    A request on such a connection would fail, and could not be repeated."""
    socket = transport.get_extra_info("socket") if transport is not None else None
    if socket is None or not hasattr(select, "poll"):  # Windows has no `poll`
        return False
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _open_session(*, keep_alive: bool) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=_Connector(keep_alive=keep_alive),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=_HEADER_LINE,
        max_field_size=_HEADER_LINE,
    )
    # aiohttp retries a broken GET by itself. Retries are up to the client.
    session._retry_connection = False
    return session


async def _get_key(source: KeySource) -> str:
    result = source()
    key = (await result if inspect.isawaitable(result) else result) or ""
    key = key.strip()
    check_key(key)
    return key
