"""Properties that hold for the translation of every conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.dialects.history import history_of
from penstock.parts.exchanges import from_editor
from penstock.parts.markers import PRIVATE_MIMES, marked_response, marker_part
from penstock.parts.messages import instructions_of, translate_messages
from penstock.parts.parts import (
    Audience,
    ChatMessage,
    DataPart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.protocol.wire import encode
from penstock.tools.call_ids import ORPHAN_OUTPUT
from tests.dialects.render_cases import plan_for
from tests.effort import examples
from tests.parts.conversations import (
    ENDPOINT,
    LONG,
    MODEL,
    PNG,
    SAME_TARGET,
    assistant,
    call,
    items_of,
    marker,
    result,
    thinking_end,
    translate,
    user,
)
from tests.protocol.schema import RELEASES, complaints

# Every conversation

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
thinking_parts = st.builds(
    thinking_end, st.sampled_from(["rs_1", "rs_2"]), texts, st.sampled_from([MODEL, "acme/small", ""])
) | st.builds(ThinkingPart, texts, st.sampled_from([None, "rs_1", "rs_9"]))
markers = st.builds(marker, st.sampled_from(["resp_1", "resp_2"]), st.sampled_from([MODEL, "acme/small"]))
any_part: st.SearchStrategy[Any] = st.one_of(
    text_parts, data_parts, tool_calls, tool_results, tool_calls, tool_results, thinking_parts, markers
)
any_message = st.builds(ChatMessage, st.sampled_from([1, 1, 2, 2, 3, 7]), st.lists(any_part, max_size=4))
conversations = st.lists(any_message, max_size=6)
thorough = settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])


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


@thorough
@given(conversations)
def test_every_call_is_followed_by_one_output_and_every_output_has_a_call(
    messages: list[ChatMessage],
) -> None:
    assert_calls_and_outputs_match(translate(*messages, system_prompt="P."), set())


@thorough
@given(conversations, st.lists(any_message, max_size=3))
def test_after_a_marker_only_the_calls_of_its_message_get_outputs(
    before: list[ChatMessage], after: list[ChatMessage]
) -> None:
    mark = marker_part(MODEL, ENDPOINT, "resp_3", instructions_of(before, ""))
    marked = assistant(call("gw-new_1"), call("gw-new_2"), mark)
    messages = [*before, marked, user(result("gw-new_2")), *after]
    translated = translate_messages(messages, **SAME_TARGET)
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


@pytest.mark.hypothesis  # the property is inside
@pytest.mark.parametrize("release", RELEASES)
def test_every_request_is_valid(release: str) -> None:
    @settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(conversations, st.sampled_from(["system", "developer"]))
    def allowed(messages: list[ChatMessage], system_role: str) -> None:
        body = {"model": MODEL, "input": translate(*messages, model=MODEL, system_role=system_role)}
        assert complaints(release, "CreateResponseBody", body) == []

    allowed()


@thorough
@given(conversations)
def test_the_gateway_has_nothing_to_repair(messages: list[ChatMessage]) -> None:
    found = history_of(plan_for({"input": translate(*messages, model=MODEL)})).diagnostics
    repairs = {"orphan_output", "unanswered_call", "repeated_call", "repeated_output", "item_left_out"}
    assert not repairs & {diagnostic.code for diagnostic in found}


text_or_tool_parts = st.one_of(st.builds(TextPart, texts), tool_calls, tool_results, thinking_parts, markers)


@thorough
@given(
    st.lists(
        st.builds(ChatMessage, st.sampled_from([1, 2, 3]), st.lists(text_or_tool_parts, max_size=5)),
        max_size=6,
    )
)
def test_no_text_is_lost_or_moved(messages: list[ChatMessage]) -> None:
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


def joined(texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join consecutive texts of the same role."""
    found: list[tuple[str, str]] = []
    for role, text in texts:
        if found and found[-1][0] == role:
            found[-1] = (role, found[-1][1] + text)
        elif text:
            found.append((role, text))
    return found


@thorough
@given(conversations)
def test_translation_is_deterministic_and_does_not_change_the_messages(
    messages: list[ChatMessage],
) -> None:
    before = repr(messages)
    one, other = (translate_messages(messages, **SAME_TARGET) for _ in range(2))
    assert [encode(item) for item in one.input] == [encode(item) for item in other.input]
    assert one.diagnostics == other.diagnostics
    assert repr(messages) == before


@st.composite
def answered(draw: st.DrawFn) -> list[ChatMessage]:
    """Turns as editors send them: every call is followed by its result."""
    messages: list[ChatMessage] = []
    for _ in range(draw(st.integers(0, 4))):
        calls = draw(st.lists(tool_calls, max_size=3))
        content = draw(st.lists(text_parts | data_parts | thinking_parts | markers, max_size=3))
        messages += [user(*draw(st.lists(text_parts | data_parts, max_size=2))), assistant(*content, *calls)]
        messages += [user(result(each.call_id, "ok")) for each in calls]
    return messages


@thorough
@given(answered(), conversations)
def test_a_longer_conversation_begins_with_the_same_bytes(
    messages: list[ChatMessage], more: list[ChatMessage]
) -> None:
    shorter = translate_messages(messages, follow_marker=False, **SAME_TARGET)
    assume(not {"unanswered_call", "orphan_output"} & {each.code for each in shorter.diagnostics})
    longer = translate_messages([*messages, *more], follow_marker=False, **SAME_TARGET)
    sent = [encode(item) for item in shorter.input]
    assert [encode(item) for item in longer.input][: len(sent)] == sent
