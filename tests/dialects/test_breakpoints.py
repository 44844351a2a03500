"""Cache breakpoints of a request: where they may be, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.breakpoints import BREAKPOINT, any_breakpoint, has_breakpoint, marked_parts
from penstock.dialects.registry import rendered_dialect
from penstock.protocol.content import InputText
from penstock.protocol.items import Message
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from tests.dialects.render_cases import SEARCH, WEATHER, call, dropped, output, plan_for, user

HERE: dict[str, Any] = {BREAKPOINT: {"mode": "explicit"}}
TEXT: dict[str, Any] = {"type": "input_text", "text": "a long text"}

PLACES: dict[str, dict[str, Any]] = {
    "part": {"input": [user([{**TEXT, **HERE}])]},
    "item": {"input": [{**user("a long text"), **HERE}]},
    "part of an output": {"input": [user("go"), call(), output(output=[{**TEXT, **HERE}])]},
    "output": {"input": [user("go"), call(), {**output(), **HERE}]},
    "tool": {"tools": [{**WEATHER, **HERE}]},
    "tool of a namespace": {"tools": [{**SEARCH, "tools": [{**WEATHER, **HERE}]}]},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_breakpoint_is_found_wherever_it_may_be(place: str) -> None:
    assert any_breakpoint(read({"input": "x", **PLACES[place]}, CreateResponse))


def test_a_request_without_breakpoints_has_none() -> None:
    assert not any_breakpoint(read({"input": [user("x")], "tools": [WEATHER, SEARCH]}, CreateResponse))
    assert not has_breakpoint(InputText(text="x", extra={BREAKPOINT: None}))


def test_the_breakpoint_of_an_item_moves_to_its_last_part() -> None:
    item = Message(role="user", content="x", extra=HERE)
    assert marked_parts(item, "x") == [InputText(text="x", extra=HERE)]
    parts = [InputText(text="x"), InputText(text="y", extra={"a": 1})]
    assert marked_parts(item, [*parts]) == [parts[0], InputText(text="y", extra={"a": 1, **HERE})]


@pytest.mark.parametrize("content", ["", []])
def test_a_breakpoint_without_content_marks_nothing(content: Any) -> None:
    assert marked_parts(Message(role="user", content=content, extra=HERE), content) == content


@pytest.mark.parametrize("dialect", ["chat", "gemini"])
@pytest.mark.parametrize("place", PLACES)
def test_an_upstream_without_breakpoints_gets_none_and_the_client_learns_it(dialect: str, place: str) -> None:
    render = rendered_dialect(dialect).render
    found = render(plan_for(PLACES[place], dialect=dialect))
    assert BREAKPOINT in dropped(found)
    assert BREAKPOINT not in str(found.body)
