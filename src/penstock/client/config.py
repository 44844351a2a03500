"""What a client can be told, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from penstock.net.config import ConnectionConfig, KeySource, invalid_config
from penstock.net.urls import read_address


@dataclass(frozen=True, repr=False)
class ClientConfig:
    """How to reach one endpoint. Wrong values raise `InvalidRequestError` here, not with the first request.

    Times are in seconds; None means no limit.
    """

    base_url: str
    """With or without `/v1`, or the URL of the endpoint's `/responses`."""
    key: KeySource | None = None
    """Asked per request and never kept. It runs on the client's event loop, so a slow one should be async."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request; they replace those that the client would send itself."""
    secrets: tuple[str, ...] = ()
    """Values in `headers` and `proxy` that are masked wherever the server repeats them. Those of headers that
    are named after a secret (`authorization`, `x-api-key`) are masked anyway."""
    connect_timeout: float | None = 10.0
    """For a connection: name, TCP, TLS and proxy."""
    first_byte_timeout: float | None = 120.0
    """From the request to the answer's headers, and from those to the first byte of its body."""
    idle_timeout: float | None = 120.0
    """Between two bytes of a body, whatever they are: a comment line is a sign of life."""
    retries: int = 2
    """How often a request is sent again when it failed before anything was delivered."""
    max_retry_wait: float = 60.0
    """A server that asks for a longer wait than this is not waited for."""
    resumes: int = 2
    """How often a stream that broke is taken up again before it brings something new."""
    ca_file: str | None = None
    """A PEM file of the authorities to trust, instead of the system's."""
    client_cert: str | None = None
    client_key: str | None = None
    """PEM files with our own certificate and its key; the key may be in the certificate's file."""
    proxy: str | None = None
    """None: as the environment says, and never for this machine. Empty: no proxy. Else the proxy for all."""

    def __post_init__(self) -> None:
        read_address(self.base_url)
        self.connections()
        for name in ("retries", "max_retry_wait", "resumes"):
            if not getattr(self, name) >= 0:
                raise invalid_config(name, "must not be negative")

    def connections(self) -> ConnectionConfig:
        """What of this is about connections."""
        return ConnectionConfig(
            key=self.key,
            headers=self.headers,
            secrets=self.secrets,
            connect_timeout=self.connect_timeout,
            first_byte_timeout=self.first_byte_timeout,
            idle_timeout=self.idle_timeout,
            keep_alive=self.retries > 0,
            ca_file=self.ca_file,
            client_cert=self.client_cert,
            client_key=self.client_key,
            proxy=self.proxy,
        )

    def __repr__(self) -> str:
        """Without what may be a secret: the query, the values of headers, the proxy, and whatever a key
        source would show of itself."""
        url = urlunsplit(urlsplit(self.base_url)._replace(query="", fragment=""))
        key = "set" if self.key is not None else "none"
        return f"ClientConfig(base_url={url!r}, key={key}, headers={sorted(self.headers)!r})"
