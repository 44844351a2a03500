"""A conversation that is too long is recognised as that, whichever vendor refuses it: ask E4, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.server import answer
from tests.gateway.reply_assertions import failed
from tests.gateway.running import Running
from tests.gateway.scripts import ANTHROPIC, text
from tests.gateway.upstream import ScriptedUpstream, streamed

Json = dict[str, Any]


def error(message: str, **fields: Any) -> Json:
    return {"error": {"message": message, **fields}}


OVERFLOWS: dict[str, tuple[int, Any, str]] = {
    # The status, the body, and words of it that must reach the client.
    "OpenAI": (
        400,
        error(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130011 "
            "tokens. Please reduce the length of the messages.",
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
        "130011",
    ),
    "Azure": (
        400,
        error(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages are 300017 tokens.",
            code="context_length_exceeded",
        ),
        "300017",
    ),
    "Anthropic": (
        400,
        error("prompt is too long: 209999 tokens > 200000 maximum", type="invalid_request_error"),
        "209999",
    ),
    "Anthropic, too large": (
        413,
        error("Request exceeds the maximum size", type="request_too_large"),
        "maximum size",
    ),
    "Gemini": (
        400,
        [
            error(
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                code=400,
                status="INVALID_ARGUMENT",
            )
        ],
        "1048576",
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. You requested 5013 tokens",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        "5013",
    ),
    "llama.cpp": (
        500,
        error("the request exceeds the available context size. try increasing it", type="server_error"),
        "available context size",
    ),
    "llama.cpp, newer": (
        400,
        error(
            "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
            type="exceed_context_size_error",
            n_prompt_tokens=5000,
            n_ctx=4096,
        ),
        "5000",
    ),
    "Ollama": (500, {"error": "input length exceeds the context length"}, "context length"),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 6000 tokens when context the overflows. However, the model is "
            "loaded with context length of only 4096 tokens"
        },
        "4096",
    ),
    "OpenRouter": (
        400,
        error(
            "Provider returned error",
            code=400,
            metadata={
                "raw": "This endpoint's maximum context length is 32768 tokens. You requested 40000 tokens"
            },
        ),
        "40000",
    ),
    "DeepSeek": (
        400,
        error(
            "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens",
            type="invalid_request_error",
            code="invalid_request_error",
        ),
        "70000",
    ),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("vendor", OVERFLOWS)
def test_an_overflow_has_its_code_and_the_vendors_message(
    penstock: Running, upstream: ScriptedUpstream, vendor: str, stream: bool
) -> None:
    status, body, words = OVERFLOWS[vendor]
    model = ANTHROPIC if vendor.startswith("Anthropic") else "e4"
    upstream.play(model, [answer(status, body)])
    before = len(upstream.asked_for(model))
    reply = (penstock.stream if stream else penstock.whole)(model)
    assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
    assert reply.error["type"] == "invalid_request"
    assert words in reply.error["message"]
    assert len(upstream.asked_for(model)) == before + 1  # asking again does not make it shorter


def test_an_overflow_in_the_middle_has_its_code(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("e4-late", streamed(*text("One"), {"error": OVERFLOWS["vLLM"][1]}))
    error_found = failed(penstock.stream("e4-late"), "context_length_exceeded")
    assert "5013" in error_found["message"]
    whole = penstock.whole("e4-late")
    assert (whole.status, whole.error["code"]) == (400, "context_length_exceeded")
