"""What each Claude takes: how it is told to think, and what it then refuses.

Every generation changed this, and each refuses the others' fields with a 400. So a model's traits are a row
of a table, found by its name. A name that nobody has met yet is taken for a current Claude or, if it is no
Claude, for another maker's copy of the API as it was when they copied it.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, structs

from penstock.dialects.plan import Target
from penstock.protocol.request import ReasoningConfig
from penstock.stream.diagnostics import Diagnostics


class ClaudeTraits(Struct, frozen=True, kw_only=True):
    """`thinking` is a row of the effort tables: `none`, `budget` or `adaptive`."""

    thinking: str = "adaptive"
    off: str = "disabled"
    """The type of `thinking` that turns it off; empty where it cannot be."""
    sampling: bool = False
    """Takes `temperature` and `top_p`."""
    forced_tools: bool = True
    """Takes a `tool_choice` that makes it call a tool."""
    xhigh: str = "xhigh"
    """What it is asked for as `xhigh`, which is younger than `max` and not known to all."""
    max_tokens: int = 32_000
    """The limit when the client sets none: the field is required."""


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
"""The first row whose pattern is in the name, written with dashes. From Anthropic's notes on each model."""

BUDGETS: dict[str, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 16_000,
    "xhigh": 24_000,
    "max": 28_000,
}
"""Tokens of thinking by effort. All are below the usual `max_tokens`, which counts thinking as well."""

EFFORTS: dict[str, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""`output_config.effort` by effort."""

_UNKNOWN_EFFORT = "medium"
_LEAST_BUDGET = 1024
_ROOM_TO_ANSWER = 1024


class Thinking(Struct, frozen=True):
    """The fields to send. `is_on`: asked to think, which forbids other fields."""

    config: dict[str, Any] | None = None
    effort: str = ""

    @property
    def is_on(self) -> bool:
        return self.config is not None and self.config["type"] in ("enabled", "adaptive")


def traits_of(target: Target) -> ClaudeTraits:
    """`quirks.effort` may name another row of the effort tables than the model's name does."""
    name = target.model.lower().replace(".", "-")
    traits = next(traits for pattern, traits in MODELS if pattern.search(name))
    if target.quirks.effort in ("none", "budget", "adaptive"):
        return structs.replace(traits, thinking=target.quirks.effort)
    return traits


class ThinkingRequest(Struct, frozen=True, kw_only=True):
    """What decides about thinking besides the effort."""

    reasoning: ReasoningConfig
    max_tokens: int
    forced_tool: bool = False
    unsigned_loop: bool = False
    """A tool loop is going on whose turn does not begin with thinking of this maker (ask C5)."""


def thinking_of(traits: ClaudeTraits, asked: ThinkingRequest, told: Diagnostics) -> Thinking:
    effort = asked.reasoning.effort or ""
    if traits.thinking == "none":
        if effort not in ("", "none"):
            told.tell("field_dropped", "`reasoning.effort` was dropped: this model cannot think")
        return Thinking()
    if effort == "none":
        return _off(traits, told)
    if asked.forced_tool:
        # Refused together by every generation, also where thinking is on by itself.
        if effort:
            told.tell("effort_changed", "thinking was turned off: it cannot be had with a forced tool call")
        return _off(traits, told) if effort or traits.thinking == "adaptive" else Thinking()
    if effort and effort not in EFFORTS:
        told.tell("effort_changed", f"the effort {effort!r} is unknown; {_UNKNOWN_EFFORT} was asked for")
        effort = _UNKNOWN_EFFORT
    return (
        _budget(asked, effort, told)
        if traits.thinking == "budget"
        else _adaptive(traits, asked, effort, told)
    )


def _off(traits: ClaudeTraits, told: Diagnostics) -> Thinking:
    if not traits.off:
        told.tell("effort_changed", "this model always thinks; the least effort was asked for")
        return Thinking(effort="low")
    return Thinking({"type": traits.off})


def _budget(asked: ThinkingRequest, effort: str, told: Diagnostics) -> Thinking:
    if not effort:
        if asked.reasoning.summary:
            told.tell(
                "field_dropped", "`reasoning.summary` was dropped: this model thinks only with an effort"
            )
        return Thinking()
    room = asked.max_tokens - _ROOM_TO_ANSWER
    if asked.unsigned_loop:
        told.tell(
            "effort_changed", "thinking was turned off: the turn that goes on began without its thinking"
        )
    elif room < _LEAST_BUDGET:
        told.tell(
            "effort_changed", f"thinking was turned off: {asked.max_tokens} tokens leave no room for it"
        )
    else:
        return Thinking({"type": "enabled", "budget_tokens": min(BUDGETS[effort], room)})
    return Thinking({"type": "disabled"})


def _adaptive(traits: ClaudeTraits, asked: ThinkingRequest, effort: str, told: Diagnostics) -> Thinking:
    config: dict[str, Any] = {"type": "adaptive"}
    if asked.reasoning.summary:
        config["display"] = "summarized"  # newer models send empty thinking otherwise
    if not effort:
        return Thinking(config) if asked.reasoning.summary else Thinking()
    sent = traits.xhigh if effort == "xhigh" else EFFORTS[effort]
    if sent != effort:
        told.tell("effort_changed", f"the effort {effort!r} is not known here; {sent} was asked for")
    return Thinking(config, sent)
