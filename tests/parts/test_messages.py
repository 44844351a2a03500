from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.dialects.history import history_of
from penstock.parts.content import NOTHING, TOOL_FAILED
from penstock.parts.exchanges import from_editor
from penstock.parts.markers import PRIVATE_MIMES, marked_response, marker_part
from penstock.parts.messages import TranslatedMessages, instructions_of, translate_messages
from penstock.parts.parts import (
    Audience,
    ChatMessage,
    DataPart,
    MessagePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.protocol.wire import encode, to_builtins
from penstock.tools.call_ids import NO_OUTPUT, ORPHAN_OUTPUT, fitting
from tests.dialects.render_cases import plan_for
from tests.effort import examples
from tests.protocol.schema import RELEASES, complaints

MODEL, ENDPOINT = "acme/large", "https://gateway.example/v1"
PNG = b"\x89PNG\r\n\x1a\n"
LONG = "l" * 70


def user(*content: MessagePart | str, name: str | None = None) -> ChatMessage:
    return ChatMessage(Role.USER, parts(content), name)


def assistant(*content: MessagePart | str) -> ChatMessage:
    return ChatMessage(Role.ASSISTANT, parts(content))


def system(*content: MessagePart | str) -> ChatMessage:
    return ChatMessage(Role.SYSTEM, parts(content))


def parts(content: Iterable[MessagePart | str]) -> list[MessagePart]:
    return [TextPart(part) if isinstance(part, str) else part for part in content]


def call(call_id: str, name: str = "read_file", **input: Any) -> ToolCallPart:
    return ToolCallPart(call_id, name, input)


def result(call_id: str, *content: TextPart | DataPart | str, is_error: bool = False) -> ToolResultPart:
    return ToolResultPart(
        call_id, [TextPart(part) if isinstance(part, str) else part for part in content], is_error
    )


def marker(
    response_id: str, model: str = MODEL, endpoint: str = ENDPOINT, prompt: str = "", *system: str
) -> DataPart:
    """`prompt` and `system` are what the system said when the response was made."""
    said_then = [ChatMessage(Role.SYSTEM, [TextPart(text)]) for text in system]
    return marker_part(model, endpoint, response_id, instructions_of(said_then, prompt))


def thought(id: str, text: str = "Hm.", model: str = MODEL, **fields: Any) -> ThinkingPart:
    """The last part of a block of ours."""
    item = {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": text}], **fields}
    return ThinkingPart("", id, {"openresponses": {"reasoning": item, "model": model}})


def reasoning(id: str, text: str = "Hm.", **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": text}], **fields}


def translate(*messages: ChatMessage, **options: Any) -> list[dict[str, Any]]:
    return items_of(translate_messages(messages, **options))


def items_of(translated: TranslatedMessages) -> list[dict[str, Any]]:
    return [to_builtins(item) for item in translated.input]


def codes(*messages: ChatMessage, **options: Any) -> list[str]:
    return [diagnostic.code for diagnostic in translate_messages(messages, **options).diagnostics]


def said(role: str, *content: dict[str, Any] | str) -> dict[str, Any]:
    """A message item."""
    written = [_text(role, part) if isinstance(part, str) else part for part in content]
    return {"type": "message", "role": role, "content": written}


def _text(role: str, text: str) -> dict[str, Any]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "input_text", "text": text}


def called(call_id: str, arguments: str = "{}", name: str = "read_file") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def gave(call_id: str, output: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def url(mime: str, data: bytes = PNG) -> str:
    return f"data:{mime};base64,{b64encode(data).decode()}"


IMAGE = {"type": "input_image", "image_url": url("image/png"), "detail": "auto"}


# Roles and text


def test_each_role_speaks_in_its_own_words() -> None:
    assert translate(system("Be brief."), user("Hi."), assistant("Hello."), user("Bye.")) == [
        said("system", "Be brief."),
        said("user", "Hi."),
        said("assistant", "Hello."),
        said("user", "Bye."),
    ]


def test_an_unknown_role_is_the_users_and_is_told() -> None:
    assert translate(ChatMessage(7, parts(["Hi."]))) == [said("user", "Hi.")]
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
        said("system", prompt),
        said("system", "S."),
        said("user", "Hi."),
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
    assert translate(user("Hi."), **options) == [said("user", "Hi.")]


def test_the_system_may_speak_as_the_developer() -> None:
    assert translate(system("S."), system_prompt="P.", system_role="developer") == [
        said("developer", "P."),
        said("developer", "S."),
    ]


def test_texts_in_a_row_are_one_text_and_other_messages_are_others() -> None:
    assert translate(user("a", "", "b"), user("c")) == [said("user", "ab"), said("user", "c")]
    usage = DataPart.json({"prompt_tokens": 1}, "usage")
    assert translate(assistant("a", usage, ThinkingPart("Foreign."), "b")) == [said("assistant", "ab")]


@pytest.mark.parametrize("content", [[], [""], ["", ""], [DataPart(b"", "text/plain")], [marker("r")]])
def test_a_message_without_content_is_left_out(content: list[Any]) -> None:
    assert translate(user(*content), assistant(*content), system(*content)) == []
    assert codes(user(*content), assistant(*content), system(*content)) == []


def test_a_name_is_told_to_be_left_out_and_an_empty_one_is_none() -> None:
    assert codes(user("Hi.", name="Ada"), user("Hi.", name="")) == ["name_left_out"]


def test_what_is_not_for_the_model_is_left_out() -> None:
    for_user = (Audience.USER, Audience.EXTENSION)
    for_both = (Audience.USER, Audience.ASSISTANT)
    mixed = user(
        TextPart("a"),
        TextPart("b", for_user),
        TextPart("c", for_both),
        DataPart(PNG, "image/png", for_user),
        DataPart(PNG, "image/png", for_both),
    )
    assert translate(mixed) == [said("user", "ac", IMAGE)]
    output = result(
        "1", TextPart("a", for_user), TextPart("b", for_both), DataPart(b"c", "text/csv", for_user)
    )
    assert translate(assistant(call("1")), user(output)) == [called("1"), gave("1", "b")]


# Data


@pytest.mark.parametrize(
    ("mime", "data", "written"),
    [
        ("image/png", PNG, IMAGE),
        ("IMAGE/PNG; name=x", PNG, IMAGE),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("text/plain", "é".encode(), "é"),
        ("Text/Plain; charset=utf-8", b"t", "t"),
        ("text/x-json", b"{}", "{}"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/vnd.acme+json", b"[]", "[]"),
        ("application/xml", b"<a/>", "<a/>"),
        ("application/atom+xml", b"<a/>", "<a/>"),
        ("application/x-yaml", b"a: 1", "a: 1"),
    ],
)
def test_data_is_an_image_or_text_by_its_type(mime: str, data: bytes, written: Any) -> None:
    assert translate(user(DataPart(data, mime))) == [said("user", written)]
    assert codes(user(DataPart(data, mime))) == []


@pytest.mark.parametrize(
    ("mime", "data", "sent_as", "filename"),
    [
        ("application/pdf", b"%PDF", "application/pdf", "attachment.pdf"),
        ("application/octet-stream", b"\0", "application/octet-stream", "attachment.bin"),
        ("application/x-tar", b"\0", "application/x-tar", "attachment.tar"),
        ("audio/mpeg", b"\0", "audio/mpeg", "attachment.mp3"),
        ("text/plain; charset=latin-1", b"\xe9", "text/plain", "attachment.txt"),
        ("application/json", b"\xff", "application/json", "attachment.json"),
        # The specification has videos only in the output of a tool.
        ("video/mp4", b"\0", "video/mp4", "attachment.mp4"),
        ("odd type/with,comma", b"\0", "application/octet-stream", "attachment.bin"),
    ],
)
def test_other_data_is_a_file_with_a_name(mime: str, data: bytes, sent_as: str, filename: str) -> None:
    file = {"type": "input_file", "filename": filename, "file_data": url(sent_as, data)}
    assert translate(user("Look:", DataPart(data, mime), "There.")) == [said("user", "Look:", file, "There.")]


@pytest.mark.parametrize("mime", sorted(PRIVATE_MIMES))
@pytest.mark.parametrize("role", list(Role))
def test_the_editors_private_data_never_reaches_a_model(mime: str, role: Role) -> None:
    message = ChatMessage(role, [TextPart("Hi."), DataPart.text("secret", mime.upper()), TextPart(" You.")])
    (item,) = translate(message)
    assert [part["text"] for part in item["content"]] == ["Hi. You."]
    assert codes(message) == []
    assert translate(assistant(call("1")), user(result("1", DataPart.text("secret", mime)))) == [
        called("1"),
        gave("1", NOTHING),
    ]


def test_private_data_of_an_unknown_kind_is_left_out_and_told() -> None:
    for mime in ("next_years_marker", ""):
        assert translate(user(DataPart.text("secret", mime))) == []
        assert codes(user(DataPart.text("secret", mime))) == ["private_data"]


def test_an_empty_image_is_left_out_and_told() -> None:
    assert translate(user("Hi.", DataPart(b"", "image/png"))) == [said("user", "Hi.")]
    assert codes(user(DataPart(b"", "image/png"))) == ["empty_data"]


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (DataPart(PNG, "image/png"), "[image/png, 8 bytes]"),
        (DataPart(b"x" * 12345, "application/pdf"), "[application/pdf, 12 kB]"),
        (DataPart(b"xx", "video/mp4"), "[video/mp4, 2 bytes]"),
    ],
)
def test_where_only_text_may_stand_data_is_named_in_a_note(data: DataPart, note: str) -> None:
    assert translate(assistant("Here:", data), system(data)) == [
        said("assistant", "Here:", note),
        said("system", note),
    ]
    assert codes(assistant(data)) == ["data_as_note"]
    text = DataPart.text("a,b", "text/csv")
    assert translate(assistant(text), system(text)) == [said("assistant", "a,b"), said("system", "a,b")]


# Calls and outputs


def test_a_message_is_split_where_tools_are_called_and_give_back() -> None:
    turn = [
        assistant(
            "Let me see.", call("gw-1", path="a"), "And:", call("gw-2", path="ü", deep={"x": [1]}), "Done."
        ),
        user("Wait.", result("gw-1", "one"), result("gw-2", "two"), "Now?"),
    ]
    assert translate(*turn) == [
        said("assistant", "Let me see."),
        called("1", '{"path":"a"}'),
        said("assistant", "And:"),
        called("2", '{"path":"ü","deep":{"x":[1]}}'),
        said("assistant", "Done."),
        said("user", "Wait."),
        gave("1", "one"),
        gave("2", "two"),
        said("user", "Now?"),
    ]
    assert codes(*turn) == []


def test_copilots_tool_loop() -> None:
    """The shapes that VS Code sends (editor 8): a marker, thinking and an empty text before the calls."""
    conversation = [
        system("You are an agent."),
        user("<environment/>", name=""),
        user("Fix it.", name=""),
        assistant(
            marker("resp_1", MODEL, ENDPOINT, "", "You are an agent."),
            ThinkingPart(["I should ", "read."], "rs_1"),
            thought("rs_1", encrypted_content="gAAA"),
            "",
            call("gw-call_1", path="a"),
            call("gw-call_2", path="b"),
        ),
        user(result("gw-call_1", "A"), name=""),
        user(result("gw-call_2", "B", is_error=True), name=""),
    ]
    assert translate(*conversation, model=MODEL, endpoint="https://elsewhere.example") == [
        said("system", "You are an agent."),
        said("user", "<environment/>"),
        said("user", "Fix it."),
        reasoning("rs_1", encrypted_content="gAAA"),
        called("call_1", '{"path":"a"}'),
        called("call_2", '{"path":"b"}'),
        gave("call_1", "A"),
        gave("call_2", f"{TOOL_FAILED}\nB"),
    ]
    continued = translate_messages(conversation, model=MODEL, endpoint=ENDPOINT)
    assert continued.previous_response_id == "resp_1"
    assert items_of(continued) == [gave("call_1", "A"), gave("call_2", f"{TOOL_FAILED}\nB")]
    assert continued.diagnostics == []


@pytest.mark.parametrize(
    ("content", "is_error", "output"),
    [
        ([], False, NOTHING),
        ([""], False, NOTHING),
        ([" a\n"], False, " a\n"),
        (["a", "b"], False, "a\nb"),
        (["a", DataPart.json({"x": 1})], False, 'a\n{"x":1}'),
        ([DataPart(PNG, "image/png")], False, [IMAGE]),
        (
            [
                "a",
                DataPart(PNG, "image/png"),
                "b",
                DataPart(b"%", "application/pdf"),
                DataPart(b"v", "video/mp4"),
            ],
            False,
            [
                _text("tool", "a"),
                IMAGE,
                _text("tool", "b"),
                {
                    "type": "input_file",
                    "filename": "attachment.pdf",
                    "file_data": url("application/pdf", b"%"),
                },
                {"type": "input_video", "video_url": url("video/mp4", b"v")},
            ],
        ),
        ([], True, TOOL_FAILED),
        (["a", "b"], True, f"{TOOL_FAILED}\na\nb"),
        ([DataPart(PNG, "image/png")], True, [_text("tool", TOOL_FAILED), IMAGE]),
    ],
)
def test_a_result_is_sent_whole(content: list[Any], is_error: bool, output: Any) -> None:
    assert translate(assistant(call("1")), user(result("1", *content, is_error=is_error))) == [
        called("1"),
        gave("1", output),
    ]


def test_what_is_no_content_of_a_result_is_left_out_and_told() -> None:
    odd: Any = [ThinkingPart("Hm."), TextPart("a"), call("2")]
    messages = assistant(call("1")), user(ToolResultPart("1", odd))
    assert translate(*messages) == [called("1"), gave("1", "a")]
    assert codes(*messages) == ["part_left_out"] * 2


def test_a_part_of_an_unknown_kind_is_left_out_and_told() -> None:
    odd: Any = object()
    assert translate(user("a", odd, "b")) == [said("user", "ab")]
    assert codes(user(odd)) == ["part_left_out"]


@pytest.mark.parametrize(
    ("input", "arguments", "told"),
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
def test_the_arguments_of_a_call_are_always_an_object(input: Any, arguments: str, told: list[str]) -> None:
    messages = assistant(ToolCallPart("1", "read_file", input)), user(result("1", "ok"))
    assert translate(*messages) == [called("1", arguments), gave("1")]
    assert codes(*messages) == told


@pytest.mark.parametrize(
    ("name", "sent_as"), [("mcp.docs/search", "mcp_docs_search"), ("x" * 80, "x" * 64), ("", "tool")]
)
def test_a_name_that_may_not_stand_in_a_call_is_made_lawful(name: str, sent_as: str) -> None:
    messages = assistant(call("1", name)), user(result("1", "ok"))
    assert translate(*messages) == [called("1", name=sent_as), gave("1")]
    assert codes(*messages) == ["tool_renamed"]


# Call ids


@pytest.mark.parametrize(
    ("editor_id", "wire_id"),
    [
        ("gw-call_1", "call_1"),
        ("gw-gw-1", "gw-1"),
        ("toolu_9", "toolu_9"),
        ("GW-1", "GW-1"),
        ("gw-" + "x" * 64, "x" * 64),
        ("gw-" + LONG, fitting(LONG)),
        ("f" + LONG, fitting("f" + LONG)),
        ("gw-", "call_1"),
        ("", "call_1"),
    ],
)
def test_a_call_and_its_output_have_one_id_that_fits(editor_id: str, wire_id: str) -> None:
    messages = assistant(call(editor_id)), user(result(editor_id, "ok"))
    assert translate(*messages) == [called(wire_id), gave(wire_id)]
    assert codes(*messages) == []


def test_different_calls_never_share_an_id() -> None:
    ids = ["x", "gw-x", "gw-x-2", "x-2", "gw-", "call_1", "gw-" + LONG, LONG]
    items = translate(
        assistant(*(call(each, said=each) for each in ids)), user(*(result(each, each) for each in ids))
    )
    sent = [item["call_id"] for item in items[: len(ids)]]
    assert sent == ["x", "x-2", "x-2-2", "x-2-3", "call_1", "call_1-2", fitting(LONG), fitting(LONG) + "-2"]
    assert items[len(ids) :] == [
        gave(wire_id, editor_id) for wire_id, editor_id in zip(sent, ids, strict=True)
    ]


def test_calls_without_an_id_get_their_outputs_in_order() -> None:
    assert translate(
        assistant(call("", said=1), call("", said=2)), user(result("", "a")), user(result("", "b"))
    ) == [
        called("call_1", '{"said":1}'),
        called("call_2", '{"said":2}'),
        gave("call_1", "a"),
        gave("call_2", "b"),
    ]


# Duplicates and orphans


def test_a_call_that_another_provider_doubled_is_sent_once() -> None:
    doubled = [
        assistant(call("1", said="first"), call("1", said="second")),
        user(result("1", "one")),
        user(result("1", "two")),
    ]
    assert translate(*doubled) == [called("1", '{"said":"first"}'), gave("1", "one")]
    assert codes(*doubled) == ["repeated_call", "repeated_output"]


def test_an_id_that_an_endpoint_uses_in_every_response_is_another_call_each_time() -> None:
    turns = [
        message
        for number in range(3)
        for message in (assistant(call("gw-call_0", said=number)), user(result("gw-call_0", f"{number}")))
    ]
    assert translate(*turns) == [
        called("call_0", '{"said":0}'),
        gave("call_0", "0"),
        called("call_0-2", '{"said":1}'),
        gave("call_0-2", "1"),
        called("call_0-3", '{"said":2}'),
        gave("call_0-3", "2"),
    ]
    assert codes(*turns) == []


def test_an_output_without_its_call_is_told_to_the_model_as_what_it_is() -> None:
    orphans = user(
        "Hi.",
        result("gw-lost", "a", "b"),
        result("", DataPart(PNG, "image/png"), DataPart(b"v", "video/mp4")),
        "So?",
    )
    video = {"type": "input_file", "filename": "attachment.mp4", "file_data": url("video/mp4", b"v")}
    assert translate(orphans) == [
        said("user", "Hi."),
        said("user", ORPHAN_OUTPUT, "a\nb"),
        said("user", ORPHAN_OUTPUT, IMAGE, video),
        said("user", "So?"),
    ]
    assert codes(orphans) == ["orphan_output"] * 2


def test_a_call_without_output_gets_a_placeholder_behind_its_run() -> None:
    conversation = [
        user("Go."),
        assistant("A.", call("1"), call("2"), call("3"), "B.", call("4")),
        user(result("2", "two"), "Never mind."),
    ]
    assert translate(*conversation) == [
        said("user", "Go."),
        said("assistant", "A."),
        called("1"),
        called("2"),
        called("3"),
        gave("1", NO_OUTPUT),
        gave("3", NO_OUTPUT),
        said("assistant", "B."),
        called("4"),
        gave("4", NO_OUTPUT),
        gave("2", "two"),
        said("user", "Never mind."),
    ]
    assert codes(*conversation) == ["unanswered_call"] * 3


def test_an_output_that_stands_before_its_call_is_moved_behind_it() -> None:
    early = user("a", result("1", "one"), "b"), assistant(call("0"), call("1")), user(result("0", "nought"))
    assert translate(*early) == [
        said("user", "ab"),
        called("0"),
        called("1"),
        gave("1", "one"),
        gave("0", "nought"),
    ]


# Thinking


@pytest.mark.parametrize(
    "block",
    [
        [ThinkingPart("a", "rs_1"), ThinkingPart("b", "rs_1"), thought("rs_1")],
        [ThinkingPart("a", "rs_1"), ThinkingPart("b", "rs_1:1"), thought("rs_1")],
        [ThinkingPart(["a", "b"], "rs_1"), thought("rs_1"), thought("rs_1")],
        [thought("rs_1"), ThinkingPart("ab", "rs_1")],
        [ThinkingPart("a"), ThinkingPart("b"), thought("rs_1")],
        [thought("rs_1"), ThinkingPart("a")],
        [ThinkingPart("ab", "rs_1", thought("rs_1").metadata)],
        [ThinkingPart("ab", None, thought("rs_1").metadata)],
        [ThinkingPart("ab", "renamed"), ThinkingPart("", "renamed", thought("rs_1").metadata)],
        [thought("rs_1", status="completed")],
        [thought("rs_1", model="")],
    ],
)
def test_a_block_of_thinking_comes_back_as_the_item_it_was(block: list[ThinkingPart]) -> None:
    message = assistant("Before.", *block, "After.", call("1"))
    answered = user(result("1", "ok"))
    assert translate(message, answered, model=MODEL) == [
        said("assistant", "Before."),
        reasoning("rs_1"),
        said("assistant", "After."),
        called("1"),
        gave("1"),
    ]
    assert codes(message, answered, model=MODEL) == []
    assert translate(message, answered) == translate(message, answered, model=MODEL)


def test_an_item_comes_back_verbatim() -> None:
    fields: dict[str, Any] = {
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": "gAAA",
        "acme:trace": {"a": [None]},
    }
    assert translate(assistant(thought("rs_1", **fields)), model=MODEL) == [reasoning("rs_1", **fields)]


def test_reasoning_stands_where_its_block_began() -> None:
    message = assistant(
        ThinkingPart("a", "rs_1"), "x", ThinkingPart("b", "rs_2"), "y", thought("rs_2"), thought("rs_1"), "z"
    )
    assert translate(message, model=MODEL) == [
        reasoning("rs_1"),
        said("assistant", "x"),
        reasoning("rs_2"),
        said("assistant", "yz"),
    ]


def test_an_item_with_an_id_is_sent_once_and_nameless_ones_as_often_as_they_were_thought() -> None:
    again = assistant("a", thought("rs_1")), assistant("b", thought("rs_1"))
    assert translate(*again, model=MODEL) == [
        said("assistant", "a"),
        reasoning("rs_1"),
        said("assistant", "b"),
    ]
    nameless = [
        ThinkingPart(
            "", "reasoning_0", {"openresponses": {"reasoning": {"type": "reasoning", "encrypted_content": e}}}
        )
        for e in ("A", "B", "A")
    ]
    assert [
        item["encrypted_content"] for item in translate(assistant(*nameless), assistant(*nameless[:1]))
    ] == [
        "A",
        "B",
        "A",
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        ThinkingPart("Hm.", "rs_9"),
        ThinkingPart(["Hm."], "rs_9", {"signature": "x"}),
        ThinkingPart("", "rs_9", {"reasoning_opaque": "x"}),
        thought("rs_9", model="acme/small"),
        ThinkingPart("Hm.", "rs_9", {"openresponses": "odd"}),
        ThinkingPart("Hm.", "rs_9", {"openresponses": {"reasoning": 5}}),
        ThinkingPart("Hm.", "rs_9", {"openresponses": {"reasoning": {"type": "message"}}}),
        ThinkingPart("Hm.", "rs_9", {"openresponses": {"reasoning": {"summary": "odd"}}}),
    ],
)
def test_thinking_that_is_not_this_models_is_left_out_and_told(foreign: ThinkingPart) -> None:
    message = assistant(ThinkingPart("Piece.", foreign.id), foreign, "Hi.")
    assert translate(message, model=MODEL) == [said("assistant", "Hi.")]
    assert codes(message, model=MODEL) == ["thinking_left_out"]


def test_only_the_assistant_thinks() -> None:
    assert translate(user(thought("rs_1"), "Hi."), model=MODEL) == [said("user", "Hi.")]
    assert codes(user(thought("rs_1"), "Hi."), model=MODEL) == ["thinking_left_out"]


def test_an_empty_thought_of_anybody_is_not_worth_telling() -> None:
    assert codes(assistant(ThinkingPart("", "x"), "Hi."), model=MODEL) == []


# Markers

AT_HOME: dict[str, Any] = {"model": MODEL, "endpoint": ENDPOINT}


def followed(*messages: ChatMessage, **options: Any) -> tuple[str | None, list[dict[str, Any]]]:
    translated = translate_messages(messages, **{**AT_HOME, **options})
    return translated.previous_response_id, items_of(translated)


def test_only_what_came_after_the_newest_marker_is_sent() -> None:
    conversation = [
        system("S."),
        user("One."),
        assistant("1.", marker("resp_1", MODEL, ENDPOINT, "P.", "S.")),
        user("Two."),
        assistant("2.", marker("resp_2", MODEL, ENDPOINT, "P.", "S.")),
        user("Three."),
        system("Late."),
    ]
    rest = [said("user", "Three."), said("system", "Late.")]
    assert followed(*conversation, system_prompt="P.") == ("resp_2", rest)
    assert followed(*conversation[:4], system_prompt="P.") == ("resp_1", [said("user", "Two.")])
    assert followed(*conversation, assistant("Foreign."), user("Four."), system_prompt="P.") == (
        "resp_2",
        [*rest, said("assistant", "Foreign."), said("user", "Four.")],
    )


@pytest.mark.parametrize(("prompt", "system_text"), [("P.", "Other."), ("Other.", "S."), ("", "S.")])
def test_a_marker_of_other_instructions_is_not_followed(prompt: str, system_text: str) -> None:
    """The endpoint's copy of the conversation begins with what the system said then."""
    marked = assistant("1.", marker("resp_1", MODEL, ENDPOINT, "P.", "S."))
    conversation = [system(system_text), user("One."), marked, user("Two.")]
    assert followed(*conversation, system_prompt=prompt)[0] is None
    assert followed(system("S."), *conversation[1:], system_prompt="P.")[0] == "resp_1"


@pytest.mark.parametrize(
    "options",
    [{"follow_marker": False}, {"model": "acme/small"}, {"endpoint": "https://b.example"}, {"model": ""}],
)
def test_a_marker_is_followed_only_where_it_was_left(options: Any) -> None:
    conversation = user("One."), assistant("1.", marker("resp_1")), user("Two.")
    whole = [said("user", "One."), said("assistant", "1."), said("user", "Two.")]
    assert followed(*conversation, **options) == (None, whole)


def test_an_older_marker_of_ours_is_found_behind_those_of_others() -> None:
    others = assistant("2.", marker("resp_9", model="acme/small"))
    conversation = user("One."), assistant("1.", marker("resp_1")), user("Two."), others, user("Three.")
    assert followed(*conversation) == (
        "resp_1",
        [said("user", "Two."), said("assistant", "2."), said("user", "Three.")],
    )
    assert followed(user("One.", marker("resp_1")), user("Two."))[0] is None


def test_what_the_marked_response_called_is_answered() -> None:
    conversation = [
        user("Go."),
        assistant(call("gw-1"), call("gw-2"), marker("resp_1")),
        user(result("gw-2", "two")),
        user("Well?"),
    ]
    assert followed(*conversation) == (
        "resp_1",
        [gave("1", NO_OUTPUT), gave("2", "two"), said("user", "Well?")],
    )
    assert codes(*conversation, **AT_HOME) == ["unanswered_call"]
    assert followed(*conversation[:2]) == ("resp_1", [gave("1", NO_OUTPUT), gave("2", NO_OUTPUT)])


def test_calls_that_were_answered_before_the_marker_stay_answered() -> None:
    conversation = [
        assistant(call("gw-1"), marker("resp_1")),
        user(result("gw-1", "one")),
        assistant("Done.", marker("resp_2")),
        user(result("gw-1", "again"), "Next."),
    ]
    assert followed(*conversation) == ("resp_2", [said("user", "Next.")])
    assert codes(*conversation, **AT_HOME) == ["repeated_output"]


def test_an_output_whose_call_is_nowhere_is_an_orphan_behind_a_marker_too() -> None:
    conversation = assistant("1.", marker("resp_1")), user(result("gw-lost", "x"))
    assert followed(*conversation) == ("resp_1", [said("user", ORPHAN_OUTPUT, "x")])


@pytest.mark.parametrize(
    "conversation",
    [
        # an id that had to be hashed, in the marked message and behind it
        [assistant(call("gw-" + LONG), marker("r")), user(result("gw-" + LONG, "ok"))],
        [assistant("1.", marker("r")), assistant(call(LONG)), user(result(LONG, "ok"))],
        # one that had to change, and one that had to be made up
        [
            user("Go."),
            assistant(call("x"), call("gw-x"), marker("r")),
            user(result("x", "a"), result("gw-x", "b")),
        ],
        [assistant(call(""), marker("r")), user(result("", "ok"))],
        # an output for a call that has gone out with a placeholder
        [assistant(call("gw-1")), user("Hm."), assistant("1.", marker("r")), user(result("gw-1", "late"))],
        # nothing to send
        [user("Go."), assistant("1.", marker("r"))],
        [user("Go."), assistant("1.", marker("r")), user("")],
    ],
)
def test_the_whole_history_is_sent_where_a_marker_would_mislead(conversation: list[ChatMessage]) -> None:
    response_id, items = followed(*conversation, system_prompt="P.")
    assert response_id is None
    assert items == translate(*conversation, follow_marker=False, system_prompt="P.")
    assert items[0] == said("system", "P.")
    assert "marker_not_used" in codes(*conversation, **AT_HOME)


def test_ids_that_changed_before_the_marker_do_not_matter() -> None:
    conversation = [
        assistant(call(LONG)),
        user(result(LONG, "ok")),
        assistant(call("gw-1"), marker("resp_1")),
        user(result("gw-1", "ok")),
    ]
    assert followed(*conversation) == ("resp_1", [gave("1")])


def test_what_stands_in_the_marked_message_beside_its_calls_is_still_an_answer() -> None:
    conversation = assistant(call("gw-1"), marker("resp_1"), result("gw-1", "inside")), user("Next.")
    assert followed(*conversation) == ("resp_1", [gave("1", "inside"), said("user", "Next.")])


# For every conversation

call_ids = st.sampled_from(["x", "gw-x", "gw-gw-x", "y", "x-2", "call_1", "", "gw-", LONG, "gw-" + LONG])
texts = st.text(alphabet="aé \n😀", max_size=4)
audiences = st.sampled_from([(), (), (), (Audience.ASSISTANT,), (Audience.USER,)])
mimes = st.sampled_from(
    [
        "image/png",
        "text/plain",
        "application/json",
        "application/pdf",
        "video/mp4",
        "odd",
        "a/b;c",
        *PRIVATE_MIMES,
    ]
)
text_parts = st.builds(TextPart, texts, audiences)
data_parts = st.builds(DataPart, st.sampled_from([b"", b"{}", b"\xff", PNG]), mimes, audiences)
tool_calls = st.builds(
    ToolCallPart,
    call_ids,
    st.sampled_from(["read_file", "a.b", ""]),
    st.sampled_from([{}, {"a": 1}, None, "x"]),
)
tool_results = st.builds(
    ToolResultPart, call_ids, st.lists(text_parts | data_parts, max_size=2), st.booleans()
)
thoughts = st.builds(
    thought, st.sampled_from(["rs_1", "rs_2"]), texts, st.sampled_from([MODEL, "acme/small", ""])
) | st.builds(ThinkingPart, texts, st.sampled_from([None, "rs_1", "rs_9"]))
markers = st.builds(marker, st.sampled_from(["resp_1", "resp_2"]), st.sampled_from([MODEL, "acme/small"]))
any_part: st.SearchStrategy[Any] = st.one_of(
    text_parts, data_parts, tool_calls, tool_results, tool_calls, tool_results, thoughts, markers
)
any_message = st.builds(ChatMessage, st.sampled_from([1, 1, 2, 2, 3, 7]), st.lists(any_part, max_size=4))
conversations = st.lists(any_message, max_size=6)
wide = settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def assert_calls_and_outputs_match(items: Sequence[dict[str, Any]], known: set[str]) -> None:
    open_calls, closed = set(known), set[str]()
    for item in items:
        call_id = item.get("call_id", "-")
        assert 1 <= len(call_id) <= 64
        if item["type"] == "function_call":
            assert call_id not in open_calls | closed
            open_calls.add(call_id)
        elif item["type"] == "function_call_output":
            assert call_id in open_calls
            open_calls.remove(call_id)
            closed.add(call_id)
    assert open_calls == set()


@wide
@given(conversations)
def test_every_call_has_one_output_behind_it_and_every_output_a_call(messages: list[ChatMessage]) -> None:
    assert_calls_and_outputs_match(translate(*messages, system_prompt="P."), set())


@wide
@given(conversations, st.lists(any_message, max_size=3))
def test_behind_a_marker_the_calls_of_its_message_are_answered_and_no_others(
    before: list[ChatMessage], after: list[ChatMessage]
) -> None:
    mark = marker_part(MODEL, ENDPOINT, "resp_3", instructions_of(before, ""))
    marked = assistant(call("gw-new_1"), call("gw-new_2"), mark)
    messages = [*before, marked, user(result("gw-new_2")), *after]
    translated = translate_messages(messages, **AT_HOME)
    if translated.previous_response_id is None:
        assert_calls_and_outputs_match(items_of(translated), set())
        return
    newest = max(
        number
        for number, message in enumerate(messages)
        if message.role == Role.ASSISTANT
        and any(
            isinstance(part, DataPart)
            and marked_response(part, MODEL, ENDPOINT, instructions_of(messages[:number], ""))
            for part in message.content
        )
    )
    asked = {from_editor(part.call_id) for part in messages[newest].content if isinstance(part, ToolCallPart)}
    items = items_of(translated)
    answers = {item["call_id"] for item in items if item["type"] == "function_call_output"}
    assert_calls_and_outputs_match(items, asked & answers)
    if newest == len(before):
        assert {"new_1", "new_2"} <= answers


@pytest.mark.hypothesis  # known by its outside, and the property is within
@pytest.mark.parametrize("release", RELEASES)
def test_every_request_is_what_the_specification_allows(release: str) -> None:
    @settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(conversations, st.sampled_from(["system", "developer"]))
    def allowed(messages: list[ChatMessage], system_role: str) -> None:
        body = {"model": MODEL, "input": translate(*messages, model=MODEL, system_role=system_role)}
        assert complaints(release, "CreateResponseBody", body) == []

    allowed()


@wide
@given(conversations)
def test_the_gateway_finds_nothing_to_repair(messages: list[ChatMessage]) -> None:
    found = history_of(plan_for({"input": translate(*messages, model=MODEL)})).diagnostics
    repairs = {"orphan_output", "unanswered_call", "repeated_call", "repeated_output", "item_left_out"}
    assert not repairs & {diagnostic.code for diagnostic in found}


said_or_called = st.one_of(st.builds(TextPart, texts), tool_calls, tool_results, thoughts, markers)


@wide
@given(
    st.lists(
        st.builds(ChatMessage, st.sampled_from([1, 2, 3]), st.lists(said_or_called, max_size=5)), max_size=6
    )
)
def test_nothing_that_was_said_is_lost_or_moved(messages: list[ChatMessage]) -> None:
    roles = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}
    texts_in = [
        (roles[Role(message.role)], part.value)
        for message in messages
        for part in message.content
        if isinstance(part, TextPart)
    ]
    texts_out = [
        (item["role"], part["text"])
        for item in translate(*messages, model=MODEL)
        if item["type"] == "message" and item["content"][0]["text"] != ORPHAN_OUTPUT
        for part in item["content"]
    ]
    assert joined(texts_out) == joined(texts_in)


def joined(spoken: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Who said what, without the borders between parts and items."""
    found: list[tuple[str, str]] = []
    for role, text in spoken:
        if found and found[-1][0] == role:
            found[-1] = (role, found[-1][1] + text)
        elif text:
            found.append((role, text))
    return found


@wide
@given(conversations)
def test_the_same_conversation_gives_the_same_bytes_and_is_left_as_it_was(
    messages: list[ChatMessage],
) -> None:
    before = repr(messages)
    one, other = (translate_messages(messages, **AT_HOME) for _ in range(2))
    assert [encode(item) for item in one.input] == [encode(item) for item in other.input]
    assert one.diagnostics == other.diagnostics
    assert repr(messages) == before


@st.composite
def answered(draw: st.DrawFn) -> list[ChatMessage]:
    """Turns as editors make them: whatever is called is answered at once."""
    messages: list[ChatMessage] = []
    for _ in range(draw(st.integers(0, 4))):
        calls = draw(st.lists(tool_calls, max_size=3))
        content = draw(st.lists(text_parts | data_parts | thoughts | markers, max_size=3))
        messages += [user(*draw(st.lists(text_parts | data_parts, max_size=2))), assistant(*content, *calls)]
        messages += [user(result(each.call_id, "ok")) for each in calls]
    return messages


@wide
@given(answered(), conversations)
def test_a_longer_conversation_begins_with_the_same_bytes(
    messages: list[ChatMessage], more: list[ChatMessage]
) -> None:
    shorter = translate_messages(messages, follow_marker=False, **AT_HOME)
    assume(not {"unanswered_call", "orphan_output"} & {each.code for each in shorter.diagnostics})
    longer = translate_messages([*messages, *more], follow_marker=False, **AT_HOME)
    sent = [encode(item) for item in shorter.input]
    assert [encode(item) for item in longer.input][: len(sent)] == sent
