"""An upstream that is reached over HTTP."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlunsplit

from penstock.client.config import ClientConfig
from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.dialects.presets import KEY_HEADERS, target_for
from penstock.dialects.registry import rendered_dialect
from penstock.errors import (
    AuthenticationError,
    InvalidRequestError,
    OpenResponsesError,
    PermissionDeniedError,
)
from penstock.net.config import check_headers, check_key
from penstock.net.error_responses import client_closed, refusal
from penstock.net.masking import Secrets
from penstock.net.source import UpstreamSource
from penstock.net.transport import Refusal, Transport
from penstock.protocol.wire import encode
from penstock.sse import CONTENT_TYPE
from penstock.suggestions import unknown
from penstock.upstream.answer_check import CheckedAnswer
from penstock.upstream.keys import KeyRing
from penstock.upstream.refused_keys import name_key
from penstock.upstream.target import UpstreamTarget, address_of

_ACCEPT = f"{CONTENT_TYPE}, application/json"
"""Every request asks for a stream, but some servers return a JSON document."""


class HttpUpstream:
    """Sends requests over reused connections, as many at a time as there are turns.

    An invalid target raises here, not with the first request. The upstream belongs to the event loop of its
    first request. `clock` measures how long keys rest.
    """

    def __init__(self, target: UpstreamTarget, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self.name = target.name
        self.dialect = _dialect(target.dialect)
        self.pass_key = target.pass_key
        self._key_header = _key_header(target.key_header)
        self._address = address_of(target.base_url, self.dialect.connection)
        keys = [key.strip() for key in target.keys]
        for key in keys:
            check_key(key)
        self.keys = KeyRing(keys, clock=clock, names=target.key_names, spread=target.spread_keys)
        self._transport = Transport(_config(target).connections(), self._address, _refusal_in(self.dialect))
        self._transport.check()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target!r})"

    def target(self, model: str, key: str) -> Target:
        target = self._target
        return target_for(model, target.preset, dialect=target.dialect, quirks=target.quirks, key=key)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        if self._is_closed:
            raise client_closed()
        check_headers(headers)
        try:
            answer = await self._transport.send(
                "POST",
                self._address.under(request.path),
                accept=_ACCEPT,
                body=request.data or encode(request.body),
                headers=_lowered(headers) | _lowered(request.headers) | self._key(key),
            )
        except (AuthenticationError, PermissionDeniedError) as error:
            name_key(error, key, self.keys, self._target, self._key_header[0])
            raise
        return answer if answer.content_type == CONTENT_TYPE else CheckedAnswer(answer)

    async def aclose(self) -> None:
        """Close every connection; responses that are still being read fail."""
        self._is_closed = True
        await self._transport.aclose()

    def _key(self, key: str) -> dict[str, str]:
        """Return the header for a key, which is checked here: a client's own key was not checked before."""
        check_key(key)
        name, form = self._key_header
        return {name: form.format(key=key)} if key else {}


def _config(target: UpstreamTarget) -> ClientConfig:
    return ClientConfig(
        target.base_url,
        headers=target.headers,
        secrets=(*target.secrets, *target.keys),
        connect_timeout=target.connect_timeout,
        first_byte_timeout=target.first_byte_timeout,
        idle_timeout=target.idle_timeout,
        # `attempts` decides about retries; here the value only enables connection reuse.
        retries=1,
        ca_file=target.ca_file,
        client_cert=target.client_cert,
        client_key=target.client_key,
        proxy=target.proxy,
    )


def listing_config(target: UpstreamTarget, key: str = "") -> ClientConfig:
    """Return the settings for listing a target's models: with this key, else with the target's own."""
    connection = _dialect(target.dialect).connection
    address = address_of(target.base_url, connection)
    key = key if key and target.pass_key else next(iter(target.keys), "")
    name, form = _key_header(target.key_header)
    headers = {name: form.format(key=key)} if key else {}
    headers |= _lowered(connection.headers)
    return dataclasses.replace(
        _config(target),
        base_url=urlunsplit((address.scheme, address.authority, address.path, address.query, "")),
        headers=headers | _lowered(target.headers),
        retries=0,
    )


def _refusal_in(dialect: Dialect) -> Refusal:
    """Return a function that converts error responses like the client does, but with our code for the
    failure.

    Clients act on the code, and know ours but not the vendor's.
    """

    def explain(
        status: int, headers: Mapping[str, str], body: bytes, secrets: Secrets, advice: str
    ) -> OpenResponsesError:
        error = refusal(status, headers, body, secrets, advice)
        error.code = dialect.classify(status, headers, body).code
        return error

    return explain


def _dialect(name: str) -> Dialect:
    try:
        return rendered_dialect(name)
    except LookupError as error:
        raise InvalidRequestError(str(error), code="invalid_config", param="dialect") from None


def _key_header(name: str) -> tuple[str, str]:
    """Return the name of the header and the format of its value."""
    if name not in KEY_HEADERS:
        message = unknown("key header", name, KEY_HEADERS)
        raise InvalidRequestError(message, code="invalid_config", param="key_header")
    header, form = KEY_HEADERS[name]
    return header.lower(), form


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
