"""The demo model: what it answers, and that every stream that it makes is lawful."""

from __future__ import annotations

import asyncio
import json
import struct
from base64 import b64encode
from typing import Any
from zlib import crc32

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel

from penstock.demo import DIALECT
from penstock.demo.counting import count, pieces
from penstock.demo.render import HANDLED
from penstock.demo.upstream import DemoUpstream
from penstock.dialects import request_fields
from penstock.dialects.plan import Plan, Target
from penstock.errors import DecodeError
from penstock.net.source import UpstreamSource
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import to_builtins
from penstock.sse import Frame
from penstock.stream.deltas import ErrorDelta, FinishDelta
from penstock.upstream.target import Upstream
from tests.dialects.recording_checks import json_with
from tests.dialects.render_cases import EVERY_ITEM, EVERY_TOOL, PIXEL, codes, dropped, requests
from tests.dialects.request_samples import SAMPLES, TOOLS
from tests.effort import examples
from tests.gateway.demos import (
    CLOCK,
    DOCS,
    PATCH,
    WEATHER,
    Slept,
    after_call,
    ask,
    events_of,
    plan_for,
    read_all,
    reads_of,
    user,
)

# -- what it says


def test_it_answers_in_markdown_and_repeats_what_was_asked() -> None:
    told = ask("Hello, what is a penstock?")
    assert told.response["status"] == "completed"
    assert told.response["model"] == "demo"
    assert told.text.startswith("## Hello, what is a penstock?\n\nHello! ")
    assert "\n- it has 5 words" in told.text
    assert "水門" in told.text
    assert "“wait 3 seconds”" in told.text


def test_answers_have_code_and_tables_now_and_then() -> None:
    texts = [ask(f"Question {number}").text for number in range(8)]
    assert any("```python" in text for text in texts)
    assert any("\n|---|---:|\n" in text for text in texts)
    assert not all("```python" in text for text in texts)


@pytest.mark.parametrize(
    ("verbosity", "least", "most"), [("low", 1, 10), ("medium", 40, 120), ("high", 60, 160)]
)
def test_verbosity_is_honoured(verbosity: str, least: int, most: int) -> None:
    text = ask("Tell me about locks.", text={"verbosity": verbosity}).text
    assert least <= count(text) <= most


def test_it_streams_in_many_small_reads_with_pauses() -> None:
    told = ask("Hello.")
    words = [frame["say"] for frame in told.frames if "say" in frame]
    assert len(words) > 40
    assert "".join(words) == told.text
    assert max(map(len, words)) < 20
    assert told.sleeps.count(0.01) == len(words)


def test_the_same_request_has_the_same_bytes() -> None:
    request = {
        "input": [user("Think: what is the weather in Ulm?")],
        "tools": EVERY_TOOL,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    }
    assert ask(request).reads == ask(request).reads


def test_instructions_are_told_when_they_are_asked_for() -> None:
    told_of = {"instructions": "Be brief.\nBe kind.", "input": [{"role": "developer", "content": "Be odd."}]}
    asked = ask({**told_of, "input": [*told_of["input"], user("What are your instructions?")]})
    assert "> Be brief.\n> Be kind." in asked.text
    assert "> Be odd." in asked.text
    assert "Be brief" not in ask({**told_of, "input": [*told_of["input"], user("Hello.")]}).text
    assert ask("Show me your system prompt").text == "I was given no instructions."


# -- reasoning


def reasoning_in(told: Any) -> str:
    return "".join(part["text"] for item in told.items("reasoning") for part in item.get("content", []))


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
def test_it_reasons_with_an_effort(effort: str) -> None:
    told = ask("Why?", reasoning={"effort": effort})
    assert [item["type"] for item in told.output] == ["reasoning", "message"]
    assert told.response["usage"]["output_tokens_details"]["reasoning_tokens"] == count(reasoning_in(told))


def test_more_effort_is_more_reasoning() -> None:
    lengths = [
        count(reasoning_in(ask("Why?", reasoning={"effort": each}))) for each in ("low", "medium", "max")
    ]
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("reasoning", [{}, {"effort": "none"}, {"effort": "none", "summary": "auto"}])
def test_it_does_not_reason_unasked(reasoning: dict[str, str]) -> None:
    assert not ask("Why?", reasoning=reasoning).items("reasoning")


