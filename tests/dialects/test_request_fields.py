"""Nothing is dropped in silence: every field of a request has a row, in every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects import request_fields
from penstock.dialects.plan import Plan, Target, UpstreamRequest
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from penstock.tools.identity import ToolIdentityMap
from tests.dialects.request_samples import SAMPLES, TOOLS


def test_the_dialects_that_can_be_rendered_are_in_the_table() -> None:
    assert set(request_fields.HANDLED) == RENDERED


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_every_field_has_a_row(dialect: str, field: str) -> None:
    assert request_fields.HANDLED[dialect].get(field) in request_fields.MEANINGS


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_no_row_is_about_a_field_that_is_none(dialect: str) -> None:
    assert set(request_fields.HANDLED[dialect]) <= set(CreateResponse.__struct_fields__)


@pytest.mark.parametrize(
    "field", ["input", "instructions", "tools", "tool_choice", "text", "max_output_tokens"]
)
def test_what_changes_the_meaning_of_a_request_is_never_dropped(field: str) -> None:
    assert {table[field] for table in request_fields.HANDLED.values()} <= {"mapped", "refused"}


def test_the_documented_table_has_a_row_for_every_field() -> None:
    rows = [line for line in request_fields.as_markdown().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [name for name in request_fields.FIELDS if name != "extra"]
    assert "| ? |" not in request_fields.as_markdown()


def rendered(dialect: str, values: dict[str, Any]) -> UpstreamRequest:
    given = {"model": "a-model", "input": "Hello.", "stream": True, **values}
    given |= given.pop("extra", {})
    request = read(given, CreateResponse)
    target = Target(model=str(request.model), dialect=dialect)
    tools = ToolIdentityMap(request.tools or [], request.tool_choice)
    return rendered_dialect(dialect).render(Plan(request=request, target=target, tools=tools))


@pytest.mark.parametrize("dialect", sorted(RENDERED))
@pytest.mark.parametrize("field", SAMPLES)
def test_a_field_is_sent_or_told(dialect: str, field: str) -> None:
    """What the table says is what happens: no field that is set disappears without a trace."""
    around = {"tools": SAMPLES["tools"]} if field in TOOLS else {}
    plain = rendered(dialect, around)
    given = rendered(dialect, {**around, field: SAMPLES[field]})
    told = [each for each in given.diagnostics if each not in plain.diagnostics]
    sent = (given.path, given.body, given.headers) != (plain.path, plain.body, plain.headers)
    assert sent or told
    if request_fields.HANDLED[dialect][field] == "dropped":
        assert not sent
        assert any(field in each.message for each in told)
