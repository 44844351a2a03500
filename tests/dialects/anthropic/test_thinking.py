"""How each Claude model is asked to think."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.anthropic.thinking import (
    BUDGETS,
    ClaudeTraits,
    ThinkingRequest,
    thinking_of,
    traits_of,
)
from penstock.dialects.plan import Quirks, Target
from penstock.protocol.request import ReasoningConfig
from penstock.stream.diagnostics import Diagnostics
from tests.dialects.anthropic.rendered_requests import body, rendered, signed
from tests.dialects.render_cases import (
    WEATHER,
    call,
    codes,
    dropped,
    output,
    user,
)


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "sent", "is_reported"),
    [
        ("claude-opus-4-5-20251101", "high", {"type": "enabled", "budget_tokens": 16_000}, None, False),
        ("claude-3-7-sonnet-latest", "minimal", {"type": "enabled", "budget_tokens": 1024}, None, False),
        ("claude-opus-4-20250514", "none", {"type": "disabled"}, None, False),
        ("anthropic/claude-4.5-haiku", "low", {"type": "enabled", "budget_tokens": 4096}, None, False),
        ("MiniMax-M2", "medium", {"type": "enabled", "budget_tokens": 10_000}, None, False),
        ("claude-opus-4-6", "xhigh", {"type": "adaptive"}, "high", True),
        ("us.anthropic.claude-sonnet-4-6-v1:0", "medium", {"type": "adaptive"}, "medium", False),
        ("claude-opus-4-7", "xhigh", {"type": "adaptive"}, "xhigh", False),
        ("claude-opus-4-7", "minimal", {"type": "adaptive"}, "low", True),
        ("claude-sonnet-5", "none", {"type": "disabled"}, None, False),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None, False),
        ("claude-opus-5-5", "none", None, "low", True),
        ("claude-fable-5-1", "max", {"type": "adaptive"}, "max", False),
        ("claude-next", "strange", {"type": "adaptive"}, "medium", True),
        ("claude-3-haiku-20240307", "high", None, None, True),
    ],
)
def test_an_effort_is_sent_in_the_form_that_the_model_accepts(
    model: str, effort: str, thinking: Any, sent: str | None, is_reported: bool
) -> None:
    result = rendered({"reasoning": {"effort": effort}}, model)
    assert result.body.get("thinking") == thinking
    assert result.body.get("output_config", {}).get("effort") == sent
    assert bool(result.diagnostics) is is_reported


def test_the_effort_quirk_overrides_the_row_of_the_model() -> None:
    assert traits_of(Target(model="claude-opus-4-7", quirks=Quirks(effort="budget"))).thinking == "budget"
    assert traits_of(Target(model="claude-opus-4-7", quirks=Quirks(effort="openai"))).thinking == "adaptive"


@pytest.mark.parametrize("effort", sorted(BUDGETS))
@pytest.mark.parametrize("limit", [1, 2047, 2048, 5000, 100_000])
def test_a_budget_leaves_room_for_the_answer(effort: str, limit: int) -> None:
    result = body({"reasoning": {"effort": effort}, "max_output_tokens": limit}, "claude-sonnet-4-5")
    assert result["max_tokens"] == limit
    if limit < 2048:
        assert result["thinking"] == {"type": "disabled"}
    else:
        assert 1024 <= result["thinking"]["budget_tokens"] <= limit - 1024


def test_a_summary_without_an_effort_shows_adaptive_thinking() -> None:
    shown = {"type": "adaptive", "display": "summarized"}
    assert body({"reasoning": {"summary": "auto"}})["thinking"] == shown
    assert body({"reasoning": {"summary": "auto", "effort": "low"}})["thinking"] == shown
    old = rendered({"reasoning": {"summary": "auto"}}, "claude-sonnet-4-5")
    assert "thinking" not in old.body
    assert dropped(old) == {"reasoning.summary"}
    assert "thinking" not in body({"reasoning": {}}, "claude-sonnet-4-5")


def test_a_forced_call_turns_thinking_off() -> None:
    request = {"tools": [WEATHER], "tool_choice": "required", "reasoning": {"effort": "high"}}
    for model in ("claude-sonnet-4-5", "claude-opus-4-7"):
        result = rendered(request, model)
        assert result.body["thinking"] == {"type": "disabled"}
        assert codes(result) == {"effort_changed"}
    without = {"tools": [WEATHER], "tool_choice": "required"}
    assert body(without, "claude-opus-5")["thinking"] == {"type": "disabled"}  # it thinks by default
    assert "thinking" not in body(without, "claude-sonnet-4-5")


def test_a_tool_loop_that_began_without_thinking_continues_without_it() -> None:
    request = {"input": [user("?"), call(), output()], "tools": [WEATHER], "reasoning": {"effort": "low"}}
    assert body(request, "claude-sonnet-4-5")["thinking"] == {"type": "disabled"}
    assert body(request, "claude-opus-4-6")["thinking"] == {"type": "adaptive"}
    own = {**request, "input": [user("?"), signed("a", "S"), call(), output()]}
    assert body(own, "claude-sonnet-4-5")["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    ("model", "thinking", "sampling", "max_tokens"),
    [
        ("claude-2.1", "none", True, 4096),
        ("claude-3-opus-20240229", "none", True, 4096),
        ("claude-3.5-sonnet", "none", True, 8192),
        ("claude-3-7-sonnet-20250219", "budget", True, 32_000),
        ("claude-4-sonnet", "budget", True, 32_000),
        ("claude-opus-4-1@20250805", "budget", True, 32_000),
        ("Claude-Sonnet-4.5", "budget", True, 32_000),
        ("claude-sonnet-4-6", "adaptive", True, 32_000),
        ("claude-opus-4-7", "adaptive", False, 32_000),
        ("claude-opus-40", "adaptive", False, 32_000),
        ("glm-4.6", "budget", True, 16_000),
    ],
)
def test_the_traits_are_found_by_the_name(model: str, thinking: str, sampling: bool, max_tokens: int) -> None:
    traits = traits_of(Target(model=model))
    assert (traits.thinking, traits.sampling, traits.max_tokens) == (thinking, sampling, max_tokens)


@pytest.mark.parametrize(
    ("traits", "request_", "expected", "codes"),
    [
        # Thinking is not requested, but a model that thinks by default cannot be forced to call a tool.
        (ClaudeTraits(), {"forced_tool": True}, {"type": "disabled"}, []),
        (ClaudeTraits(off=""), {"forced_tool": True}, None, ["effort_changed"]),
        (ClaudeTraits(thinking="budget"), {"forced_tool": True}, None, []),
        (ClaudeTraits(thinking="none"), {"forced_tool": True}, None, []),
        (ClaudeTraits(thinking="budget"), {"unsigned_loop": True}, None, []),
    ],
)
def test_without_an_effort_thinking_is_turned_off_only_if_necessary(
    traits: ClaudeTraits, request_: dict[str, Any], expected: Any, codes: list[str]
) -> None:
    diagnostics = Diagnostics()
    request = ThinkingRequest(reasoning=ReasoningConfig(), max_tokens=5000, **request_)
    assert thinking_of(traits, request, diagnostics).config == expected
    assert [each.code for each in diagnostics.entries] == codes
