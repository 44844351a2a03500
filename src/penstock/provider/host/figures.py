"""Models and usage as JSON, ready to be shown: the extension does no arithmetic. And when usage is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.models.info import ModelInfo, Prices
from penstock.parts.wire import JSON
from penstock.provider.tracker import Tokens, Totals, TrackedRequest, UsageTracker

SOURCES: dict[str, str] = {
    "override": "as you set it",
    "endpoint": "as the endpoint lists it",
    "probe": "as the server says",
    "catalog": "as the catalog says",
    "id": "read from its name",
    "default": "a guess: nobody says",
}
"""Where a figure is from (`penstock.models.info.SOURCES`), in words for a tooltip."""

_SHOWN_ERROR = 300

PAUSE = 0.1
"""Seconds between two updates of the usage."""


def model_to_json(info: ModelInfo) -> JSON:
    return {
        "id": info.id,
        "name": info.name,
        "family": info.family,
        "version": info.version,
        "vendor": info.vendor,
        "max_input_tokens": info.max_input,
        "max_output_tokens": info.max_output,
        "image_input": info.image_input,
        "tool_calling": info.tool_calling,
        "reasoning": info.reasoning,
        "efforts": [*info.efforts],
        "prices": _prices(info.prices),
        "source": _source(info),
        "tooltip": tooltip(info),
    }


def tooltip(info: ModelInfo) -> list[str]:
    """What there is to say of a model, a line each."""
    limits = f"{info.max_input:,} tokens in, {info.max_output:,} out ({SOURCES[_source(info)]})"
    lines = [limits, _priced(info.prices)] if info.prices else [limits]
    return [*lines, info.description] if info.description else lines


def usage_to_json(trackers: Mapping[str, UsageTracker]) -> JSON:
    """All that was used, by the groups that used it. The newest of the recent turns comes first."""
    ended = [(group, each) for group, tracker in trackers.items() for each in tracker.recent]
    ended.sort(key=lambda pair: pair[1].ended, reverse=True)
    recent = [_request(group, each) for group, each in ended]
    total = sum((tracker.total for tracker in trackers.values()), Totals())
    return {
        "running": [_request(group, each) for group, tracker in trackers.items() for each in tracker.running],
        "last": recent[0] if recent else None,
        "total": _totals(total),
        "by_model": [
            {"group": group, "model": model, **_totals(totals)}
            for group, tracker in trackers.items()
            for model, totals in tracker.by_model.items()
        ],
        "recent": recent,
    }


def _source(info: ModelInfo) -> str:
    return info.sources.get("max_input", "default")


def _prices(prices: Prices | None) -> JSON | None:
    if prices is None:
        return None
    return {"input": prices.input, "output": prices.output, "cached_input": prices.cached_input}


def _priced(prices: Prices) -> str:
    cached = f", ${prices.cached_input:g} cached" if prices.cached_input is not None else ""
    return f"${prices.input:g} in{cached}, ${prices.output:g} out per million tokens"


def _request(group: str, request: TrackedRequest) -> JSON:
    return {
        "group": group,
        "model": request.model,
        "outcome": request.outcome,
        "estimated_input": request.estimated_input,
        "max_input": request.max_input,
        "share": round(request.fill, 4),
        **_tokens(request.tokens),
        "is_estimate": request.is_estimate,
        "cost": request.cost,
        "seconds": round(request.seconds, 3),
        "response_id": request.response_id,
        "error": " ".join(request.error.split())[:_SHOWN_ERROR],
    }


def _totals(totals: Totals) -> JSON:
    """A cost where there is one: not where no request had a price."""
    return {
        "requests": totals.requests,
        "failed": totals.failed,
        "cancelled": totals.cancelled,
        **_tokens(totals.tokens),
        "is_estimate": totals.estimates > 0,
        "cost": totals.cost if totals.requests > totals.unpriced else None,
        "unpriced": totals.unpriced,
    }


def _tokens(tokens: Tokens) -> JSON:
    return {
        "input": tokens.input,
        "cached": tokens.cached,
        "reasoning": tokens.reasoning,
        "output": tokens.output,
    }


class Timer(Protocol):
    """What of an event loop is needed."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> object: ...


class UsageUpdates:
    """Sends the usage after every change, at most ten times a second, and always the last state.

    `tell` says whether it could: where there is no room, it is tried again after the next pause.
    """

    def __init__(self, tell: Callable[[], bool], timer: Timer) -> None:
        self._tell = tell
        self._timer = timer
        self._next = timer.time()
        self._is_planned = False

    def changed(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._timer.call_later(max(self._next - self._timer.time(), 0.0), self._due)

    def _due(self) -> None:
        self._is_planned = False
        self._next = self._timer.time() + PAUSE
        if not self._tell():
            self.changed()
