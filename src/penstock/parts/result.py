"""What is known of a response when its stream has ended, beside its parts."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import OpenResponsesError
from penstock.protocol.content import Annotation
from penstock.protocol.errors import Diagnostic
from penstock.protocol.usage import Usage


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
