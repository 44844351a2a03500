"""Where models are asked, as somebody configured it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from penstock.dialects.plan import Quirks


class UpstreamTarget(Struct, frozen=True, kw_only=True):
    """One upstream with everything that is needed to reach it. Times are in seconds; None means no limit."""

    name: str
    base_url: str
    """With or without `/v1` and a slash, or the URL of the endpoint itself (notes/asks L3)."""
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
    """A large model on a small machine reads a long prompt for minutes before it says anything (W06)."""
    idle_timeout: float | None = 600.0
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    proxy: str | None = None
    """None: as the environment says, and never for this machine. Empty: no proxy."""

    def __repr__(self) -> str:
        """Without keys, headers, secrets or the proxy: any of them may be a secret."""
        return f"UpstreamTarget({self.name!r}, {self.dialect}, {self.base_url.partition('?')[0]!r})"
