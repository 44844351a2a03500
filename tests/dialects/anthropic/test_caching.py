"""Cache breakpoints and cache options of a request, as Anthropic's cache marks."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.breakpoints import BREAKPOINT
from tests.dialects.anthropic.rendered_requests import body, rendered
from tests.dialects.render_cases import WEATHER, assistant, call, codes, dropped, output, user

HERE: dict[str, Any] = {BREAKPOINT: {"mode": "explicit"}}
EXPLICIT: dict[str, Any] = {"prompt_cache_options": {"mode": "explicit"}}
MARK = {"type": "ephemeral"}


def text(value: str, *, marked: bool = False) -> dict[str, Any]:
    return {"type": "input_text", "text": value, **(HERE if marked else {})}


def marks(found: dict[str, Any]) -> list[Any]:
    """Return the texts and names of everything that has a mark, in the order of the prompt."""
    system = found.get("system", [])
    blocks = [*found.get("tools", []), *(system if isinstance(system, list) else [])]
    for message in found["messages"]:
        for block in message["content"]:
            inner = block.get("content")
            blocks += [*(inner if isinstance(inner, list) else []), block]
    marked = [block for block in blocks if "cache_control" in block]
    return [block.get("text") or block.get("name") or block["type"] for block in marked]


def test_a_breakpoint_becomes_a_mark_in_its_place() -> None:
    parts = [text("old", marked=True), text("new")]
    found = body({"input": [user(parts)], **EXPLICIT})
    assert found["messages"][0]["content"] == [
        {"type": "text", "text": "old", "cache_control": MARK},
        {"type": "text", "text": "new"},
    ]


def test_breakpoints_of_tools_system_messages_and_outputs_become_marks() -> None:
    request = {
        "instructions": "A",
        "tools": [{**WEATHER, **HERE}],
        "input": [
            {"role": "developer", "content": [text("B", marked=True)]},
            {"role": "developer", "content": "C"},
            user("D"),
            call(),
            output(output=[text("E", marked=True)]),
        ],
        **EXPLICIT,
    }
    found = body(request)
    assert marks(found) == ["weather", "A\n\nB", "E"]
    assert found["system"][1] == {"type": "text", "text": "C"}


def test_the_breakpoint_of_an_item_marks_its_last_block() -> None:
    request = {"input": [{**user([text("a"), text("b")]), **HERE}, assistant("c"), user("d")], **EXPLICIT}
    assert marks(body(request)) == ["b"]


def test_in_explicit_mode_only_the_breakpoints_are_marked() -> None:
    assert marks(body({"input": [user("a")], "prompt_cache_key": "k", **EXPLICIT})) == []


def test_in_implicit_mode_the_newest_message_is_marked_as_well() -> None:
    request = {"input": [user([text("a", marked=True), text("b")]), assistant("c"), user("d")]}
    assert marks(body(request)) == ["a", "d"]


@pytest.mark.parametrize(("mode", "kept"), [("explicit", 4), ("implicit", 3)])
def test_of_too_many_breakpoints_the_last_are_kept_and_the_client_learns_it(mode: str, kept: int) -> None:
    letters = "abcdef"
    parts = [text(letter, marked=True) for letter in letters]
    found = rendered({"input": [user([*parts, text("g")])], "prompt_cache_options": {"mode": mode}})
    expected = list(letters[-kept:]) + ([] if mode == "explicit" else ["g"])
    assert marks(found.body) == expected
    assert len(expected) == 4
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == "cache_breakpoints_dropped"
    assert f"the last {kept} of 6" in diagnostic.message


@pytest.mark.parametrize(
    ("ttl", "expected"),
    [
        ("5m", MARK),
        ("30m", {**MARK, "ttl": "1h"}),
        ("1h", {**MARK, "ttl": "1h"}),
        ("24h", {**MARK, "ttl": "1h"}),
    ],
)
def test_the_lifetime_is_at_least_what_the_client_asks_for_or_an_hour(
    ttl: str, expected: dict[str, str]
) -> None:
    found = rendered({"input": "x", "prompt_cache_options": {"ttl": ttl}})
    assert found.body["messages"][0]["content"][0]["cache_control"] == expected
    assert codes(found) == set()


def test_the_options_take_precedence_over_the_older_field() -> None:
    found = body({"prompt_cache_options": {"ttl": "5m"}, "prompt_cache_retention": "24h"})
    assert found["messages"][0]["content"][0]["cache_control"] == MARK


def test_options_without_a_counterpart_are_reported() -> None:
    options = {"ttl": "a year", "prewarm": True, "comparison_response_id": "resp_1", "mode": "implicit"}
    assert dropped(rendered({"prompt_cache_options": options})) == {
        "prompt_cache_options.ttl",
        "prompt_cache_options.prewarm",
        "prompt_cache_options.comparison_response_id",
    }
    assert dropped(rendered({"prompt_cache_options": {"prewarm": False}})) == set()


def test_a_breakpoint_in_the_assistants_text_is_reported() -> None:
    found = rendered({"input": [user("a"), {**assistant("b"), **HERE}, user("c")], **EXPLICIT})
    assert marks(found.body) == []
    assert dropped(found) == {BREAKPOINT}
