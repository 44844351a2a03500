"""What happens between the gateway and the upstreams of a turn: written by `Tracer`, read by `read_trace`.

The store keeps each as a `Trace`: a kind, a time, a size, and the record of that kind as JSON (of a read, the
bytes themselves). `penstock explain` and `penstock replay` read them, also those of earlier versions, so a
field may be added with a default, and none may be renamed.

Keys are sent by the transport and do not come by here; where an upstream repeats one, it is masked (ask K3).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from penstock import errors
from penstock.dialects.plan import Plan, Target, UpstreamRequest
from penstock.errors import DecodeError, NetworkError, OpenResponsesError, ProtocolError
from penstock.gateway.history.chains import public_request
from penstock.gateway.refusals import code_of
from penstock.protocol.tools import SECRETS
from penstock.protocol.wire import encode
from penstock.store.contract import Trace

if TYPE_CHECKING:
    from penstock.net.source import UpstreamSource
    from penstock.upstream.attempts import Attempt

LONGEST_KEY = 4096
LONGEST_BODY = 1024 * 1024
"""Bytes. An agent sends its whole history with every turn: a day of large ones would fill the store."""

NO_BODY = Raw(b"null")


class PlanTrace(Struct, frozen=True, kw_only=True):
    """What the plan of an attempt can be made from again; its tools are those of the request.

    Written before the request, and only where the gateway records.
    """

    request: Raw
    target: Target
    used_call_ids: list[str]
    accent: str


class RequestTrace(Struct, frozen=True, kw_only=True):
    """An upstream was asked: an attempt begins. The size of the trace is that of the body as it was sent."""

    target: str = ""
    model: str = ""
    dialect: str = ""
    attempt: int = 0
    headers: dict[str, str] = {}
    body: Raw = NO_BODY
    """Without secrets; `NO_BODY` for one that is too long to be kept."""


class AnswerTrace(Struct, frozen=True, kw_only=True):
    """The upstream answered: a status and headers, and the body is still to come."""

    status: int = 0
    content_type: str = ""
    request_id: str | None = None


class ReadTrace(Struct, frozen=True):
    """A piece of the body came. `data` is empty where the gateway does not record."""

    size: int
    data: bytes = b""

    @property
    def is_end(self) -> bool:
        return not self.size


class FailureTrace(Struct, frozen=True, kw_only=True):
    """The attempt failed: before an answer, in the middle of one, or by what the answer says."""

    code: str = ""
    message: str = ""
    """The upstream's own words: they may repeat what was said to it."""
    status: int | None = None
    kind: str = ""
    """The name of the exception: what a turn does about a failure depends on it."""
    phase: str | None = None
    retry_after: float | None = None
    param: str | None = None

    @classmethod
    def of(cls, error: OpenResponsesError) -> FailureTrace:
        return cls(
            code=code_of(error),
            message=error.message,
            status=error.status,
            kind=type(error).__name__,
            phase=error.phase,
            retry_after=error.retry_after,
            param=error.param,
        )

    def error(self) -> OpenResponsesError:
        """The exception again; of a kind that this version does not have, the one that all are."""
        kind = getattr(errors, self.kind, None)
        known = isinstance(kind, type) and issubclass(kind, OpenResponsesError)
        make: Callable[..., OpenResponsesError] = kind if known and kind is not None else OpenResponsesError
        return make(
            self.message,
            code=self.code,
            status=self.status,
            phase=self.phase,
            param=self.param,
            retry_after=self.retry_after,
        )

    @property
    def is_a_break(self) -> bool:
        """Did the connection fail? Else the turn found the failure in the bytes, and must find it again."""
        return self.kind in (NetworkError.__name__, ProtocolError.__name__)


TraceRecord = PlanTrace | RequestTrace | AnswerTrace | ReadTrace | FailureTrace

READ = "read"
_RECORDS: dict[str, type[PlanTrace | RequestTrace | AnswerTrace | FailureTrace]] = {
    "plan": PlanTrace,
    "request": RequestTrace,
    "answer": AnswerTrace,
    "failure": FailureTrace,
}
_KINDS = {record: kind for kind, record in _RECORDS.items()}
_EMPTY: dict[str, TraceRecord] = {
    "request": RequestTrace(),
    "answer": AnswerTrace(),
    "failure": FailureTrace(),
}