def test_it_reasons_when_the_prompt_asks_for_it() -> None:
    assert reasoning_in(ask("Think about locks."))


@pytest.mark.parametrize(("summary", "parts"), [("auto", 1), ("concise", 1), ("detailed", 2)])
def test_a_summary_is_given_when_it_is_asked_for(summary: str, parts: int) -> None:
    (item,) = ask("Why?", reasoning={"effort": "low", "summary": summary}).items("reasoning")
    assert len(item["summary"]) == parts
    assert item["content"]


def test_sealed_reasoning_is_recognised_when_it_comes_back() -> None:
    first = ask("Think about locks.", include=["reasoning.encrypted_content"])
    (item,) = first.items("reasoning")
    assert item["encrypted_content"]
    back = [user("Think about locks."), *first.output, user("And now?")]
    assert "I remember that I thought about “Think about locks.”" in ask({"input": back}).text
    without = [{**each, "encrypted_content": None} if each == item else each for each in back]
    assert "I remember" not in ask({"input": without}).text


def test_reasoning_is_sealed_only_on_request() -> None:
    (item,) = ask("Think about locks.").items("reasoning")
    assert "encrypted_content" not in item


def test_foreign_reasoning_is_left_out_and_told() -> None:
    given = [{"type": "reasoning", "summary": [], "encrypted_content": "somebody's"}, user("Hello.")]
    assert "reasoning_left_out" in codes(DIALECT.render(plan_for({"input": given})))


# -- tools


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("What is the weather in Ulm?", ["get_weather"]),
        ("Please call get_weather.", ["get_weather"]),
        ("Use the get weather tool", ["get_weather"]),
        ("What does the clock of this city say?", ["get_time"]),
        ("The time and the weather in Ulm, please", ["get_time", "get_weather"]),
        ("Do you know my grandmother?", []),
        ("What can you get me?", []),
    ],
)
def test_a_tool_is_called_when_the_prompt_calls_for_it(prompt: str, names: list[str]) -> None:
    told = ask(prompt, tools=[WEATHER, CLOCK])
    assert [item["name"] for item in told.items("function_call")] == names
    assert bool(told.text) is not bool(names)


def test_of_many_tools_only_one_that_is_named_is_called() -> None:
    """An editor's agent brings forty, and a word of some tool is in every prompt."""
    many = [WEATHER, CLOCK, *({"type": "function", "name": f"do_{n}"} for n in range(30))]
    assert ask("What is the weather in Ulm?", tools=many).items("function_call") == []
    told = ask("Call get_weather for Ulm.", tools=many)
    assert [item["name"] for item in told.items("function_call")] == ["get_weather"]


def test_arguments_come_from_the_prompt_in_fragments() -> None:
    told = ask("The weather in San Francisco, CA for 3 days in celsius: unit?", tools=[WEATHER])
    assert told.arguments == [{"city": "San Francisco, CA", "days": 3, "unit": "celsius"}]
    deltas = [event for event in told.events if event["type"].endswith("arguments.delta")]
    assert len(deltas) > 5


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", []),
        ("none", []),
        ("required", ["get_weather"]),
        ({"type": "function", "name": "get_time"}, ["get_time"]),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_time"}],
            },
            ["get_time"],
        ),
    ],
)
def test_the_choice_of_tools_is_kept(choice: Any, names: list[str]) -> None:
    told = ask("Hello.", tools=[WEATHER, CLOCK], tool_choice=choice)
    assert [item["name"] for item in told.items("function_call")] == names


def test_no_tool_is_called_under_none() -> None:
    assert not ask("The weather in Ulm?", tools=[WEATHER], tool_choice="none").items("function_call")


def test_a_tool_that_is_not_allowed_is_not_called() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_time"}]}
    told = ask("The weather and the time in Ulm?", tools=[WEATHER, CLOCK], tool_choice=allowed)
    assert [item["name"] for item in told.items("function_call")] == ["get_time"]
    assert "diagnostics" not in told.response


