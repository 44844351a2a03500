"""How hard a model is asked to think: `reasoning.effort`, by a table (ask I4).

A row is a way of asking, named by `Quirks.effort`. It says for each effort what goes into the request. An
effort that a row does not have becomes the nearest that it has, and a diagnostic says so.
"""

from __future__ import annotations

from typing import Any

SCALE = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_Row = dict[str, dict[str, Any]]


def _named(*efforts: str) -> _Row:
    return {effort: {"reasoning_effort": effort} for effort in efforts}


def _switched(on: dict[str, Any], off: dict[str, Any]) -> _Row:
    """For upstreams that can only be told whether to think. `minimal` is the least, which is not at all."""
    return {effort: off if effort in ("none", "minimal") else on for effort in SCALE}


def _deepseek(effort: str) -> dict[str, Any]:
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


EFFORTS: dict[str, _Row] = {
    "openai": _named("none", "minimal", "low", "medium", "high", "xhigh"),
    "low_to_high": _named("low", "medium", "high"),
    "none_to_high": _named("none", "low", "medium", "high"),
    "openrouter": {effort: {"reasoning": {"effort": effort}} for effort in SCALE if effort != "max"},
    # The pairs are those of DeepSeek's own guide.
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
    """The effort of this row that is next to the one that is wanted, or None when there is no saying.

    Of two that are equally near, the stronger: an answer that took longer is the smaller harm.
    """
    known = EFFORTS.get(row, {})
    if effort in known:
        return effort
    if effort not in SCALE or not known:
        return None
    wanted = SCALE.index(effort)
    return min(known, key=lambda each: (abs(SCALE.index(each) - wanted), -SCALE.index(each)))
