"""What an upstream is asked, and what is told of the rest: ask T1 and ask E6, over HTTP."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.cli import streams
from tests.client.server import Asked, Script, cut
from tests.gateway.reply_assertions import codes
from tests.gateway.running import SECRET_KEY, Reply, Running
from tests.gateway.scripts import (
    ANTHROPIC,
    RESPONSES,
    RICH,
    STOP,
    TOOLS,
    body,
    call,
    calls,
    message_end,
    message_start,
    text,
    text_block,
    typed,
)
from tests.gateway.upstream import USAGE, ScriptedUpstream, begun, said, streamed

Json = dict[str, Any]


MODELS = tuple(RICH)


ANSWERS: dict[str, Script] = {
    "chat": streamed(*text("Yes."), STOP, USAGE),
    ANTHROPIC: body(typed([message_start(), *text_block(0, "Yes."), *message_end()])),
    RESPONSES: body(typed(streams.hello())),
}


def message(role: str, said: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}


def asked(penstock: Running, upstream: ScriptedUpstream, model: str, **fields: Any) -> tuple[Reply, Asked]:
    """One turn that ends well, and what the upstream got of it."""
    upstream.play(model, ANSWERS[model])
    reply = penstock.ask({"model": model, "input": "Go.", "stream": True, **fields})
    assert reply.status == 200, reply.body
    assert reply.last["status"] == "completed"
    return reply, upstream.asked_for(model)[-1]


# ask T1

CODEX = [
    message("developer", "Sandbox: read only."),
    message("developer", "Approvals: never."),
    message("user", "First."),
    message("assistant", "Done."),
    message("user", "Second."),
    message("assistant", "Done again."),
    message("user", "Third."),
]


LATE = message("developer", "Sandbox: full access.")


def test_instructions_and_developer_items_are_one_leading_system_message(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    _, request = asked(penstock, upstream, "chat", instructions="You are an agent.", input=[*CODEX, LATE])
    messages = request.json["messages"]
    assert [each["role"] for each in messages] == [
        "system", "user", "assistant", "user", "assistant", "user", "user",
    ]  # fmt: skip
    first = messages[0]["content"]
    places = [
        first.index(words) for words in ("You are an agent.", "Sandbox: read only.", "Approvals: never.")
    ]
    assert places == sorted(places)
    assert "Sandbox: full access." in messages[-1]["content"]  # not lost, and not in front
    assert "full access" not in first


def test_the_next_turn_begins_with_the_same_bytes(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Ask D5: a late developer item, and whatever comes behind it, leaves the prefix as it was."""
    history: list[Json] = []
    bodies: list[bytes] = []
    for item in (*CODEX, LATE, message("user", "Fourth.")):
        history.append(item)
        _, request = asked(penstock, upstream, "chat", instructions="Be brief.", input=history, tools=TOOLS)
        bodies.append(json.dumps(request.json).encode())
    for shorter, longer in pairwise(bodies[2:]):  # before that the developer items are still leading
        assert longer.startswith(shorter.removesuffix(b"]}"))


