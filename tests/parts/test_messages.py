"""An editor's messages become the input of a request."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from msgspec import UNSET

from penstock.parts.content import TOOL_FAILED
from penstock.parts.messages import translate_messages, translate_tool_mode, translate_tools
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
    ThinkingPart,
    ToolCallPart,
)
from penstock.protocol.wire import to_builtins
from penstock.tools.call_ids import NO_OUTPUT, ORPHAN_OUTPUT
from tests.parts.conversations import (
    ENDPOINT,
    LONG,
    MODEL,
    SAME_TARGET,
    assistant,
    call,
    call_item,
    codes,
    follow,
    items_of,
    marker,
    message_item,
    output_item,
    parts,
    reasoning,
    result,
    system,
    thinking_end,
    translate,
    user,
)
from tests.protocol.schema import RELEASES, complaints

# Roles and text


def test_each_role_has_its_own_content_type() -> None:
    assert translate(system("Be brief."), user("Hi."), assistant("Hello."), user("Bye.")) == [
        message_item("system", "Be brief."),
        message_item("user", "Hi."),
        message_item("assistant", "Hello."),
        message_item("user", "Bye."),
    ]


def test_an_unknown_role_becomes_user_with_a_diagnostic() -> None:
    assert translate(ChatMessage(7, parts(["Hi."]))) == [message_item("user", "Hi.")]
    assert codes(ChatMessage(7, parts(["Hi."]))) == ["unknown_role"]


@pytest.mark.parametrize(
    ("options", "prompt"),
    [
        ({"system_prompt": "A."}, "A."),
        ({"system_prompt": "A.", "model_options": {"system_prompt": "B."}}, "A."),
        ({"model_options": {"system_prompt": "B.", "systemPrompt": "C."}}, "B."),
        ({"model_options": {"systemPrompt": "C.", "_conversationId": "x"}}, "C."),
    ],
)
def test_a_system_prompt_is_the_first_item(options: Any, prompt: str) -> None:
    assert translate(system("S."), user("Hi."), **options) == [
        message_item("system", prompt),
        message_item("system", "S."),
        message_item("user", "Hi."),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"system_prompt": ""},
        {"system_prompt": "", "model_options": {"system_prompt": "B."}},
        {"model_options": {"system_prompt": None, "systemPrompt": 5}},
    ],
)
def test_no_system_prompt_is_no_item(options: Any) -> None:
    assert translate(user("Hi."), **options) == [message_item("user", "Hi.")]


def test_system_messages_can_use_the_developer_role() -> None:
    assert translate(system("S."), system_prompt="P.", system_role="developer") == [
        message_item("developer", "P."),
        message_item("developer", "S."),
    ]


def test_consecutive_texts_are_joined_and_messages_are_not() -> None:
    assert translate(user("a", "", "b"), user("c")) == [message_item("user", "ab"), message_item("user", "c")]
    usage = DataPart.json({"prompt_tokens": 1}, "usage")
    assert translate(assistant("a", usage, ThinkingPart("Foreign."), "b")) == [
        message_item("assistant", "ab")
    ]


@pytest.mark.parametrize("content", [[], [""], ["", ""], [DataPart(b"", "text/plain")], [marker("r")]])
def test_a_message_without_content_is_omitted(content: list[Any]) -> None:
    assert translate(user(*content), assistant(*content), system(*content)) == []
    assert codes(user(*content), assistant(*content), system(*content)) == []


def test_a_name_adds_a_diagnostic_unless_it_is_empty() -> None:
    assert codes(user("Hi.", name="Ada"), user("Hi.", name="")) == ["name_left_out"]


# Calls and outputs


def test_a_message_is_split_at_calls_and_results() -> None:
    turn = [
        assistant(
            "Let me see.", call("gw-1", path="a"), "And:", call("gw-2", path="ü", deep={"x": [1]}), "Done."
        ),
        user("Wait.", result("gw-1", "one"), result("gw-2", "two"), "Now?"),
    ]
    assert translate(*turn) == [
        message_item("assistant", "Let me see."),
        call_item("1", '{"path":"a"}'),
        message_item("assistant", "And:"),
        call_item("2", '{"path":"ü","deep":{"x":[1]}}'),
        message_item("assistant", "Done."),
        message_item("user", "Wait."),
        output_item("1", "one"),
        output_item("2", "two"),
        message_item("user", "Now?"),
    ]
    assert codes(*turn) == []


def test_copilots_tool_loop() -> None:
    """The messages that VS Code sends (editor 8): a marker, thinking and an empty text before the calls."""
    conversation = [
        system("You are an agent."),
        user("<environment/>", name=""),
        user("Fix it.", name=""),
        assistant(
            marker("resp_1", MODEL, ENDPOINT, "", "You are an agent."),
            ThinkingPart(["I should ", "read."], "rs_1"),
            thinking_end("rs_1", encrypted_content="gAAA"),
            "",
            call("gw-call_1", path="a"),
            call("gw-call_2", path="b"),
        ),
        user(result("gw-call_1", "A"), name=""),
        user(result("gw-call_2", "B", is_error=True), name=""),
    ]
    assert translate(*conversation, model=MODEL, endpoint="https://elsewhere.example") == [
        message_item("system", "You are an agent."),
        message_item("user", "<environment/>"),
        message_item("user", "Fix it."),
        reasoning("rs_1", encrypted_content="gAAA"),
        call_item("call_1", '{"path":"a"}'),
        call_item("call_2", '{"path":"b"}'),
        output_item("call_1", "A"),
        output_item("call_2", f"{TOOL_FAILED}\nB"),
    ]
    continued = translate_messages(conversation, model=MODEL, endpoint=ENDPOINT)
    assert continued.previous_response_id == "resp_1"
    assert items_of(continued) == [output_item("call_1", "A"), output_item("call_2", f"{TOOL_FAILED}\nB")]
    assert continued.diagnostics == []


def test_an_unknown_part_is_omitted_with_a_diagnostic() -> None:
    odd: Any = object()
    assert translate(user("a", odd, "b")) == [message_item("user", "ab")]
    assert codes(user(odd)) == ["part_left_out"]


@pytest.mark.parametrize(
    ("input", "arguments", "diagnostics"),
    [
        ({}, "{}", []),
        (MappingProxyType({"a": 1}), '{"a":1}', []),
        (None, "{}", ["odd_arguments"]),
        ("", "{}", ["odd_arguments"]),
        ("null", "{}", ["odd_arguments"]),
        ('{"a": 1}', '{"a":1}', ["odd_arguments"]),
        ('{"a": ', '{"value":"{\\"a\\": "}', ["odd_arguments"]),
        ("[1]", '{"value":[1]}', ["odd_arguments"]),
        ([1, 2], '{"value":[1,2]}', ["odd_arguments"]),
        (False, '{"value":false}', ["odd_arguments"]),
    ],
)
def test_the_arguments_of_a_call_are_always_an_object(
    input: Any, arguments: str, diagnostics: list[str]
) -> None:
    messages = assistant(ToolCallPart("1", "read_file", input)), user(result("1", "ok"))
    assert translate(*messages) == [call_item("1", arguments), output_item("1")]
    assert codes(*messages) == diagnostics


@pytest.mark.parametrize(
    ("name", "sent_as"), [("mcp.docs/search", "mcp_docs_search"), ("x" * 80, "x" * 64), ("", "tool")]
)
def test_an_invalid_tool_name_is_replaced(name: str, sent_as: str) -> None:
    messages = assistant(call("1", name)), user(result("1", "ok"))
    assert translate(*messages) == [call_item("1", name=sent_as), output_item("1")]
    assert codes(*messages) == ["tool_renamed"]


def test_only_what_follows_the_newest_marker_is_sent() -> None:
    conversation = [
        system("S."),
        user("One."),
        assistant("1.", marker("resp_1", MODEL, ENDPOINT, "P.", "S.")),
        user("Two."),
        assistant("2.", marker("resp_2", MODEL, ENDPOINT, "P.", "S.")),
        user("Three."),
        system("Late."),
    ]
    rest = [message_item("user", "Three."), message_item("system", "Late.")]
    assert follow(*conversation, system_prompt="P.") == ("resp_2", rest)
    assert follow(*conversation[:4], system_prompt="P.") == ("resp_1", [message_item("user", "Two.")])
    assert follow(*conversation, assistant("Foreign."), user("Four."), system_prompt="P.") == (
        "resp_2",
        [*rest, message_item("assistant", "Foreign."), message_item("user", "Four.")],
    )


@pytest.mark.parametrize(("prompt", "system_text"), [("P.", "Other."), ("Other.", "S."), ("", "S.")])
def test_a_marker_with_other_instructions_is_not_used(prompt: str, system_text: str) -> None:
    """The endpoint's copy of the conversation begins with the old instructions."""
    marked = assistant("1.", marker("resp_1", MODEL, ENDPOINT, "P.", "S."))
    conversation = [system(system_text), user("One."), marked, user("Two.")]
    assert follow(*conversation, system_prompt=prompt)[0] is None
    assert follow(system("S."), *conversation[1:], system_prompt="P.")[0] == "resp_1"


