"""What is sent to an upstream, and which diagnostics report the rest: ask T1 and ask E6."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from penstock.dialects.plan import UpstreamRequest
from penstock.errors import NetworkError
from tests.cli import streams
from tests.gateway.fake_upstreams import Step
from tests.gateway.in_process import LocalGateway
from tests.gateway.reply_assertions import codes
from tests.gateway.running import Reply
from tests.gateway.scripts import (
    ANTHROPIC,
    RESPONSES,
    RICH,
    STOP,
    TOOLS,
    call,
    calls,
    message_end,
    message_start,
    text,
    text_block,
    typed,
)
from tests.gateway.upstream import USAGE, frames

Json = dict[str, Any]


MODELS = tuple(RICH)


ANSWERS: dict[str, bytes] = {
    "chat": frames(*text("Yes."), STOP, USAGE),
    ANTHROPIC: typed([message_start(), *text_block(0, "Yes."), *message_end()]),
    RESPONSES: typed(streams.hello()),
}


def message(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def asked(local: LocalGateway, model: str, **fields: Any) -> tuple[Reply, UpstreamRequest]:
    """One turn that completes, and the request that the upstream received."""
    local.play(model, ANSWERS[model])
    reply = local.ask({"model": model, "input": "Go.", "stream": True, **fields})
    assert reply.status == 200, reply.body
    assert reply.last["status"] == "completed"
    return reply, local.sent_to(model)[-1]


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


def test_instructions_and_developer_items_are_one_leading_system_message(local: LocalGateway) -> None:
    _, request = asked(local, "chat", instructions="You are an agent.", input=[*CODEX, LATE])
    messages = request.body["messages"]
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


def test_the_next_turn_begins_with_the_same_bytes(local: LocalGateway) -> None:
    """Ask D5: a late developer item, and everything after it, leaves the prefix unchanged."""
    history: list[Json] = []
    bodies: list[bytes] = []
    for item in (*CODEX, LATE, message("user", "Fourth.")):
        history.append(item)
        _, request = asked(local, "chat", instructions="Be brief.", input=history, tools=TOOLS)
        bodies.append(json.dumps(request.body).encode())
    for shorter, longer in pairwise(bodies[2:]):  # before that the developer items are still leading
        assert longer.startswith(shorter.removesuffix(b"]}"))


def test_anthropic_gets_a_system_field_and_no_system_role(local: LocalGateway) -> None:
    _, request = asked(local, ANTHROPIC, instructions="You are an agent.", input=[*CODEX, LATE])
    system = json.dumps(request.body["system"])
    assert "You are an agent." in system
    assert "Approvals: never." in system
    assert {each["role"] for each in request.body["messages"]} == {"user", "assistant"}
    assert "Sandbox: full access." in json.dumps(request.body["messages"])


def test_responses_gets_them_in_their_order(local: LocalGateway) -> None:
    _, request = asked(local, RESPONSES, instructions="You are an agent.", input=[*CODEX, LATE])
    sent = json.dumps([request.body["instructions"], request.body["input"]])
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
def test_a_field_is_sent_or_reported_or_refused(
    local: LocalGateway, verdicts: list[Json], model: str, field: str
) -> None:
    """The upstream receives something else, or a diagnostic reports that it does not."""
    plain = {"tools": TOOLS} if "tools" in FIELDS[field] else {}
    _, before = asked(local, model, **plain)
    reply = local.ask({"model": model, "input": "Go.", "stream": True, **FIELDS[field]})
    if reply.status == 400:
        assert reply.error["param"]
        return
    after = local.sent_to(model)[-1]
    is_sent = (after.body, sorted(after.headers)) != (before.body, sorted(before.headers))
    reported = codes(reply.last)
    assert is_sent or reported, f"{field} vanished"
    header = reply.headers.get("x-penstock-diagnostics", "")
    assert all(code in header for code in reported)
    assert bool(header) == bool(reported)
    [verdict] = [each for each in verdicts if each["request_id"] == reply.headers["x-request-id"]]
    assert verdict.get("diagnostics", []) == reported


@pytest.mark.parametrize("stream", [True, False])
def test_what_was_dropped_is_in_the_header_and_in_the_response(local: LocalGateway, stream: bool) -> None:
    local.play("chat-dropped", ANSWERS["chat"])
    fields = {"safety_identifier": "somebody", "metadata": {"mine": "untouched"}}
    reply = local.ask({"model": "chat-dropped", "input": "Go.", "stream": stream, **fields})
    (reported,) = reply.last["diagnostics"]
    assert reported["code"] == "field_dropped"
    assert "safety_identifier" in reported["message"]
    assert reply.headers["x-penstock-diagnostics"] == f"{reported['code']}: {reported['message']}"
    assert reply.last["metadata"] == {"mine": "untouched"}


def test_there_are_no_diagnostics_where_nothing_was_dropped(local: LocalGateway) -> None:
    for model in MODELS:
        reply, _ = asked(local, model, temperature=0.5, tools=TOOLS)
        assert "diagnostics" not in reply.last
        assert "x-penstock-diagnostics" not in reply.headers


def test_a_diagnostic_in_any_script_is_a_lawful_header(local: LocalGateway) -> None:
    reply, _ = asked(local, "chat", **{"größe\r\nx-evil: 1 水": 1})
    assert "x-evil" not in reply.headers
    assert "größe" in json.dumps(reply.last["diagnostics"], ensure_ascii=False)
    assert reply.headers["x-penstock-diagnostics"].startswith("field_dropped: ")


FAILING: dict[str, list[Step]] = {
    "after output": [frames(*text("One"), done=False), NetworkError("cut", phase="read")],
    "before output": [frames({"choices": [{"index": 0, "delta": {"role": "assistant"}}]}, done=False)],
    "with nothing": [],
}


@pytest.mark.parametrize("how", FAILING)
def test_a_turn_that_failed_still_says_what_was_dropped(local: LocalGateway, how: str) -> None:
    local.play("failing", *FAILING[how])
    reply = local.stream("failing", safety_identifier="somebody")
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
def test_a_format_is_never_dropped(local: LocalGateway, model: str, name: str) -> None:
    """Ask H1: sent on, or refused with the name of the field; a weaker form of it is reported."""
    _, before = asked(local, model)
    reply = local.ask({"model": model, "input": "Go.", "stream": True, "text": {"format": FORMATS[name]}})
    if reply.status == 400:
        assert reply.error["param"].startswith("text.format")
        return
    after = local.sent_to(model)[-1]
    assert after.body != before.body
    if name == "json_schema":
        assert json.dumps(SCHEMA["properties"]) in json.dumps(after.body)
    if name != "a format of tomorrow":  # the specification has no place for it in a response
        assert reply.last["text"]["format"]["type"] == FORMATS[name]["type"]


@pytest.mark.parametrize("model", MODELS)
def test_verbosity_alone_is_not_a_format(local: LocalGateway, model: str) -> None:
    _, request = asked(local, model, text={"verbosity": "medium"})
    assert not {"response_format", "output_format", "output_config"} & request.body.keys()


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
def test_a_tool_choice_is_never_dropped(local: LocalGateway, model: str, name: str) -> None:
    _, before = asked(local, model, tools=TOOLS)
    local.play(model, ANSWERS[model])
    local.ask({"model": model, "input": "Go.", "stream": True, "tools": TOOLS, "tool_choice": CHOICES[name]})
    after = local.sent_to(model)[-1]
    if name == "none":
        assert "none" in json.dumps(after.body.get("tool_choice", "none"))
    assert after.body != before.body


@pytest.mark.parametrize("model", ["chat", ANTHROPIC])
def test_a_required_tool_that_cannot_be_offered_is_refused_by_name(local: LocalGateway, model: str) -> None:
    """Ask B3: a request whose only tool was dropped, and that requires a call."""
    local.play(model, ANSWERS[model])
    before = len(local.sent_to(model))
    tools = [{"type": "image_generation"}]
    reply = local.ask({"model": model, "input": "Go.", "tools": tools, "tool_choice": "required"})
    assert (reply.status, reply.error["param"]) == (400, "tool_choice")
    assert "image_generation" in reply.error["message"]
    assert len(local.sent_to(model)) == before


def test_stop_reaches_upstreams_that_support_it(local: LocalGateway) -> None:
    _, chat = asked(local, "chat", stop=["END"])
    _, anthropic = asked(local, ANTHROPIC, stop=["END"])
    assert chat.body["stop"] == ["END"]
    assert anthropic.body["stop_sequences"] == ["END"]


def test_a_diagnostic_of_the_stream_is_in_the_response(local: LocalGateway) -> None:
    """It was not known when the headers were sent."""
    local.play("late", frames(calls(call(0, "a", "rm", "{}")), STOP, USAGE))
    reply = local.stream("late", tools=TOOLS)
    assert codes(reply.last)
    assert "x-penstock-diagnostics" not in reply.headers


@pytest.mark.parametrize("stream", [True, False])
def test_an_effort_and_a_tier_that_were_dropped_are_not_echoed(local: LocalGateway, stream: bool) -> None:
    """Field F16."""
    local.play("chat-dropped", ANSWERS["chat"])
    fields = {"reasoning": {"effort": "high", "summary": "auto"}, "service_tier": "ultrafast"}
    reply = local.ask({"model": "chat-dropped", "input": "Go.", "stream": stream, **fields})
    for response in [each["response"] for each in reply.events if "response" in each] or [reply.last]:
        assert response["reasoning"] == {"effort": None, "summary": "auto"}
        assert response["service_tier"] == "default"
    assert codes(reply.last) == ["field_dropped", "field_dropped"]


TASK = {"type": "encrypted_content", "encrypted_content": "Read src/main.py."}
SECRET_TASK = {"type": "encrypted_content", "encrypted_content": "gAAAAABo" + "aB3_-" * 40}


def test_a_sub_agent_gets_its_task_from_any_upstream(local: LocalGateway) -> None:
    """Field F5."""
    local.play("chat-dropped", ANSWERS["chat"])
    item = {"type": "agent_message", "author": "/root", "recipient": "/root/reader", "content": [TASK]}
    reply = local.ask({"model": "chat-dropped", "input": [item]})
    assert reply.status == 200
    assert "Read src/main.py." in str(local.sent_to("chat-dropped")[-1].body)


def test_a_task_that_only_its_vendor_can_read_is_refused_by_name(local: LocalGateway) -> None:
    """Field F5."""
    local.play("chat-dropped", ANSWERS["chat"])
    item = {"type": "agent_message", "content": [{"type": "input_text", "text": "Payload:"}, SECRET_TASK]}
    reply = local.ask({"model": "chat-dropped", "input": [item]})
    assert (reply.status, reply.error["code"]) == (400, "encrypted_content_unreadable")
    assert (reply.error["type"], reply.error["param"]) == ("invalid_request", "input")


@pytest.mark.parametrize("type", ["configuration_update", "program", "program_output", "acme:thing"])
def test_an_item_that_the_upstream_does_not_have_is_kept_and_reported(local: LocalGateway, type: str) -> None:
    local.play("chat-dropped", ANSWERS["chat"])
    item = {"type": type, "call_id": "p", "result": "2"}
    reply = local.ask({"model": "chat-dropped", "input": [message("user", "Go."), item]})
    assert codes(reply.last) == ["item_left_out"]
    stored = local.ask(None, path=f"/v1/responses/{reply.last['id']}/input_items?order=asc", method="GET")
    kept = stored.json["data"][1]
    assert (kept["type"], kept["result"]) == (type, "2")


def test_an_output_without_a_call_id_is_refused_with_its_index(local: LocalGateway) -> None:
    reply = local.ask({"model": "demo", "input": [{"type": "function_call_output", "output": "5"}]})
    assert (reply.status, reply.error["param"]) == (400, "input[0].call_id")