@pytest.mark.parametrize("limit", [{"parallel_tool_calls": False}, {"max_tool_calls": 1}], ids=str)
def test_calls_are_not_parallel_when_that_is_unwanted(limit: dict[str, Any]) -> None:
    told = ask("The weather and the time in Ulm?", tools=[WEATHER, CLOCK], **limit)
    assert [item["name"] for item in told.items("function_call")] == ["get_weather"]


def test_a_custom_tool_gets_raw_text() -> None:
    told = ask('apply_patch with `*** Begin\\n"x"`', tools=[PATCH])
    (call,) = told.output
    assert (call["type"], call["input"]) == ("custom_tool_call", '*** Begin\\n"x"')
    assert "diagnostics" not in told.response


def test_a_tool_in_a_namespace_comes_back_in_it() -> None:
    (call,) = ask("search in Ulm", tools=[DOCS]).output
    assert (call["name"], call["namespace"]) == ("search", "mcp__docs")


def test_tools_that_come_with_the_input_are_called_too() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [WEATHER]}
    (call,) = ask({"input": [added, user("The weather in Ulm?")]}).output
    assert call["name"] == "get_weather"


def test_it_answers_from_the_results_and_calls_nothing_again() -> None:
    first = ask("The weather and the time in Ulm?", tools=[WEATHER, CLOCK])
    given = after_call(first, "rain,\nall day", [{"type": "input_image", "image_url": PIXEL}])
    second = ask({"input": given}, tools=[WEATHER, CLOCK])
    assert not second.items("function_call")
    assert "The tool `get_weather` says:\n\n> rain,\n> all day" in second.text
    assert "The tool `get_time` gave me a PNG image" in second.text


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_forced_call_is_no_endless_loop_and_that_is_told(choice: Any) -> None:
    first = ask("Hello.", tools=[WEATHER], tool_choice=choice)
    plan = plan_for({"input": after_call(first, "rain")}, tools=[WEATHER], tool_choice=choice)
    assert "tool_choice_weakened" in codes(DIALECT.render(plan))
    second = ask({"input": after_call(first, "rain")}, tools=[WEATHER], tool_choice=choice)
    assert "> rain" in second.text


def test_a_result_alone_is_answered_and_its_words_are_no_wishes() -> None:
    """What a tool says is not the user's wish; the call may have been lost with the history."""
    output = {"type": "function_call_output", "call_id": "call_1", "output": "fail at once"}
    assert "> fail at once" in ask({"input": [output]}, tools=[WEATHER]).text


def test_a_new_question_is_a_new_call_under_a_new_id() -> None:
    first = ask("The weather in Ulm?", tools=[WEATHER])
    given = [*after_call(first, "rain"), user("The weather in Ulm?")]
    second = ask({"input": given}, tools=[WEATHER])
    assert second.output[0]["name"] == "get_weather"
    assert second.output[0]["call_id"] != first.output[0]["call_id"]


def test_a_schema_that_cannot_be_kept_is_told() -> None:
    schema = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    told = ask("call it", tools=[{**WEATHER, "parameters": schema}], tool_choice="required")
    assert [each["code"] for each in told.response["diagnostics"]] == ["schema_not_kept"]


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "string"}, {"anyOf": []}])
def test_odd_parameters_still_get_an_object(parameters: Any) -> None:
    told = ask("call it", tools=[{**WEATHER, "parameters": parameters}], tool_choice="required")
    assert isinstance(told.arguments[0], dict)


# -- the format of the answer


class Person(BaseModel):
    name: str
    age: int | None
    tags: list[str]


class Family(BaseModel):
    city: str
    people: list[Person]
    kind: Person | None = None


@pytest.mark.parametrize("model", [Person, Family])
def test_a_strict_schema_of_openais_client_is_kept(model: type[BaseModel]) -> None:
    """What `responses.parse` sends, and what it does with the answer."""
    schema = to_strict_json_schema(model)
    format = {"type": "json_schema", "name": model.__name__, "strict": True, "schema": schema}
    told = ask("A family in Ulm, 3 tags", text={"format": format})
    assert jsonschema_rs.is_valid(schema, json.loads(told.text))
    assert model.model_validate_json(told.text)


