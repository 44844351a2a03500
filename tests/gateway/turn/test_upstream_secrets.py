"""Secrets that an upstream repeats are masked wherever the upstream's own words appear.

The model's own text is not masked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.running import penstock as run_penstock
from tests.client.server import Script, answer, chunk, head, in_a_thread, send
from tests.gateway.running import Running, gateway
from tests.gateway.scripts import typed
from tests.gateway.upstream import LAST_CHUNK, ScriptedUpstream, frames

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

KEY = "sk-planted/7fQ2x9LmZt4w+Vb"
TENANT = 'tenant "93hf/83hf" token'
ROUTE = "route-5b1e44c0a7"
OWN = "sk-clients-own/51Gh2Kq"
SECRETS = (KEY, TENANT, ROUTE, OWN)
"""The last is the client's, and is sent to the target for `chat` alone."""
ENVIRONMENT = {"UPSTREAM_KEY": KEY, "TENANT": TENANT, "ROUTE": ROUTE}

TARGET = """
[targets.{name}]
base_url = "{url}"
dialect = "{name}"
keys = ["UPSTREAM_KEY"]
pass_key = {own}
headers.x-tenant = "$TENANT"
headers.x-route = "to ${{ROUTE}} only"
headers.x-title = "Penstock"

[models.{name}]
target = "{name}"
"""
DIALECTS = ("chat", "anthropic", "gemini", "responses")


# Where each dialect has text of the upstream


def chat(s: str) -> bytes:
    named: Json = {"id": s, "model": s, "system_fingerprint": s, "service_tier": s, "object": s}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, s: s, "extra": {"key": s}}
    function = {"name": "f", "arguments": "{}"}
    citation = {"type": "url_citation", "url_citation": {"url": f"https://a/?k={s}", "title": s}}
    deltas: list[Json] = [
        {"role": "assistant", "content": "said"},
        {"content": " more", "annotations": [citation], s: s},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": s, "id": s, "format": s}]},
        {"tool_calls": [{"index": 0, "id": f"call {s}", "type": s, "function": function}]},
        {"tool_calls": [{"index": 1, "id": "call_2", "function": {**function, "name": f"g {s}"}}]},
        {"audio": {"id": s}, "refusal": None},
    ]
    chunks = [{**named, "choices": [{"index": 0, "delta": each}]} for each in deltas]
    finish = {**named, "choices": [{"index": 0, "delta": {}, "finish_reason": s, "native_finish_reason": s}]}
    other = {**named, "choices": [{"index": 1, "delta": {"content": "x"}}], "citations": [f"https://b/{s}"]}
    return frames(*chunks, other, finish, {**named, "choices": [], "usage": usage})


