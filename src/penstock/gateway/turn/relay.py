"""Relay one answer through the gateway: from the upstream's bytes to the turn's outlet, in one call per read.

The turn's coroutine sleeps meanwhile. It wakes up at the end of the answer, and for what cannot be done in
one call: a read that takes too long, an outlet that is not ready, a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Dialect, Plan
from penstock.dialects.recognition import Advice, advice
from penstock.errors import NetworkError, ProtocolError
from penstock.fairness import SLICE
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.outlets import Outlet
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, shown
from penstock.net.source import UpstreamSource
from penstock.protocol.events import Event
from penstock.upstream.masking import masked

_CHECK_BYTES = 256 * 1024
"""After so many bytes of an answer, its items are counted."""


class Relay:
    """Receives the body of an upstream's answer (`SourceCallbacks`). The events of one read leave in one
    write, unless other turns would have to wait too long."""

    __slots__ = (
        "_check_at",
        "_is_ended",
        "_most_bytes",
        "_most_items",
        "_on_output",
        "_outlet",
        "_pipeline",
        "_read_error",
        "_rest",
        "_source",
        "_source_error",
        "_tracer",
        "_verdict",
        "_waiting",
        "_wake_up",
        "_watch",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        outlet: Outlet,
        verdict: Verdict,
        watch: Stopwatch,
        tracer: Tracer,
        *,
        most_bytes: int,
        most_items: int,
        on_output: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_output` is called once, with the first output."""
        self._pipeline, self._outlet, self._verdict = pipeline, outlet, verdict
        self._watch, self._tracer, self._on_output = watch, tracer, on_output
        self._most_bytes, self._most_items = most_bytes, most_items
        self._check_at = min(_CHECK_BYTES, most_bytes)
        """The number of bytes beyond which the size of the answer is checked again."""
        self._source: UpstreamSource
        self._wake_up: asyncio.Future[None] | None = None
        """Set while the coroutine sleeps. Only then, a read is passed on as it arrives."""
        self._waiting: list[bytes] = []
        """Reads that arrived while the coroutine worked."""
        self._rest: Iterator[list[Event]] | None = None
        """The rest of a read that takes long."""
        self._is_ended = False
        self._read_error: Exception | None = None
        """What a read has raised. It is raised again in the coroutine."""
        self._source_error: Exception | None = None
        """How the source has failed. It is raised after everything received before it was passed on."""

    async def forward(
        self, source: UpstreamSource, dialect: Dialect, plan: Plan, advise: Advice = advice
    ) -> None:
        """Read an answer to its end, without sending the terminal event. Raise what `Pipeline.read` raises,
        and `NetworkError` if the connection breaks before the model has finished."""
        pipeline = self._pipeline
        mask = partial(masked, source=source)
        pipeline.open(dialect, plan, content_type=source.content_type, mask=mask, advise=advise)
        self._source, self._is_ended = source, False
        self._read_error = self._source_error = self._rest = None
        self._waiting.clear()
        try:
            with self._watch.waiting():
                source.start(self)
                while not await self._catch_up():
                    await self._next_call()
            self._write(pipeline.read_end(), more=True)
        except NetworkError:
            self._write(pipeline.read_cut())
            if not pipeline.has_finished:
                raise
        finally:
            self._is_ended, self._wake_up = True, None
            self._read_error = self._source_error = None  # their tracebacks refer to this object
            if pipeline.upstream_id:
                self._verdict.upstream_id = shown(pipeline.upstream_id)

    # Called by the source

    def data(self, data: bytes) -> None:
        """Pass one read on."""
        if self._is_ended:
            return
        if self._wake_up is None:
            self._waiting.append(data)
            self._source.pause()
            return
        try:
            may_go_on = self._read(data)
        except Exception as error:
            self._read_error, may_go_on = error, False
        if not may_go_on:
            self._source.pause()
            self._wake()
        elif self._pipeline.is_answered:
            self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    def failed(self, error: Exception, refused: bytes = b"") -> None:
        if refused:
            self._verdict.bytes_in += len(refused)
            self._tracer.read(refused)
        self._source_error = error
        self._wake()

    # In the turn's coroutine

    def _next_call(self) -> asyncio.Future[None]:
        """Pass on what arrives. The result is done when the coroutine has to do something."""
        self._wake_up = wake_up = asyncio.get_running_loop().create_future()
        self._source.resume()
        return wake_up

    def _wake(self) -> None:
        wake_up, self._wake_up = self._wake_up, None
        if wake_up is not None and not wake_up.done():
            wake_up.set_result(None)

    async def _catch_up(self) -> bool:
        """Do what could not be done at once: raise what a read has raised, wait for the outlet, continue a
        long read, then those that arrived in the meantime. Return whether the answer is complete."""
        if self._read_error is not None:
            raise self._read_error
        while not self._pipeline.is_answered:
            await self._outlet.flush()
            if self._rest is not None:
                await asyncio.sleep(0)
                self._pass_on(self._rest, self._watch.clock())
            elif self._waiting:
                self._read(self._waiting.pop(0))
            elif self._source_error is not None:
                raise self._source_error
            else:
                if self._is_ended and self._tracer.is_on:
                    self._tracer.read(b"")  # the end of the body
                return self._is_ended
        return True

    # Reading

    def _read(self, data: bytes) -> bool:
        """Translate one read; return whether everything was passed on, and the outlet is ready for more."""
        watch, verdict, pipeline = self._watch, self._verdict, self._pipeline
        began = watch.received = watch.clock()
        if self._tracer.is_on:
            self._tracer.read(data)
        verdict.bytes_in += len(data)
        if verdict.bytes_in > self._check_at:
            if verdict.bytes_in > self._most_bytes:
                return self._read_excess(data)
            self._check_items()
        steps = pipeline.read(data)
        if steps.__class__ is not tuple:
            return self._pass_on(iter(steps), began)
        # A few frames at most, as in nearly every read.
        is_ready = self._outlet.write(
            steps[0] if steps else (), more=pipeline.is_answered and pipeline.has_output
        )
        if verdict.first_output_ms < 0 and pipeline.has_output:
            self._note_output()
        watch.add_work(began)
        return is_ready

    def _check_items(self) -> None:
        """Refuse an answer of many small items, whose events take far more memory and time than its bytes."""
        if self._pipeline.item_count > self._most_items:
            message = f"the upstream sent more than {self._most_items} output items (limits.output_items)"
            raise ProtocolError(message, code="upstream_invalid")
        self._check_at = min(self._verdict.bytes_in + _CHECK_BYTES, self._most_bytes)

    def _read_excess(self, data: bytes) -> bool:
        """Translate the bytes up to the limit, and refuse the rest."""
        excess = self._verdict.bytes_in - self._most_bytes
        for events in self._pipeline.read(data[: max(len(data) - excess, 0)]):
            self._write(events)
        if not self._pipeline.is_answered:
            message = f"the upstream sent more than {self._most_bytes} bytes (limits.answer_bytes)"
            raise ProtocolError(message, code="upstream_invalid")
        return self._outlet.is_ready

    def _pass_on(self, steps: Iterator[list[Event]], began: float) -> bool:
        """Write the events of these steps, as far as there is time for them."""
        self._rest = None
        events: list[Event] = []
        try:
            for step in steps:
                events += step
                if self._watch.clock() - began >= SLICE:
                    self._rest = steps
                    break
        finally:
            # The end follows at once. Without output, another target may be asked before.
            more = self._pipeline.is_answered and self._pipeline.has_output
            is_ready = self._write(events, more=more)
            self._watch.add_work(began)
        return is_ready and self._rest is None

    def _write(self, events: Sequence[Event], *, more: bool = False) -> bool:
        if self._verdict.first_output_ms < 0 and self._pipeline.has_output:
            self._note_output()
        return self._outlet.write(events, more=more)

    def _note_output(self) -> None:
        self._verdict.first_output_ms = round(self._watch.seconds * 1000)
        self._on_output()
