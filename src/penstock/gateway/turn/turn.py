"""The life of one response, from a validated request to the verdict.

A turn calls its upstreams, one after the other if necessary, and sends their output to the client. Until the
first output, a retry loses nothing; after it, every failure is reported in the stream (decision 9). A turn
has one exit: the verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Dialect, Plan, UpstreamRequest
from penstock.errors import DecodeError, OpenResponsesError
from penstock.fairness import HEAVY, run_heavy
from penstock.gateway.refusals import closer_of, code_of, is_final, refusal, with_request_id
from penstock.gateway.telemetry.logs import log_fault
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.outlets import Outlet
from penstock.gateway.turn.relay import Relay
from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN, StopReason
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, conclude, shown
from penstock.protocol.errors import Diagnostic, ResponseError
from penstock.protocol.events import Event
from penstock.protocol.items import Item
from penstock.protocol.large_json import encode_stepwise
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response, echo_of
from penstock.protocol.wire import encode
from penstock.stream.deltas import UsageDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tools.identity import ToolIdentityMap
from penstock.upstream.attempts import Attempt, Candidate
from penstock.upstream.target import dialect_advice

_CUT_SHORT = ("upstream_empty", "upstream_truncated")
"""Answers that were accepted and ended too early: reported in a stream, not by a status (decision 5)."""


class TurnRequest(Struct, frozen=True, kw_only=True):
    """The client's request, validated, with everything derived from it."""

    request: CreateResponse
    model: str
    tools: ToolIdentityMap
    used_call_ids: frozenset[str]
    accent: str
    headers: dict[str, str]
    """Headers for the upstream, such as `traceparent`."""
    first: Candidate
    """The preferred target."""
    tenant: str
    cache_key: str = ""
    """Identifies the conversation for the upstream, if the client does not (`Sealer.cache_key`)."""
    weight: int = 0
    """How much work the request causes (`fairness.run_heavy`)."""
    diagnostics: list[Diagnostic] = []
    """Diagnostics of the gateway itself."""


class AttemptPlan(Protocol):
    """The order of attempts."""

    def first(self) -> Attempt: ...

    def after(self, error: OpenResponsesError) -> Attempt | None:
        """Return the next attempt after a failure; None: there is none, and the turn fails."""

    def answered(self, error: OpenResponsesError | None = None) -> None:
        """Note that the current attempt has answered, or with an error, that its answer broke afterwards."""

    def close(self) -> None:
        """Note that the turn has ended, perhaps in the middle of an attempt."""

    def is_ejected(self, candidate: Candidate) -> bool:
        """Return whether a target is left out for a while, because it kept failing."""


