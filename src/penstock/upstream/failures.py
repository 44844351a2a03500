"""What went wrong at an upstream, as an exception of `penstock.errors` with one of our own codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.dialects.plan import Dialect
from penstock.errors import KINDS, NotFoundError, OpenResponsesError, ServerError
from penstock.net.error_responses import refusal
from penstock.stream.deltas import ErrorDelta

if TYPE_CHECKING:
    from penstock.net.masking import Secrets
    from penstock.net.transport import Refusal


def failure_of(delta: ErrorDelta) -> OpenResponsesError:
    """A failure that was found inside of a stream, whose secrets were masked (`masking`)."""
    kind = KINDS.get(delta.code, ServerError)
    return kind(delta.message, code=delta.code, param=delta.param, retry_after=delta.retry_after)


def refusal_in(dialect: Dialect) -> Refusal:
    """How an answer that is no success is read: as the client reads it, but under our word for the failure.

    Clients decide by the code what to do next, and know ours; the vendor's is in no client's table.
    """

    def explain(
        status: int, headers: Mapping[str, str], body: bytes, secrets: Secrets, advice: str
    ) -> OpenResponsesError:
        error = refusal(status, headers, body, secrets, advice)
        if error.code != NotFoundError.default_code:  # it is the address that was not found, not the model
            error.code = dialect.classify(status, headers, body).code
        return error

    return explain
