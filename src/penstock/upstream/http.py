"""An upstream across the network."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlunsplit
from weakref import WeakSet

from penstock.client.config import ClientConfig
from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.dialects.presets import KEY_HEADERS, target_for
from penstock.dialects.registry import rendered_dialect, unknown
from penstock.errors import InvalidRequestError, NotFoundError, OpenResponsesError
from penstock.net.answer import HttpAnswer
from penstock.net.config import check_headers, check_key
from penstock.net.error_responses import closed_meanwhile, refusal
from penstock.net.masking import Secrets
from penstock.net.source import UpstreamSource
from penstock.net.transport import Refusal, Transport
from penstock.protocol.wire import encode
from penstock.upstream.keys import KeyRing
from penstock.upstream.target import UpstreamTarget, address_of

_ACCEPT = "text/event-stream, application/json"
"""Every request asks for a stream; some servers answer with a whole document all the same."""


class HttpUpstream:
    """Sends requests over connections that are kept, as many at a time as there are turns.

    A target that cannot work raises here, not with the first request. It belongs to the event loop of that
    one. `clock` is what the rests of the keys are measured by.
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
        self.keys = KeyRing(keys, clock=clock)
        self._transport = Transport(_config(target).connections(), self._address, _refusal_in(self.dialect))
        self._transport.check()
        self._answers: WeakSet[HttpAnswer] = WeakSet()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target!r})"

    def target(self, model: str, key: str) -> Target:
        target = self._target
        return target_for(model, target.preset, dialect=target.dialect, quirks=target.quirks, key=key)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        if self._is_closed:
            raise closed_meanwhile()
        check_headers(headers)
        answer = await self._transport.send(
            "POST",
            self._address.under(request.path),
            accept=_ACCEPT,
            body=request.data or encode(request.body),
            headers=_lowered(headers) | _lowered(request.headers) | self._key(key),
        )
        self._answers.add(answer)
        return answer

    async def aclose(self) -> None:
        """Close every connection; what is still being read on one breaks."""
        self._is_closed = True
        for answer in list(self._answers):
            answer.abort()  # aiohttp closes connections without a word to those who read from them
        await self._transport.aclose()

    def _key(self, key: str) -> dict[str, str]:
        """The header that the key is sent in. A client's own key was not seen before, so it is checked."""
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
        # `attempts` says what is sent again; here it means that connections are kept.
        retries=1,
        ca_file=target.ca_file,
        client_cert=target.client_cert,
        client_key=target.client_key,
        proxy=target.proxy,
    )


def listing_config(target: UpstreamTarget, key: str = "") -> ClientConfig:
    """How to ask a target for its models: with this key, else with its own."""
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
    """How an answer that is no success is read: as the client reads it, but under our word for the failure.

    Clients decide by the code what to do next, and know ours; the vendor's is in no client's table.
    """

    def explain(
        status: int, headers: Mapping[str, str], body: bytes, secrets: Secrets, advice: str
    ) -> OpenResponsesError:
        error = refusal(status, headers, body, secrets, advice)
        if error.code != NotFoundError.default_code:  # it is the address that was not found, not the model
            error.code = dialect.classify(status, headers, body).code
        return error

    return explain


def _dialect(name: str) -> Dialect:
    try:
        return rendered_dialect(name)
    except LookupError as error:
        raise InvalidRequestError(str(error), code="invalid_config", param="dialect") from None


def _key_header(name: str) -> tuple[str, str]:
    """The header and the form of its value."""
    if name not in KEY_HEADERS:
        message = str(unknown("key header", name, KEY_HEADERS))
        raise InvalidRequestError(message, code="invalid_config", param="key_header")
    header, form = KEY_HEADERS[name]
    return header.lower(), form


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
