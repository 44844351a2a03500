"""Upstreams whose text becomes one compaction item, instead of being passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from penstock.dialects.plan import Dialect, Plan, Reader, Target, UpstreamRequest
from penstock.failures import Failure
from penstock.gateway.history.compactions import TRIGGER, Summary
from penstock.net.source import UpstreamSource
from penstock.protocol.items import Compaction, Item, Message
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    ItemDelta,
    TextDelta,
    UpstreamInfo,
    UsageDelta,
)
from penstock.stream.machine import INCOMPLETE_REASONS
from penstock.upstream.target import Upstream

_PASSED = (UsageDelta, UpstreamInfo, DiagnosticDelta, ErrorDelta)
"""What is passed on of an answer that becomes a summary."""


class CompactionCodec(Struct, frozen=True):
    """How the text of a summary becomes a compaction item, and what is in one."""

    seal: Callable[[str], str]
    open: Callable[[Compaction], Summary | None]

    def upstream(self, upstream: Upstream) -> Upstream:
        """The same upstream, whose text becomes an item."""
        return CompactingUpstream(upstream, self.seal)

    def written(self, output: Sequence[Item]) -> list[Item]:
        """What the model wrote, and not what sealing made of it: that is what is counted."""
        return [
            Message(role="assistant", content=summary.summary)
            for item in output
            if isinstance(item, Compaction) and (summary := self.open(item)) is not None
        ]


class CompactingUpstream:
    """An upstream, read by `CompactingReader`."""

    def __init__(self, upstream: Upstream, seal: Callable[[str], str]) -> None:
        self.name, self.keys, self.pass_key = upstream.name, upstream.keys, upstream.pass_key
        self.dialect: Dialect = CompactingDialect(upstream.dialect, seal)
        self._upstream = upstream

    def target(self, model: str, key: str) -> Target:
        return self._upstream.target(model, key)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        return await self._upstream.send(request, key=key, headers=headers)

    async def aclose(self) -> None:
        """It belongs to somebody else."""


class CompactingDialect:
    def __init__(self, dialect: Dialect, seal: Callable[[str], str]) -> None:
        self.name = dialect.name
        self.connection = dialect.connection
        self._dialect, self._seal = dialect, seal

    def render(self, plan: Plan) -> UpstreamRequest:
        return self._dialect.render(plan)

    def reader(self, plan: Plan) -> Reader:
        return CompactingReader(self._dialect.reader(plan), self._seal)

    def read_body(self, plan: Plan, body: bytes) -> list[Delta]:
        return SummaryCollector(self._seal).take(self._dialect.read_body(plan, body))

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return self._dialect.classify(status, headers, body)


class CompactingReader:
    def __init__(self, reader: Reader, seal: Callable[[str], str]) -> None:
        self._reader, self._collector = reader, SummaryCollector(seal)

    @property
    def is_over(self) -> bool:
        return self._reader.is_over

    def feed(self, frame: Frame) -> list[Delta]:
        return self._collector.take(self._reader.feed(frame))

    def end(self) -> list[Delta]:
        return self._collector.take(self._reader.end())


class SummaryCollector:
    """Gathers the text of an answer; at its end there is one item instead."""

    def __init__(self, seal: Callable[[str], str]) -> None:
        self._seal = seal
        self._pieces: list[str] = []
        self._is_made = False

    def take(self, deltas: Iterable[Delta]) -> list[Delta]:
        taken: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._pieces.append(delta.text)
            elif isinstance(delta, FinishDelta):
                taken += [*self._made(delta), delta]
            elif isinstance(delta, _PASSED):
                taken.append(delta)
        return taken

    def _made(self, finish: FinishDelta) -> list[Delta]:
        """Nothing for a summary that was cut off: what is missing would be forgotten for good."""
        if self._is_made or finish.reason in INCOMPLETE_REASONS:
            return []
        self._is_made = True
        summary = "".join(self._pieces).strip()
        if not summary:
            return [ErrorDelta("upstream_empty", "the model wrote no summary")]
        return [ItemDelta(TRIGGER, Compaction(encrypted_content=self._seal(summary)), done=True)]
