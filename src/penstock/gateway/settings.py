"""The settings of a gateway as one frozen value. `config` reads them from `penstock.toml`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from penstock.models.overrides import Override
from penstock.store.ledger import KeyLimits
from penstock.upstream.ejection import EjectionRule
from penstock.upstream.target import UpstreamTarget

DEMO = "demo"
"""The built-in model, which is always available."""

EVERY = "*"
"""The alias for every name that is not defined otherwise."""

MIB = 1024 * 1024
LOG_LEVELS = ("debug", "info", "warning", "error")


class RouteStep(Struct, frozen=True):
    """A target of a model, and the model's name there (empty: the requested name)."""

    target: str
    model: str = ""
    weight: float = 1.0
    """Its share of the conversations, in proportion to the others in its group."""
    is_alternative: bool = False
    """Whether it is in one group with the step before it. Otherwise it is tried if that has failed."""


class ModelRoute(Struct, frozen=True, kw_only=True):
    """A model's name, and its targets: a fallback chain of groups, most of which have a single target."""

    name: str
    steps: tuple[RouteStep, ...]

    @property
    def groups(self) -> list[list[RouteStep]]:
        found: list[list[RouteStep]] = []
        for step in self.steps:
            if step.is_alternative and found:
                found[-1].append(step)
            else:
                found.append([step])
        return found


class Routing(Struct, frozen=True, kw_only=True):
    """How turns are distributed over keys and targets."""

    affinity: bool = True
    """Whether all turns of a conversation go to the same key and target; if not, each goes to any of them."""
    prompt_cache_key: bool = True
    """Whether one is derived for clients that send none."""
    eject_after: int = 5
    """Failures in a row after which a target is left out for a while; 0: never."""
    eject_time: float = 10.0
    """Seconds until an ejected target is tried again. They double while it keeps failing."""
    eject_time_max: float = 300.0

    @property
    def ejection(self) -> EjectionRule:
        return EjectionRule(after=self.eject_after, seconds=self.eject_time, most_seconds=self.eject_time_max)


class ClientKey(Struct, frozen=True, kw_only=True):
    """A client's API key as a hash: the key itself is stored nowhere."""

    name: str
    digest: bytes
    """The SHA-256 of the key. A key is 256 random bits, so nothing slower is needed."""
    accent: str = ""
    """The event naming for this client; empty: detected from its requests."""
    admin: bool = False
    """May see what the gateway does for other clients: their turns, and all of `/metrics`."""
    expires_at: float | None = None
    """Seconds since 1970; from then on the key is refused. None: never."""
    previous_digest: bytes = b""
    """The SHA-256 of the key before the last rotation, which is accepted until `previous_until`."""
    previous_until: float = 0.0
    models: tuple[str, ...] = ()
    """The names that its requests may ask for; `gpt-*` stands for every name that begins so. Empty: all."""
    limits: KeyLimits = KeyLimits()
    """What the key may use."""

    def may_use(self, model: str) -> bool:
        """Return whether a request with this key may name this model."""
        return not self.models or any(
            model.startswith(name[:-1]) if name.endswith(EVERY) else model == name for name in self.models
        )

    def __repr__(self) -> str:
        return f"ClientKey({self.name!r})"


