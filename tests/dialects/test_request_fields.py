"""Nothing is dropped silently: every dialect handles every field of a request."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai.types.responses import ResponseIncludable

from penstock.dialects import request_fields
from penstock.dialects.plan import Plan, Quirks, Target, UpstreamRequest
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.errors import DecodeError
from penstock.protocol.request import (
    ALWAYS_INCLUDED,
    LOGPROBS,
    SPECIFIED_INCLUDES,
    CreateResponse,
    unsupported_includes,
)
from penstock.protocol.wire import read
from penstock.tools.identity import ToolIdentityMap
from tests.dialects.render_cases import dropped, plan_for
from tests.dialects.request_samples import SAMPLES, TOOLS


def test_the_dialects_that_can_be_rendered_are_in_the_table() -> None:
    assert set(request_fields.HANDLED) == RENDERED


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_every_field_has_a_row(dialect: str) -> None:
    table = request_fields.HANDLED[dialect]
    assert set(table) == set(CreateResponse.__struct_fields__)
    assert set(table.values()) <= set(request_fields.MEANINGS)


@pytest.mark.parametrize(
    "field", ["input", "instructions", "tools", "tool_choice", "text", "max_output_tokens"]
)
def test_essential_fields_are_never_dropped(field: str) -> None:
    assert {table[field] for table in request_fields.HANDLED.values()} <= {"mapped", "refused"}


def test_the_documented_table_has_a_row_for_every_field() -> None:
    rows = [line for line in request_fields.as_markdown().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [name for name in request_fields.FIELDS if name != "extra"]
    assert "| ? |" not in request_fields.as_markdown()


def rendered(dialect: str, values: dict[str, Any]) -> UpstreamRequest:
    raw = {"model": "a-model", "input": "Hello.", "stream": True, **values}
    raw |= raw.pop("extra", {})
    request = read(raw, CreateResponse)
    target = Target(model=str(request.model), dialect=dialect)
    tools = ToolIdentityMap(request.tools or [], request.tool_choice)
    return rendered_dialect(dialect).render(Plan(request=request, target=target, tools=tools))


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_a_prompt_template_is_refused_by_name(dialect: str) -> None:
    """Field F17."""
    assert request_fields.HANDLED[dialect]["prompt"] == "refused"
    with pytest.raises(DecodeError, match="instructions") as refused:
        rendered(dialect, {"prompt": {"id": "pmpt_1", "variables": {}}})
    assert refused.value.param == "prompt"


@pytest.mark.parametrize("dialect", sorted(RENDERED))
@pytest.mark.parametrize("field", SAMPLES)
def test_a_field_is_sent_or_reported(dialect: str, field: str) -> None:
    """The table is true: no field that is set disappears without a diagnostic."""
    around = {"tools": SAMPLES["tools"]} if field in TOOLS else {}
    without = rendered(dialect, around)
    found = rendered(dialect, {**around, field: SAMPLES[field]})
    reported = [each for each in found.diagnostics if each not in without.diagnostics]
    sent = (found.path, found.body, found.headers) != (without.path, without.body, without.headers)
    assert sent or reported
    if request_fields.HANDLED[dialect][field] == "dropped":
        assert not sent
        assert any(field in each.message for each in reported)


# What a response claims (field F16)

ECHOES: dict[str, tuple[str, dict[str, Any], dict[str, str | None]]] = {
    "an effort that is sent": ("chat", {"quirks": Quirks(effort="openai")}, {}),
    "an effort that is dropped": ("chat", {}, {"effort": None}),
    "an effort that is changed": ("chat", {"quirks": Quirks(effort="low_to_high")}, {"effort": "high"}),
    "a level of a model": ("anthropic", {"model": "claude-opus-4-7"}, {"effort": "max"}),
    "a budget of a model": ("anthropic", {"model": "claude-sonnet-4-5"}, {}),
    "a model that does not think": ("anthropic", {"model": "claude-3-5-haiku"}, {"effort": None}),
    "the highest level": ("gemini", {"model": "gemini-3-pro"}, {"effort": "high"}),
    "the largest budget": ("gemini", {"model": "gemini-2.5-pro"}, {}),
    "another model that does not think": ("gemini", {"model": "gemini-2.0-flash"}, {"effort": None}),
    "an endpoint of the specification": ("responses", {}, {"effort": "xhigh"}),
    "the vendor's own endpoint": ("responses", {"vendor": "openai"}, {}),
}


@pytest.mark.parametrize("case", ECHOES)
def test_an_effort_that_was_not_sent_is_not_echoed(case: str) -> None:
    dialect, target, expected = ECHOES[case]
    effort = "high" if not expected and dialect == "chat" else "ultra"
    assert target_rendered(dialect, {"reasoning": {"effort": effort}}, target).echo == expected


@pytest.mark.parametrize(
    ("dialect", "vendor", "sent", "expected"),
    [
        ("chat", "openai", {"service_tier": "ultrafast"}, {}),
        ("chat", "groq", {}, {"service_tier": None}),
        ("chat", "", {}, {"service_tier": None}),
        ("responses", "openai", {"service_tier": "ultrafast"}, {}),
        ("responses", "", {}, {"service_tier": None}),
        ("anthropic", "anthropic", {"service_tier": "auto"}, {"service_tier": "auto"}),
        ("gemini", "gemini", {"serviceTier": "priority"}, {"service_tier": "priority"}),
    ],
)
def test_a_tier_that_was_not_sent_is_not_echoed(
    dialect: str, vendor: str, sent: dict[str, str], expected: dict[str, str | None]
) -> None:
    found = target_rendered(dialect, {"service_tier": "ultrafast"}, {"vendor": vendor})
    assert {name: found.body[name] for name in ("service_tier", "serviceTier") if name in found.body} == sent
    assert found.echo == expected
    assert bool(found.diagnostics) is bool(expected)


def target_rendered(dialect: str, request: dict[str, Any], target: dict[str, Any]) -> UpstreamRequest:
    decoded = read({"input": "Hello.", **request}, CreateResponse)
    plan = Plan(request=decoded, target=Target(**{"model": "m", "dialect": dialect, **target}))
    return rendered_dialect(dialect).render(plan)


@pytest.mark.parametrize("dialect", ["anthropic", "chat", "gemini", "responses"])
@pytest.mark.parametrize("name", ["mode", "context"])
def test_options_of_reasoning_that_an_upstream_does_not_have_are_reported(dialect: str, name: str) -> None:
    found = target_rendered(dialect, {"reasoning": {name: "pro"}}, {})
    assert [each.message for each in found.diagnostics] == [
        f"`reasoning.{name}` cannot be sent to this upstream and was dropped"
    ]
    assert "pro" not in str(found.body)


# The values of `include`

KNOWN: tuple[str, ...] = get_args(ResponseIncludable)
LOGPROB_DIALECTS = {"chat", "gemini", "responses"}


@pytest.mark.parametrize("dialect", sorted(RENDERED))
@pytest.mark.parametrize("name", [*KNOWN, "something.new"])
def test_every_value_is_honoured_or_explained(dialect: str, name: str) -> None:
    found = rendered_dialect(dialect).render(plan_for({"include": [name]}, dialect=dialect))
    is_honoured = name in ALWAYS_INCLUDED or (name == LOGPROBS and dialect in LOGPROB_DIALECTS)
    assert dropped(found) == (set() if is_honoured else {f"include: {name}"})


@pytest.mark.parametrize("name", KNOWN)
def test_openai_gets_every_value(name: str) -> None:
    plan = plan_for({"include": [name]}, dialect="responses", vendor="openai")
    found = rendered_dialect("responses").render(plan)
    assert name in found.body["include"]
    assert found.diagnostics == []


def test_what_an_upstream_supports_is_not_reported() -> None:
    request: Any = read({"include": [*KNOWN]}, CreateResponse)
    assert unsupported_includes(request, KNOWN) == []
    assert len(unsupported_includes(request, SPECIFIED_INCLUDES)) == len(
        {*KNOWN} - ALWAYS_INCLUDED - SPECIFIED_INCLUDES
    )
