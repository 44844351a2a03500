"""The life of one response, from a request that was understood to the verdict.

A turn asks its upstreams, one after the other if need be, and gives the client what they say. Until the first
output nothing is lost by asking again; after it, whatever happens is told in the stream (decision 9). There
is one way out: the verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Dialect, Plan, UpstreamRequest
from penstock.errors import DecodeError, OpenResponsesError
from penstock.fairness import HEAVY, run_heavy
from penstock.gateway.refusals import closer_of, code_of, refusal, with_request_id
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
from penstock.protocol.large import encode_stepwise
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.stream.deltas import UsageDelta
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.tools.identity import ToolIdentityMap
from penstock.upstream.attempts import Attempt, Candidate

_CUT_SHORT = ("upstream_empty", "upstream_truncated")
"""Answers that were accepted and ended too early: a stream tells it, and no status (decision 5)."""


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What the client wants, understood."""

    request: CreateResponse
    model: str
    tools: ToolIdentityMap
    used_call_ids: frozenset[str]
    accent: str
    headers: dict[str, str]
    """To be passed on, such as `traceparent`."""
    first: Candidate
    """Where it should be answered."""
    tenant: str
    weight: int = 0
    """How much work the request is (`fairness.run_heavy`)."""
    diagnostics: list[Diagnostic] = []
    """What the gateway itself could not do."""


class AttemptPlan(Protocol):
    """What is tried, and what next."""

    def first(self) -> Attempt: ...

    def after(self, error: OpenResponsesError) -> Attempt | None:
        """None: this failure is the end."""


class TurnContext(Struct, frozen=True, kw_only=True):
    """What a turn needs of the gateway around it."""

    answer_bytes: int
    """How much an upstream may send."""
    estimate: Callable[[Sequence[Item]], UsageDelta]
    """The usage of a turn with this output."""
    count_attempt: Callable[[str, str], None]
    """Told the target and the result of each attempt."""


class UsageEstimate:
    """The usage of a turn whose upstream does not tell it, as `Pipeline` asks for it."""

    def __init__(self, context: TurnContext, machine: ResponseStreamStateMachine, request_id: str) -> None:
        self._context, self._machine, self._request_id = context, machine, request_id
        self.counted: UsageDelta | None = None
        """As it was counted in a thread before."""

    def __call__(self) -> UsageDelta | None:
        return self.counted or self.count()

    def count(self) -> UsageDelta | None:
        """Whatever is wrong with an estimate, the client gets its terminal event."""
        try:
            return self._context.estimate(self._machine.snapshot.output)
        except Exception as error:
            log_fault(error, self._request_id)
            return None


