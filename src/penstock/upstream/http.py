"""An upstream across the network."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlunsplit
from weakref import WeakSet

from penstock.client.config import ClientConfig
from penstock.dialects.anthropic.render import VERSION
from penstock.dialects.families import family_of
from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.dialects.presets import KEY_HEADERS, fingerprint
from penstock.dialects.registry import rendered_dialect, unknown
from penstock.errors import InvalidRequestError
from penstock.net.config import check_headers, check_key
from penstock.net.error_responses import closed_meanwhile
from penstock.net.transport import Transport
from penstock.protocol.wire import encode
from penstock.upstream.addresses import address_of
from penstock.upstream.failures import refusal_in
from penstock.upstream.keys import KeyRing
from penstock.upstream.target import UpstreamTarget
from penstock.upstream.upstream import UpstreamAnswer

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
        self._address = address_of(target.base_url, target.dialect)
        keys = [key.strip() for key in target.keys]
        for key in keys:
            check_key(key)
        self.keys = KeyRing(keys, clock=clock)
        self._transport = Transport(_config(target).connections(), self._address, refusal_in(self.dialect))
        self._transport.check()
        self._answers: WeakSet[UpstreamAnswer] = WeakSet()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._target!r})"

    def target(self, model: str, key: str) -> Target:
        return Target(
            model=model,
            vendor=self._target.preset,
            dialect=self._target.dialect,
            family=family_of(model),
            key_fingerprint=fingerprint(key),
            quirks=self._target.quirks,
        )

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamAnswer:
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
            answer.close()  # aiohttp closes connections without a word to those who read from them
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
    address = address_of(target.base_url, target.dialect)
    key = key if key and target.pass_key else next(iter(target.keys), "")
    name, form = _key_header(target.key_header)
    headers = {name: form.format(key=key)} if key else {}
    if target.dialect == "anthropic":
        headers["anthropic-version"] = VERSION
    return dataclasses.replace(
        _config(target),
        base_url=urlunsplit((address.scheme, address.authority, address.path, address.query, "")),
        headers=headers | _lowered(target.headers),
        retries=0,
    )


def _dialect(name: str) -> Dialect:
    try:
        return rendered_dialect(name)
    except LookupError as error:
        raise InvalidRequestError(str(error), code="invalid_config", param="dialect") from None


def _key_header(name: str) -> tuple[str, str]:
    """The header and the form of its value."""
    if name not in KEY_HEADERS:
        told = str(unknown("key header", name, KEY_HEADERS))
        raise InvalidRequestError(told, code="invalid_config", param="key_header")
    header, form = KEY_HEADERS[name]
    return header.lower(), form


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
