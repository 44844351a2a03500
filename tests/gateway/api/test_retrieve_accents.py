"""Stored streams in another accent, and reasoning as a summary wherever a response is read (decision 1)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.dialects.plan import Quirks, Target
from penstock.gateway.gateway import Gateway
from tests.dialects.chat_streams import calls
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.dialects.responses.stream_events import added, completed, done, inner
from tests.gateway.fake_upstreams import FakeUpstream
from tests.gateway.in_process import Caller, call, with_gateway
from tests.gateway.running import judge_stream
from tests.gateway.upstream import frames, said

Json = dict[str, Any]

LEFT_OUT = "citation_left_out"

SEARCH: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
MESSAGE: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
FILE: Json = {"type": "file_citation", "file_id": "f_1", "filename": "a.txt", "index": 0}
PAGE: Json = {"type": "url_citation", "url": "https://e.org", "title": "", "start_index": 0, "end_index": 1}

SEARCHED = [
    added(0, {**SEARCH, "status": "in_progress"}),
    inner("web_search_call.searching", 0, item_id="ws_1"),
    done(0, SEARCH),
]
"""A search that the vendor ran."""


def text(*citations: Json, index: int = 0) -> list[Json]:
    cited = [
        inner("output_text.annotation.added", index, item_id="msg_1", content_index=0, annotation=each)
        for each in citations
    ]
    part = {"type": "output_text", "text": "hello", "annotations": [*citations]}
    return [
        added(index, MESSAGE),
        inner("output_text.delta", index, item_id="msg_1", content_index=0, delta="hello"),
        *cited,
        done(index, {**MESSAGE, "status": "completed", "content": [part]}),
    ]


def responses_upstream(*events: Json) -> FakeUpstream:
    return FakeUpstream("only", [frames(*events, completed())], dialect="responses")


async def made(gateway: Gateway, accent: str, **fields: Any) -> str:
    """Make a streamed response for a client of this accent; return its id."""
    path = f"/v1/responses?accent={accent}"
    caller = await call(gateway, path, model="m", input="hi", stream=True, **fields)
    judge_stream(caller.body, accent)
    return caller.id


async def get(gateway: Gateway, id: str, query: str) -> Caller:
    return await call(gateway, f"/v1/responses/{id}?{query}", method="GET")


WEB_SEARCH: Json = {"type": "web_search"}


@pytest.mark.parametrize(
    ("made_for", "read_as", "events", "tools", "is_readable"),
    [
        # the same accent, or a wider one
        ("openresponses", "openai", [*SEARCHED, *text(FILE, PAGE, index=1)], [], True),
        ("openresponses", "copilot", [*SEARCHED, *text(FILE, PAGE, index=1)], [WEB_SEARCH], True),
        ("copilot", "openai", [*SEARCHED, *text(FILE, index=1)], [], True),
        ("openai", "openai", [*SEARCHED, *text(FILE, index=1)], [], True),
        # a stricter accent, which permits everything that came
        ("openai", "openresponses", text(PAGE), [], True),
        ("openai", "copilot", text(FILE, PAGE), [], True),
        ("copilot", "openresponses", [SEARCHED[0], *SEARCHED[2:]], [WEB_SEARCH], True),
        # a stricter accent, which does not
        ("openai", "openresponses", SEARCHED, [WEB_SEARCH], False),
        ("openai", "copilot", SEARCHED, [WEB_SEARCH], False),
        ("openai", "openresponses", [SEARCHED[0], *SEARCHED[2:]], [], False),
        ("copilot", "openresponses", [SEARCHED[0], *SEARCHED[2:]], [], False),
        ("openai", "openresponses", text(FILE), [], False),
    ],
)
def test_a_stream_is_read_in_every_accent_that_can_carry_it(
    made_for: str, read_as: str, events: list[Json], tools: list[Json], is_readable: bool
) -> None:
    async def test(gateway: Gateway) -> None:
        id = await made(gateway, made_for, tools=tools)
        for query in ("stream=true", "stream=true&starting_after=2"):
            resumed = await get(gateway, id, f"{query}&accent={read_as}")
            if is_readable:
                assert resumed.status == 200
            else:
                assert (resumed.status, resumed.error["code"]) == (400, "accent_not_available")
                assert resumed.error["param"] == "accent"
                assert f"?accent={made_for}" in resumed.error["message"]
        if is_readable:
            judge_stream((await get(gateway, id, f"stream=true&accent={read_as}")).body, read_as)
        whole = await get(gateway, id, f"accent={read_as}")
        assert whole.json["id"] == id  # a whole response is converted

    with_gateway(test, responses_upstream(*events))


def test_while_a_response_runs_a_stricter_accent_is_refused() -> None:
    gate = asyncio.Event()
    begun = frames(chat_chunk({"content": "a"}), done=False)
    upstream = FakeUpstream("only", [begun, gate, frames(*said("b"))])

    async def test(gateway: Gateway) -> None:
        running = Caller(gateway, "/v1/responses?accent=openai", model="m", input="hi", stream=True)
        await running.received(b"output_text.delta")
        async with asyncio.timeout(10):
            refused = await get(gateway, running.id, "stream=true")
        assert (refused.status, refused.error["code"]) == (400, "accent_not_available")
        assert "while it runs" in refused.error["message"]
        following = Caller(gateway, f"/v1/responses/{running.id}?stream=true&accent=openai", method="GET")
        gate.set()
        await asyncio.gather(running.task, following.task)
        assert following.body == running.body
        judge_stream((await get(gateway, running.id, "stream=true")).body)

    with_gateway(test, upstream)


def test_a_whole_response_in_a_stricter_accent_counts_the_citations_that_it_cannot_carry() -> None:
    async def test(gateway: Gateway) -> None:
        id = await made(gateway, "openai")
        whole = (await get(gateway, id, "accent=openresponses")).json
        search, message = whole["output"]
        assert search["type"] == "openai:web_search_call"
        assert message["content"][0]["annotations"] == [PAGE]
        assert [each["count"] for each in whole["diagnostics"] if each["code"] == LEFT_OUT] == [1]
        same = (await get(gateway, id, "accent=openai")).json
        assert LEFT_OUT not in [each["code"] for each in same["diagnostics"]]

    with_gateway(test, responses_upstream(*SEARCHED, *text(FILE, PAGE, index=1)))


# Reasoning as a summary (field F2)

SUMMARY: Json = {"summary": "auto"}
RAW = [chat_chunk({"reasoning_content": "hm, "}), chat_chunk({"reasoning_content": "well"})]
CALL = calls({"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}})
LOOK: Json = {"type": "function", "name": "look", "parameters": {"type": "object"}}


class ReasoningUpstream(FakeUpstream):
    """An upstream that wants its reasoning back."""

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - it has no keys
        quirks = Quirks(reasoning_field="reasoning_content")
        return Target(model=model, vendor=self.name, dialect=self.dialect.name, quirks=quirks)


def reasoning_upstream() -> FakeUpstream:
    called = frames(*RAW, CALL, chat_chunk(finish="tool_calls"))
    return ReasoningUpstream("only", [called], [frames(*said("done"))])


def check_summary(response: Json) -> Json:
    reasoning: Json = response["output"][0]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "hm, well"}]
    assert "content" not in reasoning
    return reasoning


@pytest.mark.parametrize("accent", ["openresponses", "openai", "copilot"])
def test_a_request_for_summaries_shows_raw_reasoning_wherever_the_response_is_read(accent: str) -> None:
    async def test(gateway: Gateway) -> None:
        path = f"/v1/responses?accent={accent}"
        fields: Json = {"model": "m", "input": "hi", "tools": [LOOK], "reasoning": SUMMARY}
        streamed = await call(gateway, path, stream=True, **fields)
        events = judge_stream(streamed.body, accent)
        deltas = [each for each in events if each["type"] == "response.reasoning_summary_text.delta"]
        assert [each["delta"] for each in deltas] == ["hm, ", "well"]
        response = events[-1]["response"]
        check_summary(response)
        id = response["id"]
        assert (await get(gateway, id, f"accent={accent}")).json == response
        whole = await get(gateway, id, f"stream=true&accent={accent}")
        assert whole.body == streamed.body
        after = deltas[0]["sequence_number"]
        resumed = await get(gateway, id, f"stream=true&starting_after={after}&accent={accent}")
        assert streamed.body.endswith(resumed.body)
        assert b"reasoning_summary_text.delta" in resumed.body

    with_gateway(test, reasoning_upstream())


def test_an_answer_that_is_not_streamed_and_a_background_turn_have_summaries_too() -> None:
    async def test(gateway: Gateway) -> None:
        fields: Json = {"model": "m", "input": "hi", "tools": [LOOK], "reasoning": SUMMARY}
        check_summary((await call(gateway, **fields)).json)
        queued = await call(gateway, background=True, stream=True, **fields)
        check_summary(judge_stream(queued.body)[-1]["response"])

    called = frames(*RAW, CALL, chat_chunk(finish="tool_calls"))
    with_gateway(test, FakeUpstream("only", [called]))


def test_without_a_request_for_summaries_raw_reasoning_stays_raw() -> None:
    async def test(gateway: Gateway) -> None:
        for reasoning in (None, {"summary": None}, {"effort": "low"}):
            answer = await call(gateway, model="m", input="hi", tools=[LOOK], reasoning=reasoning)
            item = answer.json["output"][0]
            assert (item["summary"], item["content"][0]["text"]) == ([], "hm, well")

    called = frames(*RAW, CALL, chat_chunk(finish="tool_calls"))
    with_gateway(test, FakeUpstream("only", [called]))


@pytest.mark.parametrize("store", [True, False])
def test_a_summary_that_comes_back_is_sent_upstream_as_the_raw_reasoning_that_it_was(store: bool) -> None:
    upstream = reasoning_upstream()

    async def test(gateway: Gateway) -> None:
        fields: Json = {"model": "m", "tools": [LOOK], "reasoning": SUMMARY, "store": store}
        first = (await call(gateway, input="hi", **fields)).json
        reasoning, called = check_summary(first), first["output"][1]
        output = {"type": "function_call_output", "call_id": called["call_id"], "output": "found"}
        returned = {name: reasoning[name] for name in ("type", "id", "summary")}
        user = {"type": "message", "role": "user", "content": "hi"}
        history = [user, returned, called, output]
        second = await call(gateway, input=history, **fields)
        assert second.status == 200
        sent = upstream.requests[-1].body
        assistant = next(each for each in sent["messages"] if each["role"] == "assistant")
        assert assistant["reasoning_content"] == "hm, well"
        assert json.dumps(sent).count("hm, well") == 1

    with_gateway(test, upstream)


def test_the_input_items_of_a_chain_have_its_reasoning_as_a_summary() -> None:
    async def test(gateway: Gateway) -> None:
        fields: Json = {"model": "m", "tools": [LOOK]}
        first = (await call(gateway, input="hi", reasoning=SUMMARY, **fields)).json
        output = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "x"}
        chained: Json = {"input": [output], "previous_response_id": first["id"], **fields}
        for reasoning, is_summary in ((SUMMARY, True), (None, False)):
            second = (await call(gateway, reasoning=reasoning, **chained)).json
            page = await call(gateway, f"/v1/responses/{second['id']}/input_items", method="GET")
            (item,) = [each for each in page.json["data"] if each["type"] == "reasoning"]
            assert bool(item["summary"]) == is_summary
            assert ("content" in item) != is_summary

    with_gateway(test, reasoning_upstream())