class Turn:
    """`run` is awaited once. The turn runs in a task of its own, which `stop` cancels."""

    def __init__(
        self,
        context: TurnContext,
        asked: TurnRequest,
        attempts: AttemptPlan,
        machine: ResponseStreamStateMachine,
        verdict: Verdict,
        watch: Stopwatch,
        tracer: Tracer,
    ) -> None:
        self._context, self._asked, self._attempts = context, asked, attempts
        self._verdict, self._watch, self._tracer = verdict, watch, tracer
        self._estimate = UsageEstimate(context, machine, verdict.request_id)
        self._pipeline = Pipeline(
            machine,
            sign=partial(with_request_id, request_id=verdict.request_id),
            estimate=self._estimate,
        )
        self._relay: Relay
        self._task: asyncio.Task[None] | None = None
        """Set while the turn runs. One that is stopped before sees `_stopped`: a task cancelled before
        its first step would never take it."""
        self._stopped: StopReason | None = None
        self._is_accepted = self._is_refused = False
        self.tenant, self.id = asked.tenant, verdict.response_id
        self.known: list[Diagnostic] = asked.diagnostics
        """The diagnostics that are known before the first byte is sent (decision 12)."""

    async def run(self, outlet: Outlet) -> None:
        """Whatever happens, the client gets one end and the verdict is filled in. A caller that is cancelled
        stops the turn, and is let go when it has ended."""
        task, is_cancelled = asyncio.create_task(self._live(outlet)), False
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:  # perhaps again and again: some libraries do so until it is heard
                is_cancelled = True
                self.stop(SHUTTING_DOWN)
        if is_cancelled:
            raise asyncio.CancelledError
        task.result()

    async def _live(self, outlet: Outlet) -> None:
        context, self._task = self._context, asyncio.current_task()
        self._relay = Relay(
            self._pipeline, outlet, self._verdict, self._watch, self._tracer, context.answer_bytes
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
            del (
                self._relay
            )  # its outlet refers to the turn: a cycle would keep the request until it is collected

    def stop(self, why: StopReason) -> None:
        """End the turn from outside; the first reason counts, and none behind the end."""
        if self._stopped is None and not self._verdict.terminal_sent:
            self._stopped = why
            if self._task is not None:
                self._task.cancel()

    @property
    def snapshot(self) -> Response:
        """The response as it is now."""
        return self._pipeline.snapshot

    def start(self) -> list[Event]:
        """The beginning of the stream, unless it has begun or will not begin any more."""
        return [] if self._is_refused else self._pipeline.start()

    def heartbeat(self) -> list[Event]:
        return [] if self._is_refused else self._pipeline.heartbeat()

    # Asking

    async def _answer_or_fail(self, outlet: Outlet) -> None:
        try:
            await self._answer()
        except Exception as error:  # a fault of ours: the client is told that, and the log where it was
            log_fault(error, self._verdict.request_id)
            await self._fail_after_fault(outlet)

    async def _answer(self) -> None:
        try:
            await self._pursue()
        except OpenResponsesError as error:
            await self._fail(
                code_of(error),
                error.message,
                param=error.param,
                wait=error.retry_after,
                closer=closer_of(error),
            )
            error.__traceback__ = None  # its frames hold the answer, which holds the error
        except DecodeError as error:
            # Nobody was asked: the request cannot be said in this upstream's language.
            await self._fail("invalid_request", str(error), param=error.param or None, closer="gateway")

    async def _pursue(self) -> None:
        """Ask one target after the other, until one has answered or none is left."""
        attempt: Attempt | None = self._attempts.first()
        while attempt is not None:
            with self._watch.waiting():
                await asyncio.sleep(attempt.wait)
            try:
                await self._ask(attempt)
            except OpenResponsesError as error:
                code, target = code_of(error), attempt.upstream.name
                self._tracer.failure(error)
                self._context.count_attempt(target, code)
                self._verdict.upstream_status = error.status or self._verdict.upstream_status
                attempt = None if self._pipeline.has_output else self._attempts.after(error)
                if attempt is None:
                    raise
                self._verdict.tried.append(f"{target}: {code}")
                error.__traceback__ = None
            else:
                self._context.count_attempt(attempt.upstream.name, "answered")
                return

    async def _ask(self, attempt: Attempt) -> None:
        upstream, asked, verdict = attempt.upstream, self._asked, self._verdict
        verdict.target, verdict.upstream_model = upstream.name, shown(attempt.model)
        plan = Plan(
            request=asked.request,
            target=upstream.target(attempt.model, attempt.key),
            tools=asked.tools,
            used_call_ids=asked.used_call_ids,
            accent=asked.accent,
        )
        rendered, traced = await run_heavy(asked.weight, self._rendered, upstream.dialect, plan)
        verdict.attempts = attempt.number
        self.known = [*asked.diagnostics, *self._fallen_back(attempt), *rendered.diagnostics]
        self._pipeline.prepare(self.known)
        self._tracer.request(attempt, plan, rendered, traced)
        with self._watch.waiting():
            source = await upstream.send(rendered, key=attempt.key, headers=asked.headers)
        self._tracer.answer(source)
        self._is_accepted = True
        verdict.upstream_status, verdict.upstream_id = source.status, shown(source.request_id or "")
        try:
            await self._relay.carry(source, upstream.dialect, plan)
            await self._finish()
            with self._watch.waiting():
                await source.finish()
        finally:
            source.close()

    def _rendered(self, dialect: Dialect, plan: Plan) -> tuple[UpstreamRequest, bytes]:
        """The request, written, and its body as it is traced. Runs in a thread if the request is large."""
        rendered = dialect.render(plan)
        write = encode_stepwise if self._asked.weight >= HEAVY else encode
        written = replace(rendered, data=write(rendered.body))
        return written, self._tracer.body_of(written)

    def _fallen_back(self, attempt: Attempt) -> list[Diagnostic]:
        """A client whose request is answered elsewhere than it should be is told so (ask E6)."""
        first = self._asked.first
        if (attempt.upstream.name, attempt.model) == (first.upstream.name, first.model):
            return []
        why = ", ".join(self._verdict.tried) or f"the keys of {first.upstream.name} rest after a refusal"
        message = f"{attempt.model} at {attempt.upstream.name} answers instead: {why}"
        return [Diagnostic(code="fell_back", message=message)]

    # Ending

    async def _finish(self) -> None:
        """The upstream has said its last."""
        await self._count_ahead()
        failure = self._pipeline.failure
        if failure is not None:
            await self._write_failure(
                code_of(failure), failure.message, param=failure.param, wait=failure.retry_after
            )
        else:
            await self._write_end(self._pipeline.finish())

    async def _fail(
        self, code: str, message: str, *, param: str | None = None, wait: float | None = None, closer: str
    ) -> None:
        """Tell the client, in the way that is still open: by a status, or in the stream."""
        if self._pipeline.is_over or self._is_refused:
            return
        self._verdict.closer = closer
        is_answer = self._verdict.stream and self._is_accepted and code in _CUT_SHORT
        if not self._pipeline.is_idle or is_answer:
            await self._count_ahead()
            await self._write_failure(code, message, param=param, wait=wait)
            return
        self._is_refused = True
        self._verdict.outcome, self._verdict.code = "refused", code
        message = with_request_id(message, self._verdict.request_id)
        await self._relay.refuse(refusal(code, message, param=param, wait=wait))

    async def _write_failure(
        self, code: str, message: str, *, param: str | None = None, wait: float | None = None
    ) -> None:
        self._verdict.code, self._verdict.retry_after = code, wait or 0.0
        await self._write_end(self._pipeline.fail(code, message, param=param, retry_after=wait))

    async def _write_end(self, events: Sequence[Event]) -> None:
        self._verdict.usage_estimated = self._pipeline.usage_is_estimated
        await self._relay.write(events)

    async def _end_early(self, why: StopReason) -> None:
        """A client that is still there gets its terminal event."""
        pipeline, verdict = self._pipeline, self._verdict
        if why.closer != "client" and pipeline.is_over:
            await self._relay.write()  # it was stopped while its end was being sent
        elif why is CANCELLED:
            await self._cancel()
        elif why.closer != "client":
            await self._fail(why.code, why.message, closer=why.closer)
        else:
            verdict.closer, verdict.code, verdict.outcome = why.closer, why.code, "cancelled"
            await self._count_ahead()
            events = pipeline.cancel()
            verdict.usage_estimated = pipeline.usage_is_estimated
            await self._relay.keep(events)  # also where it was over: its end may not be in the store yet

    async def _cancel(self) -> None:
        """Somebody who may asked for it, over another connection (decision 6)."""
        if not self._pipeline.is_over and not self._is_refused:
            self._verdict.closer, self._verdict.outcome = "client", "cancelled"
            await self._count_ahead()
            await self._write_end(self._pipeline.cancel())

    async def _fail_after_fault(self, outlet: Outlet) -> None:
        """What is wrong with the gateway may also be wrong with the usual way to say so."""
        message = "the gateway failed: its log says where"
        try:
            await self._fail("internal_error", message, closer="gateway")
        except Exception as error:
            log_fault(error, self._verdict.request_id)
        if not self._is_refused and not self._verdict.terminal_sent:
            failed = ResponseError(code="internal_error", message=message)
            response = replace(self.snapshot, status="failed", output=[], error=failed)
            await outlet.end_at_once(response)

    # Usage that the upstream does not tell

    async def _count_ahead(self) -> None:
        """Count in a thread what the terminal event will need, if that takes long. The events that wait are
        written first: meanwhile the heartbeat may number one of its own."""
        weight = max(self._asked.weight, self._verdict.bytes_in)
        if weight >= HEAVY and not self._pipeline.is_over and self._pipeline.lacks_usage:
            await self._relay.write(self.start())
            self._estimate.counted = await run_heavy(weight, self._estimate.count)

    def _conclude(self) -> None:
        """The one exit."""
        if not self._verdict.outcome and not self._pipeline.is_over:  # it was cut off while it told its end
            self._verdict.outcome, self._verdict.closer = "failed", self._verdict.closer or "gateway"
        conclude(self._verdict, self.snapshot, self._watch)
