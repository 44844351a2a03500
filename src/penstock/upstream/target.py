"""Where models are asked: an upstream, the target that configures one across the network, and its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.plan import ConnectionSpec, Dialect, Quirks, Target, UpstreamRequest
from penstock.dialects.presets import PRESETS
from penstock.errors import InvalidRequestError
from penstock.net.source import UpstreamSource
from penstock.net.urls import Address, Form, read_address
from penstock.upstream.keys import KeyRing


class UpstreamTarget(Struct, frozen=True, kw_only=True):
    """One upstream with everything that is needed to reach it. Times are in seconds; None means no limit."""

    name: str
    base_url: str
    """With or without `/v1` and a slash, or the URL of the endpoint itself (ask L3)."""
    dialect: str = "chat"
    preset: str = ""
    """The vendor; empty for a server that is in no table."""
    quirks: Quirks = Quirks()
    key_header: str = "bearer"
    """How the key is sent: a row of `KEY_HEADERS`."""
    keys: tuple[str, ...] = ()
    """The keys themselves, each used until it must rest."""
    pass_key: bool = False
    """A client that brings a key of its own has that one sent, before any of `keys`."""
    headers: Mapping[str, str] = {}
    """Sent with every request; they replace those that would be sent anyway."""
    secrets: tuple[str, ...] = ()
    """What came from environment variables, in `headers` and in `proxy`: it is masked wherever the upstream
    repeats it."""
    connect_timeout: float | None = 10.0
    first_byte_timeout: float | None = 600.0
    """A large model on a small machine reads a long prompt for minutes before it says anything (ask A8)."""
    idle_timeout: float | None = 600.0
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: str | None = None
    """None: as the environment says, and never for this machine. Empty: no proxy."""

    def __repr__(self) -> str:
        """Without keys, headers, secrets or the proxy: any of them may be a secret."""
        return f"UpstreamTarget({self.name!r}, {self.dialect}, {self.base_url.partition('?')[0]!r})"


_PRESET_URLS = frozenset(row.base_url for row in PRESETS.values())
_PLACEHOLDER = re.compile(r"\{\w*\}")


def address_of(base_url: str, connection: ConnectionSpec) -> Address:
    """The address under which the paths of a dialect are, from whatever form of the URL a person has at hand
    (ask L3)."""
    if found := _PLACEHOLDER.search(base_url):
        message = f"the base URL still has a placeholder: write your own value instead of {found[0]}"
        raise InvalidRequestError(message, code="invalid_base_url", param="base_url")
    form = Form(re.compile(connection.endpoint), connection.version, connection.is_versioned_everywhere)
    address = read_address(base_url, form)
    url = base_url.strip().rstrip("/")
    if url in _PRESET_URLS:
        # Some vendors have their API at the root, without a version. What a preset says is exact.
        return replace(address, path=urlsplit(url).path, advice="")
    return address


class Upstream(Protocol):
    """A place that answers requests in one dialect."""

    name: str
    dialect: Dialect
    keys: KeyRing
    pass_key: bool
    """Is a client's own key sent here, where it brings one?"""

    def target(self, model: str, key: str) -> Target:
        """A model here, for a plan."""

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        """The answer, when it is a success; whatever else happens is raised as an `OpenResponsesError`.

        `headers` are this turn's own, such as `traceparent`.
        """

    async def aclose(self) -> None:
        """Close what is kept open."""