def test_anthropic_gets_a_system_field_and_no_system_role(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    _, request = asked(penstock, upstream, ANTHROPIC, instructions="You are an agent.", input=[*CODEX, LATE])
    system = json.dumps(request.json["system"])
    assert "You are an agent." in system
    assert "Approvals: never." in system
    assert {each["role"] for each in request.json["messages"]} == {"user", "assistant"}
    assert "Sandbox: full access." in json.dumps(request.json["messages"])


def test_responses_gets_them_in_their_order(penstock: Running, upstream: ScriptedUpstream) -> None:
    _, request = asked(penstock, upstream, RESPONSES, instructions="You are an agent.", input=[*CODEX, LATE])
    sent = json.dumps([request.json["instructions"], request.json["input"]])
    words = ("You are an agent.", "read only.", "Approvals: never.", "First.", "Third.", "full access.")
    places = [sent.index(each) for each in words]
    assert places == sorted(places)
    assert all(sent.count(each) == 1 for each in words)


# ask E6

FIELDS: dict[str, Json] = {
    "temperature": {"temperature": 0.3},
    "top_p": {"top_p": 0.4},
    "presence_penalty": {"presence_penalty": 0.5},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "max_output_tokens": {"max_output_tokens": 777},
    "max_tool_calls": {"max_tool_calls": 3, "tools": TOOLS},
    "parallel_tool_calls": {"parallel_tool_calls": False, "tools": TOOLS},
    "top_logprobs": {"top_logprobs": 2},
    "truncation": {"truncation": "auto"},
    "service_tier": {"service_tier": "flex"},
    "safety_identifier": {"safety_identifier": "somebody"},
    "prompt_cache_key": {"prompt_cache_key": "a-conversation"},
    "prompt_cache_retention": {"prompt_cache_retention": "24h"},
    "user": {"user": "somebody"},
    "stop": {"stop": ["END"]},
    "seed": {"seed": 7},
    "logit_bias": {"logit_bias": {"50256": -100}},
    "verbosity": {"text": {"verbosity": "low"}},
    "an unknown field of text": {"text": {"tone": "dry"}},
    "effort": {"reasoning": {"effort": "high"}},
    "an effort beyond the schema": {"reasoning": {"effort": "minimal"}},
    "an unknown field of reasoning": {"reasoning": {"generate_summary": "auto"}},
    "summary": {"reasoning": {"summary": "detailed"}},
    "include": {"include": ["file_search_call.results"]},
    "logprobs": {"include": ["message.output_text.logprobs"]},
    "an unknown field": {"sparkle": True},
    "prompt": {"prompt": {"id": "pmpt_1"}},
    "context_management": {"context_management": [{"type": "compaction", "compact_threshold": 1000}]},
    "obfuscation": {"stream_options": {"include_obfuscation": True}},
    "strict tools": {"tools": [{**TOOLS[0], "strict": True}]},
    "a hosted tool": {"tools": [*TOOLS, {"type": "image_generation"}]},
    "an unknown item": {"input": [message("user", "Go."), {"type": "acme:thing", "data": 1}]},
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("model", MODELS)
def test_a_field_is_sent_or_told_or_refused(
    penstock: Running, upstream: ScriptedUpstream, model: str, field: str
) -> None:
    """The upstream sees a difference, or the client is told that it does not."""
    plain = {"tools": TOOLS} if "tools" in FIELDS[field] else {}
    _, before = asked(penstock, upstream, model, **plain)
    reply = penstock.ask({"model": model, "input": "Go.", "stream": True, **FIELDS[field]})
    if reply.status == 400:
        assert reply.error["param"]
        return
    after = upstream.asked_for(model)[-1]
    is_sent = (after.json, sorted(after.headers)) != (before.json, sorted(before.headers))
    told = codes(reply.last)
    assert is_sent or told, f"{field} vanished"
    header = reply.headers.get("x-penstock-diagnostics", "")
    assert all(code in header for code in told)
    assert bool(header) == bool(told)
    assert penstock.verdict(reply.headers["x-request-id"]).get("diagnostics", []) == told


@pytest.mark.parametrize("stream", [True, False])
def test_what_was_dropped_is_in_the_header_and_in_the_response(
    penstock: Running, upstream: ScriptedUpstream, stream: bool
) -> None:
    upstream.play("w10", ANSWERS["chat"])
    fields = {"safety_identifier": "somebody", "metadata": {"mine": "untouched"}}
    reply = penstock.ask({"model": "w10", "input": "Go.", "stream": stream, **fields})
    (told,) = reply.last["diagnostics"]
    assert told["code"] == "field_dropped"
    assert "safety_identifier" in told["message"]
    assert reply.headers["x-penstock-diagnostics"] == f"{told['code']}: {told['message']}"
    assert reply.last["metadata"] == {"mine": "untouched"}


def test_nothing_is_told_where_nothing_was_dropped(penstock: Running, upstream: ScriptedUpstream) -> None:
    for model in MODELS:
        reply, _ = asked(penstock, upstream, model, temperature=0.5, tools=TOOLS)
        assert "diagnostics" not in reply.last
        assert "x-penstock-diagnostics" not in reply.headers


def test_a_diagnostic_in_any_script_is_a_lawful_header(penstock: Running, upstream: ScriptedUpstream) -> None:
    reply, _ = asked(penstock, upstream, "chat", **{"größe\r\nx-evil: 1 水": 1})
    assert "x-evil" not in reply.headers
    assert "größe" in json.dumps(reply.last["diagnostics"], ensure_ascii=False)
    assert reply.headers["x-penstock-diagnostics"].startswith("field_dropped: ")


FAILING: dict[str, Script] = {
    "behind output": [*begun(*text("One")), cut],
    "before output": streamed({"choices": [{"index": 0, "delta": {"role": "assistant"}}]}, done=False),
    "with nothing": streamed(done=False),
}


@pytest.mark.parametrize("how", FAILING)
def test_a_turn_that_failed_still_says_what_was_dropped(
    penstock: Running, upstream: ScriptedUpstream, how: str
) -> None:
    upstream.play("w10-failed", FAILING[how])
    reply = penstock.stream("w10-failed", safety_identifier="somebody")
    assert reply.types[-1] == "response.failed"
    assert "field_dropped" in codes(reply.last)
    assert "field_dropped" in reply.headers["x-penstock-diagnostics"]


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


FORMATS: dict[str, Json] = {
    "json_schema": {"type": "json_schema", "name": "thing", "strict": True, "schema": SCHEMA},
    "json_object": {"type": "json_object"},
    "a format of tomorrow": {"type": "grammar", "definition": "x"},
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("model", MODELS)
def test_a_format_is_never_dropped(
    penstock: Running, upstream: ScriptedUpstream, model: str, name: str
) -> None:
    """Ask H1: sent on, or refused with the name of the field; a weaker form of it is told."""
    _, before = asked(penstock, upstream, model)
    reply = penstock.ask({"model": model, "input": "Go.", "stream": True, "text": {"format": FORMATS[name]}})
    if reply.status == 400:
        assert reply.error["param"].startswith("text.format")
        return
    after = upstream.asked_for(model)[-1]
    assert after.json != before.json
    if name == "json_schema":
        assert json.dumps(SCHEMA["properties"]) in json.dumps(after.json)
    if name != "a format of tomorrow":  # the specification has no place for it in a response
        assert reply.last["text"]["format"]["type"] == FORMATS[name]["type"]


@pytest.mark.parametrize("model", MODELS)
def test_verbosity_alone_is_no_constraint(penstock: Running, upstream: ScriptedUpstream, model: str) -> None:
    _, request = asked(penstock, upstream, model, text={"verbosity": "medium"})
    assert not {"response_format", "output_format", "output_config"} & request.json.keys()


CHOICES: dict[str, Any] = {
    "required": "required",
    "none": "none",
    "one tool": {"type": "function", "name": "read"},
    "allowed tools": {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "read"}],
    },
}


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("model", MODELS)
def test_a_tool_choice_is_never_dropped(
    penstock: Running, upstream: ScriptedUpstream, model: str, name: str
) -> None:
    _, before = asked(penstock, upstream, model, tools=TOOLS)
    upstream.play(model, ANSWERS[model])
    penstock.ask(
        {"model": model, "input": "Go.", "stream": True, "tools": TOOLS, "tool_choice": CHOICES[name]}
    )
    after = upstream.asked_for(model)[-1]
    if name == "none":
        assert "none" in json.dumps(after.json.get("tool_choice", "none"))
    assert after.json != before.json


@pytest.mark.parametrize("model", ["chat", ANTHROPIC])
def test_a_required_tool_that_cannot_be_offered_is_refused_by_name(
    penstock: Running, upstream: ScriptedUpstream, model: str
) -> None:
    """Ask B3: a request whose only tool was dropped, and that wants it called."""
    upstream.play(model, ANSWERS[model])
    before = len(upstream.asked_for(model))
    tools = [{"type": "image_generation"}]
    reply = penstock.ask({"model": model, "input": "Go.", "tools": tools, "tool_choice": "required"})
    assert (reply.status, reply.error["param"]) == (400, "tool_choice")
    assert "image_generation" in reply.error["message"]
    assert len(upstream.asked_for(model)) == before


def test_stop_reaches_those_who_know_it(penstock: Running, upstream: ScriptedUpstream) -> None:
    _, chat = asked(penstock, upstream, "chat", stop=["END"])
    _, anthropic = asked(penstock, upstream, ANTHROPIC, stop=["END"])
    assert chat.json["stop"] == ["END"]
    assert anthropic.json["stop_sequences"] == ["END"]


def test_a_diagnostic_of_the_stream_is_in_the_response(penstock: Running, upstream: ScriptedUpstream) -> None:
    """It was not known when the headers went out."""
    upstream.play("w10-late", streamed(calls(call(0, "a", "rm", "{}")), STOP, USAGE))
    reply = penstock.stream("w10-late", tools=TOOLS)
    assert codes(reply.last)
    assert "x-penstock-diagnostics" not in reply.headers


def test_a_trace_is_passed_on_and_nothing_else_of_the_client(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("traced", streamed(*said("ok")))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {
        "traceparent": trace,
        "tracestate": "a=b",
        "cookie": "c=d",
        "x-mine": "e",
        "authorization": "Bearer x",
    }
    reply = penstock.whole(model, headers=headers)
    assert float(reply.headers["x-penstock-overhead-ms"]) >= 0
    [asked] = upstream.asked_for(model)
    assert (asked.headers["traceparent"], asked.headers["tracestate"]) == (trace, "a=b")
    assert not {"cookie", "x-mine"} & asked.headers.keys()
    assert asked.headers["authorization"] == f"Bearer {SECRET_KEY}"
