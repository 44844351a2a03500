"""Sends HTTP requests to one endpoint."""

from __future__ import annotations

import asyncio
import inspect
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache

from penstock.errors import OpenResponsesError
from penstock.net import network_errors
from penstock.net.answer import HttpAnswer
from penstock.net.config import ConnectionConfig, KeySource, check_key
from penstock.net.connection import UpstreamConnection
from penstock.net.dialing import UpstreamRoute, dial
from penstock.net.error_responses import refusal, request_id_of
from penstock.net.masking import Secrets, secrets_in, secrets_in_query, secrets_of
from penstock.net.network_errors import ConnectionFault, ProxyRefusal
from penstock.net.pool import ConnectionPool
from penstock.net.response_parser import AnswerHead
from penstock.net.tls import (
    PROBE,
    client_tls_context,
    default_tls_context,
    supports_plain_http,
    supports_tls,
)
from penstock.net.urls import Address, Proxy, is_loopback, is_private, proxy_for
from penstock.net.wrong_addresses import RequestLine, redirected
from penstock.version import VERSION

JSON = "application/json"
_SAFE = ("GET", "HEAD", "DELETE")
"""Methods whose requests may be sent twice."""
_WITHOUT_BODY = ("GET", "HEAD")
_OURS = ("host", "content-length", "transfer-encoding")
"""Headers that are written separately: they describe the message itself."""
_MOST_SECRETS = 32
"""Sets of secrets whose spellings are remembered, one per key."""

Refusal = Callable[[int, Mapping[str, str], bytes, Secrets, str], OpenResponsesError]
"""Converts the status, headers and body of an error response to an exception. Takes advice for a wrong
address."""

Probe = Callable[[str, int, float], Awaitable[bool]]
"""Returns whether a host and port accept another scheme. Takes at most so many seconds."""
_LATE_PROBE = 0.5
"""Seconds for a probe after a timeout: the caller has waited long enough."""

_NO_HEADERS: Mapping[str, str] = {}
_FAULTS = (ConnectionFault, OSError, UnicodeError)  # a TimeoutError is an OSError


