"""Grouping the items of a request into turns."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from penstock.dialects.envelope import seal
from penstock.dialects.history import (
    AssistantTurn,
    Call,
    History,
    HistoryReasoning,
    HistoryText,
    OutputsTurn,
    SystemTurn,
    ToolOutput,
    UserTurn,
    framed,
    history_of,
)
from penstock.dialects.plan import Target
from penstock.protocol.content import InputText
from penstock.tools.call_ids import NO_OUTPUT
from tests.dialects.render_cases import (
    EVERY_ITEM,
    PATCH,
    SEARCH,
    WEATHER,
    assistant,
    call,
    output,
    plan_for,
    requests,
    user,
)
from tests.effort import examples


def history(items: Any, **request: Any) -> History:
    return history_of(plan_for({"input": items, **request}))


def diagnostic_codes(found: History) -> set[str]:
    return {diagnostic.code for diagnostic in found.diagnostics}


def users(*texts: str) -> UserTurn:
    return UserTurn([InputText(text=text) for text in texts])


def test_a_text_is_one_user_turn() -> None:
    assert history("hi").turns == [users("hi")]
    assert history([]).turns == []


def test_instructions_and_leading_system_texts_are_collected_in_order() -> None:
    found = history(
        [
            {"role": "developer", "content": "Two."},
            {"role": "system", "content": [{"type": "text", "text": "Three."}]},
        ],
        instructions="One.",
    )
    assert found.system == ["One.", "Two.", "Three."]
    assert found.turns == []


def test_a_late_system_text_keeps_its_position() -> None:
    found = history([user("a"), {"role": "developer", "content": "Late."}, user("b")])
    assert found.turns == [users("a"), SystemTurn("Late."), users("b")]
    assert framed("Late.") == "<system>\nLate.\n</system>"


def test_consecutive_items_of_the_assistant_are_one_turn() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "S."}]}
    found = history(
        [user("x"), thought, assistant("A."), call("c1"), call("c2"), output("c1"), output("c2", "rain")]
    )
    assert found.turns[1:] == [
        AssistantTurn(
            [
                HistoryReasoning(summary="S."),
                HistoryText("A."),
                Call("c1", "weather", "{}"),
                Call("c2", "weather", "{}"),
            ]
        ),
        OutputsTurn([ToolOutput("c1", "weather", "sunny"), ToolOutput("c2", "weather", "rain")]),
    ]
    assert found.diagnostics == []


def test_a_refusal_is_marked() -> None:
    assert history([{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]).turns == [
        AssistantTurn([HistoryText("No.", refused=True)])
    ]


@pytest.mark.parametrize(
    "items",
    [
        [call("c"), output("c")],
        [output("c"), call("c")],
        [call("c"), user("in between"), output("c")],
    ],
)
def test_an_output_is_matched_with_its_call_in_any_order(items: list[dict[str, Any]]) -> None:
    turns = history(items).turns
    assert turns[:2] == [
        AssistantTurn([Call("c", "weather", "{}")]),
        OutputsTurn([ToolOutput("c", "weather", "sunny")]),
    ]
    assert turns[2:] in ([], [users("in between")])


def test_an_output_without_a_call_becomes_a_user_message() -> None:
    found = history(
        [user("x"), output("gone", "sunny"), output("gone too", [{"type": "input_text", "text": "a"}])]
    )
    assert found.turns[1:] == [
        users("[output of an earlier tool call]", "sunny"),
        users("[output of an earlier tool call]", "a"),
    ]
    assert diagnostic_codes(found) == {"orphan_output"}


def test_a_call_without_an_output_gets_a_placeholder() -> None:
    found = history([call("c"), user("go on")])
    assert found.turns[1] == OutputsTurn([ToolOutput("c", "weather", NO_OUTPUT)])
    assert diagnostic_codes(found) == {"unanswered_call"}


def test_a_repeated_call_is_sent_once_with_its_first_output() -> None:
    found = history([call("c"), call("c"), output("c", "1"), output("c", "2")])
    assert found.turns == [
        AssistantTurn([Call("c", "weather", "{}")]),
        OutputsTurn([ToolOutput("c", "weather", "1")]),
    ]
    assert diagnostic_codes(found) == {"repeated_call", "repeated_output"}


def test_an_id_that_is_reused_after_its_output_is_another_call() -> None:
    found = history([call("c"), output("c", "1"), call("c"), output("c", "2")])
    outputs = [turn.outputs[0].content for turn in found.turns if isinstance(turn, OutputsTurn)]
    assert outputs == ["1", "2"]


def test_our_suffix_is_removed_from_a_call_id_unless_the_turn_has_that_id() -> None:
    def ids(*given: str) -> list[str]:
        found = history([*map(call, given), *map(output, given)])
        [turn] = [turn for turn in found.turns if isinstance(turn, OutputsTurn)]
        return [each.id for each in turn.outputs]

    assert ids("c-pk2") == ["c"]
    assert ids("c", "c-pk2") == ["c", "c-pk2"]


def test_two_calls_of_a_turn_never_share_an_id() -> None:
    found = history([call("c-pk2"), call("c"), output("c-pk2", "1"), output("c", "2")])
    [turn] = [turn for turn in found.turns if isinstance(turn, OutputsTurn)]
    assert len({each.id for each in turn.outputs}) == 2


def test_a_long_id_is_shortened_in_call_and_output() -> None:
    found = history([call("x" * 99), output("x" * 99)])
    assert isinstance(found.turns[0], AssistantTurn)
    assert isinstance(found.turns[1], OutputsTurn)
    [shown] = found.turns[0].pieces
    assert isinstance(shown, Call)
    assert shown.id == found.turns[1].outputs[0].id
    assert len(shown.id) <= 64
    [reported] = found.diagnostics
    assert (reported.code, reported.count) == ("long_call_id", 1)
    assert reported.message == (
        f"a call id of 99 characters is too long; the call has the id {shown.id!r} instead"
    )


def test_every_long_id_of_a_history_is_reported_once() -> None:
    ids = ["x" * 65, "y" * 99, "z" * 64]
    found = history([*map(call, ids), *map(output, ids)])
    assert [(each.code, each.count) for each in found.diagnostics] == [("long_call_id", 1)] * 2
    assert not any("xx" in each.message or "yy" in each.message for each in found.diagnostics)


def test_arguments_with_too_many_values_are_sent_as_one_string(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some dialects decode the arguments of every call; the limit counts all calls together."""
    monkeypatch.setattr("penstock.dialects.history.ARGUMENT_VALUES", 10)
    small, large = '{"a":[1,2]}', '{"a":[1,2,3,4,5,6,7,8]}'
    found = history([call("c1", arguments=small), call("c2", arguments=large), output("c1"), output("c2")])
    [turn] = [turn for turn in found.turns if isinstance(turn, AssistantTurn)]
    arguments = [piece.arguments for piece in turn.pieces if isinstance(piece, Call)]
    assert arguments[0] == small
    assert json.loads(arguments[1]) == {"arguments": large}
    assert diagnostic_codes(found) == {"odd_arguments"}