def test_an_answer_in_json_is_one_object() -> None:
    assert json.loads(ask("Some JSON, please", text={"format": {"type": "json_object"}}).text)["words"] == 3


def test_a_schema_that_no_answer_fits_is_told() -> None:
    format = {"type": "json_schema", "name": "n", "schema": {"type": "integer", "minimum": 2, "maximum": 1}}
    told = ask("Hello.", text={"format": format})
    assert [each["code"] for each in told.response["diagnostics"]] == ["schema_not_kept"]
    assert json.loads(told.text) is None


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"text\.format\.type"):
        ask("Hello.", text={"format": {"type": "grammar"}})


# -- counting


def test_max_output_tokens_stops_in_the_middle() -> None:
    whole = ask("Hello.").text
    told = ask("Hello.", max_output_tokens=16)
    assert told.response["status"] == "incomplete"
    assert told.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert told.text == "".join(pieces(whole)[:16])
    assert told.response["usage"]["output_tokens"] == 16
    assert [item["status"] for item in told.output] == ["incomplete"]


def test_reasoning_counts_towards_the_limit() -> None:
    told = ask("Think.", max_output_tokens=5)
    assert [item["type"] for item in told.output] == ["reasoning"]
    assert told.response["usage"]["output_tokens_details"]["reasoning_tokens"] == 5


@pytest.mark.parametrize("limit", range(8))
def test_a_call_can_be_cut_anywhere(limit: int) -> None:
    told = ask("The weather in San Francisco, CA?", tools=[WEATHER], max_output_tokens=limit)
    whole = limit >= 5
    assert told.response["status"] == ("completed" if whole else "incomplete")
    statuses = [item["status"] for item in told.output]
    assert statuses == (["completed"] if whole else ["incomplete"] * bool(limit))


def test_a_limit_that_is_just_enough_is_no_limit() -> None:
    spent = ask("Hello.").response["usage"]["output_tokens"]
    assert ask("Hello.", max_output_tokens=spent).response["status"] == "completed"
    assert ask("Hello.", max_output_tokens=spent - 1).response["status"] == "incomplete"


def test_usage_is_counted_and_history_is_cached() -> None:
    first = ask("one two three", instructions="four five")
    usage = first.response["usage"]
    assert usage["input_tokens"] == 5
    assert usage["output_tokens"] == count(first.text)
    assert usage["input_tokens_details"]["cached_tokens"] == 0
    given = [user("one two three"), *first.output, user("six")]
    second = ask({"input": given}, instructions="four five").response["usage"]
    assert second["input_tokens"] == 6 + usage["output_tokens"]
    assert second["input_tokens_details"]["cached_tokens"] == 5


@given(st.text())
def test_tokens_are_the_pieces_of_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert count(text) == len(pieces(text))
    assert all(pieces(text))


# -- images and files


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", crc32(head))


def data_url(data: bytes, media: str = "image/png") -> str:
    return f"data:{media};base64,{b64encode(data).decode()}"


GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + bytes(3)
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 48, 64) + bytes(10)
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + b"\x0f\x00\x00\x1f\x00\x00"


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        ({"image_url": data_url(png(640, 480))}, "a PNG image of 640 × 480 pixels and 33 bytes"),
        ({"image_url": data_url(GIF)}, "a GIF image of 7 × 9 pixels and 13 bytes"),
        ({"image_url": data_url(JPEG)}, "a JPEG image of 64 × 48 pixels and 27 bytes"),
        ({"image_url": data_url(WEBP)}, "a WebP image of 16 × 32 pixels and 30 bytes"),
        ({"image_url": data_url(b"?")}, "an image of 1 byte"),
        ({"image_url": "data:image/svg+xml,%3Csvg%3E"}, "an image of 5 bytes"),
        ({"image_url": "data:image/png;base64,!!"}, "an image of 1 byte"),
        ({"image_url": "https://example.org/cat.png?key=1"}, "an image at example.org (not fetched)"),
        ({"image_url": "https://[broken"}, "an image at an address that is none (not fetched)"),
        ({"file_id": "file_1"}, "an image stored as “file_1”"),
        ({"image_url": None}, "an image without content"),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": data_url(b"%PDF-1.7")},
            "a PDF file called “a.pdf” of 8 bytes",
        ),
        (
            {"type": "input_file", "filename": "a.txt", "file_data": b64encode(b"hi there").decode()},
            "a file called “a.txt” of 8 bytes",
        ),
        ({"type": "input_file", "file_url": "https://example.org/a"}, "a file at example.org (not fetched)"),
        (
            {"type": "input_video", "video_url": "https://example.org/a"},
            "a video at example.org (not fetched)",
        ),
    ],
)
def test_it_says_what_it_sees(part: dict[str, Any], seen: str) -> None:
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", **part}]
    told = ask({"input": [user_with(content)]})
    assert f"- I see {seen}\n" in told.text


