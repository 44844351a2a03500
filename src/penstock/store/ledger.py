"""The ledger: one record per turn, stored or not, without any content. It is what limits and budgets are
counted from, and what `penstock usage`, `penstock turns` and `/metrics` report.

A record is opened when a turn is admitted, with an estimate of what the turn may use, and settled when the
turn ends, with what it did use. Until then the estimate counts, so that concurrent turns cannot spend the
same budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, Protocol

from msgspec import Struct

from penstock.store.latencies import TurnLatencies

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
    id: str = ""
    """The id of the only turn to return."""


DIMENSIONS: tuple[Dimension, ...] = ("key", "model", "target", "outcome", "hour", "day", "month")
TIMES: tuple[Dimension, ...] = ("hour", "day", "month")
FAILED = ("failed", "refused")
"""The outcomes that `TurnTotals.failed` counts."""
INTERRUPTED = "gateway_restarted"
"""The code of a turn whose process died while it ran (decision 33)."""
HOUR = 3600


class TurnPage(Struct, frozen=True):
    """Turns, newest first, and the cursor of the next page; an empty cursor: there are no more."""

    turns: tuple[TurnRecord, ...]
    next: str = ""


class TurnTotals(Struct, frozen=True):
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


def sum_of(totals: Sequence[TurnTotals]) -> TurnTotals:
    """Add totals to each other."""
    names = [name for name in TurnTotals.__struct_fields__ if name != "group"]
    return TurnTotals(group={}, **{name: sum(getattr(each, name) for each in totals) for name in names})


class Ledger(Protocol):
    """The part of a store that keeps the ledger. Unlike the rest of a store, it can be read across tenants
    (`TurnFilter.tenant`): whoever passes a filter on has checked what the client may see."""

    async def admit(self, record: TurnRecord, limits: KeyLimits | None = None) -> Exceeded | None:
        """Open the record of a turn, unless the turn would exceed a limit of `record.tenant`: then return
        that limit, and open nothing. Checking and opening is one step, whoever else is admitting turns. The
        time of the check is `record.started_at`.

        Without limits this does not wait for the disk: a record that cannot be written now is written later.
        With limits, raise `StoreError` if what counts already cannot be read or the record cannot be written.
        """

    def settle_turn(self, record: TurnRecord) -> None:
        """Replace the open record of a turn that has ended, and return at once. From now on its usage counts
        instead of its reservation. A record that has been settled never changes again. If the disk fails for
        long, the oldest unwritten records are dropped, and their number is logged."""

    async def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage:
        """Return a page of the turns, newest first; `after` is the cursor of the page before. Turns that are
        added in the meantime do not change which turns follow. Raise `ValueError` for an unknown cursor."""

    async def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]:
        """Return the sums of the turns that have ended, one for each combination of the dimensions that has
        turns, in the order of their values; without dimensions, one or none."""

    async def latencies(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnLatencies]:
        """Return how long the turns took that have ended, grouped and ordered like `totals`.

        During an upgrade of many workers, turns that end on a worker of the old version are missing here and
        in `causes`, and nowhere else: that version does not write these sums."""

    async def causes(self, filter: TurnFilter) -> list[tuple[str, int]]:
        """Return the error codes of the turns whose outcome is in `FAILED`, and the number of turns with
        each, most frequent first."""

    async def prune_ledger(self, *, older_than: float) -> int:
        """Delete the turns that have ended and started in an hour that was over at `older_than`, and return
        their number. Budgets still count them."""


class LedgerArchive(Protocol):
    """The part of a store's archive that reads the ledger: see `Ledger` for the methods of the same name."""

    def turns(self, filter: TurnFilter, *, after: str = "", limit: int = 50) -> TurnPage: ...

    def totals(self, filter: TurnFilter, by: Sequence[Dimension]) -> list[TurnTotals]: ...

    def last_used(self) -> dict[str, float]:
        """Return when the last turn of each tenant started."""


def tokens_of(record: TurnRecord) -> int:
    """Return the tokens that count towards limits: used, or reserved while the turn runs."""
    return record.reserved_tokens if record.ended_at is None else record.input_tokens + record.output_tokens


def cursor_of(record: TurnRecord) -> str:
    """Return the cursor of the page after this record."""
    return f"{record.started_at!r}_{record.id}"


def position_of(cursor: str) -> tuple[float, str]:
    """Return the start and the id of the last turn of the page before; raise `ValueError`."""
    started_at, _, id = cursor.partition("_")
    try:
        position = float(started_at), id
    except ValueError:
        position = math.nan, ""
    if not (math.isfinite(position[0]) and id):
        raise ValueError("the cursor is not one that an earlier page returned")
    return position


def hour_of(time: float) -> int:
    return int(time // HOUR)


def period_at(period: Period, time: float) -> tuple[float, float]:
    """Return the beginning and the end of the day or month of UTC that contains a time."""
    begin = datetime.fromtimestamp(time, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return begin.timestamp(), begin.timestamp() + 24 * HOUR
    begin = begin.replace(day=1)
    following = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    return begin.timestamp(), following.timestamp()


@lru_cache(maxsize=1024)
def time_name(dimension: Dimension, hour: int) -> str:
    """Return the name of the hour, day or month that contains an hour since 1970. A report has thousands of
    rows, but few different times."""
    moment = datetime.fromtimestamp(hour * HOUR, UTC)
    return moment.strftime({"hour": "%Y-%m-%dT%H:00Z", "day": "%Y-%m-%d", "month": "%Y-%m"}[dimension])


def searched_text(record: TurnRecord) -> str:
    """Return the text in which `TurnFilter.search` is looked for, in lower case."""
    return lower_ascii("\n".join(getattr(record, name) for name in SEARCHED))


SEARCHED = ("id", "request_id", "model", "tenant", "user_agent", "outcome", "code")


def lower_ascii(text: str) -> str:
    """Return a text with its ASCII letters in lower case, as SQLite's `lower` does."""
    return text.translate(_LOWER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
