"""The family of a model, derived from its name."""

from __future__ import annotations

import pytest

from penstock.dialects.model_families import family_of

FAMILIES = {
    "claude-sonnet-4-5-20250929": "claude",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "claude",
    "anthropic/claude-4.6-sonnet-20260217": "claude",
    "publishers/google/models/gemini-2.0-flash": "gemini",
    "google/gemma-3-27b-it:free": "gemma",
    "gpt-4o-mini-2024-07-18": "gpt",
    "gpt-35-turbo": "gpt",
    "chatgpt-4o-latest": "gpt",
    "o4-mini-2025-04-16": "gpt",
    "o1": "gpt",
    "codex-mini-latest": "gpt",
    "openai/gpt-oss-120b": "gpt-oss",
    "openai.gpt-oss-20b-1:0": "gpt-oss",
    "deepseek-r1-distill-llama-70b": "deepseek",
    "qwen3:14b": "qwen",
    "Qwen/QwQ-32B": "qwen",
    "moonshotai/kimi-k2-instruct-0905": "kimi",
    "accounts/fireworks/models/kimi-k2-thinking": "kimi",
    "zai-glm-4.7": "glm",
    "grok-4-0709": "grok",
    "@cf/meta/llama-3.1-8b-instruct": "llama",
    "llama3.2-vision:11b": "llama",
    "magistral-medium-2507": "mistral",
    "MiniMax-M2.7": "minimax",
    "command-a-03-2025": "command",
    # A model of no known family is a family of its own, whatever its tag and date.
    "facebook/opt-125m": "opt-125m",
    "acme/Widget-2-2025-08-07:fast": "widget-2",
    "widget-2-20250807": "widget-2",
    "foo-latest": "foo",
    "": "",
}


@pytest.mark.parametrize(("model", "family"), FAMILIES.items())
def test_the_family_of_a_model(model: str, family: str) -> None:
    assert family_of(model) == family
