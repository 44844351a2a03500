"""The response resource, which every snapshot contains.

Every snapshot is written with all 31 fields that the specification requires. Each has a valid default, so an
incomplete snapshot from an upstream is complete when it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.protocol.content import JsonValue, OutputText
from penstock.protocol.errors import Diagnostic, IncompleteDetails, ResponseError
from penstock.protocol.items import Item, Message
from penstock.protocol.request import (
    ConversationReference,
    CreateResponse,
    Format,
    JsonObjectFormat,
    JsonSchemaFormat,
    TextFormat,
    declared_tools,
)
from penstock.protocol.tools import FunctionTool, Tool, ToolChoice, public_tools
from penstock.protocol.wire import Seconds, Wire


class TextField(Wire):
    format: Format = TextFormat()
    verbosity: str | UnsetType = UNSET


class ReasoningField(Wire):
    effort: str | None = None
    summary: str | None = None


class InputTokensDetails(Wire):
    """`cache_write_tokens` is not in the specification, but openai-python requires it: always written."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(Wire):
    reasoning_tokens: int = 0


class Usage(Wire):
    """`input_tokens` includes cached tokens, `output_tokens` includes reasoning tokens. Both details objects
    are always present: clients read them without checking (ask A7)."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = InputTokensDetails()
    output_tokens_details: OutputTokensDetails = OutputTokensDetails()


class Response(Wire, kw_only=True):
    id: str
    object: str = "response"
    created_at: Seconds = 0
    completed_at: Seconds | None = None
    status: str = "in_progress"
    incomplete_details: IncompleteDetails | None = None
    model: str = ""
    previous_response_id: str | None = None
    instructions: str | list[Item] | None = None  # a list only from OpenAI, for stored prompts
    output: list[Item] = []
    error: ResponseError | None = None
    tools: list[Tool] = []
    tool_choice: ToolChoice = "auto"
    truncation: str = "disabled"
    parallel_tool_calls: bool = True
    text: TextField = TextField()
    top_p: float = 1
    temperature: float = 1
    presence_penalty: float = 0
    frequency_penalty: float = 0
    top_logprobs: int = 0
    reasoning: ReasoningField | None = ReasoningField()
    usage: Usage | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    store: bool = True
    background: bool = False
    service_tier: str = "default"
    metadata: JsonValue = {}  # an object from a caller; the schema allows anything
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    # Beyond the specification; written only if set.
    conversation: ConversationReference | UnsetType = UNSET
    diagnostics: list[Diagnostic] | UnsetType = UNSET

    @property
    def output_text(self) -> str:
        """The text of all messages, joined. Derived, so not sent."""
        return "".join(
            part.text
            for item in self.output
            if isinstance(item, Message) and not isinstance(item.content, str)
            for part in item.content
            if isinstance(part, OutputText)
        )


class CompactedResponse(Wire, kw_only=True):
    """The response to `POST /v1/responses/compact`."""

    id: str
    object: str = "response.compaction"
    output: list[Item] = []
    created_at: Seconds = 0
    usage: Usage = Usage()


_ECHOED = (
    "instructions",
    "previous_response_id",
    "truncation",
    "parallel_tool_calls",
    "top_p",
    "temperature",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "tool_choice",
)


_EFFORTS = {**{word: word for word in ("none", "low", "medium", "high", "xhigh")}, "minimal": "low"}
_SUMMARIES = ("concise", "detailed", "auto")
_VERBOSITIES = ("low", "medium", "high")
"""The values that a response can echo. Clients send others, which the published schema does not allow."""


def response_for(request: CreateResponse, *, id: str, created_at: int, model: str = "") -> Response:
    """Return the first snapshot of the response to `request`: it echoes the request's fields, normalised."""
    fields = {name: value for name in _ECHOED if (value := getattr(request, name)) is not UNSET}
    # With the tools of input items: a client may get calls to each of them, so it can check the calls.
    if tools := declared_tools(request):
        fields["tools"] = [
            tool.normalised() if isinstance(tool, FunctionTool) else tool for tool in public_tools(tools)
        ]
    if request.text:
        fields["text"] = TextField(
            format=_format_echo(request.text.format or TextFormat()),
            verbosity=request.text.verbosity if request.text.verbosity in _VERBOSITIES else UNSET,
        )
    fields |= echo_of(request)
    if request.conversation:
        conversation = request.conversation
        fields["conversation"] = (
            ConversationReference(id=conversation) if isinstance(conversation, str) else conversation
        )
    return Response(id=id, created_at=created_at, model=model or request.model or "", **fields)


def echo_of(request: CreateResponse, sent: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """Return the fields of a response that say how the request was honoured: `reasoning` and `service_tier`.

    `sent` has the values that the upstream was sent instead of the client's (field F16). Only what was asked
    for is echoed.
    """
    sent, fields = sent or {}, dict[str, Any]()
    if request.reasoning:
        effort = sent.get("effort", request.reasoning.effort or "")
        fields["reasoning"] = ReasoningField(
            effort=_EFFORTS.get(effort or ""), summary=_summary_echo(request.reasoning.summary or "")
        )
    if request.service_tier is not UNSET:
        fields["service_tier"] = sent.get("service_tier", request.service_tier) or "default"
    return fields


def _summary_echo(summary: str) -> str | None:
    """Return an unknown value as `auto`: every value asks for a summary (field F2)."""
    if summary in ("", "none"):
        return None
    return summary if summary in _SUMMARIES else "auto"


def _format_echo(format: Format) -> Format:
    """Return a JSON schema format with all fields that a response needs; an unknown format becomes text."""
    if not isinstance(format, JsonSchemaFormat):
        return format if isinstance(format, TextFormat | JsonObjectFormat) else TextFormat()
    return replace(
        format,
        description=None if format.description is UNSET else format.description,
        schema=None if format.schema is UNSET else format.schema,
        strict=bool(format.strict),
    )
