"""How each Claude model is asked to think, and which fields it then rejects.

Every generation changed this, and each rejects the fields of the others with HTTP 400. So a model's traits
are a row of a table, found by its name. An unknown Claude is treated as a current one. Any other name is
treated as a model of another vendor with an older, compatible API.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, structs

from penstock.dialects.plan import Target
from penstock.protocol.request import ReasoningConfig
from penstock.stream.diagnostics import Diagnostics


class ClaudeTraits(Struct, frozen=True, kw_only=True):
    """What a model supports. `thinking` is `none`, `budget` or `adaptive`."""

    thinking: str = "adaptive"
    off: str = "disabled"
    """The type of `thinking` that turns it off; empty if it cannot be turned off."""
    sampling: bool = False
    """Accepts `temperature` and `top_p`."""
    forced_tools: bool = True
    """Accepts a `tool_choice` that forces a tool call."""
    xhigh: str = "xhigh"
    """The effort to send for `xhigh`, which is newer than `max` and not supported by every model."""
    max_tokens: int = 32_000
    """The limit if the client sets none: the field is required."""


MODELS: tuple[tuple[re.Pattern[str], ClaudeTraits], ...] = tuple(
    (re.compile(pattern), traits)
    for pattern, traits in (
        (
            r"claude-(instant|2|3-(opus|sonnet|haiku))",
            ClaudeTraits(thinking="none", sampling=True, max_tokens=4096),
        ),
        (r"claude-3-5", ClaudeTraits(thinking="none", sampling=True, max_tokens=8192)),
        (r"claude-3-7", ClaudeTraits(thinking="budget", sampling=True)),
        # 4.0 to 4.5, in both orders of family and number, with and without a date
        (r"claude-([a-z]+-)?4(?!\d|-[6-9](?!\d))", ClaudeTraits(thinking="budget", sampling=True)),
        (r"claude-([a-z]+-)?4-6", ClaudeTraits(sampling=True, xhigh="high")),
        (r"claude-(fable|mythos|opus-5-5)", ClaudeTraits(off="", forced_tools=False)),
        (r"claude-sonnet-5-5", ClaudeTraits(off="between_tools")),
        (r"claude", ClaudeTraits()),
        (r"", ClaudeTraits(thinking="budget", sampling=True, max_tokens=16_000)),
    )
)
"""The first row whose pattern is in the name (dots as dashes) wins. Source: Anthropic's model docs."""

BUDGETS: dict[str, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 28_000,
    "ultra": 28_000,
}
"""Thinking tokens by effort. All are below the default `max_tokens`, which includes thinking."""

EFFORTS: dict[str, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
    "ultra": "max",
}
"""`output_config.effort` by effort."""

_UNKNOWN_EFFORT = "medium"
_MIN_BUDGET = 1024
_MIN_ANSWER = 1024


class Thinking(Struct, frozen=True):
    """The fields to send. `is_on`: thinking is requested, which rules out other fields."""

    config: dict[str, Any] | None = None
    effort: str = ""

    def echo(self, requested: str) -> str | None:
        """Return the effort that the response may claim: what was sent, `none` if thinking is off, or None if
        nothing was sent. A budget in tokens stands for the effort itself."""
        if self.effort:
            return self.effort
        if self.config is None:
            return None
        return (requested if requested in EFFORTS else _UNKNOWN_EFFORT) if self.is_on else "none"

    @property
    def is_on(self) -> bool:
        return self.config is not None and self.config["type"] in ("enabled", "adaptive")


def traits_of(target: Target) -> ClaudeTraits:
    """Return the traits of a model by its name; `quirks.effort` overrides how it thinks."""
    name = target.model.lower().replace(".", "-")
    traits = next(traits for pattern, traits in MODELS if pattern.search(name))
    if target.quirks.effort in ("none", "budget", "adaptive"):
        return structs.replace(traits, thinking=target.quirks.effort)
    return traits


class ThinkingRequest(Struct, frozen=True, kw_only=True):
    """The parts of a request that decide whether the model may think."""

    reasoning: ReasoningConfig
    max_tokens: int
    forced_tool: bool = False
    unsigned_loop: bool = False
    """A tool loop is in progress whose turn does not begin with thinking (ask C5)."""


def thinking_of(traits: ClaudeTraits, request: ThinkingRequest, diagnostics: Diagnostics) -> Thinking:
    effort = request.reasoning.effort or ""
    if traits.thinking == "none":
        if effort not in ("", "none"):
            diagnostics.report(
                "field_dropped", "`reasoning.effort` was dropped: this model does not support thinking"
            )
        return Thinking()
    if effort == "none":
        return _turned_off(traits, diagnostics)
    if request.forced_tool:
        # Every generation rejects the combination, even where thinking is on by default.
        if effort:
            diagnostics.report(
                "effort_changed", "thinking was turned off: it cannot be combined with a forced tool call"
            )
        return _turned_off(traits, diagnostics) if effort or traits.thinking == "adaptive" else Thinking()
    if effort and effort not in EFFORTS:
        diagnostics.report("effort_changed", f"the effort {effort!r} is unknown; {_UNKNOWN_EFFORT} was used")
        effort = _UNKNOWN_EFFORT
    return (
        _budget(request, effort, diagnostics)
        if traits.thinking == "budget"
        else _adaptive(traits, request, effort, diagnostics)
    )


def _turned_off(traits: ClaudeTraits, diagnostics: Diagnostics) -> Thinking:
    if not traits.off:
        diagnostics.report("effort_changed", "this model always thinks; the lowest effort was used")
        return Thinking(effort="low")
    return Thinking({"type": traits.off})


def _budget(request: ThinkingRequest, effort: str, diagnostics: Diagnostics) -> Thinking:
    if not effort:
        if request.reasoning.summary:
            diagnostics.report(
                "field_dropped", "`reasoning.summary` was dropped: this model thinks only if an effort is set"
            )
        return Thinking()
    room = request.max_tokens - _MIN_ANSWER
    if request.unsigned_loop:
        diagnostics.report(
            "effort_changed", "thinking was turned off: the current tool loop began without thinking"
        )
    elif room < _MIN_BUDGET:
        diagnostics.report(
            "effort_changed",
            f"thinking was turned off: {request.max_tokens} output tokens leave no room for it",
        )
    else:
        return Thinking({"type": "enabled", "budget_tokens": min(BUDGETS[effort], room)})
    return Thinking({"type": "disabled"})


def _adaptive(
    traits: ClaudeTraits, request: ThinkingRequest, effort: str, diagnostics: Diagnostics
) -> Thinking:
    config: dict[str, Any] = {"type": "adaptive"}
    if request.reasoning.summary:
        config["display"] = "summarized"  # newer models send empty thinking otherwise
    if not effort:
        return Thinking(config) if request.reasoning.summary else Thinking()
    sent = traits.xhigh if effort == "xhigh" else EFFORTS[effort]
    if sent != effort:
        diagnostics.report(
            "effort_changed", f"this model does not support the effort {effort!r}; {sent} was used"
        )
    return Thinking(config, sent)
