"""Traces of the traffic between a turn and its upstreams: written by `Tracer`, read by `read_trace`.

Each is stored as a `Trace`: a kind, a time, a size, and the record of that kind as JSON (for a read, the
bytes themselves). `penstock explain` and `penstock replay` read them, even those of earlier versions. So
fields may be added with a default, and none may be renamed.

Keys are added by the transport and do not appear here; if an upstream repeats one, it is masked (ask K3).
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
from penstock.gateway.turn.compaction import CompactingUpstream
from penstock.protocol.tools import SECRETS
from penstock.protocol.wire import encode
from penstock.store.records import Trace

if TYPE_CHECKING:
    from penstock.net.source import UpstreamSource
    from penstock.upstream.attempts import Attempt

LONGEST_KEY = 4096
LONGEST_BODY = 1024 * 1024
"""Bytes. An agent sends its whole history with every turn: a day of large requests would fill the store."""

NO_BODY = Raw(b"null")


class PlanTrace(Struct, frozen=True, kw_only=True):
    """What is needed to recreate the plan of an attempt; its tools are those of the request.

    Written before the request, and only if the gateway records.
    """

    request: Raw
    target: Target
    used_call_ids: list[str]
    accent: str
    compacts: bool = False
    """Whether the answer becomes a compaction item."""


class RequestTrace(Struct, frozen=True, kw_only=True):
    """A request was sent to an upstream: an attempt begins. The trace's size is that of the body as sent."""

    target: str = ""
    model: str = ""
    dialect: str = ""
    attempt: int = 0
    headers: dict[str, str] = {}
    body: Raw = NO_BODY
    """Without secrets; `NO_BODY` if it is too long to be stored."""


class AnswerTrace(Struct, frozen=True, kw_only=True):
    """The upstream answered with a status and headers; the body follows."""

    status: int = 0
    content_type: str = ""
    request_id: str | None = None


class ReadTrace(Struct, frozen=True):
    """A piece of the body was received. `data` is empty if the gateway does not record."""

    size: int
    data: bytes = b""

    @property
    def is_end(self) -> bool:
        return not self.size


class FailureTrace(Struct, frozen=True, kw_only=True):
    """The attempt failed: before an answer, in the middle of one, or because of its content."""

    code: str = ""
    message: str = ""
    """The upstream's own message, which may repeat parts of the request."""
    status: int | None = None
    kind: str = ""
    """The name of the exception, which determines how a turn handles the failure."""
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
        """Recreate the exception; if this version does not have its class, an `OpenResponsesError`."""
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
        """Whether the connection failed. If not, the failure is in the bytes, and a replay finds it there."""
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
    """Return the record of a trace; None for a kind that this version does not know.

    Raise `DecodeError` if it cannot be read.
    """
    if trace.kind == READ:
        return ReadTrace(trace.size, trace.data)
    record = _RECORDS.get(trace.kind)
    if record is None:
        return None
    try:
        return msgspec.json.decode(trace.data, type=record)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DecodeError(str(error)) from None


def read_trace(trace: Trace) -> TraceRecord | None:
    """Return the record of a trace like `decode_trace`, but an empty record if it cannot be read."""
    try:
        return decode_trace(trace)
    except DecodeError:
        return _EMPTY.get(trace.kind)


class Tracer:
    """Calls `keep` with each trace. If the gateway records, traces contain the upstream's bytes. Without
    `keep`, because the turn is not stored, nothing is traced."""

    __slots__ = ("_before", "_clock", "_is_recording", "_keep", "_mask", "is_on")

    def __init__(
        self,
        keep: Callable[[Trace], None] | None,
        *,
        is_recording: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keep, self._is_recording, self._clock = keep, is_recording, clock
        self.is_on = keep is not None
        self._mask: Callable[[bytes, bytes], bytes] | None = None
        self._before = b""
        """The end of the previous read: a key may be split across two reads."""

    def body_of(self, rendered: UpstreamRequest) -> bytes:
        """Return the body for the trace; empty if it is too long, or nothing is traced."""
        is_stored = self._is_recording or len(rendered.data) <= LONGEST_BODY
        return _encoded(rendered) if is_stored and self._keep is not None else b""

    def request(self, attempt: Attempt, plan: Plan, rendered: UpstreamRequest, body: bytes) -> None:
        """Trace a request. `body` is the result of `body_of`."""
        if self._keep is None:
            return
        if self._is_recording:
            self._write(_plan_trace(plan, compacts=isinstance(attempt.upstream, CompactingUpstream)))
        record = RequestTrace(
            target=attempt.upstream.name,
            model=attempt.model,
            dialect=plan.target.dialect,
            attempt=attempt.number,
            headers=rendered.headers,
            body=Raw(body) if body else NO_BODY,
        )
        self._write(record, len(rendered.data))

    def answer(self, answer: UpstreamSource) -> None:
        if self._keep is None:
            return
        record = AnswerTrace(
            status=answer.status, content_type=answer.content_type, request_id=answer.request_id
        )
        self._write(record)
        self._mask, self._before = answer.mask_bytes, b""

    def read(self, data: bytes) -> None:
        if self._keep is None:
            return
        recorded = b""
        if self._is_recording and self._mask is not None:
            recorded = self._mask(data, self._before)
            self._before = (self._before + data)[-LONGEST_KEY:]
        self._keep(Trace(READ, self._clock(), recorded, len(data)))

    def failure(self, error: OpenResponsesError) -> None:
        self._write(FailureTrace.of(error))

    def _write(self, record: PlanTrace | RequestTrace | AnswerTrace | FailureTrace, size: int = 0) -> None:
        if self._keep is not None:
            self._keep(Trace(_KINDS[type(record)], self._clock(), msgspec.json.encode(record), size))


def _encoded(rendered: UpstreamRequest) -> bytes:
    """Return the body without the client's keys to its own servers, in whatever tools they are."""
    data = rendered.data
    if not any(b'"%s"' % name.encode() in data for name in SECRETS):
        return data  # searching is faster than walking the body
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


def _plan_trace(plan: Plan, *, compacts: bool) -> PlanTrace:
    return PlanTrace(
        request=Raw(encode(public_request(plan.request))),
        target=plan.target,
        used_call_ids=sorted(plan.used_call_ids),
        accent=plan.accent,
        compacts=compacts,
    )
