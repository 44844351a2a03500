"""How to request a reasoning effort (`reasoning.effort`): one table for all vendors (ask I4).

A row is a way of requesting it, named by `Quirks.effort`, and maps each effort to request fields. An effort
that is not in the row is replaced by the nearest one, with a diagnostic.
"""

from __future__ import annotations

from typing import Any

SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
"""Every effort that clients send, from the lowest to the highest (field F16)."""

_Row = dict[str, dict[str, Any]]


def _named(*efforts: str) -> _Row:
    return {effort: {"reasoning_effort": effort} for effort in efforts}


def _switched(on: dict[str, Any], off: dict[str, Any]) -> _Row:
    """Return a row for upstreams that can only switch reasoning on or off; `minimal` means off."""
    return {effort: off if effort in ("none", "minimal") else on for effort in SCALE}


def _deepseek(effort: str) -> dict[str, Any]:
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


EFFORTS: dict[str, _Row] = {
    "openai": _named("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "responses": _named("none", "minimal", "low", "medium", "high", "xhigh"),
    "low_to_high": _named("low", "medium", "high"),
    "none_to_high": _named("none", "low", "medium", "high"),
    "openrouter": {effort: {"reasoning": {"effort": effort}} for effort in SCALE[:-2]},
    # As in DeepSeek's documentation.
    "deepseek": {
        "none": {"thinking": {"type": "disabled"}},
        "minimal": _deepseek("low"),
        "low": _deepseek("low"),
        "medium": _deepseek("high"),
        "high": _deepseek("high"),
        "xhigh": _deepseek("high"),
        "max": _deepseek("max"),
    },
    "thinking": _switched({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
    "qwen": _switched({"enable_thinking": True}, {"enable_thinking": False}),
    "template": _switched(
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ),
}


def nearest(row: str, effort: str) -> str | None:
    """Return the effort of this row that is nearest to the requested one; None if either is unknown.

    Of two that are equally near, return the higher: a slower answer is the lesser harm.
    """
    known = EFFORTS.get(row, {})
    if effort in known:
        return effort
    if effort not in SCALE or not known:
        return None
    requested = SCALE.index(effort)
    return min(known, key=lambda each: (abs(SCALE.index(each) - requested), -SCALE.index(each)))