def user_with(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_content_that_cannot_be_seen_is_told() -> None:
    plan = plan_for({"input": [user_with([{"type": "input_smell", "smell": "roses"}])]})
    assert "content_left_out" in codes(DIALECT.render(plan))


# -- nothing is dropped in silence


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
def test_every_field_has_a_row(field: str) -> None:
    assert HANDLED[field] in request_fields.MEANINGS


def test_no_row_is_about_a_field_that_is_none() -> None:
    assert set(HANDLED) <= set(CreateResponse.__struct_fields__)


@pytest.mark.parametrize("field", SAMPLES)
def test_a_field_is_sent_or_told(field: str) -> None:
    around = {"tools": SAMPLES["tools"]} if field in TOOLS else {}
    given = {**around, field: SAMPLES[field]}
    given |= given.pop("extra", {})
    plain, rendered = DIALECT.render(plan_for("Hello.", **around)), DIALECT.render(_plan(given))
    told = [each for each in rendered.diagnostics if each not in plain.diagnostics]
    sent = rendered.body != plain.body
    assert sent is not bool(told)
    if HANDLED[field] == "dropped":
        assert ("stop" if field == "extra" else field) in dropped(rendered)


def _plan(given: dict[str, Any]) -> Plan:
    model = given.pop("model", "demo")
    plan = plan_for({"input": "Hello.", **given})
    return Plan(plan.request, Target(model=model, vendor="demo", dialect="demo"), plan.tools)


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 1},
        {"top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0},
        {"truncation": "disabled", "service_tier": "auto", "store": True, "metadata": {"a": "b"}},
        {"reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"]},
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    ],
    ids=str,
)
def test_what_happens_anyway_is_not_told(values: dict[str, Any]) -> None:
    assert DIALECT.render(plan_for("Hello.", **values)).diagnostics == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"reasoning": {"effort": "low", "mood": "good"}}, {"reasoning.mood"}),
        ({"text": {"verbosity": "extreme", "font": "serif"}}, {"text.verbosity", "text.font"}),
        ({"include": ["file_search_call.results"]}, {"include: file_search_call.results"}),
        ({"stop": ["END"], "seed": 7}, {"stop", "seed"}),
    ],
)
def test_parts_of_fields_that_mean_nothing_are_told(values: dict[str, Any], told: set[str]) -> None:
    assert dropped(DIALECT.render(plan_for("Hello.", **values))) == told


