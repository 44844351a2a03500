"""Text and data of messages become the content that the specification allows (spec S8)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.parts.content import (
    ASSISTANT,
    NOTHING,
    SYSTEM,
    TOOL_FAILED,
    TOOL_OUTPUT,
    USER,
    ContentPlace,
    Draft,
    content_of,
)
from penstock.parts.markers import PRIVATE_MIMES
from penstock.parts.parts import (
    Audience,
    ChatMessage,
    DataPart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
)
from penstock.protocol.content import InputText
from penstock.protocol.items import Message
from penstock.stream.diagnostics import Diagnostics
from tests.parts.conversations import (
    IMAGE,
    PNG,
    _text,
    assistant,
    call,
    call_item,
    codes,
    data_url,
    message_item,
    output_item,
    result,
    system,
    translate,
    user,
)


def test_parts_for_another_audience_are_omitted() -> None:
    for_user = (Audience.USER, Audience.EXTENSION)
    for_both = (Audience.USER, Audience.ASSISTANT)
    mixed = user(
        TextPart("a"),
        TextPart("b", for_user),
        TextPart("c", for_both),
        DataPart(PNG, "image/png", for_user),
        DataPart(PNG, "image/png", for_both),
    )
    assert translate(mixed) == [message_item("user", "ac", IMAGE)]
    output = result(
        "1", TextPart("a", for_user), TextPart("b", for_both), DataPart(b"c", "text/csv", for_user)
    )
    assert translate(assistant(call("1")), user(output)) == [call_item("1"), output_item("1", "b")]


# Data


@pytest.mark.parametrize(
    ("mime", "data", "expected_content"),
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
def test_images_and_text_are_recognised_by_type(mime: str, data: bytes, expected_content: Any) -> None:
    assert translate(user(DataPart(data, mime))) == [message_item("user", expected_content)]
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
        # The specification allows videos only in the output of a tool.
        ("video/mp4", b"\0", "video/mp4", "attachment.mp4"),
        ("odd type/with,comma", b"\0", "application/octet-stream", "attachment.bin"),
    ],
)
def test_other_data_becomes_a_file_with_a_name(mime: str, data: bytes, sent_as: str, filename: str) -> None:
    file = {"type": "input_file", "filename": filename, "file_data": data_url(sent_as, data)}
    assert translate(user("Look:", DataPart(data, mime), "There.")) == [
        message_item("user", "Look:", file, "There.")
    ]


@pytest.mark.parametrize("mime", sorted(PRIVATE_MIMES))
@pytest.mark.parametrize("role", list(Role))
def test_private_data_is_never_sent(mime: str, role: Role) -> None:
    message = ChatMessage(role, [TextPart("Hi."), DataPart.text("secret", mime.upper()), TextPart(" You.")])
    (item,) = translate(message)
    assert [part["text"] for part in item["content"]] == ["Hi. You."]
    assert codes(message) == []
    assert translate(assistant(call("1")), user(result("1", DataPart.text("secret", mime)))) == [
        call_item("1"),
        output_item("1", NOTHING),
    ]


def test_private_data_of_an_unknown_type_adds_a_diagnostic() -> None:
    for mime in ("next_years_marker", ""):
        assert translate(user(DataPart.text("secret", mime))) == []
        assert codes(user(DataPart.text("secret", mime))) == ["private_data"]


def test_an_empty_image_is_omitted_with_a_diagnostic() -> None:
    assert translate(user("Hi.", DataPart(b"", "image/png"))) == [message_item("user", "Hi.")]
    assert codes(user(DataPart(b"", "image/png"))) == ["empty_data"]


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (DataPart(PNG, "image/png"), "[image/png, 8 bytes]"),
        (DataPart(b"x" * 12345, "application/pdf"), "[application/pdf, 12 kB]"),
        (DataPart(b"xx", "video/mp4"), "[video/mp4, 2 bytes]"),
    ],
)
def test_a_note_replaces_data_where_only_text_is_allowed(data: DataPart, note: str) -> None:
    assert translate(assistant("Here:", data), system(data)) == [
        message_item("assistant", "Here:", note),
        message_item("system", note),
    ]
    assert codes(assistant(data)) == ["data_as_note"]
    text = DataPart.text("a,b", "text/csv")
    assert translate(assistant(text), system(text)) == [
        message_item("assistant", "a,b"),
        message_item("system", "a,b"),
    ]


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
                    "file_data": data_url("application/pdf", b"%"),
                },
                {"type": "input_video", "video_url": data_url("video/mp4", b"v")},
            ],
        ),
        ([], True, TOOL_FAILED),
        (["a", "b"], True, f"{TOOL_FAILED}\na\nb"),
        ([DataPart(PNG, "image/png")], True, [_text("tool", TOOL_FAILED), IMAGE]),
    ],
)
def test_the_full_result_of_a_tool_is_sent(content: list[Any], is_error: bool, output: Any) -> None:
    assert translate(assistant(call("1")), user(result("1", *content, is_error=is_error))) == [
        call_item("1"),
        output_item("1", output),
    ]


def test_other_parts_in_a_result_are_omitted_with_a_diagnostic() -> None:
    odd: Any = [ThinkingPart("Hm."), TextPart("a"), call("2")]
    messages = assistant(call("1")), user(ToolResultPart("1", odd))
    assert translate(*messages) == [call_item("1"), output_item("1", "a")]
    assert codes(*messages) == ["part_left_out"] * 2


# The functions themselves


def test_a_draft_joins_texts_and_is_empty_after_it_was_taken() -> None:
    draft = Draft("user", USER)
    assert draft.take() is None
    draft.write("a")
    draft.write("b")
    draft.attach(InputText(text="c"))
    draft.write("")
    message = draft.take()
    assert message == Message(role="user", content=[InputText(text="ab"), InputText(text="c")])
    assert draft.take() is None


@pytest.mark.parametrize(
    ("place", "type"),
    [(USER, "input_file"), (TOOL_OUTPUT, "input_video"), (SYSTEM, "input_text"), (ASSISTANT, "output_text")],
    ids=["user", "tool output", "system", "assistant"],
)
def test_a_video_becomes_what_its_place_allows(place: ContentPlace, type: str) -> None:
    diagnostics = Diagnostics()
    content = content_of(DataPart(b"\0", "video/mp4"), place, diagnostics)
    assert content is not None
    assert content.type == type
