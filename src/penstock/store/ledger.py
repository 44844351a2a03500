"""The ledger: one record per turn, stored or not, without any content. It is what limits and budgets are
counted from, and what `penstock usage`, `penstock turns` and `/metrics` report.

A record is opened when a turn is admitted, with an estimate of what the turn may use, and settled when the
turn ends, with what it did use. Until then the estimate counts, so that concurrent turns cannot spend the
same budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

UNFINISHED = "running"
"""The outcome of a turn that has not ended."""

WINDOW = 60.0
"""Seconds over which rates are counted. The window slides."""

Unit = Literal["tokens", "cost"]
Period = Literal["day", "month"]
Dimension = Literal["key", "model", "target", "outcome", "hour", "day", "month"]
"""What `totals` can be grouped by. Days and months are those of UTC."""


class TurnRecord(Struct, frozen=True, kw_only=True):
    """One turn. The fields after `reserved_cost` are those of the verdict (`gateway.turn.verdict`)."""

    id: str
    """The id of the response."""
    tenant: str
    """The name of the client's key, or `local` if the gateway has no keys."""
    started_at: float
    """Seconds since 1970."""
    ended_at: float | None = None
    is_stored: bool = False
    """Whether the response itself is stored (`store: true`)."""
    user_agent: str = ""
    """The client's program, as it names itself."""
    cost: float | None = None
    """Dollars, at the prices of that day; None if no price is known."""
    reserved_tokens: int = 0
    """The estimate that counts while the turn runs: input, and the most output that it may produce."""
    reserved_cost: float = 0.0

    request_id: str = ""
    model: str = ""
    target: str = ""
    upstream_model: str = ""
    upstream_id: str = ""
    upstream_status: int = 0
    accent: str = ""
    stream: bool = False
    outcome: str = UNFINISHED
    closer: str = ""
    code: str = ""
    status: int = 0
    attempts: int = 0
    last_event: str = ""
    last_sequence: int = -1
    terminal_sent: bool = False
    duration_ms: int = 0
    first_output_ms: int = -1
    overhead_ms: float = 0.0
    idle_ms: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    heartbeats: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    usage_estimated: bool = False
    diagnostics: tuple[str, ...] = ()
    """The codes of the diagnostics."""


class Budget(Struct, frozen=True):
    """How much a key may use per day or month, in tokens or dollars."""

    amount: float
    unit: Unit
    period: Period


class KeyLimits(Struct, frozen=True, kw_only=True):
    """What one key may use. None: unlimited."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_turns: int | None = None
    budgets: tuple[Budget, ...] = ()


class Exceeded(Struct, frozen=True, kw_only=True):
    """The limit that a turn would exceed, and when there is room for it."""

    limit: Literal["requests_per_minute", "tokens_per_minute", "concurrent_turns", "budget"]
    allowed: float
    used: float
    """What counts already, including what running turns have reserved."""
    retry_after: float
    """Seconds. For a budget, until its period ends."""
    budget: Budget | None = None


class TurnFilter(Struct, frozen=True, kw_only=True):
    """Which turns to return. An empty field selects all."""

    tenant: str | None = None
    """None: every tenant's turns, for operators."""
    since: float = 0.0
    """Turns that started at this time or later."""
    until: float | None = None
    """Turns that started before this time."""
    model: str = ""
    target: str = ""
    outcome: str = ""
    search: str = ""
    """A part of an id, a request id, a model, a key's name, a user agent, an outcome or an error code."""


class TurnPage(Struct, frozen=True):
    """Turns, newest first, and the cursor of the next page; an empty cursor: there are no more."""

    turns: tuple[TurnRecord, ...]
    next: str = ""


class TurnTotals(Struct, frozen=True, kw_only=True):
    """The sums of the turns that have ended, for one combination of the requested dimensions."""

    group: Mapping[str, str]
    """The value of each dimension, in the requested order. Times are written as in ISO 8601."""
    turns: int
    failed: int
    """Turns whose outcome is `failed` or `refused`."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: float
    unpriced: int
    """Turns without a known price: `cost` does not include them."""
    estimated: int
    """Turns whose tokens are an estimate."""
    duration_ms: int