def test_calls_have_the_upstreams_names() -> None:
    dotted = {**WEATHER, "name": "a.b"}
    items = [
        call("c1", "a.b"),
        {**call("c2", "search"), "namespace": "mcp__docs"},
        {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": "x"},
        {**call("c4", "lost tool"), "namespace": "n"},
        call("c5", "lost.tool"),
    ]
    [turn, _] = history(items, tools=[dotted, PATCH, SEARCH]).turns
    assert isinstance(turn, AssistantTurn)
    assert [(each.name, each.arguments) for each in turn.pieces if isinstance(each, Call)] == [
        ("a_b", "{}"),
        ("mcp__docs__search", "{}"),
        ("apply_patch", '{"input":"x"}'),
        ("n__lost_tool", "{}"),
        ("lost_tool", "{}"),
    ]


@pytest.mark.parametrize(
    ("made", "answered", "arguments", "content"),
    [
        (
            {"type": "local_shell_call", "action": {"type": "exec"}},
            {"type": "local_shell_call_output", "output": "a"},
            "{}",
            "a",
        ),
        (
            {"type": "shell_call", "action": {"commands": []}},
            {"type": "shell_call_output", "output": [{"stdout": "a"}]},
            '{"commands":[]}',
            "exit code unknown\nstdout:\na",
        ),
        (
            {"type": "apply_patch_call", "operation": {"path": "a"}},
            {"type": "apply_patch_call_output", "status": "failed", "output": "no"},
            '{"path":"a"}',
            "failed: no",
        ),
        (
            {"type": "tool_search_call", "arguments": {"query": "x"}},
            {"type": "tool_search_output", "tools": [PATCH, {"type": "web_search"}]},
            '{"query":"x"}',
            "These tools can be called now:\napply_patch",
        ),
        (
            {"type": "tool_search_call"},
            {"type": "tool_search_output"},
            "{}",
            "No tools were found.",
        ),
    ],
)
def test_other_calls_have_a_generic_form(
    made: dict[str, Any], answered: dict[str, Any], arguments: str, content: str
) -> None:
    [turn, outputs] = history([{**made, "call_id": "c"}, {**answered, "call_id": "c"}]).turns
    name = made["type"].removesuffix("_call")
    assert turn == AssistantTurn([Call("c", name, arguments)])
    assert outputs == OutputsTurn([ToolOutput("c", name, content)])


def test_the_output_of_a_local_shell_may_name_its_call_as_its_id() -> None:
    made = {"type": "local_shell_call", "call_id": "c", "action": {}}
    assert history([made, {"type": "local_shell_call_output", "id": "c", "output": "a"}]).diagnostics == []


MAKER = Target(model="m", vendor="v", dialect="anthropic", family="claude")


def thought_of(sealed: str | None, target: Target) -> tuple[list[HistoryReasoning], set[str]]:
    item = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": sealed,
    }
    plan = plan_for({"input": [item]}, vendor=target.vendor, dialect=target.dialect, family=target.family)
    found = history_of(plan)
    pieces = [piece for turn in found.turns if isinstance(turn, AssistantTurn) for piece in turn.pieces]
    return [piece for piece in pieces if isinstance(piece, HistoryReasoning)], diagnostic_codes(found)