@pytest.mark.parametrize(
    "options",
    [{"follow_marker": False}, {"model": "acme/small"}, {"endpoint": "https://b.example"}, {"model": ""}],
)
def test_a_marker_is_used_only_for_its_model_and_endpoint(options: Any) -> None:
    conversation = user("One."), assistant("1.", marker("resp_1")), user("Two.")
    whole = [message_item("user", "One."), message_item("assistant", "1."), message_item("user", "Two.")]
    assert follow(*conversation, **options) == (None, whole)


def test_an_older_marker_is_found_before_those_of_other_models() -> None:
    others = assistant("2.", marker("resp_9", model="acme/small"))
    conversation = user("One."), assistant("1.", marker("resp_1")), user("Two."), others, user("Three.")
    assert follow(*conversation) == (
        "resp_1",
        [message_item("user", "Two."), message_item("assistant", "2."), message_item("user", "Three.")],
    )
    assert follow(user("One.", marker("resp_1")), user("Two."))[0] is None


def test_calls_of_the_marked_response_get_outputs() -> None:
    conversation = [
        user("Go."),
        assistant(call("gw-1"), call("gw-2"), marker("resp_1")),
        user(result("gw-2", "two")),
        user("Well?"),
    ]
    assert follow(*conversation) == (
        "resp_1",
        [output_item("1", NO_OUTPUT), output_item("2", "two"), message_item("user", "Well?")],
    )
    assert codes(*conversation, **SAME_TARGET) == ["unanswered_call"]
    assert follow(*conversation[:2]) == ("resp_1", [output_item("1", NO_OUTPUT), output_item("2", NO_OUTPUT)])