def decode_trace(trace: Trace) -> TraceRecord | None:
    """The record of a trace; None for a kind that this version does not know.

    `DecodeError` says what is wrong with one that cannot be read.
    """
    if trace.kind == READ:
        return ReadTrace(trace.size, trace.data)
    record = _RECORDS.get(trace.kind)
    if record is None:
        return None
    try:
        return msgspec.json.decode(trace.data, type=record)
    except msgspec.MsgspecError as error:
        raise DecodeError(str(error)) from None


def read_trace(trace: Trace) -> TraceRecord | None:
    """The same for those who make do with what there is: of what cannot be read, an empty record."""
    try:
        return decode_trace(trace)
    except DecodeError:
        return _EMPTY.get(trace.kind)


class Tracer:
    """`keep` gets each trace as it happens. Where the gateway records, the upstream's bytes are in them."""

    def __init__(
        self,
        keep: Callable[[Trace], None],
        *,
        is_recording: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keep, self._is_recording, self._clock = keep, is_recording, clock
        self._mask: Callable[[bytes, bytes], bytes] | None = None
        self._before = b""
        """The end of what was read: a key may be cut in two."""

    def body_of(self, rendered: UpstreamRequest) -> bytes:
        """The body as it is traced; empty for one that is too long."""
        is_kept = self._is_recording or len(rendered.data) <= LONGEST_BODY
        return _encoded(rendered) if is_kept else b""

    def request(self, attempt: Attempt, plan: Plan, rendered: UpstreamRequest, body: bytes) -> None:
        """`body` is what `body_of` gave."""
        if self._is_recording:
            self._note(_plan_trace(plan))
        record = RequestTrace(
            target=attempt.upstream.name,
            model=attempt.model,
            dialect=plan.target.dialect,
            attempt=attempt.number,
            headers=rendered.headers,
            body=Raw(body) if body else NO_BODY,
        )
        self._note(record, len(rendered.data))

    def answer(self, answer: UpstreamSource) -> None:
        record = AnswerTrace(
            status=answer.status, content_type=answer.content_type, request_id=answer.request_id
        )
        self._note(record)
        self._mask, self._before = answer.mask_bytes, b""

    def read(self, data: bytes) -> None:
        kept = b""
        if self._is_recording and self._mask is not None:
            kept = self._mask(data, self._before)
            self._before = (self._before + data)[-LONGEST_KEY:]
        self._keep(Trace(READ, self._clock(), kept, len(data)))

    def failure(self, error: OpenResponsesError) -> None:
        self._note(FailureTrace.of(error))

    def _note(self, record: PlanTrace | RequestTrace | AnswerTrace | FailureTrace, size: int = 0) -> None:
        self._keep(Trace(_KINDS[type(record)], self._clock(), msgspec.json.encode(record), size))


def _encoded(rendered: UpstreamRequest) -> bytes:
    """A rendered body without a client's keys to its own servers, wherever tools stand in it."""
    data = rendered.data
    if not any(b'"%s"' % name.encode() in data for name in SECRETS):
        return data  # to search is quicker than to walk
    return msgspec.json.encode(_public(rendered.body))


def _public(value: Any) -> Any:
    if isinstance(value, list):
        return [_public(each) for each in value]
    if not isinstance(value, dict):
        return value
    walked = {name: _public(each) for name, each in value.items()}
    if isinstance(tools := walked.get("tools"), list):
        walked["tools"] = [_without_secrets(tool) for tool in tools]
    return walked


def _without_secrets(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    return {name: value for name, value in tool.items() if name not in SECRETS}


def _plan_trace(plan: Plan) -> PlanTrace:
    return PlanTrace(
        request=Raw(encode(public_request(plan.request))),
        target=plan.target,
        used_call_ids=sorted(plan.used_call_ids),
        accent=plan.accent,
    )
