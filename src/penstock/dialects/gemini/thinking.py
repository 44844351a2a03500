"""How each Gemini model is asked to think, and what it requires.

The 2.5 models accept a token budget and later models a level, with different levels per model; each rejects
the other's field. So a model's traits are a row of a table, found by its name.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.dialects.plan import Target
from penstock.protocol.request import ReasoningConfig
from penstock.stream.diagnostics import Diagnostics


class GeminiTraits(Struct, frozen=True, kw_only=True):
    """What a model supports. `effort` is a key of `EFFORTS`, or "" for a model that does not think."""

    effort: str = "levels"
    signed_calls: bool = True
    """Rejects its own calls if they are sent back without a signature (ask C3)."""
    json_with_tools: bool = True
    """Accepts a schema for the answer together with tools."""
    media_in_outputs: bool = True
    """Accepts images and documents inside the response of a function."""


_BEFORE_3 = GeminiTraits(signed_calls=False, json_with_tools=False, media_in_outputs=False)

MODELS: tuple[tuple[re.Pattern[str], GeminiTraits], ...] = tuple(
    (re.compile(pattern), traits)
    for pattern, traits in (
        (r"gemma|gemini-(1|2\.0)", replace(_BEFORE_3, effort="")),
        (r"gemini-2\.5-pro", replace(_BEFORE_3, effort="budget_pro")),
        (r"gemini-2\.5", replace(_BEFORE_3, effort="budget")),
        (r"gemini-3-pro", GeminiTraits(effort="levels_low_high")),
        (r"gemini-3(\.\d)?-flash-lite|gemini-3(\.[0-6])?-flash", GeminiTraits(effort="levels_minimal")),
        (r"gemini", GeminiTraits()),
        (r"", GeminiTraits(effort="", signed_calls=False, media_in_outputs=False)),
    )
)
"""The first row whose pattern is in the name wins. Source: Google's docs on thinking levels and budgets."""


_ABOVE_HIGH = ("xhigh", "max", "ultra")


def _levels(none: str, minimal: str, low: str, medium: str, high: str) -> dict[str, dict[str, Any]]:
    levels = {"none": none, "minimal": minimal, "low": low, "medium": medium, "high": high}
    levels |= dict.fromkeys(_ABOVE_HIGH, high)
    return {effort: {"thinkingLevel": level} for effort, level in levels.items()}


def _budgets(**budgets: int) -> dict[str, dict[str, Any]]:
    return {effort: {"thinkingBudget": budget} for effort, budget in budgets.items()}


_BUDGETS = {
    "none": 0,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 24576,
    "max": 24576,
    "ultra": 24576,
}

EFFORTS: dict[str, dict[str, dict[str, Any]]] = {
    "budget": _budgets(**_BUDGETS),
    "budget_pro": _budgets(**{**_BUDGETS, "none": 128, "max": 32768, "ultra": 32768}),
    "levels": _levels("LOW", "LOW", "LOW", "MEDIUM", "HIGH"),
    "levels_minimal": _levels("MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH"),
    "levels_low_high": _levels("LOW", "LOW", "LOW", "HIGH", "HIGH"),
}
"""`thinkingConfig` by effort. If thinking cannot be turned off, `none` is the lowest level or budget."""

_UNKNOWN_EFFORT = "medium"


def traits_of(target: Target) -> GeminiTraits:
    """Return the traits of a model by its name; `quirks.effort` overrides the row of `EFFORTS`."""
    name = target.model.lower()
    traits = next(traits for pattern, traits in MODELS if pattern.search(name))
    if target.quirks.effort in EFFORTS:
        return replace(traits, effort=target.quirks.effort)
    return traits


def echo_of(traits: GeminiTraits, effort: str) -> str | None:
    """Return the effort that the response may claim; None if none was sent."""
    if not traits.effort:
        return None
    row = EFFORTS[traits.effort]
    effort = effort if effort in row else _UNKNOWN_EFFORT
    level = row[effort].get("thinkingLevel")
    return str(level).lower() if level else effort


def thinking_of(traits: GeminiTraits, reasoning: ReasoningConfig, diagnostics: Diagnostics) -> dict[str, Any]:
    """Return the `thinkingConfig`; empty if nothing is requested."""
    effort = reasoning.effort or ""
    if not traits.effort:
        for name, value in (("effort", effort), ("summary", reasoning.summary)):
            if value and value != "none":
                diagnostics.report(
                    "field_dropped", f"`reasoning.{name}` was dropped: this model does not support thinking"
                )
        return {}
    row = EFFORTS[traits.effort]
    config: dict[str, Any] = {}
    if effort and effort not in row:
        diagnostics.report("effort_changed", f"the effort {effort!r} is unknown; {_UNKNOWN_EFFORT} was used")
        config |= row[_UNKNOWN_EFFORT]
    elif effort:
        config |= row[effort]
        sent = str(config.get("thinkingLevel", "")).lower()
        if sent != effort if sent else effort == "none" and config["thinkingBudget"]:
            diagnostics.report(
                "effort_changed",
                f"this model does not support the effort {effort!r}; the closest one was used",
            )
    if reasoning.summary:
        config["includeThoughts"] = True
    return config