def test_sealed_reasoning_is_opened_only_for_its_upstream() -> None:
    sealed = seal(MAKER, {"signature": "s"}, attached="call")
    assert thought_of(sealed, MAKER) == (
        [HistoryReasoning("Hm.", payload={"signature": "s"}, attached="call")],
        set(),
    )
    for other in (Target("m", "w", "anthropic", "claude"), Target("m", "v", "gemini", "claude"), Target("m")):
        [thought], codes = thought_of(sealed, other)
        assert thought.foreign
        assert thought.payload is None
        assert codes == {"reasoning_left_out"}


def test_unsealed_reasoning_is_not_foreign() -> None:
    assert thought_of(None, MAKER) == ([HistoryReasoning("Hm.")], set())
    [thought], codes = thought_of("gAAAAA", MAKER)
    assert thought.foreign
    assert codes == {"reasoning_left_out"}


def test_empty_reasoning_is_skipped() -> None:
    assert history([{"type": "reasoning", "summary": []}, user("x")]).turns == [users("x")]


def test_our_compaction_becomes_user_text_and_a_foreign_one_is_left_out() -> None:
    ours = {"type": "compaction", "encrypted_content": seal(MAKER, {"text": "So far."})}
    found = history([assistant("A."), ours])
    assert found.turns == [AssistantTurn([HistoryText("A.")]), users("So far.")]
    for foreign in ("gAAA", seal(MAKER, {"text": 7}), seal(MAKER, "text")):
        assert diagnostic_codes(
            history([user("x"), {"type": "compaction", "encrypted_content": foreign}])
        ) == {"item_left_out"}


@pytest.mark.parametrize("type", ["item_reference", "web_search_call", "mystery"])
def test_other_items_are_left_out_and_named(type: str) -> None:
    found = history([user("x"), {"type": type, "id": "i"}])
    assert found.turns == [users("x")]
    assert [repr(type) in each.message for each in found.diagnostics] == [True]


def test_items_that_add_tools_are_not_turns() -> None:
    brought = [
        {"type": "additional_tools", "tools": [PATCH]},
        {"type": "tool_search_output", "tools": [PATCH]},
    ]
    found = history([*brought, user("x")])
    assert found.turns == [users("x")]
    assert found.diagnostics == []


def test_every_item_becomes_a_turn_or_a_diagnostic() -> None:
    found = history(EVERY_ITEM, tools=[WEATHER])
    assert found.system == ["Be brief.", "Be kind."]
    assert diagnostic_codes(found) == {"item_left_out"}
    assert sum(isinstance(turn, OutputsTurn) for turn in found.turns) == 5


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(requests)
def test_every_call_has_its_output_in_the_next_turn(request: dict[str, Any]) -> None:
    turns = history_of(plan_for(request)).turns
    for turn, following in pairwise([*turns, None]):
        calls = (
            [piece for piece in turn.pieces if isinstance(piece, Call)]
            if isinstance(turn, AssistantTurn)
            else []
        )
        if calls:
            assert isinstance(following, OutputsTurn)
            assert [(each.id, each.name) for each in following.outputs] == [
                (each.id, each.name) for each in calls
            ]
            assert len({each.id for each in calls}) == len(calls)
        else:
            assert not isinstance(following, OutputsTurn)


def test_a_second_output_of_a_call_is_sent_where_it_is() -> None:
    """A tool that runs asynchronously answers at once, and sends its result later."""
    items = [
        user("go"),
        call("c"),
        output("c", "started"),
        assistant("Wait."),
        output("c", "done"),
        user("?"),
    ]
    found = history(items)
    assert found.turns[2] == OutputsTurn([ToolOutput("c", "weather", "started")])
    assert found.turns[4] == users("[later output of the call c]", "done")
    assert diagnostic_codes(found) == {"late_output"}


def test_a_late_output_alone_answers_its_call() -> None:
    found = history([user("go"), call("c"), assistant("Wait."), user("and?"), output("c", "done")])
    assert OutputsTurn([ToolOutput("c", "weather", "done")]) in found.turns
    assert diagnostic_codes(found) == set()


@pytest.mark.parametrize("type", ["configuration_update", "program", "program_output", "acme:thing", ""])
def test_an_item_that_the_upstream_does_not_have_is_left_out_and_reported(type: str) -> None:
    found = history([user("a"), {"type": type, "call_id": "p", "code": "1"}, user("b")])
    assert found.turns == [users("a"), users("b")]
    assert [(each.code, repr(type) in each.message) for each in found.diagnostics] == [
        ("item_left_out", True)
    ]


def test_an_output_without_a_known_call_is_never_dropped_silently() -> None:
    found = history([user("a"), {"type": "function_call_output", "output": "x"}])
    assert diagnostic_codes(found) == {"item_left_out"}


def test_an_empty_call_at_the_end_is_left_out_and_reported() -> None:
    found = history([user("a"), call("c", ""), user("b")])
    assert found.turns == [users("a"), users("b")]
    assert diagnostic_codes(found) == {"item_left_out"}
