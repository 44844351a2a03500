"""Convert models and usage to JSON, ready to show (the extension computes nothing), and send updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.formatting import format_time
from penstock.models.info import ModelInfo, Prices
from penstock.parts.wire import JSON
from penstock.provider.host.error_messages import brief
from penstock.provider.tracker import Tokens, Totals, TrackedRequest, UsageTracker

SOURCES: dict[str, str] = {
    "override": "your setting",
    "learned": "learned from an error of the endpoint",
    "endpoint": "from the endpoint's model list",
    "probe": "from the server",
    "catalog": "from the catalog",
    "id": "from the model's name",
    "default": "a default, because no source has it",
}
"""Descriptions of the sources of figures (`penstock.models.info.SOURCES`) for a tooltip."""

PAUSE = 0.1
"""The minimum number of seconds between two usage updates."""


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
        "detail": detail(info),
        "tooltip": tooltip(info),
    }


def tooltip(info: ModelInfo) -> list[str]:
    """Return the lines of a model's tooltip."""
    limits = f"{info.max_input:,} tokens in, {info.max_output:,} out ({_explained(info)})"
    lines = [limits, _price_line(info.prices)] if info.prices else [limits]
    return [*lines, info.description] if info.description else lines


def detail(info: ModelInfo) -> str:
    """Return the capabilities and the window in a few words, for the line of a model in a list."""
    flags = {"vision": info.image_input, "tools": info.tool_calling, "thinking": info.reasoning}
    words = ", ".join(word for word, is_set in flags.items() if is_set)
    return " · ".join(filter(None, [words, _short(info.context_window)]))


def usage_to_json(trackers: Mapping[str, UsageTracker]) -> JSON:
    """Return the usage of all groups. Recent requests are listed newest first."""
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


def _explained(info: ModelInfo) -> str:
    """Return where the limits are from."""
    source = _source(info)
    if source != "learned" or info.learned is None:
        return SOURCES[source]
    day = format_time(info.learned.learned).partition(" ")[0]
    refused = f", which refused {info.learned.refused:,} tokens" if info.learned.refused else ""
    return f"learned on {day} from an error of the endpoint{refused}"


def _short(tokens: int) -> str:
    """Return a number of tokens as VS Code shows it: 200K, 1M."""
    if tokens < 999_500:
        return f"{round(tokens / 1000)}K" if tokens >= 1000 else str(tokens)
    return f"{tokens / 1_000_000:.1f}".removesuffix(".0") + "M"


def _prices(prices: Prices | None) -> JSON | None:
    if prices is None:
        return None
    return {"input": prices.input, "output": prices.output, "cached_input": prices.cached_input}


def _price_line(prices: Prices) -> str:
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
        "error": brief(request.error),
    }


def _totals(totals: Totals) -> JSON:
    """Return totals. The cost is null if no request had a price."""
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
    """The methods of an event loop that are needed."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> object: ...


class UsageUpdates:
    """Sends the usage after every change, at most ten times a second; the last state is always sent.

    `send` returns whether it succeeded. If the outbox is full, it is called again after the next pause.
    """

    def __init__(self, send: Callable[[], bool], timer: Timer) -> None:
        self._send = send
        self._timer = timer
        self._next = timer.time()
        self._is_scheduled = False

    def changed(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._timer.call_later(max(self._next - self._timer.time(), 0.0), self._send_now)

    def _send_now(self) -> None:
        self._is_scheduled = False
        self._next = self._timer.time() + PAUSE
        if not self._send():
            self.changed()
