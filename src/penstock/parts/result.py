"""What is known of a response when its stream has ended, and why there is no answer if there is none: a
stream never ends in silence (ask N1)."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import KINDS, InvalidRequestError, OpenResponsesError, ProtocolError
from penstock.failures import explain
from penstock.lenient import object_of, text_of
from penstock.protocol.content import Annotation, JsonObject
from penstock.protocol.errors import Diagnostic
from penstock.protocol.response import Usage


class StreamResult(Struct, frozen=True):
    """`status` is the endpoint's word, "" when the stream ended without one.

    `finish` says why the model stopped: `stop`, `tool_calls`, `length`, `content_filter`, `cancelled`,
    `error`, or the endpoint's own word for why the response is incomplete.
    """

    response_id: str | None = None
    model: str | None = None
    usage: Usage | None = None
    finish: str = "error"
    status: str = ""
    stored: bool = True
    """Does the endpoint keep the response, so that a follow-up can name it?"""
    refused: bool = False
    annotations: list[Annotation] = []
    diagnostics: list[Diagnostic] = []
    """What was ignored, left out or put right."""
    error: OpenResponsesError | None = None
    """Why there is no answer, or no whole one. The parts that came before it are still good."""

    def raise_for_error(self) -> None:
        if self.error is not None:
            raise self.error


FINISHES = {"max_output_tokens": "length", "max_tokens": "length", "length": "length"}
"""Why a response is incomplete, in the result's words; any other reason is its own word."""

NO_ANSWER = {
    "length": "the limit on output tokens was spent before there was an answer: raise max_output_tokens",
    "content_filter": "a content filter kept the answer back",
    "cancelled": "the response was cancelled before there was an answer",
}
_BROKEN_OFF = "the response ended before there was an answer"


def finish_of(status: str, response: JsonObject, *, called: bool) -> str:
    if status == "completed":
        return "tool_calls" if called else "stop"
    reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
    return "cancelled" if status == "cancelled" else FINISHES.get(reason, reason or "incomplete")


def no_answer(finish: str, *, flawed: str, thought: bool) -> OpenResponsesError:
    """The error of a response without text, call or data. Thinking alone is no answer (decision 24)."""
    if flawed and finish in ("stop", "tool_calls"):
        message = f"the model called {flawed!r} with arguments that are not whole, and gave no other answer"
        return ProtocolError(message, code="malformed_tool_call")
    if finish in ("stop", "tool_calls"):
        what = "thought and then gave no answer" if thought else "gave no answer"
        return ProtocolError(f"the model {what}", code="empty_response")
    if finish == "content_filter":
        return InvalidRequestError(NO_ANSWER[finish], code=finish)
    code = finish if finish == "incomplete" else f"incomplete_{finish}"
    return ProtocolError(NO_ANSWER.get(finish, _BROKEN_OFF), code=code)


def says_why(payload: JsonObject) -> bool:
    """Does an error say more than that there is one?"""
    nested = object_of(payload.get("error")) or payload
    return bool(text_of(nested.get("message")).strip() or text_of(payload.get("message")).strip())


def failure_of(payload: JsonObject) -> OpenResponsesError:
    """An error in a stream as the exception that it is over HTTP, with the endpoint's own code."""
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