def anthropic(s: str) -> bytes:
    message = {
        "id": s,
        "type": "message",
        "role": "assistant",
        "model": s,
        "content": [],
        "container": {"id": s},
    }
    usage = {"input_tokens": 3, "output_tokens": 1, "service_tier": s, s: 1}
    blocks: list[list[Json]] = [
        [
            {"content_block": {"type": "text", "text": ""}},
            {"delta": {"type": "text_delta", "text": "said"}},
            {
                "delta": {
                    "type": "citations_delta",
                    "citation": {"type": s, "url": f"https://a/{s}", "title": s},
                }
            },
            {
                "delta": {
                    "type": "citations_delta",
                    "citation": {"type": "web_search_result_location", "url": f"https://a/{s}", "title": s},
                }
            },
            {"delta": {"type": s, "text": s}},
        ],
        [
            {"content_block": {"type": "thinking", "thinking": "", "signature": ""}},
            {"delta": {"type": "thinking_delta", "thinking": "thought"}},
            {"delta": {"type": "signature_delta", "signature": s}},
        ],
        [{"content_block": {"type": "redacted_thinking", "data": s}}],
        [{"content_block": {"type": s, "id": s}}],
        [
            {
                "content_block": {
                    "type": "server_tool_use",
                    "id": s,
                    "name": "web_search",
                    "input": {"query": s},
                }
            }
        ],
        [
            {
                "content_block": {
                    "type": "web_search_tool_result",
                    "tool_use_id": s,
                    "content": [{"type": "web_search_result", "url": f"https://a/{s}", "title": s}],
                }
            }
        ],
        [{"content_block": {"type": "tool_use", "id": s, "name": "f", "input": {"a": 1}}}],
        [{"content_block": {"type": "tool_use", "id": "toolu_2", "name": s, "input": {}}}],
    ]
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": s, "a": s},
    ]
    for index, (begin, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, **begin})
        events += [{"type": "content_block_delta", "index": index, **delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": s, "stop_sequence": s}, "usage": usage})
    return typed([*events, {"type": "message_stop"}])


def gemini(s: str) -> bytes:
    named = {"responseId": s, "modelVersion": s}
    parts: list[Json] = [
        {"text": "said", "thoughtSignature": s},
        {"functionCall": {"id": s, "name": "f", "args": {}}, "thoughtSignature": s},
        {"functionCall": {"name": s, "args": {}}},
        {"executableCode": {"language": s, "code": "1"}},
        {"codeExecutionResult": {"outcome": s, "output": "1"}},
        {s: {"a": s}},
    ]
    grounding = {
        "webSearchQueries": [s],
        "groundingChunks": [{"web": {"uri": f"https://a/{s}", "title": s}}],
        "groundingSupports": [{"segment": {"endIndex": 4, "text": "said"}, "groundingChunkIndices": [0]}],
    }
    ratings = [{"category": s, "probability": s}]
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "trafficType": s, s: 1}
    chunks = [{**named, "candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    last = {"content": {"parts": []}, "finishReason": s, "finishMessage": s, "safetyRatings": ratings}
    end = {**named, "candidates": [{**last, "groundingMetadata": grounding}], "usageMetadata": usage}
    return frames(*chunks, end, done=False)


def responses(s: str) -> bytes:
    response: Json = {"id": s, "object": "response", "model": s, "service_tier": s, "output": [], "status": s}
    text = {"type": "output_text", "text": "said", "annotations": []}
    items: list[Json] = [
        {"type": "message", "id": s, "role": "assistant", "status": s, "phase": s, "content": [text]},
        {"type": "reasoning", "id": s, "summary": [], "encrypted_content": s},
        {"type": "function_call", "id": s, "call_id": s, "name": "f", "arguments": "{}"},
        {"type": "function_call", "id": f"2{s}", "call_id": "call_2", "name": s, "arguments": "{}"},
        {"type": "web_search_call", "id": s, "status": s, "action": {"type": "search", "query": s}},
        {"type": s, "id": f"3{s}", "a": s},
    ]
    annotation = {
        "type": "url_citation",
        "url": f"https://a/{s}",
        "title": s,
        "start_index": 0,
        "end_index": 1,
    }
    events: list[Json] = [{"type": "response.created", "response": response}, {"type": s, "item_id": s}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "content": []} if item["type"] == "message" else item
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if item["type"] == "message":
            events += [
                {"type": "response.output_text.delta", **place, "content_index": 0, "delta": "said"},
                {
                    "type": "response.output_text.annotation.added",
                    **place,
                    "content_index": 0,
                    "annotation_index": 0,
                    "annotation": annotation,
                },
            ]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5, s: s}
    done = {**response, "status": "completed", "output": items, "usage": usage}
    return typed([*events, {"type": "response.completed", "response": done}])


STREAMS: dict[str, Callable[[str], bytes]] = {
    "chat": chat,
    "anthropic": anthropic,
    "gemini": gemini,
    "responses": responses,
}


def failed_in_the_stream(dialect: str, s: str) -> bytes:
    """Some output, and then an error; for one dialect in the first event."""
    error = {"message": f"no {s}", "type": s, "code": s, "param": s, "status": s, "metadata": {"raw": s}}
    if dialect in ("chat", "gemini"):
        begun = frames({"choices": [{"index": 0, "delta": {"content": "said"}}]}, done=False)
        return (begun if dialect == "chat" else b"") + frames({"error": error}, done=False)
    if dialect == "anthropic":
        return typed([{"type": "error", "error": error, "request_id": s}])
    return typed([{"type": "error", "error": error, "message": s, "code": s, "param": s}])


def unreadable(_: str, s: str) -> bytes:
    """What is shown of it is cut, in the middle of the secret."""
    return b"data: " + b"x" * (200 - len(s) + 3) + s.encode() + b"\n\n"


def streamed(data: bytes, s: str) -> Script:
    named = {
        "x_request_id": s,
        "request_id": s,
        "openai_organization": s,
        "cf_ray": s,
        "openai_processing_ms": s,
    }
    return [send(head(200, transfer_encoding="chunked", **named) + chunk(data) + LAST_CHUNK)]


def refused(s: str) -> Script:
    error = {
        "message": f"no {s}",
        "type": s,
        "code": s,
        "param": s,
        "status": s,
        s: s,
        "metadata": {"raw": s},
    }
    return [answer(400, {"error": error, "request_id": s, "message": s}, x_request_id=s, retry_after=s)]


def refused_as_text(s: str) -> Script:
    return [answer(500, f"<p>{s} {quote(s, safe='')} {json.dumps(s)}".encode(), "text/html", location=s)]


SCRIPTS: dict[str, Callable[[str, str], Script]] = {
    "a stream": lambda dialect, s: streamed(STREAMS[dialect](s), s),
    "an error in a stream": lambda dialect, s: streamed(failed_in_the_stream(dialect, s), s),
    "a stream that cannot be read": lambda dialect, s: streamed(unreadable(dialect, s), s),
    "an error": lambda _, s: refused(s),
    "an error page": lambda _, s: refused_as_text(s),
}


# Where it could appear


def spellings(secret: str) -> list[str]:
    in_json = json.dumps(secret)[1:-1]
    return [secret, in_json, in_json.replace("/", "\\/"), quote(secret), quote(secret, safe="")]


def found(text: bytes | str) -> list[str]:
    """The secrets in a text, in any spelling, and what is more than half of one."""
    if isinstance(text, str):
        text = text.encode()
    halves = [secret[: len(secret) * 2 // 3] for secret in SECRETS]
    return [each for secret in (*SECRETS, *halves) for each in spellings(secret) if each.encode() in text]


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def running(upstream: ScriptedUpstream, folder: Path) -> Iterator[Running]:
    own = {"chat": "true"}
    config = "[limits]\nretries = 0\npatience = 5\n"
    for name in DIALECTS:
        config += TARGET.format(name=name, url=upstream.url, own=own.get(name, "false"))
    with gateway(folder, "--record", config=config, environment=ENVIRONMENT) as gateway_process:
        yield gateway_process


def repeated(dialect: str) -> str:
    return " ".join(SECRETS if dialect == "chat" else SECRETS[:-1])


def ask(running: Running, model: str, stream: bool) -> tuple[str, bytes]:
    """The request's id, and everything that the client got: status, headers, body."""
    connection = running.connect()
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    body = {"model": model, "input": "Hi", "stream": stream, "tools": tools}
    headers = {"content-type": "application/json", "authorization": f"Bearer {OWN}"}
    try:
        connection.request("POST", "/v1/responses?accent=openai", json.dumps(body), headers)
        answered = connection.getresponse()
        data = repr(answered.getheaders()).encode() + answered.read()
        return answered.getheader("x-request-id") or "", data
    finally:
        connection.close()


def stored(folder: Path) -> bytes:
    """The store as it is on the disk, and every value in it."""
    raw = b"".join(path.read_bytes() for path in folder.glob("store.sqlite*"))
    with sqlite3.connect(f"file:{folder / 'store.sqlite'}?mode=ro", uri=True) as database:
        return raw + b"\n".join(line.encode() for line in database.iterdump())


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_secret_that_an_upstream_repeats_comes_out_nowhere(
    running: Running, upstream: ScriptedUpstream, folder: Path, kind: str, dialect: str, stream: bool
) -> None:
    upstream.play("" if dialect == "gemini" else dialect, SCRIPTS[kind](dialect, repeated(dialect)))
    request_id, data = ask(running, dialect, stream)
    assert found(data) == []
    if kind == "a stream":
        assert b"said" in data
        assert b'"model":"[key] ' in data
    verdict = running.verdict(request_id)
    assert found(json.dumps(verdict, ensure_ascii=False)) == []
    if verdict["outcome"] == "refused":
        return
    place = ("--store", str(folder / "store.sqlite"))
    for command in (
        ["store", "export", verdict["response_id"]],
        ["explain", "--json", "--content", verdict["response_id"]],
        ["explain", "--content", verdict["response_id"]],
        ["replay", "--events", verdict["response_id"]],
        ["replay", "--json", verdict["response_id"]],
    ):
        result = run_penstock(*command, *place)
        assert result.stdout
        assert found(result.stdout + result.stderr) == [], command


def test_neither_the_log_nor_the_store_has_a_secret(
    running: Running, upstream: ScriptedUpstream, folder: Path
) -> None:
    for dialect in DIALECTS:
        for script in SCRIPTS.values():
            upstream.play("" if dialect == "gemini" else dialect, script(dialect, repeated(dialect)))
            ask(running, dialect, stream=True)
    assert len(running.log) > 10
    assert found((folder / "log").read_bytes()) == []
    assert found(stored(folder)) == []


def test_a_list_of_models_has_no_secret(running: Running, upstream: ScriptedUpstream) -> None:
    name = repeated("chat")
    upstream.play("", [answer(200, {"object": "list", "data": [{"id": name, "owned_by": name}]})])
    reply = running.ask(path="/v1/models", method="GET", headers={"authorization": f"Bearer {OWN}"})
    assert found(reply.body) == []


def test_the_models_own_text_is_unchanged(running: Running, upstream: ScriptedUpstream) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": f"You wrote {ROUTE}"}}]}]
    upstream.play(
        "chat", streamed(frames(*chunks, {"choices": [{"finish_reason": "stop", "delta": {}}]}), "-")
    )
    _, data = ask(running, "chat", stream=False)
    assert f"You wrote {ROUTE}".encode() in data
