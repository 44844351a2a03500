"""Parsing model names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.identity import ModelIdentity, parse_model_id

NAMES = [
    # id, vendor, name, family, version, date, tag
    ("openai/gpt-5.1-2025-11-13", "openai", "gpt-5.1", "gpt", "5.1", "2025-11-13", ""),
    ("anthropic/claude-sonnet-4.5", "anthropic", "claude-sonnet-4.5", "claude", "4.5", "", ""),
    ("claude-3-5-sonnet-20241022", "", "claude-3-5-sonnet", "claude", "3.5", "20241022", ""),
    ("claude-opus-4-20250514", "", "claude-opus-4", "claude", "4", "20250514", ""),
    ("claude-sonnet-4@20250514", "", "claude-sonnet-4", "claude", "4", "20250514", ""),
    ("anthropic:claude-sonnet-4", "anthropic", "claude-sonnet-4", "claude", "4", "", ""),
    ("gemini-2.5-pro-preview-05-06", "", "gemini-2.5-pro-preview", "gemini", "2.5", "05-06", ""),
    ("models/gemini-2.5-flash", "", "gemini-2.5-flash", "gemini", "2.5", "", ""),
    (
        *("meta-llama/llama-3.3-70b-instruct:free", "meta-llama", "llama-3.3-70b-instruct", "llama", "3.3"),
        *("", "free"),
    ),
    ("qwen2.5-coder:7b", "", "qwen2.5-coder", "qwen", "2.5", "", "7b"),
    ("o3-mini", "", "o3-mini", "gpt", "o3", "", ""),
    ("gpt-4o", "", "gpt-4o", "gpt", "4o", "", ""),
    ("gpt-oss-120b", "", "gpt-oss-120b", "gpt-oss", "", "", ""),
    ("deepseek/deepseek-chat-v3.1", "deepseek", "deepseek-chat-v3.1", "deepseek", "3.1", "", ""),
    ("deepseek-r1-0528", "", "deepseek-r1", "deepseek", "r1", "0528", ""),
    ("accounts/fireworks/models/kimi-k2-instruct", "fireworks", "kimi-k2-instruct", "kimi", "k2", "", ""),
    ("mistral-large-latest", "", "mistral-large", "mistral", "", "latest", ""),
    ("mistral-large-2411", "", "mistral-large", "mistral", "", "2411", ""),
    ("command-a-03-2025", "", "command-a", "command", "", "03-2025", ""),
    ("mixtral-8x7b", "", "mixtral-8x7b", "mistral", "", "", ""),
    ("qwen3-235b-a22b-2507", "", "qwen3-235b-a22b", "qwen", "3", "2507", ""),
    ("gemma-3n-e4b-it", "", "gemma-3n-e4b-it", "gemma", "3n", "", ""),
    ("doubao-pro-250615", "", "doubao-pro", "doubao-pro", "", "250615", ""),
    # After a colon is a tag, or before it a vendor. Some of Ollama's models are named like their vendor.
    ("mistral:7b", "", "mistral", "mistral", "", "", "7b"),
    ("mistral:mistral-large", "mistral", "mistral-large", "mistral", "", "", ""),
    ("openai:gpt-5:tag", "openai", "gpt-5", "gpt", "5", "", "tag"),
    ("vercel:anthropic/claude-opus-4-1", "anthropic", "claude-opus-4-1", "claude", "4.1", "", ""),
    ("ft:gpt-4o-mini-2024-07-18:people::x", "", "gpt-4o-mini", "gpt", "4o", "2024-07-18", "people::x"),
    ("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", "unsloth", "Qwen3-8B-GGUF", "qwen", "3", "", "Q4_K_M"),
    # Bedrock
    (
        *("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic", "claude-sonnet-4-5", "claude", "4.5"),
        *("20250929", "0"),
    ),
    ("openai.gpt-oss-120b", "openai", "gpt-oss-120b", "gpt-oss", "", "", ""),
    # Empty and nearly empty names
    ("", "", "", "", "", "", ""),
    ("/", "", "", "", "", "", ""),
    (":", "", "", "", "", "", ""),
    ("openai/", "", "openai", "openai", "", "", ""),
    ("my model", "", "my model", "my model", "", "", ""),
    ("2025-01-01", "", "2025", "2025", "", "01-01", ""),
    ("gpt-4-9999", "", "gpt-4-9999", "gpt", "4", "", ""),  # there is no such month, so it is not a date
    ("llama-3-²", "", "llama-3-²", "llama", "3", "", ""),
]


@pytest.mark.parametrize("expected", NAMES, ids=lambda row: row[0])
def test_a_name_is_split_into_its_parts(expected: tuple[str, ...]) -> None:
    assert parse_model_id(expected[0]) == ModelIdentity(*expected)


WORDS = st.sampled_from(
    ["/", ":", "-", ".", "@", "claude", "gpt", "5", "2025-01-01", "latest", "ft", "us", "openai"]
)


@given(st.one_of(st.text(), st.lists(WORDS).map("".join)))
def test_every_text_is_parsed(id: str) -> None:
    identity = parse_model_id(id)
    assert identity == parse_model_id(id)
    assert identity.id == id
    assert all(part in id for part in (identity.vendor, identity.name, identity.tag))
