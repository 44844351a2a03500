"""What a turn's trace needs while the turn runs: when each attempt began and ended. The spans are built when
the turn has ended, from its verdict; nothing happens per chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from urllib.parse import urlsplit

from penstock.dialects.presets import PRESETS, Preset
from penstock.errors import OpenResponsesError
from penstock.gateway.refusals import code_of
from penstock.gateway.settings import DEMO
from penstock.gateway.telemetry.otel.attributes import EndedAttempt, GenAiServer
from penstock.gateway.telemetry.otel.trace_context import TraceContext
from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.gateway.turn.verdict import Verdict, shown
from penstock.protocol.request import CreateResponse
from penstock.upstream.attempts import Attempt
from penstock.upstream.target import UpstreamTarget

ANSWERED = "answered"


class TurnTrace:
    """One turn. `context` is that of its span, `parent` that of the client's."""

    __slots__ = (
        "_is_propagated",
        "_watch",
        "attempts",
        "context",
        "parent",
        "request",
        "secrets",
        "start",
        "user_agent",
    )

    def __init__(
        self,
        context: TraceContext,
        parent: TraceContext | None,
        request: CreateResponse,
        watch: Stopwatch,
        *,
        is_propagated: bool = False,
        user_agent: str = "",
        secrets: tuple[str, ...] = (),
        clock: Callable[[], int] = time_ns,
    ) -> None:
        """`is_propagated`: upstreams get the context of the attempt. `secrets` are the client's, to be masked
        in the content. `clock` returns nanoseconds since 1970."""
        self.context, self.parent, self.request = context, parent, request
        self._watch, self._is_propagated = watch, is_propagated
        self.user_agent, self.secrets = user_agent, secrets
        self.start = clock() - round(watch.seconds * 1e9)
        """When the turn began."""
        self.attempts: list[EndedAttempt] = []

    def attempt_begins(self, attempt: Attempt, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Note that a request is about to be sent; return its headers for the upstream."""
        context = self.context.child()
        record = EndedAttempt(
            number=attempt.number,
            target=attempt.upstream.name,
            model=shown(attempt.model),
            span_id=context.span_id,
            began=self._watch.seconds,
            wait=attempt.wait,
        )
        self.attempts.append(record)
        return {**headers, **context.headers} if self._is_propagated else headers

    def attempt_accepted(self, status: int) -> None:
        """Note that the last attempt is being answered."""
        self.attempts[-1].status = status

    def attempt_answered(self) -> None:
        """Note that the answer was read."""
        self._end_attempt(ANSWERED)

    def attempt_failed(self, error: OpenResponsesError) -> None:
        """Note how the last attempt failed. If the error precedes the request, there is none."""
        code = code_of(error)
        if self._end_attempt(code):
            last = self.attempts[-1]
            last.error, last.is_failed, last.status = code, True, error.status or last.status

    def _end_attempt(self, result: str) -> bool:
        if not self.attempts or self.attempts[-1].ended is not None:
            return False
        self.attempts[-1].result, self.attempts[-1].ended = result, self._watch.seconds
        return True

    def conclude(self, verdict: Verdict) -> None:
        """Complete the last attempt with what only the verdict knows: it may have been stopped, or have
        failed in the middle of its answer."""
        if not self.attempts:
            return
        last = self.attempts[-1]
        has_failed = verdict.outcome in ("failed", "refused")
        if last.ended is None:
            last.ended = self._watch.seconds
            last.error, last.is_failed = verdict.code or verdict.outcome, has_failed
        elif not last.error and has_failed and verdict.closer == "upstream":
            last.error, last.is_failed = verdict.code, True
        last.upstream_id = verdict.upstream_id
        if verdict.first_output_ms >= 0:
            last.first_output = max(verdict.first_output_ms / 1000 - last.began, 0.0)


def genai_server(target: UpstreamTarget | None) -> GenAiServer:
    """Return an upstream as the conventions describe it. Without a target, it is the built-in model."""
    if target is None:
        return GenAiServer(_BUILT_IN)
    row = PRESETS.get(target.preset) or _maker_of(target.dialect)
    parts = urlsplit(target.base_url.strip())
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return GenAiServer(row.telemetry_name or row.name, parts.hostname or "", port)


_BUILT_IN = "penstock"


def _maker_of(dialect: str) -> Preset:
    """Return the vendor whose own API a dialect is: the first with this dialect in the table. Many vendors
    speak Chat Completions, but its maker's own dialect is Responses."""
    own = "responses" if dialect == "chat" else dialect
    return next(row for row in PRESETS.values() if row.dialect == own)


def genai_servers(targets: tuple[UpstreamTarget, ...]) -> dict[str, GenAiServer]:
    """Return all upstreams by the names of their targets."""
    return {DEMO: genai_server(None), **{target.name: genai_server(target) for target in targets}}
