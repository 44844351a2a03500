"""The request bodies that a client sends."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from msgspec import UNSET, UnsetType

from penstock.errors import DecodeError
from penstock.protocol.content import JsonObject, JsonValue
from penstock.protocol.items import AdditionalTools, Item, ToolSearchOutput
from penstock.protocol.tools import Tool, ToolChoice
from penstock.protocol.wire import Wire


class TextFormat(Wire):
    type: str = "text"


class JsonObjectFormat(Wire):
    type: str = "json_object"


class JsonSchemaFormat(Wire):
    """`schema` is an object in a request; the published schema requires null in a response (spec S6)."""

    implied_by: ClassVar[str] = "schema"

    type: str = "json_schema"
    name: str = ""
    description: str | UnsetType | None = UNSET
    schema: JsonObject | UnsetType | None = UNSET
    strict: bool | UnsetType | None = UNSET


class UnknownFormat(Wire):
    """Any other format. The published schema allows a format without a `type`, even `{}`."""

    catch_all: ClassVar[bool] = True

    type: str | UnsetType = UNSET


Format = TextFormat | JsonObjectFormat | JsonSchemaFormat | UnknownFormat


class TextConfig(Wire):
    format: Format | UnsetType = UNSET
    verbosity: str | UnsetType = UNSET


class ReasoningConfig(Wire):
    effort: str | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET


class StreamOptions(Wire):
    include_obfuscation: bool | UnsetType = UNSET


class ConversationReference(Wire, kw_only=True):
    id: str


class CreateResponse(Wire):
    """`POST /v1/responses`. No field is required, and null means absent."""

    model: str | UnsetType = UNSET
    input: str | list[Item] | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    previous_response_id: str | UnsetType = UNSET
    conversation: str | ConversationReference | UnsetType = UNSET
    include: list[str] | UnsetType = UNSET
    tools: list[Tool] | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    max_tool_calls: int | UnsetType = UNSET
    text: TextConfig | UnsetType = UNSET
    reasoning: ReasoningConfig | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    truncation: str | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    stream_options: StreamOptions | UnsetType = UNSET
    background: bool | UnsetType = UNSET
    store: bool | UnsetType = UNSET
    service_tier: str | UnsetType = UNSET
    metadata: JsonObject | UnsetType = UNSET
    safety_identifier: str | UnsetType = UNSET
    prompt_cache_key: str | UnsetType = UNSET
    # Beyond the specification, sent by real clients (client 1).
    client_metadata: JsonObject | UnsetType = UNSET
    prompt_cache_retention: str | UnsetType = UNSET
    prompt_cache_options: JsonObject | UnsetType = UNSET
    user: str | UnsetType = UNSET
    prompt: JsonValue | UnsetType = UNSET
    context_management: JsonValue | UnsetType = UNSET
    moderation: JsonValue | UnsetType = UNSET
    access_programs: JsonValue | UnsetType = UNSET
    image: JsonValue | UnsetType = UNSET


def refuse_template(request: CreateResponse) -> None:
    """Refuse a prompt template: only the vendor that stores it can render it (field F17)."""
    if request.prompt is not UNSET:
        message = "prompt templates are not supported: send their text as `instructions` and `input`"
        raise DecodeError(message, "prompt")


# The values of `include`

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"

ALWAYS_INCLUDED = frozenset(
    {ENCRYPTED_REASONING, "message.input_image.image_url", "computer_call_output.output.image_url"}
)
"""Values that need no upstream: reasoning that must be sent back is always sealed, and stored input has its
images."""

SPECIFIED_INCLUDES = frozenset({ENCRYPTED_REASONING, LOGPROBS})
"""The values in the specification."""


def unsupported_includes(request: CreateResponse, supported: Collection[str] = ()) -> list[str]:
    """Return the values that neither this upstream nor the gateway honours, as names for a diagnostic."""
    honoured = ALWAYS_INCLUDED | frozenset(supported)
    return [f"include: {name}" for name in request.include or () if name not in honoured]


class WebSocketCreate(CreateResponse):
    """The same request as a WebSocket frame. Codex sends `generate: false` to warm up a connection."""

    type: str = "response.create"
    generate: bool | UnsetType = UNSET


class CompactRequest(Wire, kw_only=True):
    """`POST /v1/responses/compact`."""

    model: str
    input: str | list[Item] | UnsetType = UNSET
    previous_response_id: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    prompt_cache_key: str | UnsetType = UNSET


def declared_tools(request: CreateResponse) -> list[Tool]:
    """Return every tool of a request in a stable order: declared tools, then those of input items."""
    tools = list(request.tools or [])
    if isinstance(request.input, list):
        for item in request.input:
            if item.__class__ in _DECLARING:
                tools += item.tools
    return tools


_DECLARING = (AdditionalTools, ToolSearchOutput)
"""The items that declare tools. A class is compared, because a history may have thousands of items."""
