"""Upstreams, the settings of an upstream that is reached over HTTP, and its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.plan import ConnectionSpec, Dialect, Quirks, Target, UpstreamRequest
from penstock.dialects.presets import PRESETS
from penstock.dialects.registry import RENDERED
from penstock.errors import InvalidRequestError
from penstock.net.source import UpstreamSource
from penstock.net.urls import Address, Form, read_address
from penstock.upstream.keys import KeyRing


class UpstreamTarget(Struct, frozen=True, kw_only=True):
    """The settings of one upstream. Times are in seconds; None means no limit."""

    name: str
    base_url: str
    """With or without `/v1` and a slash, or the URL of the endpoint itself (ask L3)."""
    dialect: str = "chat"
    preset: str = ""
    """The vendor; empty for a server without a preset."""
    quirks: Quirks = Quirks()
    key_header: str = "bearer"
    """How the key is sent: a row of `KEY_HEADERS`."""
    keys: tuple[str, ...] = ()
    """The keys. One that is refused rests for a while."""
    spread_keys: bool = True
    """Whether conversations are spread over the keys. If not, the first that does not rest is used."""
    key_names: tuple[str, ...] = ()
    """Where each key comes from, for messages: the names of their variables."""
    missing_key: str = ""
    """What to do if the upstream requires a key and there is none."""
    pass_key: bool = False
    """Whether a client's own key is sent instead of `keys`, if the client has one."""
    headers: Mapping[str, str] = {}
    """Sent with every request. They override the default headers."""
    secrets: tuple[str, ...] = ()
    """Values from environment variables in `headers` and `proxy`, which are masked wherever the upstream
    repeats them."""
    connect_timeout: float | None = 10.0
    first_byte_timeout: float | None = 600.0
    """A large model on a small machine may process a long prompt for minutes before its first output
    (ask A8)."""
    idle_timeout: float | None = 600.0
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: str | None = None
    """None: from the environment, but never for this machine. Empty: no proxy."""

    def __repr__(self) -> str:
        """Leave out keys, headers, secrets and the proxy: any of them may be a secret."""
        return f"UpstreamTarget({self.name!r}, {self.dialect}, {self.base_url.partition('?')[0]!r})"


_PRESET_URLS = frozenset(row.base_url for row in PRESETS.values())
_PLACEHOLDER = re.compile(r"\{\w*\}")


def address_of(base_url: str, connection: ConnectionSpec) -> Address:
    """Return the address for the paths of a dialect, from any common form of the base URL (ask L3)."""
    if found := _PLACEHOLDER.search(base_url):
        message = f"the base URL contains a placeholder: replace {found[0]} with your own value"
        raise InvalidRequestError(message, code="invalid_base_url", param="base_url")
    form = Form(re.compile(connection.endpoint), connection.version, connection.is_versioned_everywhere)
    address = read_address(base_url, form)
    url = base_url.strip().rstrip("/")
    if url in _PRESET_URLS:
        # Some vendors have their API at the root, without a version. The URL of a preset is exact.
        return replace(address, path=urlsplit(url).path, advice="")
    return address


def dialect_advice(target: str, name: str) -> str:
    """Return what to do about an answer of this target in the format of this name."""
    if name in RENDERED:
        return f'set the dialect of the target "{target}" to "{name}" (dialect in its table, or --dialect)'
    return f'the target "{target}" cannot use this format: check its base_url and its preset'


class Upstream(Protocol):
    """A server, or something in its place, that answers requests in one dialect."""

    name: str
    dialect: Dialect
    keys: KeyRing
    pass_key: bool
    """Whether a client's own key is sent here, if the client has one."""

    def target(self, model: str, key: str) -> Target:
        """Return a model of this upstream as the target of a plan."""

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        """Send a request and return its response; raise an `OpenResponsesError` unless it is a success.

        `headers` are for this turn, such as `traceparent`.
        """

    async def aclose(self) -> None:
        """Close all connections."""
