"""Usage in one line: tokens, cost and the share of the context window."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

from penstock.models.info import ModelInfo
from penstock.provider.tracker import Tokens, Totals, TrackedRequest, UsageTracker

_CELLS = 10


def footer(requests: Sequence[TrackedRequest], info: ModelInfo | None, *, unicode: bool = True) -> str:
    """Return one line for the requests of a turn; empty if nothing was used."""
    used = [request for request in requests if request.tokens != Tokens()]
    if not used:
        return ""
    tokens = sum((request.tokens for request in used), Tokens())
    is_estimate = any(request.is_estimate for request in used)
    figures = _tokens(tokens, is_estimate)
    costs = [request.cost for request in used if request.cost is not None]
    if costs and len(costs) == len(used):
        figures.append(_money(sum(costs), is_estimate))
    figures.append(_context(used[-1], info, unicode))
    return (" · " if unicode else " | ").join(filter(None, figures))


def totals(tracker: UsageTracker) -> list[str]:
    """Return a line for every model, and a total if there are several."""
    lines = [*starmap(_total, tracker.by_model.items())]
    if len(lines) > 1:
        lines.append(_total("all", tracker.total))
    if (accuracy := tracker.total.accuracy) is not None:
        lines.append(f"accuracy of the input estimates: {accuracy:.0%}")
    return lines or ["no usage yet"]


def _total(name: str, total: Totals) -> str:
    is_estimate = total.estimates > 0
    ends = [f"{total.failed} failed"] * bool(total.failed) + [f"{total.cancelled} cancelled"] * bool(
        total.cancelled
    )
    requests = f"{total.requests} request{'s' * (total.requests != 1)}"
    figures = [requests + (f" ({', '.join(ends)})" if ends else ""), *_tokens(total.tokens, is_estimate)]
    if total.unpriced < total.requests:
        figures.append(
            _money(total.cost, is_estimate) + (" without unpriced requests" if total.unpriced else "")
        )
    return f"{name}: {', '.join(figures)}"


def _tokens(tokens: Tokens, is_estimate: bool) -> list[str]:
    mark = "~" if is_estimate else ""
    cached = f" ({tokens.cached:,} cached)" if tokens.cached else ""
    reasoning = f" ({tokens.reasoning:,} reasoning)" if tokens.reasoning else ""
    return [f"in {mark}{tokens.input:,}{cached}", f"out {mark}{tokens.output:,}{reasoning}"]


def _money(dollars: float, is_estimate: bool) -> str:
    places = 2 if dollars >= 1 or not dollars else 4 if dollars >= 0.001 else 6
    return f"{'~' if is_estimate else ''}${dollars:.{places}f}"


def _context(request: TrackedRequest, info: ModelInfo | None, unicode: bool) -> str:
    """Return the share of the context window in use; marked as a guess if the limit is unknown."""
    if request.max_input <= 0:
        return ""
    is_estimate = request.is_estimate or (info is not None and info.sources.get("max_input") == "default")
    full, free = ("█", "░") if unicode else ("#", ".")
    cells = min(round(request.fill * _CELLS), _CELLS) or int(request.fill >= 0.01)
    bar = full * cells + free * (_CELLS - cells)
    return f"context {bar} {'~' if is_estimate else ''}{_percent(request.fill)}"


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"