def test_calls_with_outputs_before_the_marker_are_not_repeated() -> None:
    conversation = [
        assistant(call("gw-1"), marker("resp_1")),
        user(result("gw-1", "one")),
        assistant("Done.", marker("resp_2")),
        user(result("gw-1", "again"), "Next."),
    ]
    assert follow(*conversation) == ("resp_2", [message_item("user", "Next.")])
    assert codes(*conversation, **SAME_TARGET) == ["repeated_output"]


def test_an_output_without_a_call_after_a_marker_becomes_a_message() -> None:
    conversation = assistant("1.", marker("resp_1")), user(result("gw-lost", "x"))
    assert follow(*conversation) == ("resp_1", [message_item("user", ORPHAN_OUTPUT, "x")])


@pytest.mark.parametrize(
    "conversation",
    [
        # an id that had to be hashed, in the marked message and after it
        [assistant(call("gw-" + LONG), marker("r")), user(result("gw-" + LONG, "ok"))],
        [assistant("1.", marker("r")), assistant(call(LONG)), user(result(LONG, "ok"))],
        # an id that had to change, and an id that had to be generated
        [
            user("Go."),
            assistant(call("x"), call("gw-x"), marker("r")),
            user(result("x", "a"), result("gw-x", "b")),
        ],
        [assistant(call(""), marker("r")), user(result("", "ok"))],
        # an output for a call that was sent with a placeholder
        [assistant(call("gw-1")), user("Hm."), assistant("1.", marker("r")), user(result("gw-1", "late"))],
        # nothing to send
        [user("Go."), assistant("1.", marker("r"))],
        [user("Go."), assistant("1.", marker("r")), user("")],
    ],
)
def test_the_full_history_is_sent_if_a_marker_cannot_be_used(conversation: list[ChatMessage]) -> None:
    response_id, items = follow(*conversation, system_prompt="P.")
    assert response_id is None
    assert items == translate(*conversation, follow_marker=False, system_prompt="P.")
    assert items[0] == message_item("system", "P.")
    assert "marker_not_used" in codes(*conversation, **SAME_TARGET)


