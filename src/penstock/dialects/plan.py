"""What a dialect is, and the plan that it works from.

A plan is made before anything is sent: the request with its history resolved, where it goes, and how the
tools are called there. It is frozen; a dialect reads it and keeps its own state in its reader.
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
    """What is special about a vendor or a model, as data. Everything is off by default.

    Reading: `think_tags` takes `<think>…</think>` out of the text as reasoning; `tool_markup` takes out tool
    calls that a local model writes as text. Both are opt-in per model and never guessed.

    Rendering: `system_first` wants exactly one system message, in front; the rest is said where it is used.
    """

    think_tags: bool = False
    tool_markup: bool = False
    system_first: bool = True
    developer_role: bool = False
    reasoning_field: str = ""
    """The field of an assistant message in which reasoning goes back: "reasoning_content", "reasoning"."""
    reasoning_details: bool = False
    """Reasoning goes back as OpenRouter's `reasoning_details`."""
    drops_old_reasoning: bool = False
    """Reasoning from before the last user message must not be sent again."""
    effort: str = ""
    """How an effort is asked for: a row of `presets.efforts`, or of the dialect's own effort table."""
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
    """The family of the model, as far as reasoning can be carried over: `claude`, `gemini`, `gpt`."""
    key_fingerprint: str = ""
    """Tells keys apart without giving one away: encrypted reasoning may be bound to the key."""
    quirks: Quirks = Quirks()


class Plan(Struct, frozen=True):
    """Everything that a turn needs to be rendered and read."""

    request: CreateResponse
    target: Target
    tools: ToolIdentityMap = field(default_factory=ToolIdentityMap)
    used_call_ids: frozenset[str] = frozenset()
    accent: str = "openresponses"


class ConnectionSpec(Struct, frozen=True, kw_only=True):
    """What a connection to a server of a dialect needs to know, besides the requests themselves."""

    endpoint: str = ""
    """A pattern for the end of a URL's path that is the URL of the endpoint and not of its base."""
    version: str = "/v1"
    """What a base URL that names only a host is meant with."""
    is_versioned_everywhere: bool = False
    """Is every base URL without a version meant with one? The libraries of some vendors add it."""
    key_header: str = "bearer"
    """How a key is sent unless the vendor wants it otherwise: a row of `presets.KEY_HEADERS`."""
    headers: Mapping[str, str] = {}
    """Sent with every request, also with one for the list of models."""


class UpstreamRequest(Struct, frozen=True):
    """A rendered request: a path under the base URL, a body, headers without secrets."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    data: bytes = b""
    """The body as JSON, where somebody has written it already."""


class Reader(Protocol):
    """Reads one answer. It keeps what it needs and has no other methods."""

    @property
    def is_over(self) -> bool:
        """Has the upstream said that it is done? Servers keep their connection open behind that (ask A10)."""

    def feed(self, frame: Frame) -> list[Delta]:
        """What one frame of the upstream says. One that cannot be read is an `ErrorDelta`, never a raise."""

    def end(self) -> list[Delta]:
        """The upstream has ended. If it did not say how, the reader does: `FinishDelta` or `ErrorDelta`."""


class ReadDialect(Protocol):
    """An upstream's language, as far as it is read."""

    name: str

    def reader(self, plan: Plan) -> Reader:
        """A reader for the streamed answer to this plan."""

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        """An answer that is not streamed, as the deltas of the same answer streamed, with its end."""

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer that is no success means."""


class Dialect(ReadDialect, Protocol):
    """An upstream's language, read and written."""

    connection: ConnectionSpec

    def render(self, plan: Plan) -> UpstreamRequest:
        """The request as this upstream wants it."""