class Limits(Struct, frozen=True, kw_only=True):
    """Limits and timeouts; times are in seconds."""

    body_bytes: int = 64 * MIB
    """Size of a request after decompression. The specification allows files of 32 MiB in it."""
    answer_bytes: int = 64 * MIB
    """Size of an upstream's response: a model that does not stop must not fill the memory."""
    output_items: int = 10_000
    """Items of an upstream's response: each takes far more memory and time than its bytes on the wire."""
    input_items: int = 20_000
    """Input items of a request. Many small items take longer to decode than their size suggests."""
    tools: int = 4096
    """Tools of a request, including those in namespaces and those declared by input items."""
    content_parts: int = 50_000
    """Content parts of all items of a request together."""
    body_values: int = 500_000
    """JSON values of a request anywhere in it: in a schema, an enum, metadata. Each takes memory."""
    patience: float = 5.0
    """How long a failure can still become an HTTP status; then the stream begins (decision 9)."""
    comment_every: float = 15.0
    """Silence after which a comment line is sent; proxies count it as activity."""
    event_every: float = 60.0
    """Silence after which `response.in_progress` is repeated; Codex counts only events (decision 10)."""
    retries: int = 2
    """Retries at one target before the next target of the chain is tried."""
    retry_wait: float = 30.0
    """Total time that one turn may wait for retries; a longer `retry-after` is passed on to the client."""
    client_timeout: float | None = 300.0
    """A client that reads nothing for this long is treated as disconnected."""
    disconnect_grace: float = 0.0
    """How long a stored stream runs on after a disconnect, for a client that reconnects (decision 16)."""
    drain: float = 30.0
    """How long running turns may continue when the gateway shuts down."""
    store_days: int = 30
    """How many days a response is stored."""
    ledger_days: int = 400
    """How many days the ledger has a record of a turn. It contains no content."""
    store_bytes: int = 10 * 1024 * MIB
    """Maximum size of the store; beyond it, the oldest responses are deleted."""
    max_turns: int = 0
    """Concurrent turns; 0: unlimited. Requests beyond the limit get a 503 at once (ask J5)."""
    connections: int = 0
    """Connections of clients; 0: half of the files that the process may open. Beyond the limit, the longest
    idle connection is closed for a new one; if none is idle, a request gets a 503."""


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """What is exported to OpenTelemetry; the `OTEL_*` environment variables say where to."""

    enabled: bool = False
    content: bool = False
    """Whether prompts, answers and the arguments of tools are exported."""
    propagate: bool = False
    """Whether upstreams get the gateway's own trace context instead of the client's."""


class Settings(Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8080
    metrics: tuple[str, int] | None = None
    """The address that serves only `/metrics`, `/healthz` and `/readyz`, without a key; None: none."""
    metrics_digest: bytes = b""
    """The SHA-256 of the token for `/metrics`; empty: there is none."""
    tls_cert: str = ""
    """The file with the certificate chain; empty: the gateway speaks plain HTTP."""
    tls_key: str = ""
    """The file with the private key of `tls_cert`."""
    log_level: str = "info"
    store: str = ""
    """The file for responses, or the URL of a database; empty: a file in the user's data folder; `none`: a
    bounded in-memory store."""
    store_direct_url: str = ""
    """The URL of the database behind a pooler; empty: there is no pooler."""
    redis: str = ""
    """The URL of a server for messages between workers; empty: they go through the database."""
    workers: int = 1
    """Processes that share the address and the store; 0: one for each processor."""
    record: bool = False
    """Store the upstreams' bytes with the responses, for `penstock replay`."""
    targets: tuple[UpstreamTarget, ...] = ()
    models: Mapping[str, ModelRoute] = {}
    aliases: Mapping[str, str] = {}
    """Alternative names of models; `*` stands for every name that is not defined otherwise."""
    passthrough: str = ""
    """The target that gets every other model name unchanged; empty: there is none."""
    default_model: str = ""
    """The model of requests that name none."""
    overrides: tuple[Override, ...] = ()
    keys: tuple[ClientKey, ...] = ()
    accents: Mapping[str, str] = {}
    """Event naming by User-Agent prefix, in lower case; checked before the built-in prefixes."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    websocket: bool = True
    """Whether WebSockets are accepted; if not, they are refused with a 426."""
    inspector: bool = True
    """Whether there is a web page at `/`, with its API; if not, `/` is JSON and the rest a 404."""
    limits: Limits = Limits()
    routing: Routing = Routing()
    telemetry: TelemetrySettings = TelemetrySettings()

    def __repr__(self) -> str:
        return f"Settings({self.host}:{self.port})"  # the URLs may contain passwords

    def names(self, model: str) -> bool:
        """Return whether the operator configured this name, or it is the demo model's."""
        return model == DEMO or model in self.models or model in self.aliases

    def route_of(self, model: str) -> ModelRoute | None:
        """Return the route of a model name, or None if it has none. An alias of an alias is not followed."""
        name = self.aliases.get(model, model)
        if not self.passthrough and name != DEMO and name not in self.models:
            name = self.aliases.get(EVERY, name)
        if name in self.models and name != DEMO:
            return self.models[name]
        target = DEMO if name == DEMO else self.passthrough
        return ModelRoute(name=name, steps=(RouteStep(target),)) if target else None
