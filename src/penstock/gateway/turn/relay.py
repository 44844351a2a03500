"""Relay one answer through the gateway: from the upstream's bytes to the turn's outlet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Dialect, Plan
from penstock.errors import NetworkError, ProtocolError
from penstock.fairness import WorkSlice
from penstock.gateway.errors import RequestRefused
from penstock.gateway.telemetry.traces import Tracer
from penstock.gateway.turn.outlets import Outlet
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, shown
from penstock.net.source import Inbox, UpstreamSource
from penstock.protocol.events import Event
from penstock.upstream.masking import masked


class Relay:
    """Sends the events of one read in one write, unless other turns would have to wait too long."""

    def __init__(
        self,
        pipeline: Pipeline,
        outlet: Outlet,
        verdict: Verdict,
        watch: Stopwatch,
        tracer: Tracer,
        most_bytes: int,
    ) -> None:
        self._pipeline, self._outlet, self._verdict = pipeline, outlet, verdict
        self._watch, self._tracer, self._most_bytes = watch, tracer, most_bytes
        self._unwritten: list[Event] = []
        """Events of the current read. They are sent before anything else can number an event."""
        self._work = WorkSlice()

    async def forward(self, source: UpstreamSource, dialect: Dialect, plan: Plan) -> None:
        """Read an answer to its end, without sending the terminal event. Raise what `Pipeline.read` raises,
        and `NetworkError` if the connection breaks before the model has finished."""
        pipeline = self._pipeline
        pipeline.open(dialect, plan, content_type=source.content_type, mask=partial(masked, source=source))
        inbox = Inbox(source)
        try:
            while not pipeline.is_answered and (data := await self._next(inbox)):
                for events in pipeline.read(data):
                    self._add(events)
                    if self._work.is_over:
                        await self.write()
                        await self._work.pause()
            self._add(pipeline.read_end())
        except NetworkError:
            self._add(pipeline.read_cut())
            if not pipeline.has_finished:
                raise
        finally:
            if pipeline.upstream_id:
                self._verdict.upstream_id = shown(pipeline.upstream_id)

    async def write(self, events: Sequence[Event] = ()) -> None:
        """Send events, after those that are pending."""
        pending, self._unwritten = self._unwritten, []
        await self._outlet.write([*pending, *events])

    async def keep(self, events: Sequence[Event]) -> None:
        """Store events, after those that are pending, without sending them: the client is disconnected."""
        pending, self._unwritten = self._unwritten, []
        await self._outlet.keep([*pending, *events])

    async def refuse(self, refused: RequestRefused) -> None:
        """Send an HTTP error instead; only before anything was written."""
        await self._outlet.refuse(refused)

    def _add(self, events: list[Event]) -> None:
        self._unwritten += events
        if self._pipeline.has_output and self._verdict.first_output_ms < 0:
            self._verdict.first_output_ms = round(self._watch.seconds * 1000)

    async def _next(self, inbox: Inbox) -> bytes:
        """Return the next bytes. If the answer is too large, the bytes up to the limit are still used."""
        await self.write()
        room = self._most_bytes - self._verdict.bytes_in
        data = b""
        if room >= 0:
            with self._watch.waiting():
                data = await inbox.take()
            self._work.restart()  # the loop has served other turns while this one waited for data
        self._watch.mark_received()
        self._tracer.read(data)
        self._verdict.bytes_in += len(data)
        if room < 0 or (room == 0 and data):
            message = f"the upstream sent more than {self._most_bytes} bytes (limits.answer_bytes)"
            raise ProtocolError(message, code="upstream_invalid")
        return data[:room]
