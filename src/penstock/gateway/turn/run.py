"""The life of one response, from a request that was understood to the verdict.

A turn asks its upstreams, one after the other if need be, and gives the client what they say. Until the first
output nothing is lost by asking again; after it, whatever happens is told in the stream (decisions 9). There
is one way out: the verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.plan import Dialect, Plan, UpstreamRequest
from penstock.errors import BridgeError, DecodeError, NetworkError, OpenResponsesError, ProtocolError
from penstock.fairness import HEAVY, WorkSlice, run_heavy
from penstock.gateway.refusals import closer_of, code_of, refusal, type_of, with_request_id
from penstock.gateway.services import Services
from penstock.gateway.telemetry.logs import log_fault
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.outlets import Outlet
from penstock.gateway.turn.source import deltas_of
from penstock.gateway.turn.stop_reasons import CANCELLED, SHUTTING_DOWN, Stopped
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.usage import missing
from penstock.gateway.turn.verdict import Verdict, conclude, shown
from penstock.protocol.errors import Diagnostic, ResponseError
from penstock.protocol.events import Event
from penstock.protocol.large import encode_stepwise
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.stream.deltas import (
    BlockEnd,
    BlockStart,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from penstock.stream.phases import ResponseStreamPhase
from penstock.tools.identity import ToolIdentityMap
from penstock.upstream.attempts import Attempt, Attempts, Candidate, failure_of
from penstock.upstream.masking import masked
from penstock.upstream.upstream import UpstreamAnswer

_SILENT = (BlockStart, BlockEnd, UsageDelta, UpstreamInfo, DiagnosticDelta, FinishDelta)
"""Deltas that cause no output event: until another comes, the turn can still be given to another target."""

_CUT_SHORT = ("upstream_empty", "upstream_truncated")
"""Answers that were accepted and ended too early: a stream tells it, and no status (decisions 5)."""

_ATTEMPTS = "penstock_upstream_attempts_total"


class Asked(Struct, frozen=True, kw_only=True):
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


class Turn:
    """`run` is awaited once, in the task that answers the request."""

    def __init__(
        self,
        services: Services,
        asked: Asked,
        attempts: Attempts,
        machine: ResponseStreamStateMachine,
        verdict: Verdict,
        watch: Stopwatch,
        tracer: Tracer,
    ) -> None:
        self._services = services
        self._asked = asked
        self._attempts = attempts
        self._machine = machine
        self._verdict = verdict
        self._watch = watch
        self._tracer = tracer
        self._most_bytes = services.settings.limits.answer_bytes
        self._outlet: Outlet
        self._task: asyncio.Task[None] | None = None
        self._stopped: Stopped | None = None
        self._is_accepted = self._is_committed = self._is_refused = False
        self._held: list[Delta] = []
        """What was said before the first output, and may still be taken back."""
        self._unwritten: list[Event] = []
        """Events of the current read. They leave in one write, before anything else can number an event."""
        self._work = WorkSlice()
        self._counted: UsageDelta | None = None
        """The usage as it was counted in a thread."""
        self.tenant, self.id = asked.tenant, verdict.response_id
        self.known: list[Diagnostic] = asked.diagnostics
        """The diagnostics that are known before the first byte is sent (decisions 12)."""

    async def run(self, outlet: Outlet) -> None:
        """Whatever happens, the client gets one end and the verdict is filled in."""
        self._outlet = outlet
        self._task = asyncio.current_task()
        try:
            if self._stopped is not None:  # before it began
                await self._end_early(self._stopped)
            else:
                await self._answer_or_tell()
        finally:
            self._conclude()
            del self._outlet  # it refers to the turn: a cycle would keep the request until it is collected

    async def _answer_or_tell(self) -> None:
        try:
            await self._answer()
        except asyncio.CancelledError:
            self._stopped = self._stopped or SHUTTING_DOWN
            if self._task is not None:
                self._task.uncancel()
            await self._end_early(self._stopped)
        except Exception as error:  # a fault of ours: the client is told that, and the log where it was
            log_fault(error, self._verdict.request_id)
            await self._fail_after_fault()

    async def _fail_after_fault(self) -> None:
        """What is wrong with the gateway may also be wrong with the usual way to say so."""
        message = "the gateway failed: its log says where"
        try:
            await self._fail("internal_error", message, closer="gateway")
        except Exception as error:
            log_fault(error, self._verdict.request_id)
        if not self._is_refused and not self._verdict.terminal_sent:
            failed = ResponseError(code="internal_error", message=message)
            response = replace(self._machine.snapshot, status="failed", output=[], error=failed)
            await self._outlet.end_at_once(response)

    def stop(self, why: Stopped) -> None:
        """End the turn from outside; the first reason counts, and none behind the end."""
        if self._stopped is None and not self._verdict.terminal_sent:
            self._stopped = why
            if self._task is not None:
                self._task.cancel()

    @property
    def snapshot(self) -> Response:
        """The response as it is now."""
        return self._machine.snapshot

    # What the heart needs

    def begin_late(self) -> list[Event]:
        return [] if self._is_refused or not self._is_idle else self._machine.start()

    def heartbeat(self) -> list[Event]:
        return [] if self._is_refused or self._is_over else self._machine.heartbeat()

    # Asking

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
                self._services.metrics.count(_ATTEMPTS, target=target, result=code)
                self._verdict.upstream_status = error.status or self._verdict.upstream_status
                attempt = None if self._is_committed else self._attempts.after(error)
                if attempt is None:
                    raise
                self._verdict.tried.append(f"{target}: {code}")
            else:
                self._services.metrics.count(_ATTEMPTS, target=attempt.upstream.name, result="answered")
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
        self._held = [DiagnosticDelta(told.code, told.message) for told in self.known]
        self._tracer.request(attempt, plan, rendered, traced)
        with self._watch.waiting():
            answer = await upstream.send(rendered, key=attempt.key, headers=asked.headers)
        self._tracer.answer(answer)
        self._is_accepted = True
        verdict.upstream_status, verdict.upstream_id = answer.status, shown(answer.request_id or "")
        try:
            await self._relay(answer, attempt, plan)
            with self._watch.waiting():
                await answer.finish()
        finally:
            answer.close()

    def _rendered(self, dialect: Dialect, plan: Plan) -> tuple[UpstreamRequest, bytes]:
        """The request, written, and its body as it is traced. Runs in a thread if the request is large."""
        rendered = dialect.render(plan)
        write = encode_stepwise if self._asked.weight >= HEAVY else encode
        written = replace(rendered, data=write(rendered.body))
        return written, self._tracer.body_of(written)

    def _fallen_back(self, attempt: Attempt) -> list[Diagnostic]:
        """A client whose request is answered elsewhere than it should be is told so (W10)."""
        first = self._asked.first
        if (attempt.upstream.name, attempt.model) == (first.upstream.name, first.model):
            return []
        why = ", ".join(self._verdict.tried) or f"the keys of {first.upstream.name} rest after a refusal"
        message = f"{attempt.model} at {attempt.upstream.name} answers instead: {why}"
        return [Diagnostic(code="fell_back", message=message)]

    # Relaying

    async def _relay(self, answer: UpstreamAnswer, attempt: Attempt, plan: Plan) -> None:
        read, dialect = partial(self._read, answer), attempt.upstream.dialect
        try:
            async for deltas in deltas_of(
                read, answer.content_type, dialect, plan, lambda: self._is_committed
            ):
                if any(isinstance(delta, ErrorDelta) for delta in deltas):
                    await self._count_ahead()
                self._take(masked(deltas, answer))
                if self._is_over:
                    await self._write()
                    return
                if self._work.is_over:
                    await self._write()
                    await self._work.pause()
        except NetworkError:
            if not self._has_finished:
                raise
        await self._end()

    async def _read(self, answer: UpstreamAnswer) -> bytes:
        """The next bytes. Of an answer that is too large, all that may be taken is taken."""
        await self._write()
        room = self._most_bytes - self._verdict.bytes_in
        with self._watch.waiting():
            data = await answer.read() if room >= 0 else b""
        self._work.restart()
        self._watch.hear()
        self._tracer.read(data)
        self._verdict.bytes_in += len(data)
        if room < 0 or (room == 0 and data):
            message = f"the upstream sent more than {self._most_bytes} bytes (answer_bytes in penstock.toml)"
            raise ProtocolError(message, code="upstream_invalid")
        return data[:room]

    def _take(self, deltas: list[Delta]) -> None:
        """What one read brought leaves in one write, unless it is so much that others would have to wait."""
        if not self._is_committed:
            self._held += deltas
            first = next((each for each in deltas if not isinstance(each, _SILENT)), None)
            if isinstance(first, ErrorDelta):
                raise failure_of(first)
            if first is None:
                self._unwritten += self.begin_late()
                return
            deltas = self._commit()
        self._unwritten += self._applied(deltas)

    async def _write(self, events: Sequence[Event] = ()) -> None:
        """Send events, behind those that still wait."""
        waiting, self._unwritten = self._unwritten, []
        await self._outlet.write([*waiting, *events])

    def _commit(self) -> list[Delta]:
        """There is output: from here on nobody else is asked."""
        held, self._held, self._is_committed = self._held, [], True
        self._verdict.first_output_ms = round(self._watch.seconds * 1000)
        return held

    async def _end(self) -> None:
        """The upstream has said its last, and it was no failure."""
        held, self._held, self._is_committed = self._held, [], True
        self._unwritten += self._applied(held)
        if not self._is_over:
            await self._count_ahead()
            self._estimate_usage()
            try:
                self._unwritten += self._machine.finish()
            except BridgeError as error:
                self._unwritten += self._failed(error.code, error.message)
        await self._write()

    def _applied(self, deltas: list[Delta]) -> list[Event]:
        events = self.begin_late()
        for delta in deltas:
            if self._is_over:
                break
            if isinstance(delta, ErrorDelta):
                error = failure_of(delta)
                events += self._failed(code_of(error), error.message, delta.param, error.retry_after)
                continue
            if isinstance(delta, UpstreamInfo) and delta.id:
                self._verdict.upstream_id = shown(delta.id)
            try:
                events += self._machine.apply(delta)
            except (BridgeError, ValueError) as error:
                events += self._failed(
                    "upstream_invalid", f"what the upstream sent cannot be passed on: {error}"
                )
        return events

    # Ends that nobody wanted

    async def _fail(
        self, code: str, message: str, *, param: str | None = None, wait: float | None = None, closer: str
    ) -> None:
        """Tell the client, in the way that is still open: by a status, or in the stream."""
        if self._is_over or self._is_refused:
            return
        self._verdict.closer = closer
        is_answer = self._verdict.stream and self._is_accepted and code in _CUT_SHORT
        if self._is_idle and not is_answer:
            self._is_refused = True
            self._verdict.outcome, self._verdict.code = "refused", code
            message = with_request_id(message, self._verdict.request_id)
            await self._outlet.refuse(refusal(code, message, param=param, wait=wait))
            return
        self._unwritten += self.begin_late()
        for delta in self._held:  # without output they were not told yet, and are true all the same
            if isinstance(delta, DiagnosticDelta | UsageDelta):
                self._unwritten += self._machine.apply(delta)
        await self._count_ahead()
        await self._write(self._failed(code, message, param, wait))

    def _failed(
        self, code: str, message: str, param: str | None = None, wait: float | None = None
    ) -> list[Event]:
        self._estimate_usage()
        self._verdict.code, self._verdict.retry_after = code, wait or 0.0
        if code == "rate_limit_exceeded" and wait is not None and "try again in" not in message.lower():
            message = f"{message} Please try again in {wait:g}s."  # the words that Codex looks for (E5)
        message = with_request_id(message, self._verdict.request_id)
        return self._machine.fail(code, message, type=type_of(code), param=param)

    async def _end_early(self, why: Stopped) -> None:
        """A client that is still there gets its terminal event."""
        if why.closer != "client" and self._is_over:
            await self._write()  # it was stopped while its end was being sent
            return
        if why is CANCELLED:
            await self._cancel()
            return
        if why.closer != "client":
            await self._fail(why.code, why.message, closer=why.closer)
            return
        self._verdict.closer, self._verdict.code = why.closer, why.code
        self._verdict.outcome = "cancelled"
        if not self._is_over:
            self._unwritten += self.begin_late()
            await self._count_ahead()
            self._estimate_usage()
            waiting, self._unwritten = self._unwritten, []
            await self._outlet.keep([*waiting, *self._machine.cancel()])

    async def _cancel(self) -> None:
        """Somebody who may asked for it, over another connection (decisions 6)."""
        if self._is_over or self._is_refused:
            return
        self._verdict.closer, self._verdict.outcome = "client", "cancelled"
        self._unwritten += self.begin_late()
        await self._count_ahead()
        self._estimate_usage()
        await self._write(self._machine.cancel())

    # Inside

    @property
    def _is_idle(self) -> bool:
        return self._machine.phase is ResponseStreamPhase.IDLE

    @property
    def _is_over(self) -> bool:
        return self._machine.phase not in (ResponseStreamPhase.IDLE, ResponseStreamPhase.IN_PROGRESS)

    @property
    def _has_finished(self) -> bool:
        """Has the model said why it stopped? A break behind that takes nothing away (notes/asks A1 b)."""
        held = any(isinstance(each, FinishDelta) for each in self._held)
        return held or self._machine.deferred_reason is not None

    @property
    def _lacks_usage(self) -> bool:
        usage = self._machine.snapshot.usage
        return usage is None or not (usage.input_tokens and usage.output_tokens and self._has_finished)

    async def _count_ahead(self) -> None:
        """Count in a thread what `_estimate_usage` will need, if that takes long. The events that wait are
        written first: meanwhile the heartbeat may number one of its own."""
        weight = max(self._asked.weight, self._verdict.bytes_in)
        if weight >= HEAVY and self._lacks_usage:
            await self._write()
            self._counted = await run_heavy(weight, self._count)

    def _estimate_usage(self) -> None:
        """Where the upstream told no usage, or not all of it, it is counted here, and marked as an estimate
        (decisions 11; notes/asks D1, D4)."""
        counted = (self._counted or self._count()) if self._lacks_usage else None
        if counted is None:
            return
        usage = self._machine.snapshot.usage
        if usage is not None:
            counted = missing(usage, counted)
        if counted.input_tokens is not None or counted.output_tokens is not None:
            self._machine.usage(counted)
            self._verdict.usage_estimated = True

    def _count(self) -> UsageDelta | None:
        """Whatever is wrong with an estimate, the client gets its terminal event."""
        asked = self._asked
        try:
            return self._services.estimate(asked.request, asked.model, self._machine.snapshot.output)
        except Exception as error:
            log_fault(error, self._verdict.request_id)
            return None

    def _conclude(self) -> None:
        """The one exit."""
        if not self._verdict.outcome and not self._is_over:  # it was cut off while it told its end
            self._verdict.outcome, self._verdict.closer = "failed", self._verdict.closer or "gateway"
        conclude(self._verdict, self._machine.snapshot, self._watch)
