"""The standard `OTEL_*` environment variables: where to export to, who we are, what is sampled.

docs/telemetry.md lists those that are used. No message repeats a value that may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from penstock.errors import ConfigError, InvalidRequestError
from penstock.gateway.telemetry.otel.otlp import ENCODINGS
from penstock.gateway.telemetry.otel.trace_context import SAMPLERS, Sampler, sampler
from penstock.net.config import ConnectionConfig
from penstock.net.tls import client_tls_context
from penstock.net.urls import Address
from penstock.suggestions import unknown

Signal = Literal["traces", "metrics"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics")

DEFAULT_ENDPOINT = "http://localhost:4318"
_LONGEST_WAIT = 86_400_000
"""Milliseconds."""

T = TypeVar("T")


class OtlpEndpoint(Struct, frozen=True, kw_only=True):
    """Where one signal is exported to."""

    url: str
    protocol: str = "http/protobuf"
    headers: Mapping[str, str] = {}
    timeout: float = 10.0
    """Seconds for a whole export."""
    is_compressed: bool = False
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None

    def __repr__(self) -> str:
        """Leave out the headers and the query: they may contain keys."""
        return f"OtlpEndpoint({self.shown!r}, {self.protocol})"

    @property
    def shown(self) -> str:
        return self.url.partition("?")[0]

    @property
    def address(self) -> Address:
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return Address(parts.scheme, parts.hostname or "", port, parts.netloc, parts.path, parts.query, "")

    def connection(self) -> ConnectionConfig:
        """Return the settings of its connections; raise `InvalidRequestError` if they are invalid. They have
        no time limits of their own: an export has one for everything."""
        return ConnectionConfig(
            headers=self.headers,
            secrets=tuple(self.headers.values()),
            connect_timeout=None,
            first_byte_timeout=None,
            idle_timeout=None,
            ca_file=self.ca_file,
            client_cert=self.client_cert,
            client_key=self.client_key,
        )


class OtelVariables(Struct, frozen=True, kw_only=True):
    """What the variables say."""

    is_disabled: bool = False
    """`OTEL_SDK_DISABLED`: nothing is exported, whatever penstock.toml says."""
    endpoints: Mapping[Signal, OtlpEndpoint] = {}
    """The signals that are exported."""
    resource: Mapping[str, str] = {}
    sampler: Sampler = sampler(SAMPLERS[0], 1.0)
    queue: int = 2048
    """Spans that may wait for their export."""
    batch: int = 512
    """Spans of one export, at most."""
    span_delay: float = 5.0
    """Seconds for which a span may wait for others."""
    metric_interval: float = 60.0


def read_variables(environment: Mapping[str, str]) -> OtelVariables:
    """Return what the variables say; raise `ConfigError` for the first that is invalid."""
    variables = _Reader(environment)
    ratio = variables.read("OTEL_TRACES_SAMPLER_ARG", _ratio, 1.0)
    name = variables.read("OTEL_TRACES_SAMPLER", _one_of("sampler", SAMPLERS), SAMPLERS[0])
    queue = variables.read("OTEL_BSP_MAX_QUEUE_SIZE", _count, 2048)
    return OtelVariables(
        is_disabled=variables.text("OTEL_SDK_DISABLED").lower() == "true",
        endpoints={
            signal: found for signal in SIGNALS if (found := _endpoint(variables, signal)) is not None
        },
        resource=_resource(variables),
        sampler=sampler(name, ratio),
        queue=queue,
        batch=min(variables.read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _count, 512), queue),
        span_delay=variables.read("OTEL_BSP_SCHEDULE_DELAY", _milliseconds, 5.0),
        metric_interval=variables.read("OTEL_METRIC_EXPORT_INTERVAL", _milliseconds, 60.0),
    )


class _Reader:
    """Reads variables. One that is set but empty counts as unset, as the specification says."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str) -> str:
        return self._environment.get(name, "").strip()

    def read(self, name: str, reader: Callable[[str], T], default: T) -> T:
        written = self.text(name)
        if not written:
            return default
        try:
            return reader(written)
        except ValueError as error:
            raise ConfigError(name, 0, str(error)) from None

    def name_for(self, signal: Signal, setting: str) -> str:
        """Return the variable of a signal, or else that of all signals."""
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_{setting}"
        return own if self.text(own) else f"OTEL_EXPORTER_OTLP_{setting}"

    def for_signal(self, signal: Signal, setting: str, reader: Callable[[str], T], default: T) -> T:
        return self.read(self.name_for(signal, setting), reader, default)


