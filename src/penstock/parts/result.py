"""The result of a response stream. Without an answer it has an error: no stream ends silently (ask N1)."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import KINDS, InvalidRequestError, OpenResponsesError, ProtocolError
from penstock.failures import explain
from penstock.lenient import object_of, text_of
from penstock.parts.parts import TextPart
from penstock.protocol.content import Annotation, JsonObject
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import Usage


class StreamResult(Struct, frozen=True):
    """The result of one response. `status` is the endpoint's, or "" if the stream ended without one.

    `finish` is the reason that the model stopped: `stop`, `tool_calls`, `length`, `content_filter`,
    `cancelled`, `error`, or the endpoint's own reason for an incomplete response.
    """

    response_id: str | None = None
    model: str | None = None
    usage: Usage | None = None
    finish: str = "error"
    status: str = ""
    stored: bool = True
    """Whether the endpoint stores the response, so that a follow-up can reference it."""
    refused: bool = False
    annotations: list[Annotation] = []
    diagnostics: list[Diagnostic] = []
    """What was ignored, omitted or repaired."""
    error: OpenResponsesError | None = None
    """The reason that there is no complete answer. The parts before the error are still valid."""

    def raise_for_error(self) -> None:
        if self.error is not None:
            raise self.error


FINISHES = {"max_output_tokens": "length", "max_tokens": "length", "length": "length"}
"""The `finish` value for each reason of an incomplete response; other reasons are used unchanged."""

NO_ANSWER = {
    "length": "the model reached the limit on output tokens before it answered; raise max_output_tokens",
    "content_filter": "a content filter blocked the answer",
    "cancelled": "the response was cancelled before the model answered",
}
_INCOMPLETE = "the response ended before the model answered"


def finish_of(status: str, response: JsonObject, *, has_calls: bool) -> str:
    """Return the `finish` value of a response that did not fail."""
    if status == "completed":
        return "tool_calls" if has_calls else "stop"
    reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
    return "cancelled" if status == "cancelled" else FINISHES.get(reason, reason or "incomplete")


def no_answer(finish: str, *, malformed: str, has_thinking: bool) -> OpenResponsesError:
    """Return the error of a response without text, calls or data. Thinking is not an answer (decision 24)."""
    if malformed and finish in ("stop", "tool_calls"):
        message = f"the model called {malformed!r} with malformed arguments, and gave no other answer"
        return ProtocolError(message, code="malformed_tool_call")
    if finish in ("stop", "tool_calls"):
        output = "only reasoning and no answer" if has_thinking else "no answer"
        return ProtocolError(f"the model returned {output}", code="empty_response")
    if finish == "content_filter":
        return InvalidRequestError(NO_ANSWER[finish], code=finish)
    code = finish if finish == "incomplete" else f"incomplete_{finish}"
    return ProtocolError(NO_ANSWER.get(finish, _INCOMPLETE), code=code)


def error_part(message: str) -> TextPart:
    """Return an error as text, for hosts that do not show errors (decision 23)."""
    return TextPart(f"\n\n**Error:** {message}\n\n")


def has_message(payload: JsonObject) -> bool:
    """Return whether an error has a message."""
    nested = object_of(payload.get("error")) or payload
    return bool(text_of(nested.get("message")).strip() or text_of(payload.get("message")).strip())


def failure_of(payload: JsonObject) -> OpenResponsesError:
    """Return an error in a stream as the same exception as over HTTP, with the endpoint's own code."""
    error = explain(payload)
    nested = object_of(payload.get("error")) or payload
    return KINDS[error.code](
        error.message,
        code=text_of(nested.get("code")) or error.code,
        param=error.param,
        retry_after=error.retry_after,
        limit_tokens=error.limit_tokens,
        used_tokens=error.used_tokens,
    )
