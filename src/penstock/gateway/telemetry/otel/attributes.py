"""The attributes of spans: OpenTelemetry's GenAI conventions, and ours under `penstock.`. One table for each
kind of span; docs/telemetry.md is generated from them.

None of these attributes has content: no prompt, no output, no name of a tool, no key, no vendor's message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType

from penstock.gateway.telemetry.otel.otlp import Attributes, AttributeValue
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.request import CreateResponse, JsonObjectFormat, JsonSchemaFormat
from penstock.protocol.response import Response

OPERATION = "chat"
"""The convention's name for every request to a model that answers with messages."""

CALLS = (
    "function_call",
    "custom_tool_call",
    "tool_search_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
)
"""Items that the client must answer."""

INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}

T = TypeVar("T")


class GenAiServer(Struct, frozen=True):
    """An upstream as the conventions describe it."""

    provider: str
    address: str = ""
    port: int = 0


NO_SERVER = GenAiServer("")
"""Nothing was asked, or the target was removed meanwhile."""


class EndedTurn(Struct, frozen=True, kw_only=True):
    """What a turn's span is made of, when the turn has ended."""

    verdict: Verdict
    request: CreateResponse
    response: Response
    server: GenAiServer = NO_SERVER
    """The last upstream that was asked."""
    user_agent: str = ""
    cost: float | None = None


class EndedAttempt(Struct, kw_only=True):
    """One request to an upstream. Times are seconds since the turn began."""

    number: int
    target: str
    model: str
    span_id: bytes
    began: float
    wait: float = 0.0
    ended: float | None = None
    status: int = 0
    """The HTTP status; 0: there was no answer."""
    result: str = ""
    """As in `/metrics`: `answered`, or the error code; empty if it was stopped."""
    error: str = ""
    server: GenAiServer = NO_SERVER
    upstream_id: str = ""
    first_output: float = -1.0
    """Seconds since the attempt began."""
    is_failed: bool = False
    """Whether it ended because of an error, and was not stopped by its client."""


class SpanAttribute(Struct, Generic[T], frozen=True):
    """An attribute: its name, what it means, and where its value comes from. None, an empty text and an empty
    list are left out."""

    name: str
    help: str
    read: Callable[[T], AttributeValue | None]


def attributes_of(table: Iterable[SpanAttribute[T]], ended: T) -> Attributes:
    found = {each.name: each.read(ended) for each in table}
    return {name: value for name, value in found.items() if value is not None and value not in ("", [])}


def finish_reasons(response: Response) -> list[str]:
    """Return why the model stopped, in the words of the conventions; empty if it was stopped."""
    match response.status:
        case "completed":
            return ["tool_call" if any(item.type in CALLS for item in response.output) else "stop"]
        case "incomplete" if response.incomplete_details is not None:
            reason = response.incomplete_details.reason
            return [INCOMPLETE.get(reason, reason)]
        case "failed":
            return ["error"]
    return []


def is_error(verdict: Verdict) -> bool:
    """Return whether the turn is a failure of this side. A request that is refused because of itself is not,
    and neither is a turn that its client has cancelled."""
    return verdict.outcome == "failed" or (verdict.outcome == "refused" and verdict.status >= 500)