def _endpoint(variables: _Reader, signal: Signal) -> OtlpEndpoint | None:
    exporter = f"OTEL_{signal.upper()}_EXPORTER"
    if variables.read(exporter, _one_of("exporter", ("otlp", "none")), "otlp") == "none":
        return None
    name = variables.name_for(signal, "ENDPOINT")
    url = variables.read(name, _url, DEFAULT_ENDPOINT)
    if name == "OTEL_EXPORTER_OTLP_ENDPOINT":  # only this one is a base URL
        url = _with_path(url, f"v1/{signal}")
    endpoint = OtlpEndpoint(
        url=url,
        protocol=variables.for_signal(signal, "PROTOCOL", _protocol, "http/protobuf"),
        headers=variables.for_signal(signal, "HEADERS", _headers, {}),
        timeout=variables.for_signal(signal, "TIMEOUT", _milliseconds, 10.0),
        is_compressed=variables.for_signal(signal, "COMPRESSION", _compression, "none") == "gzip",
        ca_file=variables.text(variables.name_for(signal, "CERTIFICATE")) or None,
        client_cert=variables.text(variables.name_for(signal, "CLIENT_CERTIFICATE")) or None,
        client_key=variables.text(variables.name_for(signal, "CLIENT_KEY")) or None,
    )
    _check(endpoint, variables, signal)
    return endpoint


def _check(endpoint: OtlpEndpoint, variables: _Reader, signal: Signal) -> None:
    """Raise `ConfigError` for headers that cannot be sent, and for certificates that cannot be loaded."""
    try:
        endpoint.connection()
        client_tls_context(endpoint.ca_file, endpoint.client_cert, endpoint.client_key)
    except InvalidRequestError as error:
        name = variables.name_for(signal, _BLAMED.get(error.param or "", "HEADERS"))
        raise ConfigError(name, 0, error.message) from None


_BLAMED = {
    "ca_file": "CERTIFICATE",
    "client_cert": "CLIENT_CERTIFICATE",
    "client_key": "CLIENT_KEY",
}
"""The settings that the variables of certificates stand for."""


def _resource(variables: _Reader) -> dict[str, str]:
    nothing: dict[str, str] = {}
    found = variables.read("OTEL_RESOURCE_ATTRIBUTES", _pairs, nothing)
    service = variables.text("OTEL_SERVICE_NAME")
    return {**found, "service.name": service} if service else found


# Values


def _one_of(what: str, known: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise ValueError(unknown(what, text, known))
        return text

    return read


def _protocol(text: str) -> str:
    if text == "grpc":
        raise ValueError(
            "the protocol grpc is not supported: use http/protobuf, and the collector's port for it, "
            "usually 4318"
        )
    return _one_of("protocol", tuple(ENCODINGS))(text)


_compression = _one_of("compression", ("gzip", "none"))


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError("is not a URL; example: http://localhost:4318") from None
    if any(each <= " " or each == "\x7f" for each in text):
        raise ValueError("contains a character that must be percent-encoded, such as a space")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL that starts with http:// or https://; example: http://localhost:4318")
    if parts.username is not None:
        raise ValueError("must not contain a user name or password: use OTEL_EXPORTER_OTLP_HEADERS")
    return parts.geturl()


def _with_path(base: str, path: str) -> str:
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}"))


def _headers(text: str) -> dict[str, str]:
    return {name.lower(): value for name, value in _pairs(text).items()}


def _pairs(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, percent-encoded like baggage. A message shows no value."""
    found: dict[str, str] = {}
    for number, member in enumerate(text.split(","), 1):
        if not member.strip():
            continue
        name, equals, value = member.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"must be NAME=VALUE pairs, separated by commas; pair {number} is not one")
        found[unquote(name.strip())] = unquote(value.strip())
    return found


def _milliseconds(text: str) -> float:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= _LONGEST_WAIT:
        raise ValueError(f"must be a number of milliseconds, from 1 to {_LONGEST_WAIT}")
    return int(text) / 1000


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= 1_000_000:
        raise ValueError("must be a whole number, from 1 to 1000000")
    return int(text)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError("must be a number from 0 to 1")
    return ratio
