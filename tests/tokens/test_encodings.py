"""Choosing the tokenizer of a model."""

from __future__ import annotations

import pytest

from penstock.tokens.encodings import CHAT, CL100K, FACTORS, HARMONY, O200K, Template, encoding_for


@pytest.mark.parametrize(
    ("model", "name", "template"),
    [
        ("gpt-4o", O200K, CHAT),
        ("gpt-4o-mini-2024-07-18", O200K, CHAT),
        ("chatgpt-4o-latest", O200K, CHAT),
        ("gpt-4.1-nano", O200K, CHAT),
        ("gpt-4.5-preview", O200K, CHAT),
        ("gpt-5", O200K, HARMONY),
        ("gpt-5.1-codex-max", O200K, HARMONY),
        ("o1", O200K, HARMONY),
        ("o3-mini", O200K, HARMONY),
        ("o4-mini-2025-04-16", O200K, HARMONY),
        ("gpt-oss:120b", O200K, HARMONY),
        ("openai/gpt-oss-20b", O200K, HARMONY),
        ("openai:gpt-4o", O200K, CHAT),
        ("openai.gpt-5.6-luna", O200K, HARMONY),
        ("openrouter/openai/gpt-4.1", O200K, CHAT),
        ("ft:gpt-4o:acme::1", O200K, CHAT),
        ("OpenAI/GPT-4o", O200K, CHAT),
        ("gpt-4", CL100K, CHAT),
        ("gpt-4-turbo-2024-04-09", CL100K, CHAT),
        ("gpt-4-0613", CL100K, CHAT),
        ("gpt-3.5-turbo", CL100K, CHAT),
        ("gpt-35-turbo", CL100K, CHAT),
        ("text-embedding-3-small", CL100K, CHAT),
    ],
)
def test_openais_encodings_are_exact(model: str, name: str, template: Template) -> None:
    encoding = encoding_for(model)
    assert (encoding.name, encoding.exact, encoding.factor) == (name, True, 1.0)
    assert encoding.template == template


@pytest.mark.parametrize(
    ("model", "factor"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", FACTORS["claude"]),
        ("google/gemini-2.5-pro", FACTORS["gemini"]),
        ("x-ai/grok-4", FACTORS["grok"]),
        ("qwen3:8b", FACTORS["qwen"]),
        ("gpt-50", 1.0),
        ("gpt-6", 1.0),
        ("gpt-4all", 1.0),
        ("someone/gpt-4-x-alpaca", 1.0),
        ("o1x", 1.0),
        ("acme-large", 1.0),
        ("", 1.0),
    ],
)
def test_any_other_model_is_not_exact(model: str, factor: float) -> None:
    encoding = encoding_for(model)
    assert (encoding.name, encoding.exact, encoding.factor) == (O200K, False, factor)
