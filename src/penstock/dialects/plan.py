"""The interface of a dialect, and the plan that it works from.

A plan is built before anything is sent: the request with its history resolved, the target, and the names of
the tools there. It is frozen; a dialect reads it and keeps its own state in its reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from penstock.failures import Failure
from penstock.protocol.errors import Diagnostic
from penstock.protocol.request import CreateResponse
from penstock.sse import Frame
from penstock.stream.deltas import Delta
from penstock.tools.identity import ToolIdentityMap


class Quirks(Struct, frozen=True):
    """The peculiarities of a vendor or a model, as data. The defaults suit most servers.

    Reading: `think_tags` reads `<think>…</think>` in the text as reasoning; `tool_markup` reads tool calls
    that a local model writes as text. Both are opt-in per model and never guessed.

    Rendering: `system_first` requires exactly one system message, at the start.
    """

    think_tags: bool = False
    tool_markup: bool = False
    system_first: bool = True
    developer_role: bool = False
    reasoning_field: str = ""
    """The field of an assistant message that sends reasoning back: "reasoning_content", "reasoning"."""
    reasoning_details: bool = False
    """Reasoning is sent back as OpenRouter's `reasoning_details`."""
    requires_reasoning: bool = False
    """A message with calls is refused without `reasoning_field` while the model thinks."""
    drops_old_reasoning: bool = False
    """Reasoning from before the last user message must not be sent again."""
    effort: str = ""
    """How to request an effort: a row of `presets.efforts`, or of the dialect's own effort table."""
    max_tokens_field: str = "max_tokens"
    strict_tools: bool = True
    json_schema: bool = True
    images: bool = True
    files: bool = False
    parallel_tool_calls: bool = True
    tool_choice: bool = True
    stream_usage: bool = True


class Target(Struct, frozen=True):
    """A model at an upstream."""

    model: str
    vendor: str = ""
    dialect: str = "chat"
    family: str = ""
    """The family of models within which sealed reasoning can be sent back: `claude`, `gemini`, `gpt`."""
    key_fingerprint: str = ""
    """Identifies the key without revealing it: encrypted reasoning may be bound to the key."""
    quirks: Quirks = Quirks()


class Plan(Struct, frozen=True):
    """Everything needed to render a turn's request and read its answer."""

    request: CreateResponse
    target: Target
    tools: ToolIdentityMap = field(default_factory=ToolIdentityMap)
    used_call_ids: frozenset[str] = frozenset()
    accent: str = "openresponses"
    cache_key: str = ""
    """A `prompt_cache_key` for a client that sends none, for upstreams that route by it."""


class ConnectionSpec(Struct, frozen=True, kw_only=True):
    """How to connect to a server of a dialect, apart from the requests themselves."""

    endpoint: str = ""
    """A pattern for the path's end, to recognise the URL of an endpoint where a base URL is expected."""
    version: str = "/v1"
    """The path to append to a base URL that names only a host."""
    is_versioned_everywhere: bool = False
    """Append the version to every base URL without one, as the libraries of some vendors do."""
    key_header: str = "bearer"
    """How to send a key, unless the vendor's row differs: a row of `presets.KEY_HEADERS`."""
    headers: Mapping[str, str] = {}
    """Headers of every request, including the one for the list of models."""


class UpstreamRequest(Struct, frozen=True):
    """A rendered request: a path under the base URL, a body, headers without secrets."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    echo: Mapping[str, str | None] = {}
    """What the response must echo instead of the client's values, because something else was sent: `effort`
    and `service_tier` (field F16). None: nothing was sent."""
    data: bytes = b""
    """The body as JSON, if it is already encoded."""


class Reader(Protocol):
    """Reads one answer, and holds the state of reading it."""

    @property
    def is_over(self) -> bool:
        """Whether the upstream marked its end. Servers may keep the connection open after that (ask A10)."""

    def feed(self, frame: Frame) -> list[Delta]:
        """Return the deltas of one frame. An invalid frame gives an `ErrorDelta`; nothing is raised."""

    def end(self) -> list[Delta]:
        """Return the last deltas: the upstream has ended. If it sent no reason, add `FinishDelta` or
        `ErrorDelta`."""


class ReadDialect(Protocol):
    """An API format that can be read."""

    name: str

    def reader(self, plan: Plan) -> Reader:
        """Return a reader for the streamed answer to this plan."""

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        """Return the deltas of an answer that is not streamed, as if it were, including its end."""

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Classify an error response."""


class Dialect(ReadDialect, Protocol):
    """An API format that can be read and rendered."""

    connection: ConnectionSpec

    def render(self, plan: Plan) -> UpstreamRequest:
        """Return the request in this upstream's format."""
