"""`penstock render` as a process: a request in, the upstream's request out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.dialects.registry import RENDERED
from tests.cli.running import Result, penstock

REQUEST: dict[str, Any] = {
    "model": "some-model",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "user", "content": "What is the weather in Zürich?"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"city":"Zürich"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
    ],
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}],
    "max_output_tokens": 100,
    "stream": True,
}


def render(*options: str, request: Any = REQUEST, **changes: str) -> Result:
    return penstock("render", *options, "-", stdin=json.dumps(request).encode(), **changes)


@pytest.mark.parametrize("dialect", sorted(RENDERED))
def test_the_upstreams_request_is_printed_as_json(dialect: str) -> None:
    result = render("--dialect", dialect)
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert result.stdout.startswith("{\n  ")
    assert "Zürich" in result.stdout
    assert "Be brief." in json.dumps(body)
    assert "rain" in json.dumps(body)
    assert "look" in json.dumps(body["tools"])


def test_a_file_is_read_and_its_model_can_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(REQUEST))
    assert json.loads(penstock("render", "--dialect", "chat", str(path)).stdout)["model"] == "some-model"
    other = penstock("render", "--dialect", "chat", "--model", "other", str(path))
    assert json.loads(other.stdout)["model"] == "other"


def test_a_preset_sets_its_dialect_and_its_quirks() -> None:
    body = json.loads(render("--preset", "groq").stdout)
    assert body["max_completion_tokens"] == 100
    assert body["stream_options"] == {"include_usage": True}
    body = json.loads(render("--preset", "mistral").stdout)
    assert body["max_tokens"] == 100
    assert "stream_options" not in body


def test_a_dialect_can_be_chosen_for_a_preset() -> None:
    body = json.loads(render("--preset", "openai", "--dialect", "chat").stdout)
    assert body["max_completion_tokens"] == 100
    assert [message["role"] for message in body["messages"]][:2] == ["developer", "user"]


def test_dropped_fields_are_reported_on_standard_error() -> None:
    result = render("--dialect", "chat", request={**REQUEST, "max_tool_calls": 3})
    assert result.returncode == 0
    assert "max_tool_calls" not in json.loads(result.stdout)
    assert len(result.stderr.splitlines()) == 1
    assert "max_tool_calls" in result.stderr


def test_headers_show_the_url_and_never_the_key() -> None:
    result = render("--preset", "deepseek", "--headers", DEEPSEEK_API_KEY="sk-secret")
    head, _, body = result.stdout.partition("\n\n")
    assert head.splitlines()[0] == "POST https://api.deepseek.com/v1/chat/completions"
    assert "Authorization: Bearer $DEEPSEEK_API_KEY" in head.splitlines()
    assert json.loads(body)["model"] == "some-model"
    assert "sk-secret" not in result.stdout + result.stderr
    plain = render("--dialect", "chat", "--headers").stdout
    assert plain.startswith("POST {base_url}/chat/completions\nContent-Type: application/json\n\n{")


ADDRESSES = {
    "anthropic": "https://api.anthropic.com/v1/messages",
    "minimax": "https://api.minimax.io/anthropic/v1/messages",
    "openai": "https://api.openai.com/v1/responses",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/some-model:streamGenerateContent?alt=sse",
    "ollama": "http://127.0.0.1:11434/v1/chat/completions",
}


@pytest.mark.parametrize("preset", ADDRESSES)
def test_the_address_is_the_vendors(preset: str) -> None:
    head = render("--preset", preset, "--headers").stdout.splitlines()
    assert head[0] == f"POST {ADDRESSES[preset]}"
    assert preset != "anthropic" or "x-api-key: $ANTHROPIC_API_KEY" in head


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        ('{"model": "m", "input": [{"type": "message", "role": 1}]}', "input[0].role: "),
        ('{"input": "hi"}', "model: is required"),
        ('{"model": "m", "input": "hi", "tool_choice": "required"}', "tool_choice: "),
        ('{"model": "m", "messages": [{"role": "user", "content": "hi"}]}', "messages: "),
    ],
)
def test_a_bad_request_names_the_field(request_: str, message: str) -> None:
    result = penstock("render", "--dialect", "chat", "-", stdin=request_.encode())
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("penstock: ")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "--preset NAME"),
        (["--dialect", "klingon", "-"], "klingon"),
        (["--dialect", "ollama", "-"], "requests cannot be rendered as ollama"),
        (["--preset", "opnai", "-"], "did you mean openai"),
        (["--dialect", "chat", "no-such-file.json"], "cannot read no-such-file.json"),
    ],
)
def test_wrong_usage_renders_nothing(arguments: list[str], message: str) -> None:
    result = penstock("render", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
