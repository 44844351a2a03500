"""The input items of a request, repaired for another Responses endpoint."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from penstock.dialects.plan import Quirks
from tests.dialects.render_cases import (
    EVERY_TOOL,
    PATCH,
    SEARCH,
    assistant,
    call,
    codes,
    output,
    user,
)
from tests.dialects.responses.rendering import (
    IMAGE,
    OPENAI,
    OTHER,
    items,
    message,
    reasoning,
    rendered,
    sealed,
)


def test_messages_are_sent_without_ids_and_with_their_phase_only_to_openai() -> None:
    reply = {**assistant("A."), "phase": "final_answer"}
    part = {"type": "output_text", "text": "A.", "annotations": []}
    assert items([reply]) == [{**message("assistant", [part]), "phase": "final_answer"}]
    assert items([reply], OTHER) == [message("assistant", [part])]
    refusal = {"type": "refusal", "refusal": "No."}
    assert items([{"role": "assistant", "content": [refusal]}]) == [message("assistant", [refusal])]
    assert items([{"role": "assistant", "content": "bare"}]) == [message("assistant", "bare")]


LEADING_AND_LATE = {
    "instructions": "One.",
    "input": [
        {"role": "developer", "content": "Two."},
        {"role": "system", "content": [{"type": "input_text", "text": "Three."}]},
        user("a"),
        {"role": "developer", "content": "Late."},
        {"role": "developer", "content": ""},
    ],
}


def test_system_texts_are_unchanged_for_openai() -> None:
    body = rendered(LEADING_AND_LATE).body
    assert body["instructions"] == "One."
    assert [item["role"] for item in body["input"]] == ["developer", "system", "user", "developer"]


def test_leading_system_texts_become_instructions_if_only_one_is_allowed() -> None:
    body = rendered(LEADING_AND_LATE, OTHER).body
    assert body["instructions"] == "One.\n\nTwo.\n\nThree."
    assert body["input"] == [message("user", "a"), message("user", "<system>\nLate.\n</system>")]


def test_the_role_of_developers_is_the_endpoints() -> None:
    for developer_role, role in [(False, "system"), (True, "developer")]:
        quirks = Quirks(system_first=False, developer_role=developer_role)
        body = rendered(LEADING_AND_LATE, {**OTHER, "quirks": quirks}).body
        assert [item["role"] for item in body["input"]] == [role, role, "user", role]


def test_openai_gets_its_own_types_back() -> None:
    input_items = [
        call("c1", arguments='{"city":"Ulm"}'),
        output("c1", "sunny"),
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "apply_patch", "input": "x"},
        {"type": "custom_tool_call_output", "id": "ctco_1", "call_id": "c2", "output": "ok"},
        {**call("c3", "search"), "namespace": "mcp__docs"},
        output("c3", [{"type": "input_text", "text": "a"}, IMAGE]),
        {"type": "local_shell_call", "call_id": "c4", "action": {"type": "exec"}, "status": "completed"},
        {"type": "local_shell_call_output", "id": "c4", "output": "a"},
        {"type": "shell_call", "call_id": "c5", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c5", "output": [{"stdout": "a"}]},
        {"type": "tool_search_call", "execution": "server", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "execution": "server", "tools": [PATCH]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "additional_tools", "id": "at_1", "tools": [SEARCH]},
    ]
    request = rendered({"tools": EVERY_TOOL, "input": input_items})
    expected = deepcopy(input_items)
    for item in expected:
        if item["type"] != "local_shell_call_output":
            item.pop("id", None)
    expected[13]["role"] = "developer"
    expected[13]["tools"][0]["description"] = ""
    assert request.body["input"] == expected
    assert request.diagnostics == []


def test_a_local_shell_output_names_its_call_by_id_alone() -> None:
    made = {"type": "local_shell_call", "call_id": "c-pk2", "action": {"type": "exec"}}
    answered = {"type": "local_shell_call_output", "call_id": "c-pk2", "output": "a"}
    [_, output] = items([made, answered])
    assert output == {"type": "local_shell_call_output", "id": "c", "output": "a"}


def test_other_endpoints_get_functions() -> None:
    input_items = [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "apply_patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
        {**call("c3", "search"), "namespace": "mcp__docs"},
        output("c3", [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]),
        {"type": "shell_call", "call_id": "c5", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c5", "output": [{"stdout": "a"}]},
        {**call("c6", "lost.tool"), "namespace": "n"},
        output("c6", [IMAGE]),
        {"type": "additional_tools", "tools": [SEARCH]},
    ]

    def pair(call_id: str, name: str, arguments: str, answer: Any) -> list[dict[str, Any]]:
        return [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
            {"type": "function_call_output", "call_id": call_id, "output": answer},
        ]

    assert items(input_items, OTHER, tools=[PATCH]) == [
        *pair("c2", "apply_patch", '{"input":"x"}', "ok"),
        *pair("c3", "mcp__docs__search", "{}", "a\nb"),
        *pair("c5", "shell", '{"commands":["ls"]}', "exit code unknown\nstdout:\na"),
        *pair("c6", "n__lost_tool", "{}", [IMAGE]),
    ]


def kinds(input_items: list[dict[str, Any]], target: dict[str, Any] = OPENAI) -> list[tuple[str, str]]:
    return [(item["type"], item.get("call_id", "")) for item in items(input_items, target)]


@pytest.mark.parametrize("target", [OPENAI, OTHER], ids=["openai", "other"])
def test_calls_and_outputs_always_match(target: dict[str, Any]) -> None:
    pair = [("function_call", "c"), ("function_call_output", "c")]
    assert kinds([call("c"), output("c")], target) == pair
    assert kinds([output("c"), call("c")], target) == pair
    assert kinds([call("c"), call("c"), output("c"), output("c")], target) == pair
    assert kinds([call("c")], target) == pair
    assert kinds([output("c")], target) == [("message", "")]


@pytest.mark.parametrize(
    ("input_items", "code"),
    [
        ([call("c"), call("c"), output("c")], "repeated_call"),
        ([call("x" * 65), output("x" * 65)], "long_call_id"),
        ([call("c"), output("c"), output("c")], "repeated_output"),
        ([call("c")], "unanswered_call"),
        ([output("c")], "orphan_output"),
        ([user("x"), {"type": "item_reference", "id": "x"}], "item_left_out"),
        ([user("x"), {"type": "mystery", "id": "x"}], "item_left_out"),
        ([user("x"), {"type": "compaction", "encrypted_content": "x"}], "item_left_out"),
    ],
)
def test_every_repair_is_reported(input_items: list[dict[str, Any]], code: str) -> None:
    assert codes(rendered({"input": input_items})) == {code}


def test_an_id_that_is_reused_after_its_output_is_another_call() -> None:
    input_items = [call("c", "a"), output("c", "1"), call("c", "b"), output("c", "2")]
    found = items(input_items)
    assert [item.get("name") or item["output"] for item in found] == ["a", "1", "b", "2"]
    assert found[0]["call_id"] == found[1]["call_id"] != found[2]["call_id"] == found[3]["call_id"]


def test_our_suffix_is_removed_unless_another_call_has_the_id() -> None:
    assert kinds([call("c-pk2"), output("c-pk2")])[0] == ("function_call", "c")
    both = kinds([call("c"), output("c"), call("c-pk2"), output("c-pk2")])
    assert [call_id for _, call_id in both] == ["c", "c", "c-pk2", "c-pk2"]
    crossed = kinds([call("c-pk2"), output("c-pk2"), call("c"), output("c")])
    assert len({call_id for _, call_id in crossed}) == 2


def test_an_output_has_the_type_of_its_call() -> None:
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"}
    assert [kind for kind, _ in kinds([custom, output("c")])] == [
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    assert [kind for kind, _ in kinds([custom])] == ["custom_tool_call", "custom_tool_call_output"]


def test_a_typed_call_without_an_output_becomes_a_message() -> None:
    [item] = items([{"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}])
    assert item["role"] == "assistant"
    assert '"commands":["ls"]' in item["content"]


def test_tools_of_a_search_without_a_call_can_still_be_called() -> None:
    found = {"type": "tool_search_output", "call_id": "gone", "tools": [PATCH]}
    assert items([found]) == [{"type": "additional_tools", "role": "developer", "tools": [PATCH]}]
    assert items([found], OTHER)[0]["type"] == "message"


def test_encrypted_reasoning_is_sent_back_only_to_its_upstream() -> None:
    ours = sealed({"encrypted_content": "gAAA"}, OPENAI)
    input_items = [reasoning(ours, "Text."), assistant("A.")]
    assert items(input_items)[0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "S."}],
        "encrypted_content": "gAAA",
    }
    for other in ({"key_fingerprint": "other"}, {"family": "o"}, {"vendor": "azure"}):
        request = rendered({"input": input_items}, {**OPENAI, **other})
        assert [item["type"] for item in request.body["input"]] == ["message"]
        (diagnostic,) = request.diagnostics
        assert diagnostic.code == "reasoning_left_out"
        assert ("another key" in diagnostic.message) is ("key_fingerprint" in other)


def test_plain_reasoning_is_sent_back_to_endpoints_that_accept_it() -> None:
    assert items([reasoning(None, "Text."), assistant("A.")], OTHER)[0] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "S."}],
        "content": [{"type": "reasoning_text", "text": "Text."}],
    }
    request = rendered({"input": [reasoning(None, "Text."), assistant("A.")]})
    assert len(request.body["input"]) == 1
    assert codes(request) == {"reasoning_left_out"}


def test_sealed_text_takes_precedence_over_what_the_client_made_of_it() -> None:
    """A client that received raw reasoning as a summary returns it as one."""
    content = [{"type": "reasoning_text", "text": "as sent"}]
    as_summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "as sent"}]}
    item = {**as_summary, "encrypted_content": sealed({"content": content, "summary": []}, OTHER)}
    assert items([item, assistant("A.")], OTHER)[0] == {
        "type": "reasoning",
        "summary": [],
        "content": content,
    }


def test_old_reasoning_is_dropped_only_before_the_last_user_message_and_only_with_the_quirk() -> None:
    given = [reasoning(None, "Old."), assistant("A."), user("b"), reasoning(None, "New."), assistant("B.")]
    drops = {**OTHER, "quirks": Quirks(drops_old_reasoning=True)}
    for target, expected in ((OTHER, ["Old.", "New."]), (drops, ["New."])):
        sent = [item for item in items(given, target) if item["type"] == "reasoning"]
        assert [item["content"][0]["text"] for item in sent] == expected


def test_empty_or_unreadable_reasoning_is_left_out() -> None:
    empty = {"type": "reasoning", "summary": [], "encrypted_content": sealed("odd", OTHER)}
    request = rendered({"input": [empty, assistant("A.")]}, OTHER)
    assert len(request.body["input"]) == 1
    assert codes(request) == {"reasoning_left_out"}


def test_reasoning_that_nothing_follows_is_left_out_for_openai() -> None:
    ours = reasoning(sealed({"encrypted_content": "gAAA"}, OPENAI))
    request = rendered({"input": [ours, user("x"), ours, ours, call(), output(), ours]})
    assert [item["type"] for item in request.body["input"]] == [
        "message",
        "reasoning",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert codes(request) == {"reasoning_left_out"}


def test_our_compactions_are_sent_as_text_and_the_vendors_own_unchanged() -> None:
    text = {"type": "compaction", "encrypted_content": sealed({"text": "So far."}, OTHER)}
    assert items([text]) == [message("user", "So far.")]
    own = {
        "type": "compaction",
        "id": "cmp_1",
        "encrypted_content": sealed({"encrypted_content": "x"}, OPENAI),
    }
    assert items([own]) == [{"type": "compaction", "encrypted_content": "x"}]
    assert codes(rendered({"input": [user("x"), own]}, OTHER)) == {"item_left_out"}


LATE = [user("go"), call("c"), output("c", "started"), assistant("Wait."), output("c", "done")]


@pytest.mark.parametrize("target", [OPENAI, OTHER], ids=["openai", "other"])
def test_a_second_output_of_a_call_is_sent_as_a_message(target: dict[str, Any]) -> None:
    """A tool that runs asynchronously answers at once, and sends its result later."""
    request = rendered({"input": LATE}, target)
    assert [item["type"] for item in request.body["input"]] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
        "message",
    ]
    texts = [part["text"] for part in request.body["input"][-1]["content"]]
    assert texts == ["[later output of the call c]", "done"]
    assert codes(request) == {"late_output"}


OWNED: list[dict[str, Any]] = [
    {"type": "configuration_update", "reasoning": {"effort": "high"}},
    {"type": "program", "call_id": "p", "code": "1 + 1", "fingerprint": "f"},
    {"type": "program_output", "call_id": "p", "result": "2", "status": "completed"},
]


def test_openai_gets_its_own_items_back_without_our_ids() -> None:
    """An id of another prefix than the type's is refused for the rest of the conversation."""
    given = [{**item, "id": f"item_{place}", "status": "completed"} for place, item in enumerate(OWNED)]
    request = rendered({"input": [user("x"), *given]})
    assert request.body["input"][1:] == OWNED
    assert request.diagnostics == []


def test_other_endpoints_do_not_get_items_of_openai() -> None:
    request = rendered({"input": [user("x"), *OWNED]}, OTHER)
    assert [item["type"] for item in request.body["input"]] == ["message"]
    assert [each.code for each in request.diagnostics] == ["item_left_out"] * 3


@pytest.mark.parametrize("target", [OPENAI, OTHER], ids=["openai", "other"])
def test_no_id_of_an_item_is_sent(target: dict[str, Any]) -> None:
    given = [
        {**user("x"), "id": "item_0"},
        {**call("c"), "id": "item_1"},
        {**output("c"), "id": "item_2"},
        {**assistant("y"), "id": "item_3"},
    ]
    assert "item_" not in str(items(given, target))
