"""What the strict upstreams refuse, and that their own answers and a good conversation pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client.server import Asked
from tests.clients.upstreams.anthropic import StrictAnthropic
from tests.clients.upstreams.base import StrictUpstream
from tests.clients.upstreams.chat import StrictChat
from tests.clients.upstreams.gemini import UNSIGNED, StrictGemini

Json = dict[str, Any]

PATHS = {
    "chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
}
UPSTREAMS: dict[str, type[StrictUpstream]] = {
    "chat": StrictChat,
    "anthropic": StrictAnthropic,
    "gemini": StrictGemini,
}


def faults(dialect: str, body: Json) -> str:
    headers = {"anthropic-version": "2023-06-01"}
    asked = Asked("POST", PATHS[dialect], headers, json.dumps(body).encode())
    return "; ".join(UPSTREAMS[dialect]().faults(asked))


# Chat Completions

USER = {"role": "user", "content": "hello"}
TOOL: Json = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def chat_call(id: str = "call_1", name: str = "add", arguments: str = "{}") -> Json:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def chat_output(id: str = "call_1") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": "5"}


def chat(*messages: Json, **fields: Any) -> Json:
    return {"model": "m", "messages": list(messages), "tools": [TOOL], **fields}


CHAT = {
    "an unknown field": (chat(USER, reasoning={}), "unknown parameter"),
    "a system message in the middle": (chat(USER, {"role": "system", "content": "x"}), "at the beginning"),
    "an orphan tool message": (chat(USER, chat_output()), "must follow"),
    "a call without its output": (chat(USER, chat_call(), USER), "have no output"),
    "a call without its output at the end": (chat(USER, chat_call()), "have no output"),
    "a call id that is used twice": (
        chat(USER, chat_call(), chat_output(), chat_call(), chat_output()),
        "used twice",
    ),
    "a tool name with a dot": (
        chat(USER, tools=[{"type": "function", "function": {"name": "a.b"}}]),
        "invalid tool name",
    ),
    "a custom tool": (chat(USER, tools=[{"type": "custom", "function": {"name": "x"}}]), "invalid tool type"),
    "two tools of one name": (chat(USER, tools=[TOOL, TOOL]), "declared twice"),
    "arguments that are not an object": (
        chat(USER, chat_call(arguments="5"), chat_output()),
        "not a JSON object",
    ),
    "empty content": (chat({"role": "user", "content": ""}), "content is empty"),
    "an image in a tool message": (
        chat(USER, chat_call(), {**chat_output(), "content": [{"type": "image_url"}]}),
        "cannot contain 'image_url'",
    ),
    "a tool choice that is not offered": (
        chat(USER, tool_choice={"type": "function", "function": {"name": "x"}}),
        "not in tools",
    ),
}

# Anthropic Messages


def text(role: str, words: str = "hello") -> Json:
    return {"role": role, "content": [{"type": "text", "text": words}]}


def use(id: str = "toolu_1", *before: Json) -> Json:
    return {
        "role": "assistant",
        "content": [*before, {"type": "tool_use", "id": id, "name": "a", "input": {}}],
    }


def result(*ids: str) -> Json:
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": id, "content": "5"} for id in ids],
    }


def anthropic(*messages: Json, **fields: Any) -> Json:
    tools = [{"name": "a", "input_schema": {"type": "object"}}]
    return {"model": "m", "max_tokens": 9000, "messages": list(messages), "tools": tools, **fields}


THINKING = {"type": "enabled", "budget_tokens": 2000}
FORGED = {"type": "thinking", "thinking": "hm", "signature": "forged"}

ANTHROPIC = {
    "an unknown field": (anthropic(text("user"), reasoning={}), "extra inputs"),
    "a system message": (anthropic(text("user"), text("system")), "unexpected role"),
    "an assistant at the beginning": (anthropic(text("assistant")), "must use the user role"),
    "an orphan result": (anthropic(text("user"), result("toolu_1")), "unexpected tool_use_id"),
    "a call without its result": (anthropic(text("user"), use(), text("user")), "without tool_result"),
    "a call id that is used twice": (
        anthropic(text("user"), use(), result("toolu_1"), use(), result("toolu_1")),
        "must be unique",
    ),
    "two results for one call": (
        anthropic(text("user"), use(), result("toolu_1", "toolu_1")),
        "single result",
    ),
    "thinking that was forged": (
        anthropic(text("user"), use("toolu_1", FORGED), result("toolu_1"), thinking=THINKING),
        "invalid signature",
    ),
    "a call without thinking": (
        anthropic(text("user"), use(), result("toolu_1"), thinking=THINKING),
        "expected thinking",
    ),
    "a budget without room": (
        anthropic(text("user"), thinking={"type": "enabled", "budget_tokens": 9000}),
        "budget_tokens",
    ),
    "a forced tool with thinking": (
        anthropic(text("user"), thinking=THINKING, tool_choice={"type": "any"}),
        "forces tool use",
    ),
    "empty text": (anthropic(text("user", " ")), "non-whitespace"),
    "a tool name with a dot": (
        anthropic(text("user"), tools=[{"name": "a.b", "input_schema": {"type": "object"}}]),
        "invalid name",
    ),
}

# Gemini


def said(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts or ({"text": "hello"},))}


def gemini_call(**fields: str) -> Json:
    return {"functionCall": {"id": "1", "name": "add", "args": {}}, **fields}


RESPONSE = {"functionResponse": {"id": "1", "name": "add", "response": {"output": "5"}}}


def gemini(*contents: Json, **function: Any) -> Json:
    return {"contents": list(contents), "tools": [{"functionDeclarations": [{"name": "add", **function}]}]}


GEMINI = {
    "an unknown field": ({**gemini(said("user")), "messages": []}, "unknown name"),
    "a name that begins with a digit": (gemini(said("user"), name="1add"), "invalid function name"),
    "an unknown keyword in a schema": (
        gemini(said("user"), parameters={"type": "object", "properties": {"a": {"$ref": "#"}}}),
        "unknown name '$ref'",
    ),
    "an object without properties": (gemini(said("user"), parameters={"type": "object"}), "non-empty"),
    "a system role": (gemini(said("user"), said("system")), "valid role"),
    "an empty part": (gemini(said("user", {"text": ""})), "text part is empty"),
    "an orphan response": (gemini(said("user", RESPONSE)), "must match"),
    "a call without its response": (
        gemini(said("user"), said("model", gemini_call(thoughtSignature=UNSIGNED)), said("user")),
        "must match",
    ),
    "a call without a signature": (
        gemini(said("user"), said("model", gemini_call()), said("user", RESPONSE)),
        "missing a thought_signature",
    ),
    "a signature that was forged": (
        gemini(said("user"), said("model", gemini_call(thoughtSignature="forged")), said("user", RESPONSE)),
        "not valid",
    ),
    "a conversation that ends with the model": (gemini(said("user"), said("model")), "ends with a user turn"),
}

TABLES = {"chat": CHAT, "anthropic": ANTHROPIC, "gemini": GEMINI}
GOOD = {
    "chat": chat({"role": "system", "content": "x"}, USER, chat_call(), chat_output(), USER),
    "anthropic": anthropic(text("user"), use(), result("toolu_1")),
    "gemini": gemini(
        said("user"), said("model", gemini_call(thoughtSignature=UNSIGNED)), said("user", RESPONSE)
    ),
}


@pytest.mark.parametrize(("dialect", "case"), [(each, case) for each in TABLES for case in TABLES[each]])
def test_a_strict_upstream_refuses(dialect: str, case: str) -> None:
    body, words = TABLES[dialect][case]
    assert words in faults(dialect, body)


@pytest.mark.parametrize("dialect", GOOD)
def test_a_good_tool_loop_passes(dialect: str) -> None:
    assert faults(dialect, GOOD[dialect]) == ""
