"""A marker is used only in the conversation that it was reported in.

Messages are returned as VS Code's agent sends them (editor 8): the marker first, then thinking within the
turn, one text, the calls; one message per result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.parts.markers import history_of
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
    MessagePart,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.provider.editor_turn import Host
from penstock.provider.options import ResponseOptions
from tests.cli import streams
from tests.client.server import run, streamed
from tests.provider.scripted_provider import MODEL, ReceivedParts, scripted_provider, text_stream, user

HOST = Host(markers=True, usage_parts=True, endpoint="http://here/v1")
OPTIONS = ResponseOptions({}, [ChatTool("look", "Look", {"type": "object"})])
SYSTEM = ChatMessage(Role.SYSTEM, [TextPart("You are an agent.")])
ASKED = [SYSTEM, user("<environment>Linux</environment>"), user("What is in the harbour?")]
SUMMARY = [SYSTEM, user("<conversation-summary>a harbour</conversation-summary>")]


def reasoning_text_and_call(id: str) -> list[streams.Event]:
    """Return a response with reasoning, text and a call."""
    thought = {"type": "reasoning", "id": f"rs_{id}", "summary": [], "encrypted_content": "gAAA"}
    text, message = streams.message(f"msg_{id}", 1, ["Let me", " see.\n"])
    call, made = streams.call(id, 2, "look", ['{"10": 1.0, "2": "ship"}'])
    done = {"type": "response.output_item.done", "item": thought}
    return streams.response([done, *text, *call], [thought, message, made])


def returned(parts: Sequence[Part], *, is_later: bool = False) -> ChatMessage:
    """Return the assistant's message as the agent sends it, in the same turn or in a later one."""
    markers = [part for part in parts if isinstance(part, DataPart) and part.mime == "stateful_marker"]
    thinking = [] if is_later else [part for part in parts if isinstance(part, ThinkingPart)]
    text = "".join(part.value for part in parts if isinstance(part, TextPart))
    calls = [replace(part, input=_through_javascript(part.input)) for part in calls_of(parts)]
    content: list[MessagePart] = [*markers, *thinking, TextPart(text), *calls]
    return ChatMessage(Role.ASSISTANT, content)


def _through_javascript(input: Any) -> Any:
    """Convert the input as JavaScript does: numeric keys come first, and 1.0 becomes 1."""
    return {name: int(value) if isinstance(value, float) else value for name, value in sorted(input.items())}


def calls_of(parts: Sequence[Part]) -> list[ToolCallPart]:
    return [part for part in parts if isinstance(part, ToolCallPart)]


def results(parts: Sequence[Part]) -> list[ChatMessage]:
    given = [ToolResultPart(call.call_id, [TextPart(f"seen {call.call_id}")]) for call in calls_of(parts)]
    return [ChatMessage(Role.USER, [result], "") for result in given]


class Conversation:
    """Two rounds of a tool loop and an answer, with the parts of each."""

    def __init__(self) -> None:
        self.rounds: list[list[Part]] = []

    def messages(self, *, is_later: bool = False) -> list[ChatMessage]:
        grown = list(ASKED)
        for parts in self.rounds:
            grown += [returned(parts, is_later=is_later), *results(parts)]
        return grown


