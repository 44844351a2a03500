"""The table of vendors."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from penstock.dialects.chat.render import VENDOR_FIELDS
from penstock.dialects.presets import (
    KEY_HEADERS,
    PRESETS,
    Preset,
    preset,
)
from penstock.dialects.presets.efforts import EFFORTS
from penstock.dialects.presets.preset import SAMPLER_FIELDS
from penstock.dialects.registry import RENDERED

NAMED = """
    openai anthropic gemini vercel openrouter deepseek groq mistral xai together fireworks cerebras moonshot
    zai minimax qwen huggingface nvidia perplexity azure ollama lmstudio vllm llamacpp sglang
"""
LOCAL = {"ollama", "lmstudio", "vllm", "llamacpp", "sglang"}
PLACEHOLDERS = {"azure": ["resource"], "bedrock": ["region"]}
"""Vendors that need more than a key."""

every_preset = pytest.mark.parametrize("row", PRESETS.values(), ids=PRESETS.keys())


def test_every_promised_vendor_has_a_row() -> None:
    assert set(NAMED.split()) <= set(PRESETS)
    assert len(PRESETS) >= 25


@every_preset
def test_a_row_is_complete_and_valid(row: Preset) -> None:
    assert PRESETS[row.name] is row
    assert re.fullmatch(r"[a-z]+", row.name)
    assert row.title
    assert row.models
    assert row.dialect in RENDERED
    assert row.key_header in KEY_HEADERS
    assert not row.base_url.endswith("/")
    wanted = [name for _, name, _, _ in Formatter().parse(row.base_url) if name]
    assert wanted == PLACEHOLDERS.get(row.name, [])


@every_preset
def test_keys_are_sent_over_https_and_only_local_servers_need_none(row: Preset) -> None:
    if row.name in LOCAL:
        assert row.base_url.startswith("http://127.0.0.1:")
        assert row.key_variable == ""
    else:
        assert row.base_url.startswith("https://")
        assert re.fullmatch(r"[A-Z][A-Z_]+", row.key_variable)


@every_preset
def test_a_row_refers_to_a_known_effort_table(row: Preset) -> None:
    assert row.quirks.effort in {"", *EFFORTS}


@every_preset
def test_a_row_names_only_optional_fields_that_are_rendered(row: Preset) -> None:
    assert row.optional_fields <= {*VENDOR_FIELDS, "verbosity", *SAMPLER_FIELDS}


def test_no_preset_reads_tags_or_markup_in_text() -> None:
    """Both are opt-in per model and never guessed from the vendor."""
    assert not [row.name for row in PRESETS.values() if row.quirks.think_tags or row.quirks.tool_markup]


QUIRKS = [
    ("deepseek", "reasoning_field", "reasoning_content"),
    ("moonshot", "reasoning_field", "reasoning_content"),
    ("groq", "reasoning_field", "reasoning"),
    ("vllm", "reasoning_field", "reasoning"),
    ("openrouter", "reasoning_details", True),
    ("vercel", "reasoning_details", True),
    ("mistral", "stream_usage", False),
    ("openai", "max_tokens_field", "max_completion_tokens"),
    ("azure", "max_tokens_field", "max_completion_tokens"),
    ("openai", "system_first", False),
    # Reasoning before a tool call must be part of every later request, or DeepSeek returns 400.
    ("deepseek", "drops_old_reasoning", False),
]


@pytest.mark.parametrize(("name", "quirk", "value"), QUIRKS)
def test_the_quirks_of_a_vendor(name: str, quirk: str, value: object) -> None:
    assert getattr(preset(name).quirks, quirk) == value
