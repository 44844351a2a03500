"""What was used, in a line: tokens, cost and how full the context is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from penstock.models.info import ModelInfo
from penstock.provider.tracker import Tokens, Totals, TrackedRequest, UsageTracker

_CELLS = 10


def footer(requests: Sequence[TrackedRequest], info: ModelInfo | None, *, unicode: bool = True) -> str:
    """One line for the requests of a turn; empty when nothing was used."""
    used = [request for request in requests if request.tokens != Tokens()]
    if not used:
        return ""
    tokens = sum((request.tokens for request in used), Tokens())
    is_guess = any(request.is_estimate for request in used)
    figures = _tokens(tokens, is_guess)
    costs = [request.cost for request in used if request.cost is not None]
    if costs and len(costs) == len(used):
        figures.append(_money(sum(costs), is_guess))
    figures.append(_context(used[-1], info, unicode))
    return (" · " if unicode else " | ").join(filter(None, figures))


def totals(tracker: UsageTracker) -> list[str]:
    """Lines for every model, and for all of them where there are several."""
    lines = [*starmap(_total, tracker.by_model.items())]
    if len(lines) > 1:
        lines.append(_total("all", tracker.total))
    if (accuracy := tracker.total.accuracy) is not None:
        lines.append(f"estimates of the input were right to {accuracy:.0%}")
    return lines or ["nothing was used yet"]


def _total(name: str, total: Totals) -> str:
    is_guess = total.estimates > 0
    ends = [f"{total.failed} failed"] * bool(total.failed) + [f"{total.cancelled} cancelled"] * bool(
        total.cancelled
    )
    requests = f"{total.requests} request{'s' * (total.requests != 1)}"
    figures = [requests + (f" ({', '.join(ends)})" if ends else ""), *_tokens(total.tokens, is_guess)]
    if total.unpriced < total.requests:
        figures.append(_money(total.cost, is_guess) + (" and more" if total.unpriced else ""))
    return f"{name}: {', '.join(figures)}"


def _tokens(tokens: Tokens, is_guess: bool) -> list[str]:
    mark = "~" if is_guess else ""
    cached = f" ({tokens.cached:,} cached)" if tokens.cached else ""
    reasoning = f" ({tokens.reasoning:,} reasoning)" if tokens.reasoning else ""
    return [f"in {mark}{tokens.input:,}{cached}", f"out {mark}{tokens.output:,}{reasoning}"]


def _money(dollars: float, is_guess: bool) -> str:
    places = 2 if dollars >= 1 or not dollars else 4 if dollars >= 0.001 else 6
    return f"{'~' if is_guess else ''}${dollars:.{places}f}"


def _context(request: TrackedRequest, info: ModelInfo | None, unicode: bool) -> str:
    """The share of what the model takes. Where nobody knows that, the share is a guess too."""
    if request.max_input <= 0:
        return ""
    is_guess = request.is_estimate or (info is not None and info.sources.get("max_input") == "default")
    full, free = ("█", "░") if unicode else ("#", ".")
    cells = min(round(request.fill * _CELLS), _CELLS) or int(request.fill >= 0.01)
    return (
        f"context {full * cells}{free * (_CELLS - cells)} {'~' if is_guess else ''}{_percent(request.fill)}"
    )


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"
