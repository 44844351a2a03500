"""Fields of tools that only OpenAI has: kept there, reported everywhere else."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.plan import Target
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.dialects.tool_fields import without_encryption
from penstock.dialects.toolset import plan_for as toolset_plan
from penstock.dialects.toolset import tools_of
from penstock.protocol.request import CreateResponse
from penstock.protocol.tools import FunctionTool, NamespaceTool, ToolSearchTool
from tests.dialects.render_cases import WEATHER, dropped, plan_for

FIELDS: dict[str, Any] = {
    "async": True,
    "defer_loading": True,
    "allowed_callers": ["direct", "programmatic"],
    "output_schema": {"type": "object"},
}


@pytest.mark.parametrize("dialect", sorted(RENDERED))
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_that_the_upstream_does_not_have_is_dropped_and_reported(dialect: str, field: str) -> None:
    for tools in (
        [{**WEATHER, field: FIELDS[field]}],
        [{"type": "namespace", "name": "n", "tools": [{**WEATHER, field: FIELDS[field]}]}],
        [{"type": "namespace", "name": "n", "tools": [WEATHER], field: FIELDS[field]}],
    ):
        found = rendered_dialect(dialect).render(plan_for({"tools": tools}, dialect=dialect))
        assert dropped(found) == {f"tools.{field}"}
        assert field not in str(found.body)


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_a_field_that_asks_for_nothing_is_not_reported(dialect: str) -> None:
    tool = {**WEATHER, "async": False, "output_schema": None}
    found = rendered_dialect(dialect).render(plan_for({"tools": [tool]}, dialect=dialect))
    assert found.diagnostics == []


def test_openai_gets_every_field() -> None:
    tool = {**WEATHER, **FIELDS, "prompt_cache_breakpoint": {"mode": "explicit"}}
    plan = plan_for({"tools": [tool]}, dialect="responses", vendor="openai")
    found = rendered_dialect("responses").render(plan)
    assert found.body["tools"] == [tool]
    assert found.diagnostics == []


MARKED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "encrypted": True},
        "encrypted": {"type": "boolean", "description": "A property of this name stays."},
        "list": {"type": "array", "items": {"anyOf": [{"type": "string", "encrypted": True}]}},
    },
    "enum": [{"encrypted": True}],
    "encrypted": True,
}
CLEAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "encrypted": {"type": "boolean", "description": "A property of this name stays."},
        "list": {"type": "array", "items": {"anyOf": [{"type": "string"}]}},
    },
    "enum": [{"encrypted": True}],
}


def test_the_mark_for_encryption_is_removed_at_every_level() -> None:
    """Field F5."""
    assert without_encryption(MARKED) == CLEAN


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_only_openai_gets_the_mark_for_encryption(dialect: str) -> None:
    """Field F5."""
    schema = {"type": "object", "properties": {"message": {"type": "string", "encrypted": True}}}
    request = {"tools": [{**WEATHER, "parameters": schema}]}
    for vendor in ("", "openai"):
        found = rendered_dialect(dialect).render(plan_for(request, dialect=dialect, vendor=vendor))
        is_kept = dialect == "responses" and vendor == "openai"
        assert ("encrypted" in str(found.body["tools"])) is is_kept
        assert dropped(found) == (set() if is_kept else {"tools.parameters.encrypted"})


def test_a_schema_without_the_mark_is_not_touched() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"encrypted": deep}}
    assert without_encryption(deep) is deep
    endless: dict[str, Any] = {}
    endless["properties"] = {"a": endless}
    assert without_encryption(endless) is endless


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("other", [{}, CLEAN, MARKED, deep(100_000)])
def test_each_schema_is_cleaned_whatever_the_others_are(other: dict[str, Any]) -> None:
    """All schemas are searched at once; one that is nested too deeply must not hide the others."""
    request = CreateResponse(
        tools=[
            FunctionTool(name="other", parameters=other),
            NamespaceTool(name="n", tools=[FunctionTool(name="send", parameters=MARKED)]),
            ToolSearchTool(execution="client", parameters=MARKED),
        ]
    )
    specs, diagnostics = tools_of(toolset_plan(request, Target("m")))
    assert [spec.parameters for spec in specs[1:]] == [CLEAN, CLEAN]
    assert len(diagnostics) == 1
    assert "parameters.encrypted" in diagnostics[0].message
