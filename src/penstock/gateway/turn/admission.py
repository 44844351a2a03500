"""Admission: a turn gets its record in the ledger before an upstream is called, unless its key has used up
what it may use. At its end the record is settled with what the turn did use.

If the ledger cannot be reached, a key's rates and concurrent turns are counted in this process instead: of
several workers on one machine, each allows an equal share of them. A key with a budget is refused with a
503, because nobody knows what is left of it (decision 34).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter

from msgspec import UNSET
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.formatting import counted
from penstock.gateway.errors import RequestRefused
from penstock.gateway.model_listing import Listing
from penstock.gateway.refusals import refusal
from penstock.gateway.turn.verdict import Verdict
from penstock.models.info import Prices
from penstock.protocol.request import CreateResponse
from penstock.store.contract import Store
from penstock.store.ledger import Exceeded, KeyLimits, TurnRecord
from penstock.store.memory_ledger import MemoryLedger
from penstock.upstream.attempts import Attempts

DEFAULT_OUTPUT = 4096
"""Output tokens that a turn reserves if its request does not limit them."""

PATIENCE = 1.0
"""Seconds to wait for the ledger."""

LEFT_OUT = {
    "response_id": "it is the record's `id`",
    "trace_id": "it is in the log, and the trace has the request id",
    "client": "it is the record's `tenant`",
    "retry_after": "it is for the client, at once",
    "tried": "it is in the log; the record has the number of attempts",
    "refused_keys": "it is in the log",
    "left": "it is in the log",
    "cache_write_tokens": "they are part of the cost, and in the log",
}
"""Fields of the verdict that are not in the ledger, and why."""

_SHARED = tuple(name for name in Verdict.__struct_fields__ if name not in LEFT_OUT and name != "diagnostics")


_values = attrgetter(*_SHARED)


class Admission:
    """The record of one turn, from its admission to its end. `clock` returns seconds since 1970."""

    __slots__ = (
        "_attempts",
        "_clock",
        "_is_admitted",
        "_is_open",
        "_limits",
        "_listing",
        "_local",
        "_record",
        "_store",
        "_workers",
    )

    def __init__(
        self,
        record: TurnRecord,
        limits: KeyLimits | None,
        *,
        store: Store,
        local: MemoryLedger,
        listing: Listing,
        attempts: Attempts,
        clock: Callable[[], float],
        workers: int = 1,
    ) -> None:
        self._record, self._limits = record, limits
        self._store, self._local, self._listing, self._clock = store, local, listing, clock
        self._attempts, self._workers = attempts, workers
        self._is_admitted = self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether the ledger has the record, or may have it: then it must be settled."""
        return self._is_open

    def reserve_nothing(self) -> None:
        """Admit the turn without a reservation: it does not call the model."""
        self._record = replace(self._record, reserved_tokens=0)

    async def admit(self) -> None:
        """Open the record, once; raise `RequestRefused` if the key may not run the turn now."""
        if self._is_admitted:
            return
        if self._limits is None:
            await self._store.admit(self._record)
        else:
            await self._check(self._limits)
        self._is_admitted = self._is_open = True

    async def _check(self, limits: KeyLimits) -> None:
        if any(budget.unit == "cost" for budget in limits.budgets):
            await self._reserve_cost()
        try:
            async with asyncio.timeout(PATIENCE):
                exceeded = await self._store.admit(self._record, limits)
            if exceeded is None:
                self._local.admit_now(self._record, None)  # in case that the ledger fails later
        except (StoreError, TimeoutError) as error:
            self._is_open = isinstance(error, TimeoutError)  # the ledger may still be opening the record
            if limits.budgets:
                raise _unknown_budget(self._record.tenant) from None
            exceeded = self._local.admit_now(self._record, share_of(limits, self._workers))
            if exceeded is None:
                await self._store.admit(self._record)  # it is written when the ledger can be reached again
        except asyncio.CancelledError:
            self._is_open = True
            raise
        if exceeded is not None:
            raise exceeded_refusal(self._record, exceeded)

    async def _reserve_cost(self) -> None:
        """Reserve what the turn may cost at the dearest of its targets. A fallback without a known price is
        not used: what it costs would not count."""
        record, preferred = self._record, self._attempts.untried[0]
        found = [(each, self._prices(each.upstream.name, each.model)) for each in self._attempts.untried]
        if any(prices is None for _, prices in found):  # perhaps nobody has asked for the lists of models yet
            await self._listing.find(record.model)
            found = [(each, self._prices(each.upstream.name, each.model)) for each, _ in found]
        dearest = 0.0
        for each, prices in found:
            if prices is not None:
                # The reservation does not separate input from output: the dearer price is never too low.
                dearest = max(dearest, prices.input, prices.output, prices.cache_write or 0.0)
            elif each is preferred:
                raise _no_price(record)
            else:
                self._attempts.exclude(each)
        self._record = replace(record, reserved_cost=record.reserved_tokens * dearest / 1e6)

    def _prices(self, target: str, model: str) -> Prices | None:
        return self._listing.prices(self._record.model, target, model)

    def settle(self, verdict: Verdict) -> float | None:
        """Settle the record; return the cost of the turn, None if no price is known."""
        cost = self._cost(verdict)
        if self._is_open:
            shared = dict(zip(_SHARED, _values(verdict), strict=True))
            ended = replace(
                self._record,
                ended_at=self._clock(),
                cost=cost,
                diagnostics=tuple(verdict.diagnostics),
                **shared,
            )
            self._store.settle_turn(ended)
            if self._limits is not None and self._is_admitted:
                self._local.settle_turn(ended)
        return cost

    def _cost(self, verdict: Verdict) -> float | None:
        if not verdict.input_tokens and not verdict.output_tokens:
            return 0.0
        prices = self._prices(verdict.target, verdict.upstream_model)
        return None if prices is None else cost_of(verdict, prices)


