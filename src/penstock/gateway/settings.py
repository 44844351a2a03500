"""What a gateway can be told, in one frozen value. `config` reads it from `penstock.toml`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from penstock.models.overrides import Override
from penstock.upstream.target import UpstreamTarget

DEMO = "demo"
"""The model that is always there."""

EVERY = "*"
"""The alias for every name that nothing else has."""

MIB = 1024 * 1024
LOG_LEVELS = ("debug", "info", "warning", "error")


class RouteStep(Struct, frozen=True):
    """One step of a fall-back chain: a target, and the model's name there (empty: the name asked for)."""

    target: str
    model: str = ""


class ModelRoute(Struct, frozen=True, kw_only=True):
    """A model's name, and where it is asked, in this order."""

    name: str
    steps: tuple[RouteStep, ...]


class ClientKey(Struct, frozen=True, kw_only=True):
    """A key of somebody who may use the gateway, as a hash: the key itself is written down nowhere."""

    name: str
    digest: bytes
    """The SHA-256 of the key. A key is 256 random bits, so nothing slower is needed."""
    accent: str = ""
    """What this client reads; empty: told from its request."""
    operator: bool = False
    """May see what the gateway does for others: all of `/metrics`."""

    def __repr__(self) -> str:
        return f"ClientKey({self.name!r})"


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds and waits; times are in seconds."""

    body_bytes: int = 64 * MIB
    """Of a request, after decompression. The specification allows a file of 32 MiB in it."""
    answer_bytes: int = 64 * MIB
    """Of an upstream's answer: a model that does not stop must not fill the memory."""
    input_items: int = 20_000
    """Of a request. Many small ones take longer to read than their bytes would tell."""
    tools: int = 4096
    """Of a request: those in namespaces and those that items of the input bring are counted as well."""
    content_parts: int = 50_000
    """Of all items of a request together."""
    body_values: int = 500_000
    """JSON values of a request, whatever holds them: a schema, an enum, metadata. Each takes memory."""
    patience: float = 5.0
    """How long a failure can still become an HTTP status; then the stream begins (decision 9)."""
    comment_every: float = 15.0
    """Silence after which a comment line is sent; proxies count it as life."""
    event_every: float = 60.0
    """Silence after which `response.in_progress` is repeated; Codex counts only events (decision 10)."""
    retries: int = 2
    """How often one target is asked again before the next one of the chain."""
    retry_wait: float = 30.0
    """How long all waits of one turn may take together; a longer `retry-after` is the client's business."""
    client_timeout: float | None = 300.0
    """A client that takes nothing for so long has gone."""
    disconnect_grace: float = 0.0
    """How long a stored stream goes on for a client that comes back with `starting_after` (decision 16)."""
    drain: float = 30.0
    """How long running turns may go on when the gateway is asked to stop."""
    store_days: int = 30
    """How long a response is kept."""
    store_bytes: int = 10 * 1024 * MIB
    """How large the store may become; then the oldest go."""
    max_turns: int = 0
    """Turns at one time; 0: as many as come. Beyond it 503 says so at once (ask J5)."""


class Settings(Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8080
    log_level: str = "info"
    store: str = ""
    """The file that responses are kept in; empty: in the user's data folder; `none`: in memory, bounded."""
    record: bool = False
    """Keep the upstreams' bytes with what is stored, for `penstock replay`."""
    targets: tuple[UpstreamTarget, ...] = ()
    models: Mapping[str, ModelRoute] = {}
    aliases: Mapping[str, str] = {}
    """Another name for a model; `*` stands for every name that nothing else has."""
    passthrough: str = ""
    """The target that takes every other model's name as it is; empty: there is none."""
    default_model: str = ""
    """For requests that name none."""
    overrides: tuple[Override, ...] = ()
    keys: tuple[ClientKey, ...] = ()
    accents: Mapping[str, str] = {}
    """By the beginning of a User-Agent, in small letters; before those that are known anyway."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    websocket: bool = True
    """Whether a WebSocket is offered; else it is answered 426."""
    limits: Limits = Limits()

    def names(self, model: str) -> bool:
        """Is this a name that the operator gave, or the demo?"""
        return model == DEMO or model in self.models or model in self.aliases

    def route_of(self, model: str) -> ModelRoute | None:
        """Where a model's name leads; None for one that leads nowhere. Aliases lead to no other alias."""
        name = self.aliases.get(model, model)
        if not self.passthrough and name != DEMO and name not in self.models:
            name = self.aliases.get(EVERY, name)
        if name in self.models and name != DEMO:
            return self.models[name]
        target = DEMO if name == DEMO else self.passthrough
        return ModelRoute(name=name, steps=(RouteStep(target),)) if target else None