class Transport:
    """Sends requests to one endpoint. The first request opens its pool on its event loop."""

    def __init__(self, config: ConnectionConfig, address: Address, explain: Refusal = refusal) -> None:
        self._config = config
        self._address = address
        self._explain = explain
        self._pool: ConnectionPool | None = None
        self._tls: ssl.SSLContext | None = None
        self._has_right_scheme: bool | None = None
        """Whether the server expects this scheme, as far as we can know; None until it has answered or was
        checked."""
        self._is_local = config.proxy is None and is_loopback(address.host)
        """Whether no proxy is ever used, whatever the environment says."""
        self._is_private = is_private(address.host)
        """Whether plain HTTP may be advised."""
        self._headers_of_config = {name.lower(): value for name, value in config.headers.items()}
        self._known_secrets = (*secrets_in_query(address.query), *secrets_of(config.secrets))
        self._secrets = lru_cache(_MOST_SECRETS)(lambda *sent: Secrets([*sent, *self._known_secrets]))

    def check(self) -> None:
        """Raise the errors of the first request now: certificate files and proxies that cannot be used. Load
        the certificates that it needs, which takes time."""
        self._load_tls_files()
        self._route(self._proxy())

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
        proxy = self._proxy()
        all_headers = await self._headers(accept, body is not None, headers)
        secrets = self._secrets(*secrets_in(all_headers), *self._proxy_secrets(proxy))
        request = self._request(method, url, all_headers, body, proxy)
        connection, head = await self._respond(method, request, body or b"", proxy, secrets)
        asked = RequestLine(method, url, self._address)
        answer = HttpAnswer(head, connection, self._config, secrets, self._address.authority, asked)
        if 200 <= answer.status < 300:
            return answer
        try:
            raise await self._refusal(answer)
        finally:
            answer.close()

    async def aclose(self) -> None:
        """Close every connection; requests and responses that are still being read fail."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # connections end in the next turn of the event loop

    def _proxy(self) -> Proxy | None:
        return None if self._is_local else proxy_for(self._address, self._config.proxy, os.environ)

    @staticmethod
    def _proxy_secrets(proxy: Proxy | None) -> list[str]:
        if proxy is None or not proxy.authorization:
            return []
        return list(secrets_in({"proxy-authorization": proxy.authorization}))

    async def _headers(self, accept: str, has_body: bool, more: Mapping[str, str]) -> dict[str, str]:
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
        for name, value in more.items():
            headers[name.lower()] = value
        headers.update(self._headers_of_config)
        return headers

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, proxy: Proxy | None
    ) -> bytes:
        """Return the head of a request. A proxy gets the whole URL, unless it only carries a tunnel."""
        address = self._address
        target, host = address.request_target(url), address.host_header
        lines = [f"{method} {target} HTTP/1.1", f"host: {headers.get('host') or host}"]
        if proxy is not None and address.scheme == "http":
            lines[0] = f"{method} http://{host}{target} HTTP/1.1"
            if proxy.authorization:
                lines.append(f"proxy-authorization: {proxy.authorization}")
        lines += [f"{name}: {value}" for name, value in headers.items() if name not in _OURS]
        if body is not None or method not in _WITHOUT_BODY:
            lines.append(f"content-length: {len(body or b'')}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def _respond(
        self, method: str, request: bytes, body: bytes, proxy: Proxy | None, secrets: Secrets
    ) -> tuple[UpstreamConnection, AnswerHead]:
        """Send the request and wait for the head of the response. If a reused connection breaks before that,
        the server has probably closed it because it was idle. Only then, and only if the method is safe, the
        request is sent again: a POST may have been processed (decision 32)."""
        while True:
            pool = self._pool = self._pool or ConnectionPool(keep_alive=self._config.keep_alive)
            connection = pool.take(proxy.url if proxy is not None else "")
            was_reused = connection is not None
            if connection is None:
                connection = await self._connect(pool, proxy, secrets)
            try:
                head = await connection.ask(
                    method,
                    request,
                    body,
                    first_byte_timeout=self._config.first_byte_timeout,
                    idle_timeout=self._config.idle_timeout,
                )
                self._has_right_scheme = True
                return connection, head
            except _FAULTS as error:
                failure = network_errors.disconnected(error, self._address.authority)
                is_tls = network_errors.is_tls_record(error)
                may_require_tls = self._may_be("https", proxy) and network_errors.may_require_tls(error)
                is_late = network_errors.is_timeout(error)
            except BaseException:
                connection.close()
                raise
            connection.close()
            is_closed = pool.is_closed
            if may_require_tls and not is_closed:
                seconds = _probe_seconds(self._config.first_byte_timeout, is_late=is_late)
                if is_tls or await self._expects_other(supports_tls, seconds):
                    raise network_errors.tls_required(self._address.authority)
            if is_closed or method not in _SAFE or not was_reused or failure.phase != "cut":
                raise failure  # outside the handler, so that nothing is chained: see `network_errors`

    async def _connect(
        self, pool: ConnectionPool, proxy: Proxy | None, secrets: Secrets
    ) -> UpstreamConnection:
        place = proxy.authority if proxy is not None else ""
        seconds = self._config.connect_timeout
        is_secured = self._address.scheme == "https"
        in_handshake = False

        def make() -> UpstreamConnection:
            nonlocal in_handshake
            in_handshake = is_secured
            return UpstreamConnection(pool, proxy.url if proxy is not None else "")

        try:
            async with asyncio.timeout(seconds):
                connection = await dial(self._route(proxy), make)
            pool.add(connection)
            return connection
        except _FAULTS as error:
            if isinstance(error, ProxyRefusal):
                error.message = secrets.mask(error.message)
            failure = network_errors.connection_failed(
                error,
                self._address.authority,
                place,
                seconds,
                in_handshake=in_handshake,
                is_private=self._is_private,
            )
            may_lack_tls = (
                in_handshake
                and self._is_private
                and self._may_be("http", proxy)
                and network_errors.may_lack_tls(error)
            )
            is_late = network_errors.is_timeout(error)
        if may_lack_tls and await self._expects_other(
            supports_plain_http, _probe_seconds(seconds, is_late=is_late)
        ):
            raise network_errors.tls_not_supported(self._address.authority)
        raise failure  # outside the handler, so that nothing is chained: see `network_errors`

    def _may_be(self, scheme: str, proxy: Proxy | None) -> bool:
        """Return whether the server may expect this scheme instead. Nothing is known behind a proxy."""
        return proxy is None and not self._has_right_scheme and self._address.scheme != scheme

    async def _expects_other(self, probe: Probe, seconds: float) -> bool:
        """Return whether the server expects the other scheme. One check is enough."""
        if self._has_right_scheme is None:
            is_wrong = await probe(self._address.host, self._address.port, seconds)
            if self._has_right_scheme is None:  # another request may have been answered meanwhile
                self._has_right_scheme = not is_wrong
        return not self._has_right_scheme

    def _route(self, proxy: Proxy | None) -> UpstreamRoute:
        has_tls = self._address.scheme == "https"
        tls = (self._load_tls_files() or default_tls_context()) if has_tls else None
        proxy_tls = None
        if proxy is not None and proxy.url.startswith("https:"):
            proxy_tls = tls or default_tls_context()
        return UpstreamRoute(self._address, proxy, tls, proxy_tls)

    async def _refusal(self, answer: HttpAnswer) -> OpenResponsesError:
        if answer.status < 400:
            request_id = request_id_of(answer.headers, answer.secrets)
            return redirected(answer.status, answer.headers, answer.secrets, answer.asked, request_id)
        body = await answer.error_body()
        if self._address.scheme == "http" and network_errors.body_asks_for_tls(body):
            return network_errors.tls_required(self._address.authority)
        advice = answer.secrets.mask(answer.asked.advice)
        return self._explain(answer.status, answer.headers, body, answer.secrets, advice)

    def _load_tls_files(self) -> ssl.SSLContext | None:
        if self._tls is None:
            config = self._config
            self._tls = client_tls_context(config.ca_file, config.client_cert, config.client_key)
        return self._tls


def _probe_seconds(timeout: float | None, *, is_late: bool) -> float:
    """Return how long a check of the scheme may delay a failure."""
    return min(_LATE_PROBE if is_late else PROBE, timeout or PROBE)


async def _get_key(source: KeySource) -> str:
    result = source()
    key = (await result if inspect.isawaitable(result) else result) or ""
    key = key.strip()
    check_key(key)
    return key