def test_an_unknown_effort_and_a_grammar_are_told() -> None:
    tool = {**PATCH, "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}
    nested = {"type": "namespace", "name": "n", "tools": [tool]}
    rendered = DIALECT.render(plan_for("Hello.", reasoning={"effort": "odd"}, tools=[nested]))
    assert codes(rendered) == {"effort_changed", "grammar_ignored"}


def test_probabilities_come_with_every_word() -> None:
    told = ask("say exactly: one two", include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = told.output[0]["content"][0]["logprobs"]
    assert [each["token"] for each in logprobs] == ["one", " two"]
    assert all(each["logprob"] <= 0 and len(each["top_logprobs"]) == 2 for each in logprobs)
    assert bytes(logprobs[1]["bytes"]) == b" two"
    assert ask("say exactly: one").output[0]["content"][0]["logprobs"] == []


# -- as an upstream


def test_it_is_an_upstream() -> None:
    upstream: Upstream = DemoUpstream()
    assert (upstream.name, upstream.dialect.name, upstream.pass_key) == ("demo", "demo", False)
    assert upstream.keys.take() == ""
    target = upstream.target("demo", "a key")
    assert (target.dialect, target.key_fingerprint) == ("demo", "")
    asyncio.run(upstream.aclose())


def test_an_answer_is_a_stream_of_events() -> None:
    async def run() -> UpstreamSource:
        upstream = DemoUpstream(Slept())
        return await upstream.send(upstream.dialect.render(plan_for("Hello.")), key="", headers={})

    answer = asyncio.run(run())
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    assert answer.request_id
    assert answer.mask("text") == "text"


def test_no_pause_is_possible() -> None:
    async def run() -> list[float]:
        sleep = Slept()
        upstream = DemoUpstream(sleep, pace=0)
        await read_all(await upstream.send(upstream.dialect.render(plan_for("Hello.")), key="", headers={}))
        return sleep.times

    assert set(asyncio.run(run())) == {0}


# -- its language


def test_an_answer_that_was_gathered_reads_the_same() -> None:
    plan = plan_for("The weather in Ulm? Think.", tools=[WEATHER])
    data = b"".join(asyncio.run(reads_of(plan, Slept())))
    reader = DIALECT.reader(plan)
    streamed = [
        delta
        for line in data.decode().splitlines()
        if line
        for delta in reader.feed(Frame(None, line.removeprefix("data: ")))
    ]
    assert DIALECT.read_body(plan, data) == streamed + reader.end()
    assert reader.is_over
    assert isinstance(streamed[-1], FinishDelta)


def test_nothing_at_all_is_an_error() -> None:
    plan = plan_for("Hello.")
    assert DIALECT.read_body(plan, b"") == [
        ErrorDelta("upstream_empty", "the demo model answered with nothing")
    ]


def test_an_answer_that_does_not_stop_is_an_error() -> None:
    deltas = DIALECT.read_body(plan_for("Hello."), b'data: {"say": "a"}\n\n')
    assert deltas[-1] == ErrorDelta("upstream_truncated", "the demo model stopped in the middle")


def test_a_frame_that_says_nothing_known_is_told() -> None:
    plan = plan_for("Hello.")
    events = events_of(plan, b'data: {"sing": "la"}\n\ndata: {"stop": "stop"}\n\n')
    diagnostics = to_builtins(events[-1])["response"]["diagnostics"]
    assert [each["code"] for each in diagnostics] == ["unknown_frame"]


def test_failures_are_classified_like_everybodys() -> None:
    assert DIALECT.classify(429, {}, b"").code == "rate_limit_exceeded"


_words = [
    "think",
    "say",
    "call",
    "usage",
    "stop",
    "error",
    "cite",
    "seal",
    "key",
    "id",
    "name",
    "input",
    "end",
]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(json_with([*_words, "logprobs", "part"], ["stop", "length", "get_weather"]), max_size=5))
def test_any_frames_make_a_lawful_stream(frames: list[Any]) -> None:
    data = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    events_of(plan_for("Hello.", tools=[WEATHER]), data)


# -- for every request


@settings(max_examples=examples(200), deadline=None)
@given(requests, st.sampled_from([None, 0, 3, 20]))
def test_every_request_ends_in_one_terminal(request: dict[str, Any], limit: int | None) -> None:
    """`ask` judges the stream; a request that is no request is refused before it is asked."""
    more = {} if limit is None else {"max_output_tokens": limit}
    try:
        told = ask(request, **more)
    except DecodeError:
        return
    assert told.response["status"] in ("completed", "incomplete")


def test_every_kind_of_item_and_tool_is_taken() -> None:
    told = ask({"input": EVERY_ITEM, "tools": EVERY_TOOL})
    assert told.response["status"] == "completed"


def test_half_a_surrogate_pair_in_a_prompt_does_no_harm() -> None:
    told = ask("say exactly: a\ud83d b")
    assert told.text == "a\ufffd b"
    assert "\ufffd" in ask("\ud83d").text
    assert ask("\ud83d", tools=[WEATHER], tool_choice="required").response["status"] == "completed"
