"""The one record that is written when a turn ends: who closed it, and what was known then (ask M1).

It holds no prompt, no answer and no words of a vendor, which may repeat either: it goes to the log.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.response import Response

_LONGEST = 128


def shown(name: str) -> str:
    """A name that somebody else chose, as it can stand in a line of the log: printable, and not endless."""
    cut = name[:_LONGEST]
    return cut if cut.isprintable() else "".join(each if each.isprintable() else "?" for each in cut)


class Verdict(Struct, kw_only=True, omit_defaults=True):
    """Filled in while the turn goes on. Times are in milliseconds, sizes in bytes."""

    request_id: str
    response_id: str = ""
    client: str = ""
    """The name of the client's key."""
    model: str = ""
    target: str = ""
    upstream_model: str = ""
    upstream_id: str = ""
    """How the upstream called its answer."""
    upstream_status: int = 0
    accent: str = ""
    stream: bool = False
    outcome: str = ""
    """`completed`, `incomplete`, `failed`, `cancelled`, or `refused` when it ended in an HTTP error."""
    closer: str = ""
    """Who ended it: `upstream`, `client`, `gateway` or `timeout`."""
    code: str = ""
    """Of what failed."""
    retry_after: float = 0.0
    """Seconds after which it may be tried again, where the upstream told."""
    status: int = 0
    """Of the HTTP answer; 0: there was nobody left to get one."""
    attempts: int = 0
    tried: list[str] = []
    """The failures on the way: `target: code`."""
    last_event: str = ""
    last_sequence: int = -1
    terminal_sent: bool = False
    duration_ms: int = 0
    first_output_ms: int = -1
    overhead_ms: float = 0.0
    idle_ms: int = 0
    """Since the upstream's last byte."""
    bytes_in: int = 0
    """From the upstream."""
    bytes_out: int = 0
    """To the client."""
    left: bool = False
    """The client went, and the turn went on for a while (`disconnect_grace`)."""
    heartbeats: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    usage_estimated: bool = False
    diagnostics: list[str] = []

    def fields(self) -> dict[str, Any]:
        """What there is to tell."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def sentence(self) -> str:
        """For people."""
        told = f"{self.outcome} by {self.closer}" if self.outcome != "completed" else self.outcome
        told += f" ({self.code})" if self.code else ""
        where = f" at {self.target}" if self.target else ""
        tokens = f", {self.input_tokens} tokens in, {self.output_tokens} out" if self.output_tokens else ""
        attempts = f", {self.attempts} attempts" if self.attempts > 1 else ""
        took = f" in {self.duration_ms / 1000:.2f} s"
        return f"{self.model or 'no model'}{where}: {told}{took}{tokens}{attempts} [{self.request_id}]"


def conclude(verdict: Verdict, response: Response, watch: Stopwatch) -> None:
    """Fill in what the response tells of itself, now that it has ended."""
    verdict.outcome = verdict.outcome or response.status
    verdict.closer = verdict.closer or "upstream"
    if response.error is not None:
        verdict.code = verdict.code or response.error.code
    if response.usage is not None:
        verdict.input_tokens = response.usage.input_tokens
        verdict.cached_tokens = response.usage.input_tokens_details.cached_tokens
        verdict.output_tokens = response.usage.output_tokens
        verdict.reasoning_tokens = response.usage.output_tokens_details.reasoning_tokens
    verdict.diagnostics = [told.code for told in response.diagnostics or []]
    verdict.duration_ms, verdict.idle_ms = round(watch.seconds * 1000), round(watch.idle * 1000)
    verdict.overhead_ms = round(watch.overhead * 1000, 2)
