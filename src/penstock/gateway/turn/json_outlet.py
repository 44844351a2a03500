"""Sends the result of a turn as one JSON response."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.gateway.errors import RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.gateway.refusals import refusal
from penstock.gateway.turn.outlets import LARGE_ANSWER, Head, QueuedOutlet
from penstock.gateway.turn.verdict import Verdict
from penstock.protocol.errors import ErrorBody, ErrorPayload, ResponseError
from penstock.protocol.events import TERMINAL, ErrorEvent, Event, LifecycleEvent
from penstock.protocol.large_json import encode_in_pieces
from penstock.protocol.response import Response
from penstock.protocol.wire import encode, to_builtins
from penstock.store.keeper import Keeper
from penstock.stream.accents import Accent


class JsonOutlet(QueuedOutlet):
    """Sends one JSON response at the end."""

    def __init__(
        self, exchange: Exchange, accent: Accent, keeper: Keeper, verdict: Verdict, head: Head
    ) -> None:
        super().__init__(accent, keeper, verdict)
        self._exchange = exchange
        self._head = head
        self._param: str | None = None
        """The `param` of the error event, for which a failed response has no field."""
        self._is_disconnected = False

    def keep(self, events: Sequence[Event]) -> None:
        self._is_disconnected = True
        self.write(events)

    def write(self, events: Sequence[Event], *, more: bool = False) -> bool:  # noqa: ARG002
        if not events:
            return self.is_ready
        # At the end, the response may be large.
        if not self.is_ready or events[-1].type in TERMINAL or not self._may_pass_on(events):
            self._queue(events)
            return False
        if self._keeper.logs_all:
            self._keeper.log(events)
        for event in events:
            self._learn(self._accent(event))
        return True

    async def _send_stored(self, events: Sequence[Event], *, is_large: bool) -> None:  # noqa: ARG002
        for event in map(self._accent, events):
            self._learn(event)
            if not self._is_disconnected and isinstance(event, LifecycleEvent) and event.type in TERMINAL:
                await self._answer(event)

    def _learn(self, event: Event) -> None:
        if isinstance(event, ErrorEvent):
            self._param = event.error.param

    def refuse(self, refused: RequestRefused) -> None:
        self._verdict.status = refused.status
        self._exchange.refuse(refused)

    def send_failure(self, response: Response) -> None:
        self._clear()
        error = response.error or ResponseError(
            code="internal_error", message="internal error in the gateway: see its log"
        )
        self.refuse(refusal(error.code, error.message))

    async def _answer(self, event: LifecycleEvent) -> None:
        """Send the response. A failure has an HTTP error status, and its body also contains the response with
        the output so far."""
        response, headers, status = event.response, self._head(), 200
        body: Response | ErrorBody = response
        if response.error is not None:
            failed, body = failed_body(
                response, response.error, self._param, self._verdict.retry_after or None
            )
            status, headers = failed.status, [*headers, *failed.headers]
        self._verdict.status = status
        self._verdict.last_event, self._verdict.last_sequence = event.type, event.sequence_number
        if self._verdict.bytes_in > LARGE_ANSWER:
            pieces = partial(encode_in_pieces, body)
            self._verdict.bytes_out = await self._exchange.answer_large(status, pieces, headers=headers)
        else:
            data = encode(body)
            self._verdict.bytes_out = len(data)
            self._exchange.answer(status, data, headers=headers)
        self._verdict.terminal_sent = True


def failed_body(
    response: Response, error: ResponseError, param: str | None = None, wait: float | None = None
) -> tuple[RequestRefused, ErrorBody]:
    """Return the HTTP error for a failed response that is not streamed, and its body with the output so
    far."""
    failed = refusal(error.code, error.message, wait=wait)
    payload = ErrorPayload(type=failed.type, code=failed.code, message=failed.message, param=param)
    return failed, ErrorBody(error=payload, extra={"response": to_builtins(response)})