def cost_of(verdict: Verdict, prices: Prices) -> float:
    """Return the cost of a turn in dollars. Input that an upstream reads from its cache, or writes to it, has
    its own price, if it is known."""
    cached = min(verdict.cached_tokens, verdict.input_tokens)
    written = min(verdict.cache_write_tokens, verdict.input_tokens - cached)
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    written_price = prices.input if prices.cache_write is None else prices.cache_write
    input = (verdict.input_tokens - cached - written) * prices.input
    input += cached * cached_price + written * written_price
    return (input + verdict.output_tokens * prices.output) / 1e6


def limits_to_check(limits: KeyLimits) -> KeyLimits | None:
    """Return the limits of a key; None if it has none."""
    return limits if limits != _NONE else None


_NONE = KeyLimits()


def share_of(limits: KeyLimits, workers: int) -> KeyLimits:
    """Return the rates that each of several workers may allow, so that all together allow about the whole."""
    if workers <= 1:
        return limits

    def share(whole: int | None) -> int | None:
        return None if whole is None else -(-whole // workers)

    return replace(
        limits,
        requests_per_minute=share(limits.requests_per_minute),
        tokens_per_minute=share(limits.tokens_per_minute),
        concurrent_turns=share(limits.concurrent_turns),
    )


def reserved_tokens(limits: KeyLimits | None, request: CreateResponse, count: Callable[[], int]) -> int:
    """Return the input and the most output of a turn; 0 for a key without limits in tokens or dollars, whose
    input need not be counted."""
    if limits is None or (limits.tokens_per_minute is None and not limits.budgets):
        return 0
    most = request.max_output_tokens
    return count() + (DEFAULT_OUTPUT if most is UNSET or most is None else most)


# Refusals


def exceeded_refusal(record: TurnRecord, exceeded: Exceeded) -> RequestRefused:
    """Return the response to a turn that would exceed a limit. It says which, how much, and until when."""
    key, allowed, used = record.tenant, f"{exceeded.allowed:,g}", f"{exceeded.used:,g}"
    wait = f"try again in {counted(max(1, round(exceeded.retry_after)), 'second')}"
    needed = f"this request may need {record.reserved_tokens:,} (its input and max_output_tokens)"
    match exceeded.limit:
        case "requests_per_minute":
            message = f"the key {key!r} may send {allowed} requests per minute and has sent {used}: {wait}"
        case "concurrent_turns":
            message = f"the key {key!r} may run {allowed} turns at a time, and {used} are running: {wait}"
        case "tokens_per_minute":
            message = (
                f"the key {key!r} may use {allowed} tokens per minute; {used} are used or reserved, "
                f"and {needed}: {wait}"
            )
            if record.reserved_tokens > exceeded.allowed:  # it will never fit
                message = message.removesuffix(wait) + "send a smaller request"
                return refusal("rate_limit_exceeded", message, wait=exceeded.retry_after, is_final=True)
        case "budget":
            return _budget_refusal(record, exceeded, needed)
    return refusal("rate_limit_exceeded", message, wait=exceeded.retry_after)


def _budget_refusal(record: TurnRecord, exceeded: Exceeded, needed: str) -> RequestRefused:
    budget = exceeded.budget
    assert budget is not None
    amount, used = f"{budget.amount:,g} tokens", f"{exceeded.used:,g} are"
    if budget.unit == "cost":
        amount, used = f"${budget.amount:,g}", f"${exceeded.used:,.4g} are"
        needed = f"this request may cost ${record.reserved_cost:,.4g} (its input and max_output_tokens)"
    reset = datetime.fromtimestamp(record.started_at + exceeded.retry_after, UTC)
    message = (
        f"the budget of the key {record.tenant!r} is {amount} per {budget.period}; {used} used or reserved, "
        f"and {needed}. The budget is reset at {reset:%Y-%m-%dT%H:%MZ}"
    )
    return refusal("budget_exceeded", message, wait=exceeded.retry_after, is_final=True)


def _unknown_budget(tenant: str) -> RequestRefused:
    message = f"what is left of the budget of the key {tenant!r} cannot be read: try again in a moment"
    headers = [("retry-after", "2")]
    return RequestRefused(503, "store_unavailable", message, type="server_error", headers=headers)


def _no_price(record: TurnRecord) -> RequestRefused:
    message = (
        f"the key {record.tenant!r} has a budget in dollars, and the price of the model {record.model!r} is "
        'not known. Add it to penstock.toml: [models.NAME] limits = "price:INPUT/OUTPUT", in dollars per '
        "million tokens"
    )
    return RequestRefused(403, "price_unknown", message, param="model")