def follow(
    change: Callable[[Conversation], list[ChatMessage]],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the request for the messages that `change` returns, and the requests before it."""
    sent: list[dict[str, Any]] = []

    async def scenario() -> None:
        talk = Conversation()
        scripts = [
            reasoning_text_and_call("1"),
            reasoning_text_and_call("2"),
            text_stream("A ship."),
            text_stream("So."),
        ]
        async with scripted_provider(*map(streamed, scripts), host=HOST, reasoning=True) as (
            provider,
            server,
        ):
            for _ in range(3):
                received = ReceivedParts()
                await provider.provide_response(MODEL, talk.messages(), OPTIONS, received)
                talk.rounds.append(received.parts)
            await provider.provide_response(MODEL, change(talk), OPTIONS)
            sent.extend(asked.json for asked in server.asked)

    run(scenario())
    return sent[-1], sent[:-1]


def next_turn(talk: Conversation) -> list[ChatMessage]:
    return [*talk.messages(is_later=True), user("And now?")]


def test_a_tool_loop_and_the_turn_after_it_send_only_what_is_new() -> None:
    last, loop = follow(next_turn)
    assert [[each["type"] for each in asked["input"]] for asked in loop] == [
        ["message"] * 3,
        ["function_call_output"],
        ["function_call_output"],
    ]
    assert ["previous_response_id" in asked for asked in [*loop, last]] == [False, True, True, True]
    assert [each["content"][0]["text"] for each in last["input"]] == ["And now?"]


@pytest.mark.parametrize("citations", ["off", "inline", "end"])
def test_a_follow_up_after_an_answer_with_citations_sends_only_what_is_new(citations: Any) -> None:
    text, message = streams.message("msg_1", 0, ["A ship."])
    annotation = {"type": "url_citation", "url": "https://port.example/", "title": "Port"}
    cited = {"type": "response.output_text.annotation.added", "item_id": "msg_1", "annotation": annotation}
    events = streams.response([*text[:3], cited, *text[3:]], [message])

    async def scenario() -> None:
        received = ReceivedParts()
        host = replace(HOST, citations=citations)
        async with scripted_provider(streamed(events), streamed(), host=host) as (provider, server):
            await provider.provide_response(MODEL, ASKED, progress=received)
            answer = returned(received.parts, is_later=True)
            await provider.provide_response(MODEL, [*ASKED, answer, user("And now?")])
        last = server.asked[-1].json
        assert ("port.example" in received.text) == (citations != "off")
        assert last["previous_response_id"] == "resp_1"
        assert [each["content"][0]["text"] for each in last["input"]] == ["And now?"]

    run(scenario())


def compacted_in_the_loop(talk: Conversation) -> list[ChatMessage]:
    """Compact the conversation as the agent does: the last round stays unchanged, with its marker."""
    return [*SUMMARY, returned(talk.rounds[1]), *results(talk.rounds[1])]


def edited(messages: list[ChatMessage], number: int, part: MessagePart) -> list[ChatMessage]:
    """Return the messages with one part replaced by another of its type."""
    old = messages[number]
    kept = [part if type(each) is type(part) else each for each in old.content]
    return [*messages[:number], replace(old, content=kept), *messages[number + 1 :]]


CHANGES: dict[str, Callable[[Conversation], list[ChatMessage]]] = {
    "compacted in a tool loop": compacted_in_the_loop,
    "compacted between turns": lambda talk: [*SUMMARY, *next_turn(talk)[-2:]],
    "an edited question": lambda talk: edited(next_turn(talk), 2, TextPart("What is in the sky?")),
    "another call": lambda talk: edited(next_turn(talk), 3, ToolCallPart("gw-call_9", "look", {})),
    "a question less": lambda talk: [SYSTEM, *next_turn(talk)[2:]],
    "a question more": lambda talk: [SYSTEM, user("Hm."), *next_turn(talk)[1:]],
    "an image more": lambda talk: [
        *ASKED,
        ChatMessage(Role.USER, [DataPart(b"png", "image/png")]),
        *next_turn(talk)[len(ASKED) :],
    ],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_conversation_is_sent_in_full(
    change: Callable[[Conversation], list[ChatMessage]],
) -> None:
    last, _ = follow(change)
    assert "previous_response_id" not in last
    roles = [each.get("role") for each in last["input"]]
    assert roles[:2] == ["system", "user"]


LATE_CHANGES: dict[str, tuple[int, MessagePart, int]] = {
    "an edited answer": (-2, TextPart("A boat."), 3),
    "an edited result": (4, ToolResultPart("gw-call_1", [TextPart("A boat.")]), 6),
}
"""The edited message, its new part, and the number of items that are sent."""


@pytest.mark.parametrize(("number", "part", "items"), LATE_CHANGES.values(), ids=LATE_CHANGES.keys())
def test_an_edit_is_sent_after_an_older_marker(number: int, part: MessagePart, items: int) -> None:
    last, _ = follow(lambda talk: edited(next_turn(talk), number, part))
    assert ("previous_response_id" in last, len(last["input"])) == (True, items)
    assert "A boat." in str(last["input"])
    assert "What is in the harbour?" not in str(last["input"])


CALL = ToolCallPart("gw-1", "look", {"a": 1.0})
SAME: dict[str, list[MessagePart]] = {
    "in pieces": [TextPart("Let me "), TextPart("see."), CALL],
    "with thinking": [
        ThinkingPart("Hm.", "t"),
        TextPart("Let me see."),
        ThinkingPart("", "t", {"a": 1}),
        CALL,
    ],
    "with private data": [DataPart(b"ephemeral", "cache_control"), TextPart("Let me see."), CALL],
    "with an image that the editor does not keep": [
        TextPart("Let me see."),
        DataPart(b"x", "image/png"),
        CALL,
    ],
    "in another order": [CALL, TextPart("Let me see.")],
    "with blanks around it": [TextPart("\nLet me see. \n"), CALL],
    "with the input as JavaScript has it": [TextPart("Let me see."), replace(CALL, input={"a": 1})],
}


@pytest.mark.parametrize("parts", SAME.values(), ids=SAME.keys())
def test_changes_by_the_editor_do_not_change_the_history(parts: list[MessagePart]) -> None:
    content = ChatMessage(Role.ASSISTANT, [TextPart("Let me see."), CALL])
    assert history_of([user("Hello"), ChatMessage(Role.ASSISTANT, parts)]) == history_of(
        [user("Hello"), content]
    )


def test_a_split_surrogate_pair_has_the_same_history() -> None:
    content = [TextPart("\ud83d"), TextPart("\ude00")]
    assert history_of([ChatMessage(Role.ASSISTANT, content)]) == history_of(
        [ChatMessage(Role.ASSISTANT, [TextPart("😀")])]
    )


def test_the_role_is_part_of_the_history() -> None:
    asked, answered = user("Hello"), ChatMessage(Role.ASSISTANT, [TextPart("Hello")])
    found = {history_of(each) for each in ([], [asked], [answered], [asked, asked], [user("HelloHello")])}
    assert len(found) == 5