def _given(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def _positive(number: int) -> int | None:
    return number or None


def _output_type(turn: EndedTurn) -> str | None:
    if not turn.request.text or not turn.request.text.format:
        return None
    is_json = isinstance(turn.request.text.format, JsonSchemaFormat | JsonObjectFormat)
    return "json" if is_json else "text"


def _conversation(turn: EndedTurn) -> str | None:
    conversation = turn.request.conversation
    if not conversation:
        return None
    return conversation if isinstance(conversation, str) else conversation.id


def _first_chunk(turn: EndedTurn) -> float | None:
    first = turn.verdict.first_output_ms
    return first / 1000 if turn.verdict.stream and first >= 0 else None


def _error(turn: EndedTurn) -> str | None:
    return (turn.verdict.code or "_OTHER") if turn.verdict.outcome in ("failed", "refused") else None


_TurnTable = tuple[SpanAttribute[EndedTurn], ...]
_AttemptTable = tuple[SpanAttribute[EndedAttempt], ...]

TURN: _TurnTable = (
    SpanAttribute("gen_ai.operation.name", "always `chat`", lambda _: OPERATION),
    SpanAttribute(
        "gen_ai.provider.name",
        "the vendor of the last upstream, from its preset or else its dialect",
        lambda turn: turn.server.provider,
    ),
    SpanAttribute("gen_ai.request.model", "the model that the client named", lambda turn: turn.verdict.model),
    SpanAttribute(
        "gen_ai.response.model",
        "the name of the model at the last upstream",
        lambda turn: turn.verdict.upstream_model,
    ),
    SpanAttribute("gen_ai.response.id", "the id of the response", lambda turn: turn.verdict.response_id),
    SpanAttribute("gen_ai.conversation.id", "the conversation that the request continues", _conversation),
    SpanAttribute(
        "gen_ai.request.stream", "true if the response was streamed", lambda turn: turn.verdict.stream or None
    ),
    SpanAttribute("gen_ai.output.type", "`text` or `json`, if the request asks for one", _output_type),
    SpanAttribute(
        "gen_ai.request.max_tokens",
        "`max_output_tokens` of the request",
        lambda turn: _given(turn.request.max_output_tokens),
    ),
    SpanAttribute(
        "gen_ai.request.temperature", "of the request", lambda turn: _given(turn.request.temperature)
    ),
    SpanAttribute("gen_ai.request.top_p", "of the request", lambda turn: _given(turn.request.top_p)),
    SpanAttribute(
        "gen_ai.request.presence_penalty",
        "of the request",
        lambda turn: _given(turn.request.presence_penalty),
    ),
    SpanAttribute(
        "gen_ai.request.frequency_penalty",
        "of the request",
        lambda turn: _given(turn.request.frequency_penalty),
    ),
    SpanAttribute(
        "gen_ai.response.finish_reasons",
        "`stop`, `tool_call`, `length`, `content_filter` or `error`; none if the turn was cancelled",
        lambda turn: finish_reasons(turn.response) if turn.verdict.outcome != "refused" else [],
    ),
    SpanAttribute(
        "gen_ai.response.time_to_first_chunk",
        "seconds until the first output of a streamed response",
        _first_chunk,
    ),
    SpanAttribute(
        "gen_ai.usage.input_tokens",
        "with cached tokens; as in the ledger",
        lambda turn: _positive(turn.verdict.input_tokens),
    ),
    SpanAttribute(
        "gen_ai.usage.output_tokens",
        "with reasoning tokens; as in the ledger",
        lambda turn: _positive(turn.verdict.output_tokens),
    ),
    SpanAttribute(
        "gen_ai.usage.cache_read.input_tokens",
        "tokens that the upstream read from its cache",
        lambda turn: _positive(turn.verdict.cached_tokens),
    ),
    SpanAttribute(
        "gen_ai.usage.cache_creation.input_tokens",
        "tokens that the upstream wrote to its cache",
        lambda turn: _positive(turn.verdict.cache_write_tokens),
    ),
    SpanAttribute(
        "gen_ai.usage.reasoning.output_tokens",
        "tokens of reasoning",
        lambda turn: _positive(turn.verdict.reasoning_tokens),
    ),
    SpanAttribute("error.type", "the error code, if the turn failed or was refused", _error),
    SpanAttribute(
        "http.response.status_code",
        "the HTTP status of the response; missing if the client had disconnected before",
        lambda turn: _positive(turn.verdict.status),
    ),
    SpanAttribute(
        "user_agent.original", "the client's program, as it names itself", lambda turn: turn.user_agent
    ),
    SpanAttribute(
        "penstock.request_id",
        "the request id, as in the log and in messages",
        lambda turn: turn.verdict.request_id,
    ),
    SpanAttribute(
        "penstock.outcome",
        "`completed`, `incomplete`, `failed`, `cancelled`, or `refused` if it ended with an HTTP error",
        lambda turn: turn.verdict.outcome,
    ),
    SpanAttribute(
        "penstock.closer",
        "who ended the turn: `upstream`, `client`, `gateway` or `timeout`",
        lambda turn: turn.verdict.closer,
    ),
    SpanAttribute(
        "penstock.terminal_sent",
        "whether the client was sent its terminal event",
        lambda turn: turn.verdict.terminal_sent,
    ),
    SpanAttribute(
        "penstock.diagnostics",
        "the [codes](diagnostics.md) of what was dropped, degraded or repaired",
        lambda turn: turn.verdict.diagnostics,
    ),
    SpanAttribute("penstock.client", "the name of the client's key", lambda turn: turn.verdict.client),
    SpanAttribute("penstock.target", "the last target that was asked", lambda turn: turn.verdict.target),
    SpanAttribute("penstock.attempts", "requests to upstreams", lambda turn: turn.verdict.attempts),
    SpanAttribute("penstock.accent", "the event naming", lambda turn: turn.verdict.accent),
    SpanAttribute(
        "penstock.background", "true for a background turn", lambda turn: turn.response.background or None
    ),
    SpanAttribute("penstock.cost", "dollars, if the price of the model is known", lambda turn: turn.cost),
    SpanAttribute(
        "penstock.usage_estimated",
        "true if the upstream reported no usage",
        lambda turn: turn.verdict.usage_estimated or None,
    ),
    SpanAttribute(
        "penstock.overhead_ms",
        "the time that the gateway itself added",
        lambda turn: turn.verdict.overhead_ms,
    ),
    SpanAttribute(
        "penstock.idle_ms",
        "the time since the upstream's last byte, at the end",
        lambda turn: turn.verdict.idle_ms,
    ),
    SpanAttribute("penstock.bytes_in", "bytes from upstreams", lambda turn: turn.verdict.bytes_in),
    SpanAttribute("penstock.bytes_out", "bytes to the client", lambda turn: turn.verdict.bytes_out),
    SpanAttribute(
        "penstock.heartbeats", "heartbeats that were sent", lambda turn: _positive(turn.verdict.heartbeats)
    ),
)
"""The span of a turn (kind: server)."""


ATTEMPT: _AttemptTable = (
    SpanAttribute("gen_ai.operation.name", "always `chat`", lambda _: OPERATION),
    SpanAttribute(
        "gen_ai.provider.name",
        "the vendor, from the target's preset or else its dialect",
        lambda attempt: attempt.server.provider,
    ),
    SpanAttribute(
        "gen_ai.request.model", "the name of the model at this upstream", lambda attempt: attempt.model
    ),
    SpanAttribute(
        "gen_ai.response.id", "the upstream's id of its answer", lambda attempt: attempt.upstream_id
    ),
    SpanAttribute(
        "gen_ai.response.time_to_first_chunk",
        "seconds from this request until its first output",
        lambda attempt: attempt.first_output if attempt.first_output >= 0 else None,
    ),
    SpanAttribute(
        "server.address",
        "the host of the upstream; of the built-in model there is none",
        lambda attempt: attempt.server.address,
    ),
    SpanAttribute("server.port", "its port", lambda attempt: _positive(attempt.server.port)),
    SpanAttribute(
        "http.response.status_code", "the status of its answer", lambda attempt: _positive(attempt.status)
    ),
    SpanAttribute(
        "http.request.resend_count",
        "how many attempts there were before, if any",
        lambda attempt: _positive(attempt.number - 1),
    ),
    SpanAttribute("error.type", "the error code, if the attempt failed", lambda attempt: attempt.error),
    SpanAttribute("penstock.target", "the name of the target", lambda attempt: attempt.target),
    SpanAttribute("penstock.attempt", "the number of the attempt, from 1", lambda attempt: attempt.number),
    SpanAttribute(
        "penstock.attempt.wait",
        "seconds that the turn waited before this retry",
        lambda attempt: attempt.wait or None,
    ),
)
"""The span of a request to an upstream (kind: client), below that of its turn."""

CONTENT = {
    "gen_ai.system_instructions": "`instructions` of the request",
    "gen_ai.input.messages": "the input, with the history of a continued response or conversation",
    "gen_ai.output.messages": "the output as the client got it, also if the turn failed or was cancelled",
}
"""The attributes of a turn's span that are exported only with `content = true`."""


def as_markdown(table: Iterable[SpanAttribute[T]]) -> str:
    """Return a table of docs/telemetry.md."""
    rows = [f"| `{each.name}` | {each.help} |" for each in table]
    return "\n".join(["| attribute | meaning |", "|---|---|", *rows])
