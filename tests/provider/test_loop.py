"""The consumer loop: tools run concurrently and once; the next turn has their results."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.errors import OpenResponsesError
from penstock.parts.parts import (
    ChatMessage,
    ChatTool,
    DataPart,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from penstock.provider.loop import CANCELLED, Listener, Tool, converse
from tests.cli import streams
from tests.client.server import HELLO as HELLO_STREAM
from tests.client.server import head, run, send, sse, stall, streamed
from tests.provider.scripted_provider import (
    HELLO,
    MODEL,
    call_stream,
    refused,
    scripted_provider,
    text_stream,
    user,
)


def tool(name: str, run: Any) -> Tool:
    return Tool(ChatTool(name, f"To {name}"), run)


class RecordingListener(Listener):
    def __init__(self, allowed: bool = True) -> None:
        self.received: list[Part] = []
        self.results: list[ToolResultPart] = []
        self._allowed = allowed

    def part(self, part: Part) -> None:
        self.received.append(part)

    async def may_run(self, call: ToolCallPart) -> bool:  # noqa: ARG002
        return self._allowed

    def ran(self, call: ToolCallPart, result: ToolResultPart) -> None:
        assert call.call_id == result.call_id
        self.results.append(result)


TWO = call_stream(("1", "look", {"at": "sea"}), ("2", "listen", {"to": "wind"}), text="Let me see.")


def test_two_parallel_tools_and_then_an_answer() -> None:
    async def scenario() -> None:
        together = asyncio.Barrier(2)  # each waits for the other: one after the other they would never end

        async def look(input: Mapping[str, Any]) -> str:
            await together.wait()
            return f"a ship at {input['at']}"

        async def listen(input: Mapping[str, Any]) -> dict[str, Any]:
            await together.wait()
            return {"received": input["to"]}

        watching = RecordingListener()
        async with scripted_provider(streamed(TWO), streamed(text_stream("A ship, and wind."))) as (
            provider,
            server,
        ):
            tools = [tool("look", look), tool("listen", listen)]
            answer = await converse(provider, MODEL, HELLO, tools, listener=watching)
        assert (answer.text, answer.stopped, len(answer.results)) == ("A ship, and wind.", "answered", 2)
        assert [message.role for message in answer.messages] == [Role.ASSISTANT, Role.USER, Role.ASSISTANT]
        sent = server.asked[1].json["input"]
        assert [each["type"] for each in sent] == [
            "message",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
        ]
        assert [each["output"] for each in sent[4:]] == ["a ship at sea", '{"received":"wind"}']
        assert sent[1]["content"] == [
            {"type": "output_text", "text": "Let me see.", "annotations": [], "logprobs": []}
        ]
        assert [result.is_error for result in watching.results] == [False, False]

    run(scenario())


def test_consecutive_texts_become_one_part() -> None:
    async def scenario() -> None:
        async with scripted_provider(streamed()) as (provider, _):
            answer = await converse(provider, MODEL, HELLO)
        (message,) = answer.messages
        assert list(message.content) == [TextPart("Hello, water 水 🌊")]

    run(scenario())


def raises(_: Mapping[str, Any]) -> str:
    raise ValueError("no such place")


OUTPUTS: dict[str, tuple[Any, list[Any], bool]] = {
    "text": (lambda _: "a ship", [TextPart("a ship")], False),
    "nothing": (lambda _: None, [], False),
    "an object": (lambda _: {"a": 1}, [DataPart.json({"a": 1})], False),
    "a list": (lambda _: [1, 2], [DataPart.json([1, 2])], False),
    "a part": (lambda _: DataPart(b"x", "image/png"), [DataPart(b"x", "image/png")], False),
    "parts": (lambda _: [TextPart("a"), TextPart("b")], [TextPart("a"), TextPart("b")], False),
    "an empty list": (lambda _: [], [DataPart.json([])], False),
    "what JSON cannot say": (
        lambda _: object(),
        [TextPart("TypeError: Encoding objects of type object is unsupported")],
        True,
    ),
    "an end of the program": (
        lambda _: sys.exit(3),
        [TextPart("RuntimeError: the tool ended with SystemExit: 3")],
        True,
    ),
    "an error": (raises, [TextPart("ValueError: no such place")], True),
}


@pytest.mark.parametrize(("work", "content", "is_error"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_the_output_of_a_tool_becomes_content(work: Any, content: list[Any], is_error: bool) -> None:
    async def scenario() -> None:
        watching = RecordingListener()
        events = call_stream(("1", "look", {}))
        async with scripted_provider(streamed(events), streamed()) as (provider, _):
            await converse(provider, MODEL, HELLO, [tool("look", work)], listener=watching)
        assert watching.results == [ToolResultPart("gw-call_1", content, is_error)]

    run(scenario())


def test_the_model_gets_an_error_for_an_unknown_or_refused_tool() -> None:
    async def scenario() -> None:
        for allowed, called, message_part in (
            (True, "swim", "no tool 'swim'"),
            (False, "look", "did not allow"),
        ):
            watching = RecordingListener(allowed)
            events = call_stream(("1", called, {}))
            async with scripted_provider(streamed(events), streamed()) as (provider, server):
                await converse(provider, MODEL, HELLO, [tool("look", raises)], listener=watching)
            output = server.asked[1].json["input"][-1]["output"]
            assert message_part in output
            assert watching.results[0].is_error

    run(scenario())


def test_a_model_that_never_answers_is_stopped() -> None:
    async def scenario() -> None:
        scripts = [streamed(call_stream((str(number), "look", {}))) for number in range(3)]
        async with scripted_provider(*scripts) as (provider, server):
            answer = await converse(provider, MODEL, HELLO, [tool("look", lambda _: "again")], turns=3)
        assert (answer.stopped, len(server.asked), len(answer.messages)) == ("turns", 3, 6)

    run(scenario())


def test_cancel_during_the_answer_keeps_the_partial_answer() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()

        class Stopping(Listener):
            def part(self, part: Part) -> None:  # noqa: ARG002
                cancel.set()

        async with scripted_provider([send(head() + sse(HELLO_STREAM[:5])), stall]) as (provider, server):
            answer = await converse(provider, MODEL, HELLO, listener=Stopping(), cancel=cancel)
            await server.hung_up()
        assert (answer.stopped, answer.text) == ("cancelled", "Hello, ")
        assert [list(message.content) for message in answer.messages] == [[TextPart("Hello, ")]]

    run(scenario())


def test_cancel_during_a_tool_ends_it_and_leaves_no_open_call() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        ended = asyncio.Event()

        async def forever(_: Mapping[str, Any]) -> str:
            cancel.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return ""

        async with scripted_provider(streamed(call_stream(("1", "look", {}))), streamed()) as (
            provider,
            server,
        ):
            answer = await converse(provider, MODEL, HELLO, [tool("look", forever)], cancel=cancel)
            assert (answer.stopped, ended.is_set(), len(server.asked)) == ("cancelled", True, 1)
            # The conversation can go on from there: the call has an answer.
            again = await converse(provider, MODEL, [*HELLO, *answer.messages, user("Never mind.")])
        assert again.stopped == "answered"
        sent = server.asked[1].json["input"]
        assert [each["type"] for each in sent[1:3]] == ["function_call", "function_call_output"]
        assert "cancelled" in sent[2]["output"]

    run(scenario())


def test_cancel_during_the_permission_check_starts_nothing() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        watching = RecordingListener()

        class Asking(Listener):
            async def may_run(self, call: ToolCallPart) -> bool:  # noqa: ARG002
                cancel.set()
                return True

            def ran(self, call: ToolCallPart, result: ToolResultPart) -> None:
                watching.ran(call, result)

        ran: list[int] = []
        async with scripted_provider(streamed(call_stream(("1", "look", {})))) as (provider, _):
            answer = await converse(
                provider, MODEL, HELLO, [tool("look", ran.append)], listener=Asking(), cancel=cancel
            )
        assert (answer.stopped, ran) == ("cancelled", [])
        assert watching.results[0].is_error

    run(scenario())


def test_any_number_of_synchronous_functions_run_concurrently() -> None:
    async def scenario() -> None:
        number = 40
        together = threading.Barrier(number)

        def look(_: Mapping[str, Any]) -> str:
            together.wait(timeout=10)
            return "a ship"

        calls = call_stream(*((str(each), "look", {}) for each in range(number)))
        watching = RecordingListener()
        async with scripted_provider(streamed(calls), streamed()) as (provider, _):
            await converse(provider, MODEL, HELLO, [tool("look", look)], listener=watching)
        assert [result.is_error for result in watching.results] == [False] * number

    run(scenario())


def test_a_hanging_synchronous_function_is_not_waited_for() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        released = threading.Event()
        loop = asyncio.get_running_loop()

        def hang(_: Mapping[str, Any]) -> str:
            loop.call_soon_threadsafe(cancel.set)
            released.wait(timeout=10)
            return "too late"

        async with scripted_provider(streamed(call_stream(("1", "look", {})))) as (provider, _):
            answer = await converse(provider, MODEL, HELLO, [tool("look", hang)], cancel=cancel)
        released.set()
        result = answer.messages[-1].content[0]
        assert isinstance(result, ToolResultPart)
        assert result.content == [TextPart(CANCELLED)]

    run(scenario())


def test_of_two_tools_with_the_same_name_the_first_is_used() -> None:
    async def scenario() -> None:
        tools = [tool("look", lambda _: "first"), tool("look", lambda _: "second")]
        async with scripted_provider(streamed(call_stream(("1", "look", {}))), streamed()) as (
            provider,
            server,
        ):
            await converse(provider, MODEL, HELLO, tools)
        assert len(server.asked[0].json["tools"]) == 1
        assert server.asked[1].json["input"][-1]["output"] == "first"

    run(scenario())


class StopAtCall(Listener):
    """Sets the event when a call is received."""

    def __init__(self, cancel: asyncio.Event) -> None:
        self.cancel = cancel

    def part(self, part: Part) -> None:
        if isinstance(part, ToolCallPart):
            self.cancel.set()


def test_cancel_removes_thinking_at_the_end() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        text, item = streams.message("msg_1", 0, ["Let me see."])
        thought = {"type": "reasoning", "id": "rs_1", "summary": []}
        ended = {"type": "response.output_item.done", "output_index": 1, "item": thought}
        call, made = streams.call("1", 2, "look", ["{}"])
        events = streams.response([*text, ended, *call], [item, thought, made])
        async with scripted_provider(streamed(events)) as (provider, _):
            answer = await converse(
                provider, MODEL, HELLO, [tool("look", raises)], listener=StopAtCall(cancel), cancel=cancel
            )
        assert [list(message.content) for message in answer.messages] == [[TextPart("Let me see.")]]

    run(scenario())


def test_a_call_received_with_the_cancel_is_not_run_or_recorded() -> None:
    async def scenario() -> None:
        cancel = asyncio.Event()
        async with scripted_provider(streamed(call_stream(("1", "look", {})))) as (provider, _):
            answer = await converse(
                provider, MODEL, HELLO, [tool("look", raises)], listener=StopAtCall(cancel), cancel=cancel
            )
        assert (answer.stopped, answer.messages) == ("cancelled", [])

    run(scenario())


def test_thinking_is_joined_by_block_and_keeps_its_metadata() -> None:
    async def scenario() -> None:
        thought = [
            {"type": "response.reasoning.delta", "item_id": id, "output_index": index, "delta": piece}
            for id, index, piece in (("rs_1", 0, "a"), ("rs_1", 0, "b"), ("rs_2", 1, "c"))
        ]
        item = {"type": "reasoning", "id": "rs_2", "summary": []}
        ended = {"type": "response.output_item.done", "output_index": 1, "item": item}
        written, message = streams.message("msg_1", 2, ["Yes."])
        events = streams.response([*thought, ended, *written], [message])
        async with scripted_provider(streamed(events)) as (provider, _):
            answer = await converse(provider, MODEL, HELLO)
        one, two, sealed, text = answer.messages[0].content
        assert (one, two, text) == (ThinkingPart("ab", "rs_1"), ThinkingPart("c", "rs_2"), TextPart("Yes."))
        assert isinstance(sealed, ThinkingPart)
        assert sealed.metadata is not None

    run(scenario())


def test_after_a_failure_the_record_has_everything_before_it() -> None:
    async def scenario() -> None:
        record: list[ChatMessage] = []
        scripts = [streamed(call_stream(("1", "look", {}))), refused(400, "bad", "no more")]
        async with scripted_provider(*scripts) as (provider, _):
            with pytest.raises(OpenResponsesError, match="no more"):
                await converse(provider, MODEL, HELLO, [tool("look", lambda _: "a ship")], record=record)
        assert [message.role for message in record] == [Role.ASSISTANT, Role.USER]

    run(scenario())


def test_permission_is_not_requested_for_an_unknown_tool() -> None:
    async def scenario() -> None:
        asked: list[str] = []

        class Asking(Listener):
            async def may_run(self, call: ToolCallPart) -> bool:
                asked.append(call.name)
                return True

        events = call_stream(("1", "swim", {}), ("2", "look", {}))
        async with scripted_provider(streamed(events), streamed()) as (provider, _):
            await converse(provider, MODEL, HELLO, [tool("look", lambda _: "x")], listener=Asking())
        assert asked == ["look"]

    run(scenario())


def test_a_failure_is_raised() -> None:
    async def scenario() -> None:
        async with scripted_provider(refused(401, "invalid_api_key", "wrong key")) as (provider, _):
            with pytest.raises(OpenResponsesError, match="wrong key"):
                await converse(provider, MODEL, HELLO)

    run(scenario())
