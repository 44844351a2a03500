"""The verdict: the one record that is written when a turn ends, with who ended it and how (ask M1).

It goes to the log. So it contains no prompt, no output, and no vendor messages, which may repeat either.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from penstock.gateway.turn.stopwatch import Stopwatch
from penstock.protocol.response import Response

_LONGEST = 128


def shown(name: str) -> str:
    """Return a name from outside in a form that is safe in a log line: printable and limited in length."""
    cut = name[:_LONGEST]
    return cut if cut.isprintable() else "".join(each if each.isprintable() else "?" for each in cut)


class Verdict(Struct, kw_only=True, omit_defaults=True):
    """Filled in during the turn. Times are in milliseconds, sizes in bytes."""

    request_id: str
    response_id: str = ""
    trace_id: str = ""
    """The OpenTelemetry trace of the turn, if there is one."""
    client: str = ""
    """The name of the client's key."""
    model: str = ""
    target: str = ""
    upstream_model: str = ""
    upstream_id: str = ""
    """The upstream's id of its answer."""
    upstream_status: int = 0
    accent: str = ""
    stream: bool = False
    outcome: str = ""
    """`completed`, `incomplete`, `failed`, `cancelled`, or `refused` if it ended with an HTTP error."""
    closer: str = ""
    """Who ended the turn: `upstream`, `client`, `gateway` or `timeout`."""
    code: str = ""
    """The error code, if the turn failed."""
    retry_after: float = 0.0
    """Seconds after which the client may retry, if the upstream sent them."""
    status: int = 0
    """The HTTP status of the response; 0: the client had disconnected before."""
    attempts: int = 0
    tried: list[str] = []
    """The failed attempts before the last: `target: code`."""
    refused_keys: list[str] = []
    """Where the keys come from that upstreams have refused: their variables, or the target's headers."""
    last_event: str = ""
    last_sequence: int = -1
    terminal_sent: bool = False
    duration_ms: int = 0
    first_output_ms: int = -1
    overhead_ms: float = 0.0
    idle_ms: int = 0
    """Time since the upstream's last byte."""
    bytes_in: int = 0
    """Bytes from the upstream."""
    bytes_out: int = 0
    """Bytes to the client."""
    left: bool = False
    """The client disconnected, and the turn continued for a while (`disconnect_grace`)."""
    heartbeats: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    """Input tokens that the upstream has written to its cache, which some charge more for."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    usage_estimated: bool = False
    diagnostics: list[str] = []

    def fields(self) -> dict[str, Any]:
        """Return the fields of the log record."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def sentence(self) -> str:
        """Return a one-line summary for people."""
        outcome = f"{self.outcome} by {self.closer}" if self.outcome != "completed" else self.outcome
        outcome += f" ({self.code})" if self.code else ""
        where = f" at {self.target}" if self.target else ""
        tokens = f", {self.input_tokens} tokens in, {self.output_tokens} out" if self.output_tokens else ""
        attempts = f", {self.attempts} attempts" if self.attempts > 1 else ""
        keys = f", refused keys: {', '.join(self.refused_keys)}" if self.refused_keys else ""
        took = f" in {self.duration_ms / 1000:.2f} s"
        summary = f"{self.model or 'no model'}{where}: {outcome}{took}{tokens}{attempts}{keys}"
        return f"{summary} [{self.request_id}]"


def conclude(verdict: Verdict, response: Response, watch: Stopwatch) -> None:
    """Fill in the fields that come from the ended response."""
    verdict.outcome = verdict.outcome or response.status
    verdict.closer = verdict.closer or "upstream"
    if response.error is not None:
        verdict.code = verdict.code or response.error.code
    elif response.incomplete_details is not None:
        verdict.code = verdict.code or response.incomplete_details.reason
    if response.usage is not None:
        verdict.input_tokens = response.usage.input_tokens
        verdict.cached_tokens = response.usage.input_tokens_details.cached_tokens
        verdict.cache_write_tokens = response.usage.input_tokens_details.cache_write_tokens
        verdict.output_tokens = response.usage.output_tokens
        verdict.reasoning_tokens = response.usage.output_tokens_details.reasoning_tokens
    verdict.diagnostics = [each.code for each in response.diagnostics or []]
    verdict.duration_ms, verdict.idle_ms = round(watch.seconds * 1000), round(watch.idle * 1000)
    verdict.overhead_ms = round(watch.overhead * 1000, 2)
