"""The settings of a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from penstock.net.config import ConnectionConfig, KeySource, invalid_config
from penstock.net.urls import read_address


@dataclass(frozen=True, repr=False)
class ClientConfig:
    """How to reach one endpoint. Invalid values raise `InvalidRequestError` here, not with the first request.

    Times are in seconds; None means no limit.
    """

    base_url: str
    """With or without `/v1`, or the URL of the endpoint's `/responses`."""
    key: KeySource | None = None
    """Called for every request, on the client's event loop: make a slow one async. The key is not stored."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request. They override the client's own headers."""
    secrets: tuple[str, ...] = ()
    """Values in `headers` and `proxy` that are masked wherever the server repeats them. Headers whose name
    indicates a secret (`authorization`, `x-api-key`) are masked in any case."""
    connect_timeout: float | None = 10.0
    """To establish a connection: DNS, TCP, TLS and proxy."""
    first_byte_timeout: float | None = 120.0
    """From the request to the headers of the response, and from those to the first byte of its body."""
    idle_timeout: float | None = 120.0
    """Between two bytes of a body. Any byte counts: a comment line is a heartbeat."""
    retries: int = 2
    """How often a request that failed before its first event is retried."""
    max_retry_wait: float = 60.0
    """A request is not retried if the server asks for a longer wait."""
    resumes: int = 2
    """How often a broken stream is resumed without receiving a new event."""
    ca_file: str | None = None
    """A PEM file of trusted authorities, instead of the system's."""
    client_cert: str | None = None
    client_key: str | None = None
    """PEM files with a client certificate and its key; the key may be in the certificate's file."""
    proxy: str | None = None
    """A proxy for all requests. None: from the environment, but never for this machine. Empty: no proxy."""

    def __post_init__(self) -> None:
        read_address(self.base_url)
        self.connections()
        for name in ("retries", "max_retry_wait", "resumes"):
            if not getattr(self, name) >= 0:
                raise invalid_config(name, "must not be negative")

    def connections(self) -> ConnectionConfig:
        """Return the settings that concern connections."""
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
        """Leave out possible secrets: the query, the values of headers, the proxy and the key source."""
        url = urlunsplit(urlsplit(self.base_url)._replace(query="", fragment=""))
        key = "set" if self.key is not None else "none"
        return f"ClientConfig(base_url={url!r}, key={key}, headers={sorted(self.headers)!r})"
