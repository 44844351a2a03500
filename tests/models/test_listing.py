"""Reading the lists of models in each format, and lists that are damaged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.info import ModelFacts, Prices
from penstock.models.listing import can_chat, read_entry, read_listing
from tests.models import model_lists

READ = [
    (model_lists.OPENAI, ModelFacts(id="gpt-5-2025-08-07", vendor="openai")),
    (
        model_lists.OPENROUTER,
        ModelFacts(
            id="maker/thinker-2:free",
            name="Maker: Thinker 2 (free)",
            description="Thinks twice.",
            window=131072,  # of the first host, which is less than the model's
            max_output=32768,
            image_input=True,
            tool_calling=True,
            reasoning=True,
            efforts=("low", "high"),
            prices=Prices(1.25, 10.0, 0.125, 1.5625),
        ),
    ),
    (
        model_lists.VERCEL,
        ModelFacts(
            id="maker/writer-1",
            name="Writer 1",
            vendor="maker",
            description="Writes.",
            window=200000,
            max_output=64000,
            image_input=True,
            tool_calling=True,
            reasoning=True,
            prices=Prices(3.0, 15.0, 0.3, 3.75),
        ),
    ),
    (
        model_lists.CODEX,
        ModelFacts(
            id="gpt-9-codex",
            name="GPT-9 Codex",
            description="Codes.",
            window=272000,
            image_input=True,
            reasoning=True,
            efforts=("low", "medium", "high"),
        ),
    ),
    (model_lists.VLLM, ModelFacts(id="Qwen/Qwen3-32B", window=40960)),
    (model_lists.LLAMACPP, ModelFacts(id="some.gguf", ceiling=131072)),
    (
        model_lists.LMSTUDIO,
        ModelFacts(id="maker/local-vl", vendor="maker", window=8192, image_input=True, tool_calling=True),
    ),
    (
        model_lists.LMSTUDIO_1,
        ModelFacts(
            id="maker/local",
            name="Local",
            vendor="maker",
            window=8192,
            image_input=False,
            tool_calling=True,
            reasoning=True,
        ),
    ),
    (
        model_lists.ANTHROPIC,
        ModelFacts(
            id="claude-next",
            name="Claude Next",
            window=200000,
            max_output=64000,
            image_input=True,
            reasoning=True,
            efforts=("low",),
        ),
    ),
    (
        model_lists.GEMINI,
        ModelFacts(
            id="gemini-next",
            name="Gemini Next",
            description="Sees.",
            max_input=1048576,
            max_output=65536,
            reasoning=True,
        ),
    ),
    (
        model_lists.COPILOT,
        ModelFacts(
            id="gpt-next",
            name="GPT Next",
            vendor="Azure OpenAI",
            window=128000,
            max_input=64000,
            max_output=4096,
            image_input=False,
            tool_calling=True,
            reasoning=True,
            efforts=("low", "high"),
        ),
    ),
    (
        model_lists.MISTRAL,
        ModelFacts(
            id="mistral-next", vendor="mistralai", window=131072, image_input=True, tool_calling=False
        ),
    ),
    (
        model_lists.TOGETHER,
        ModelFacts(id="maker/open", name="Open", window=32768, prices=Prices(0.3, 0.6, 0.15)),
    ),
    # Single fields
    ({"id": "m", "state": "not-loaded", "max_context_length": 131072}, ModelFacts(id="m", ceiling=131072)),
    ({"id": "m", "meta": {"n_ctx": 8192, "n_ctx_train": 131072}}, ModelFacts(id="m", window=8192)),
    ({"id": "m", "architecture": {"modality": "text+image->text"}}, ModelFacts(id="m", image_input=True)),
    ({"id": "m", "architecture": {"modality": "text->text"}}, ModelFacts(id="m", image_input=False)),
    (
        {"id": "m", "supported_parameters": ["temperature"]},
        ModelFacts(id="m", tool_calling=False, reasoning=False),
    ),
    ({"id": "m", "supported_reasoning_levels": []}, ModelFacts(id="m", reasoning=False, efforts=())),
    (
        {"id": "m", "supported_reasoning_levels": ["low", "low"]},
        ModelFacts(id="m", reasoning=True, efforts=("low",)),
    ),
    ({"id": "m", "tags": ["new"], "capabilities": ["completion"]}, ModelFacts(id="m")),
    ({"id": "m", "capabilities": ["completion", "multimodal"]}, ModelFacts(id="m", image_input=True)),
    (
        {"id": "models/gemini-2.5-flash"},
        ModelFacts(id="models/gemini-2.5-flash"),
    ),  # the id, as used in requests
]


@pytest.mark.parametrize(
    ("entry", "facts"), READ, ids=lambda value: value.get("id", "") if isinstance(value, dict) else ""
)
def test_each_format_is_read(entry: dict[str, Any], facts: ModelFacts) -> None:
    assert can_chat(entry)
    assert read_entry(entry) == facts


@pytest.mark.parametrize("entry", model_lists.NOT_CHAT, ids=lambda entry: entry["id"])
def test_models_that_cannot_chat_are_left_out(entry: dict[str, Any]) -> None:
    assert read_listing([entry, model_lists.VLLM]) == [ModelFacts(id="Qwen/Qwen3-32B", window=40960)]


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "text-embedding-chat", "architecture": {"output_modalities": ["text"]}},
        {"id": "whisper-1", "supportedGenerationMethods": ["generateContent"]},
        {"id": "my-embedding-talker"},
    ],
)
def test_the_fields_of_an_entry_override_its_name(entry: dict[str, Any]) -> None:
    assert can_chat(entry)


def test_the_first_entry_of_an_id_counts_and_the_order_is_kept() -> None:
    entries = [{"id": "b", "context_length": 1000}, {"id": "a"}, {"id": "b", "context_length": 9000}]
    assert read_listing(entries) == [ModelFacts(id="b", window=1000), ModelFacts(id="a")]


@pytest.mark.parametrize(
    "entry", [None, 1, "gpt-5", [], {}, {"id": ""}, {"id": 5}, {"id": None, "object": "model"}]
)
def test_entries_without_an_id_are_skipped(entry: object) -> None:
    assert read_listing([entry]) == []


@pytest.mark.parametrize(
    "value", [0, -1, 1, 255, 10**9, 10**400, "200000", True, None, [], {}, 1e300, float("nan")]
)
def test_a_number_out_of_range_is_not_a_window(value: object) -> None:
    assert read_entry({"id": "m", "context_window": value}) == ModelFacts(id="m")
    assert read_entry({"id": "m", "context_window": value, "context_length": 8192}) == ModelFacts(
        id="m", window=8192
    )


PRICES = [
    ("0.000003", 3.0),
    (0.000003, 3.0),
    (3, 3.0),
    ("3", 3.0),
    ("0", 0.0),
    ("0.0006", 600.0),
    ("-1", None),
    ("free", None),
    ("nan", None),
    ("1e999", None),
    (10**400, None),
    (99999, None),
    (True, None),
    (None, None),
    ({}, None),
]


@pytest.mark.parametrize(("value", "per_million"), PRICES, ids=lambda value: str(value)[:12])
def test_prices_are_converted_to_dollars_per_million_tokens(value: object, per_million: float | None) -> None:
    facts = read_entry({"id": "m", "pricing": {"prompt": value, "completion": value}})
    assert facts is not None
    assert facts.prices == (None if per_million is None else Prices(per_million, per_million))


def test_an_incomplete_price_is_ignored() -> None:
    assert read_entry({"id": "m", "pricing": {"prompt": "0.000001"}}) == ModelFacts(id="m")


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A real entry with random values in some of its fields, at two levels."""
    entry = dict(draw(st.sampled_from(model_lists.ALL)))
    for field in draw(st.lists(st.sampled_from(sorted(entry)), max_size=4)):
        if isinstance(entry[field], dict) and entry[field]:
            inner = draw(st.sampled_from(sorted(entry[field])))
            entry[field] = draw(
                st.sampled_from(
                    [{**entry[field], inner: draw(model_lists.ANY_JSON)}, draw(model_lists.ANY_JSON)]
                )
            )
        else:
            entry[field] = draw(model_lists.ANY_JSON)
    return entry


@given(st.lists(damaged() | model_lists.ANY_JSON, max_size=4))
def test_any_list_is_read_without_an_error(entries: list[Any]) -> None:
    for facts in read_listing(entries):
        assert facts.id
