"""The table of vendors, and what is read from the name of a model."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from penstock.dialects.chat.render import VENDOR_FIELDS
from penstock.dialects.families import family_of
from penstock.dialects.plan import Quirks
from penstock.dialects.presets import (
    KEY_HEADERS,
    PRESETS,
    Preset,
    as_markdown,
    fingerprint,
    preset,
    target_for,
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


def test_the_vendors_that_were_promised_are_there() -> None:
    assert set(NAMED.split()) <= set(PRESETS)
    assert len(PRESETS) >= 25


@every_preset
def test_a_row_is_whole(row: Preset) -> None:
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
def test_a_key_goes_over_https_and_only_local_servers_need_none(row: Preset) -> None:
    if row.name in LOCAL:
        assert row.base_url.startswith("http://127.0.0.1:")
        assert row.key_variable == ""
    else:
        assert row.base_url.startswith("https://")
        assert re.fullmatch(r"[A-Z][A-Z_]+", row.key_variable)


@every_preset
def test_a_row_asks_for_effort_in_a_way_that_is_known(row: Preset) -> None:
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
    # Reasoning before a tool call must be sent again in every later request, or DeepSeek answers 400.
    ("deepseek", "drops_old_reasoning", False),
]


@pytest.mark.parametrize(("name", "quirk", "value"), QUIRKS)
def test_what_is_special_about_a_vendor(name: str, quirk: str, value: object) -> None:
    assert getattr(preset(name).quirks, quirk) == value


def test_an_unknown_vendor_is_told_with_the_near_ones() -> None:
    with pytest.raises(LookupError, match=r"no preset called 'open-router'; did you mean openrouter\?"):
        preset("open-router")
    with pytest.raises(LookupError, match="available: anthropic, azure"):
        preset("zzzz")


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
def test_the_family_of_a_model_is_in_its_name(model: str, family: str) -> None:
    assert family_of(model) == family


def test_a_target_is_the_preset_the_model_and_a_fingerprint_of_the_key() -> None:
    target = target_for("anthropic/claude-sonnet-4.5", "openrouter", key="sk-or-1")
    assert (target.vendor, target.dialect, target.model) == (
        "openrouter",
        "chat",
        "anthropic/claude-sonnet-4.5",
    )
    assert target.family == "claude"
    assert target.quirks == Quirks(reasoning_details=True, effort="openrouter", files=True)
    assert target.key_fingerprint == fingerprint("sk-or-1") != fingerprint("sk-or-2")
    assert "sk-or" not in repr(target)
    assert target_for("qwen3", "ollama").key_fingerprint == ""


def test_the_documented_table_has_a_row_for_every_preset() -> None:
    rows = as_markdown().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(PRESETS)