def test_ids_that_changed_before_the_marker_do_not_matter() -> None:
    conversation = [
        assistant(call(LONG)),
        user(result(LONG, "ok")),
        assistant(call("gw-1"), marker("resp_1")),
        user(result("gw-1", "ok")),
    ]
    assert follow(*conversation) == ("resp_1", [output_item("1")])


def test_a_result_inside_the_marked_message_is_sent() -> None:
    conversation = assistant(call("gw-1"), marker("resp_1"), result("gw-1", "inside")), user("Next.")
    assert follow(*conversation) == ("resp_1", [output_item("1", "inside"), message_item("user", "Next.")])


# Tools

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["path"],
}
READ = ChatTool("read_file", "Reads a file.", SCHEMA)


def declared(*tools: ChatTool) -> list[dict[str, Any]]:
    return [to_builtins(tool) for tool in translate_tools(tools)]


def test_a_tool_is_declared_with_its_own_schema_and_never_as_strict() -> None:
    assert declared(READ) == [
        {
            "type": "function",
            "name": "read_file",
            "description": "Reads a file.",
            "parameters": SCHEMA,
            "strict": False,
        }
    ]


@pytest.mark.parametrize("schema", [None, {}])
def test_a_tool_without_a_schema_accepts_an_empty_object(schema: Any) -> None:
    assert declared(ChatTool("now", "", schema)) == [
        {
            "type": "function",
            "name": "now",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        }
    ]


def test_a_name_is_declared_once_in_the_editors_order() -> None:
    tools = [READ, ChatTool("b"), ChatTool("read_file", "Another."), ChatTool("a"), ChatTool("b")]
    assert [(tool["name"], tool.get("description")) for tool in declared(*tools)] == [
        ("read_file", "Reads a file."),
        ("b", None),
        ("a", None),
    ]
    assert declared() == []


def test_a_read_only_schema_is_copied() -> None:
    (tool,) = translate_tools([ChatTool("read_file", "", MappingProxyType(SCHEMA))])
    assert tool.parameters == SCHEMA


def test_two_translations_share_no_objects() -> None:
    one, other = translate_tools([ChatTool("a"), ChatTool("b")])
    assert one.parameters == other.parameters
    assert one.parameters is not other.parameters
    (mine,) = translate_tools([READ])
    assert mine.parameters is not SCHEMA


@pytest.mark.parametrize(
    ("mode", "choice"),
    [
        (1, "auto"),
        ("auto", "auto"),
        (2, "required"),
        ("required", "required"),
        (None, UNSET),
        (9, UNSET),
        ("whatever", UNSET),
    ],
)
def test_the_tool_mode_becomes_the_tool_choice_only_with_tools(mode: Any, choice: Any) -> None:
    assert translate_tool_mode(mode, [READ]) == choice
    assert translate_tool_mode(mode, []) is UNSET


@pytest.mark.parametrize("release", RELEASES)
def test_tools_and_tool_choice_are_valid(release: str) -> None:
    tools = [READ, ChatTool("now")]
    body = {
        "model": "m",
        "input": "hi",
        "tools": declared(*tools),
        "tool_choice": translate_tool_mode(2, tools),
    }
    assert complaints(release, "CreateResponseBody", body) == []
