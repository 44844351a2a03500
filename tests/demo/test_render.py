"""Requests for the demo model: every field is rendered or reported."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.demo import DIALECT
from penstock.demo.render import HANDLED
from penstock.dialects import request_fields
from penstock.dialects.plan import Plan, Target
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from tests.demo.asking import (
    PATCH,
    WEATHER,
    after_call,
    ask,
    plan_for,
    user,
)
from tests.dialects.render_cases import codes, dropped
from tests.dialects.request_samples import SAMPLES, TOOLS


def test_encrypted_reasoning_is_recognised_when_sent_back() -> None:
    first = ask("Think about locks.", include=["reasoning.encrypted_content"])
    (item,) = first.items("reasoning")
    assert item["encrypted_content"]
    back = [user("Think about locks."), *first.output, user("And now?")]
    assert "I remember that I thought about “Think about locks.”" in ask({"input": back}).text
    without = [{**each, "encrypted_content": None} if each == item else each for each in back]
    assert "I remember" not in ask({"input": without}).text


def test_reasoning_is_encrypted_only_on_request() -> None:
    (item,) = ask("Think about locks.").items("reasoning")
    assert "encrypted_content" not in item


def test_foreign_reasoning_is_dropped_and_reported() -> None:
    given = [{"type": "reasoning", "summary": [], "encrypted_content": "somebody's"}, user("Hello.")]
    assert "reasoning_left_out" in codes(DIALECT.render(plan_for({"input": given})))


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_forced_call_after_an_output_is_dropped_and_reported(choice: Any) -> None:
    first = ask("Hello.", tools=[WEATHER], tool_choice=choice)
    plan = plan_for({"input": after_call(first, "rain")}, tools=[WEATHER], tool_choice=choice)
    assert "tool_choice_weakened" in codes(DIALECT.render(plan))
    second = ask({"input": after_call(first, "rain")}, tools=[WEATHER], tool_choice=choice)
    assert "> rain" in second.text


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"text\.format\.type"):
        ask("Hello.", text={"format": {"type": "grammar"}})


def user_with(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_unknown_content_is_reported() -> None:
    plan = plan_for({"input": [user_with([{"type": "input_smell", "smell": "roses"}])]})
    assert "content_left_out" in codes(DIALECT.render(plan))


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
def test_every_field_has_a_row(field: str) -> None:
    assert HANDLED[field] in request_fields.MEANINGS


def test_every_row_is_a_field_of_the_request() -> None:
    assert set(HANDLED) <= set(CreateResponse.__struct_fields__)


@pytest.mark.parametrize("field", SAMPLES)
def test_a_field_is_sent_or_reported(field: str) -> None:
    around = {"tools": SAMPLES["tools"]} if field in TOOLS else {}
    given = {**around, field: SAMPLES[field]}
    given |= given.pop("extra", {})
    plain, rendered = DIALECT.render(plan_for("Hello.", **around)), DIALECT.render(_plan(given))
    result = [each for each in rendered.diagnostics if each not in plain.diagnostics]
    sent = rendered.body != plain.body
    assert sent is not bool(result)
    if HANDLED[field] == "dropped":
        assert ("stop" if field == "extra" else field) in dropped(rendered)


def _plan(given: dict[str, Any]) -> Plan:
    model = given.pop("model", "demo")
    plan = plan_for({"input": "Hello.", **given})
    return Plan(plan.request, Target(model=model, vendor="demo", dialect="demo"), plan.tools)


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 1},
        {"top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0},
        {"truncation": "disabled", "service_tier": "auto", "store": True, "metadata": {"a": "b"}},
        {"reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    ],
    ids=str,
)
def test_default_values_are_not_reported(values: dict[str, Any]) -> None:
    assert DIALECT.render(plan_for("Hello.", **values)).diagnostics == []


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({"reasoning": {"effort": "low", "mood": "good"}}, {"reasoning.mood"}),
        ({"text": {"verbosity": "extreme", "font": "serif"}}, {"text.verbosity", "text.font"}),
        ({"include": ["file_search_call.results"]}, {"include: file_search_call.results"}),
        ({"stop": ["END"], "seed": 7}, {"stop", "seed"}),
    ],
)
def test_unsupported_parts_of_fields_are_reported(values: dict[str, Any], result: set[str]) -> None:
    assert dropped(DIALECT.render(plan_for("Hello.", **values))) == result


def test_an_unknown_effort_and_a_grammar_are_reported() -> None:
    tool = {**PATCH, "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}
    nested = {"type": "namespace", "name": "n", "tools": [tool]}
    rendered = DIALECT.render(plan_for("Hello.", reasoning={"effort": "odd"}, tools=[nested]))
    assert codes(rendered) == {"effort_changed", "grammar_ignored"}
