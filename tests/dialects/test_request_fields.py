"""Nothing is dropped silently: every dialect handles every field of a request."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects import request_fields
from penstock.dialects.plan import Plan, Target, UpstreamRequest
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from penstock.tools.identity import ToolIdentityMap
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