class AttemptTrace(Protocol):
    """Notes when the requests to upstreams begin and end, for traces and metrics."""

    def attempt_begins(self, attempt: Attempt, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Note that a request is about to be sent; return its headers."""

    def attempt_accepted(self, status: int) -> None:
        """Note that the last request is being answered, with this status."""

    def attempt_answered(self) -> None:
        """Note that the answer was read."""

    def attempt_failed(self, error: OpenResponsesError) -> None:
        """Note that the last request failed."""


class TurnContext(Struct, frozen=True, kw_only=True):
    """What a turn needs from the gateway."""

    answer_bytes: int
    """How much an upstream may send."""
    output_items: int
    """In how many items."""
    estimate: Callable[[Sequence[Item]], UsageDelta]
    """Estimates the usage of a turn with this output."""
    count_attempt: Callable[[str, str], None]
    """Called with the target and the result of each attempt."""
    trace: AttemptTrace | None = None
    """None: nothing is exported."""


class UsageEstimate:
    """Estimates the usage of a turn whose upstream does not report it; called by `Pipeline`."""

    __slots__ = ("_context", "_machine", "_request_id", "counted")

    def __init__(self, context: TurnContext, machine: ResponseStreamStateMachine, request_id: str) -> None:
        self._context, self._machine, self._request_id = context, machine, request_id
        self.counted: UsageDelta | None = None
        """The estimate, if it was already made in a thread."""

    def __call__(self) -> UsageDelta | None:
        return self.counted or self.count()

    def count(self) -> UsageDelta | None:
        """Return the estimate, or None if it fails: the client gets its terminal event in any case."""
        try:
            return self._context.estimate(self._machine.snapshot.output)
        except Exception as error:
            log_fault(error, self._request_id)
            return None


class Turn:
    """`run` is awaited once. The turn runs in a task of its own, which `stop` cancels."""

    __slots__ = (
        "_attempts",
        "_context",
        "_end",
        "_estimate",
        "_is_accepted",
        "_is_final",
        "_is_refused",
        "_outlet",
        "_pipeline",
        "_relay",
        "_request",
        "_stopped",
        "_task",
        "_tracer",
        "_verdict",
        "_watch",
        "id",
        "known",
        "tenant",
    )

    def __init__(
        self,
        context: TurnContext,
        request: TurnRequest,
        attempts: AttemptPlan,
        machine: ResponseStreamStateMachine,
        verdict: Verdict,
        watch: Stopwatch,
        tracer: Tracer,
    ) -> None:
        self._context, self._request, self._attempts = context, request, attempts
        self._verdict, self._watch, self._tracer = verdict, watch, tracer
        self._estimate = UsageEstimate(context, machine, verdict.request_id)
        self._pipeline = Pipeline(
            machine,
            sign=partial(with_request_id, request_id=verdict.request_id),
            estimate=self._estimate,
        )
        self._relay: Relay
        self._outlet: Outlet
        self._end: asyncio.Future[None]
        self._task: asyncio.Task[None] | None = None
        """Set while the turn runs. A turn that is stopped earlier checks `_stopped`: a task that is cancelled
        before its first step would never run."""
        self._stopped: StopReason | None = None
        self._is_accepted = self._is_refused = False
        self._is_final = True
        """Whether a retry cannot change any failure so far."""
        self.tenant, self.id = request.tenant, verdict.response_id
        self.known: list[Diagnostic] = request.diagnostics
        """The diagnostics that are known before the first byte is sent (decision 12)."""

    async def run(self, outlet: Outlet) -> None:
        """Run the turn. Whatever happens, the client gets one terminal event and the verdict is completed. If
        the caller is cancelled, the turn is stopped, and the cancellation continues when it has ended."""
        task, is_cancelled = asyncio.create_task(self._run(outlet)), False
        while not task.done():
            try:
                await self._end_of(task)
            except asyncio.CancelledError:  # perhaps repeatedly: some libraries cancel until it takes effect
                is_cancelled = True
                self.stop(SHUTTING_DOWN)
        if is_cancelled:
            raise asyncio.CancelledError
        task.result()

    async def _run(self, outlet: Outlet) -> None:
        context, self._task = self._context, asyncio.current_task()
        self._outlet = outlet
        self._relay = Relay(
            self._pipeline,
            outlet,
            self._verdict,
            self._watch,
            self._tracer,
            most_bytes=context.answer_bytes,
            most_items=context.output_items,
            on_output=self._attempts.answered,
        )
        try:
            if self._stopped is not None:  # before it began
                await self._end_early(self._stopped)
            else:
                await self._answer_or_fail(outlet)
        except asyncio.CancelledError:
            self._stopped = self._stopped or SHUTTING_DOWN
            await self._end_early(self._stopped)
        finally:
            self._task = None
            self._conclude()
            # The outlet refers to the turn: the cycle would keep the request until garbage collection.
            del self._relay, self._outlet

    def _end_of(self, task: asyncio.Task[None]) -> asyncio.Future[None]:
        """Return a future that is done when the task is. Cancelling it does not cancel the task.
        `asyncio.wait` does the same, and keeps a kilobyte for each waiting turn."""
        self._end = task.get_loop().create_future()
        task.add_done_callback(self._note_end)
        return self._end

    def _note_end(self, _: asyncio.Task[None]) -> None:
        if not self._end.done():
            self._end.set_result(None)

    def stop(self, why: StopReason) -> None:
        """Stop the turn from outside; the first reason is used, and none after the terminal event."""
        if self._stopped is None and not self._verdict.terminal_sent:
            self._stopped = why
            if self._task is not None:
                self._task.cancel()

    @property
    def stopped(self) -> StopReason | None:
        """Why the turn was stopped from outside."""
        return self._stopped

    @property
    def snapshot(self) -> Response:
        """The current state of the response."""
        return self._pipeline.snapshot

    def start(self) -> list[Event]:
        """Return the first events of the stream, unless it has begun or the request was refused."""
        return [] if self._is_refused else self._pipeline.start()

    def heartbeat(self) -> list[Event]:
        return [] if self._is_refused else self._pipeline.heartbeat()

    # Calling upstreams

    async def _answer_or_fail(self, outlet: Outlet) -> None:
        try:
            try:
                await self._try_targets()
            except OpenResponsesError as error:
                await self._fail(
                    code_of(error),
                    error.message,
                    param=error.param,
                    wait=error.retry_after,
                    closer=closer_of(error),
                    is_final=self._is_final,
                )
                error.__traceback__ = None  # its frames hold the answer, which holds the error
            except DecodeError as error:
                # The upstream was not called: the request cannot be expressed in its dialect.
                await self._fail(error.code, str(error), param=error.param or None, closer="gateway")
        except Exception as error:  # a bug of ours: the client gets an error, and the log the details
            log_fault(error, self._verdict.request_id)
            await self._fail_after_fault(outlet)

    async def _try_targets(self) -> None:
        """Try one target after the other, until one has answered or none is left."""
        attempt: Attempt | None = self._attempts.first()
        while attempt is not None:
            if attempt.wait:
                with self._watch.waiting():
                    await asyncio.sleep(attempt.wait)
            try:
                await self._call(attempt)
            except OpenResponsesError as error:
                code, target = code_of(error), attempt.upstream.name
                self._is_final = self._is_final and is_final(error)
                self._tracer.failure(error)
                self._context.count_attempt(target, code)
                if self._context.trace is not None:
                    self._context.trace.attempt_failed(error)
                self._verdict.upstream_status = error.status or self._verdict.upstream_status
                if error.refused_key:  # the log contains no messages of vendors
                    self._verdict.refused_keys.append(shown(error.refused_key))
                if self._pipeline.has_output:
                    self._attempts.answered(error)
                    raise
                attempt = self._attempts.after(error)
                if attempt is None:
                    raise
                self._verdict.tried.append(f"{target}: {code}")
                error.__traceback__ = None
            else:
                self._context.count_attempt(attempt.upstream.name, "answered")
                if self._pipeline.failure is not None or not self._pipeline.has_output:
                    self._attempts.answered(self._pipeline.failure)
                if self._context.trace is not None:
                    self._context.trace.attempt_answered()
                return

    async def _call(self, attempt: Attempt) -> None:
        upstream, request, verdict = attempt.upstream, self._request, self._verdict
        verdict.target, verdict.upstream_model = upstream.name, shown(attempt.model)
        plan = Plan(
            request=request.request,
            target=upstream.target(attempt.model, attempt.key),
            tools=request.tools,
            used_call_ids=request.used_call_ids,
            accent=request.accent,
            cache_key=request.cache_key,
        )
        rendered, traced = await run_heavy(request.weight, self._render, upstream.dialect, plan)
        verdict.attempts = attempt.number
        self.known = [*request.diagnostics, *self._fallback_diagnostics(attempt), *rendered.diagnostics]
        self._pipeline.prepare(self.known, echo_of(request.request, rendered.echo))
        self._tracer.request(attempt, plan, rendered, traced)
        headers: Mapping[str, str] = request.headers
        if self._context.trace is not None:
            headers = self._context.trace.attempt_begins(attempt, headers)
        with self._watch.waiting():
            source = await upstream.send(rendered, key=attempt.key, headers=headers)
        self._tracer.answer(source)
        self._is_accepted = True
        if self._context.trace is not None:
            self._context.trace.attempt_accepted(source.status)
        verdict.upstream_status, verdict.upstream_id = source.status, shown(source.request_id or "")
        del rendered, traced  # they may be large, and the answer may be long
        try:
            advise = partial(dialect_advice, upstream.name)
            await self._relay.forward(source, upstream.dialect, plan, advise)
            await self._finish()
            source.finish()
        finally:
            source.close()

    def _render(self, dialect: Dialect, plan: Plan) -> tuple[UpstreamRequest, bytes]:
        """Return the encoded request, and its body for the trace. Runs in a thread for a large request."""
        rendered = dialect.render(plan)
        encoder = encode_stepwise if self._request.weight >= HEAVY else encode
        encoded = replace(rendered, data=encoder(rendered.body))
        return encoded, self._tracer.body_of(encoded)

    def _fallback_diagnostics(self, attempt: Attempt) -> list[Diagnostic]:
        """Return a diagnostic if the target is not the preferred one (ask E6)."""
        first = self._request.first
        if (attempt.upstream.name, attempt.model) == (first.upstream.name, first.model):
            return []
        why = ", ".join(self._verdict.tried)
        if not why and self._attempts.is_ejected(first):
            why = f"{first.upstream.name} is ejected after failures"
        why = why or f"all keys of {first.upstream.name} are resting after errors"
        message = f"fell back to {attempt.model} at {attempt.upstream.name}: {why}"
        return [Diagnostic(code="fell_back", message=message)]

    # Ending

    async def _finish(self) -> None:
        """End the response after the upstream's last byte."""
        await self._count_ahead()
        failure = self._pipeline.failure
        if failure is not None:
            await self._write_failure(
                code_of(failure), failure.message, param=failure.param, wait=failure.retry_after
            )
        else:
            await self._write_end(self._pipeline.finish())

    async def _fail(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        wait: float | None = None,
        closer: str,
        is_final: bool = False,
    ) -> None:
        """Report a failure to the client: by an HTTP status if that is still possible, or in the stream."""
        if self._pipeline.is_over or self._is_refused:
            return
        self._verdict.closer = closer
        is_truncated = self._verdict.stream and self._is_accepted and code in _CUT_SHORT
        if not self._pipeline.is_idle or is_truncated:
            await self._count_ahead()
            await self._write_failure(code, message, param=param, wait=wait)
            return
        self._is_refused = True
        self._verdict.outcome, self._verdict.code = "refused", code
        message = with_request_id(message, self._verdict.request_id)
        self._outlet.refuse(refusal(code, message, param=param, wait=wait, is_final=is_final))

    async def _write_failure(
        self, code: str, message: str, *, param: str | None = None, wait: float | None = None
    ) -> None:
        self._verdict.code, self._verdict.retry_after = code, wait or 0.0
        await self._write_end(self._pipeline.fail(code, message, param=param, retry_after=wait))

    async def _write_end(self, events: Sequence[Event]) -> None:
        self._verdict.usage_estimated = self._pipeline.usage_is_estimated
        await self._write(events)

    async def _write(self, events: Sequence[Event] = ()) -> None:
        """Write events, and wait until they and all before them are sent."""
        self._outlet.write(events)
        with self._watch.waiting():
            await self._outlet.flush()

    async def _end_early(self, why: StopReason) -> None:
        """End a stopped turn. A client that is still connected gets its terminal event."""
        pipeline, verdict = self._pipeline, self._verdict
        if why.closer != "client" and pipeline.is_over:
            await self._write()  # it was stopped while its terminal event was being sent
        elif why is CANCELLED:
            await self._cancel()
        elif why.closer != "client":
            await self._fail(why.code, why.message, closer=why.closer)
        else:
            if not pipeline.is_over:  # otherwise only the end is not delivered, and the response is complete
                verdict.outcome = "cancelled"
            verdict.closer, verdict.code = why.closer, why.code
            await self._count_ahead()
            events = pipeline.cancel()
            verdict.usage_estimated = pipeline.usage_is_estimated
            self._outlet.keep(events)
            await self._write()  # even if it was over: its end may not be in the store yet

    async def _cancel(self) -> None:
        """Cancel the response: an authorised client requested it over another connection (decision 6)."""
        if not self._pipeline.is_over and not self._is_refused:
            self._verdict.closer, self._verdict.outcome = "client", "cancelled"
            await self._count_ahead()
            await self._write_end(self._pipeline.cancel())

    async def _fail_after_fault(self, outlet: Outlet) -> None:
        """Report a bug of ours; if the usual way fails as well, send only a terminal event."""
        message = "internal error in the gateway: look for this request id in its log"
        try:
            await self._fail("internal_error", message, closer="gateway")
        except Exception as error:
            log_fault(error, self._verdict.request_id)
        if not self._is_refused and not self._verdict.terminal_sent:
            failed = ResponseError(code="internal_error", message=message)
            response = replace(self.snapshot, status="failed", output=[], error=failed)
            outlet.send_failure(response)

    # Usage that the upstream does not report

    async def _count_ahead(self) -> None:
        """If the estimate for the terminal event takes long, make it now, in a thread."""
        weight = max(self._request.weight, self._verdict.bytes_in)
        if weight >= HEAVY and not self._pipeline.is_over and self._pipeline.lacks_usage:
            await self._write(self.start())  # before the work, not with the end
            self._estimate.counted = await run_heavy(weight, self._estimate.count)

    def _conclude(self) -> None:
        """Complete the verdict. Every turn ends here."""
        if not self._verdict.outcome and not self._pipeline.is_over:  # interrupted while sending its end
            self._verdict.outcome, self._verdict.closer = "failed", self._verdict.closer or "gateway"
        self._attempts.close()
        conclude(self._verdict, self.snapshot, self._watch)
