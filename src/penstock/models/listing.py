"""Read an endpoint's list of models, in any of the many known formats.

The tables below name the fields; a dot leads into an object. A field of the wrong type, or with a number out
of range, is ignored. If several fields have the same limit, the smallest wins: OpenRouter has the limits of
the model and those of its first host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.dialects.presets import PRESETS
from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.models.catalog import NOT_CHAT_NAMES
from penstock.models.identity import parse_model_id
from penstock.models.info import ModelFacts, Prices, is_count, is_window
from penstock.protocol.content import JsonObject

T = TypeVar("T")

IDS = ("id", "slug", "key", "model", "name")
NAMES = ("display_name", "displayName", "name")
OWNERS = ("vendor", "owned_by", "publisher", "provider")
PLACEHOLDER_OWNERS = frozenset(
    {"system", "user", "organization-owner", *(row.list_owner for row in PRESETS.values() if row.list_owner)}
)
"""Placeholders that servers send as the owner of a model; they are not vendors."""

WINDOWS = (
    "context_window",  # Vercel, Codex, Groq
    "context_length",  # OpenRouter, Together, Moonshot
    "top_provider.context_length",
    "max_model_len",  # vLLM, SGLang
    "max_context_length",  # Mistral; see `_CEILINGS` for LM Studio
    "loaded_context_length",  # LM Studio
    "meta.n_ctx",  # llama.cpp
    "capabilities.limits.max_context_window_tokens",  # Copilot
)
INPUTS = (
    "inputTokenLimit",  # Gemini
    "input_token_limit",
    "max_input_tokens",
    "capabilities.limits.max_prompt_tokens",
)
OUTPUTS = (
    "max_output_tokens",
    "max_completion_tokens",  # Groq
    "top_provider.max_completion_tokens",
    "max_tokens",  # Vercel, Anthropic
    "outputTokenLimit",
    "output_token_limit",
    "capabilities.limits.max_output_tokens",
)
_CEILINGS = ("meta.n_ctx_train", "max_context_length")

# Our own gateway tells Codex that an unknown model may read images, and says what it knows in `architecture`.
_INPUT_KINDS = ("architecture.input_modalities", "input_modalities", "modalities.input")
_OUTPUT_KINDS = ("output_modalities", "architecture.output_modalities", "modalities.output")

_Hint = tuple[tuple[str, ...], frozenset[str]]
"""Fields with a list, and the words in it that mean that a model has a capability."""

IMAGE_FLAGS = (
    "capabilities.image_input",
    "capabilities.vision",
    "capabilities.supports.vision",
    "supports_image_in",
    "supports_vision",
    "modalities.vision",
)
TOOL_FLAGS = (
    "capabilities.function_calling",
    "capabilities.supports.tool_calls",
    "capabilities.trained_for_tool_use",
    "supports_tools",
    "supports_function_calling",
)
REASONING_FLAGS = (
    "capabilities.thinking",
    "capabilities.reasoning",
    "capabilities.supports.adaptive_thinking",
    "supports_reasoning",
    "thinking",
    "reasoning",
)
EFFORTS = (
    "supported_reasoning_levels",  # Codex
    "reasoning.supported_efforts",  # OpenRouter
    "capabilities.supports.reasoning_effort",
    "capabilities.effort",  # Anthropic
)

_HINTS = ("tags", "capabilities")
"""Lists of capabilities that may be incomplete."""
_VISION: _Hint = (_HINTS, frozenset({"vision", "multimodal", "image-input"}))
_TOOLS: _Hint = (_HINTS, frozenset({"tool-use", "tool_use", "tools", "function_calling"}))
_REASONING: _Hint = (_HINTS, frozenset({"reasoning", "thinking"}))

NOT_CHAT_TYPES = frozenset(
    {
        *("audio", "embedding", "embeddings", "image", "moderation", "realtime", "rerank", "reranking"),
        *("speech", "transcribe", "transcription", "video"),
    }
)
_PRICES = (
    ("input", ("pricing.prompt", "pricing.input", "cost.input")),
    ("output", ("pricing.completion", "pricing.output", "cost.output")),
    ("cached_input", ("pricing.input_cache_read", "pricing.cached_input", "cost.cache_read")),
    ("cache_write", ("pricing.input_cache_write", "cost.cache_write")),
)
_PER_TOKEN_BELOW = 0.001
"""Prices are per token or per million tokens. A token costs less than a tenth of a cent, a million more."""
_MAX_PRICE = 10_000.0


def read_listing(entries: Iterable[object]) -> list[ModelFacts]:
    """Return the facts about every model that can chat, in order. The first entry for an id is used."""
    found: dict[str, ModelFacts] = {}
    for entry in entries:
        facts = read_entry(entry) if isinstance(entry, dict) and can_chat(entry) else None
        if facts is not None:
            found.setdefault(facts.id, facts)
    return [*found.values()]


def read_entry(entry: JsonObject) -> ModelFacts | None:
    """Return the facts in one entry; None for an entry without an id."""
    id = _id_of(entry)
    if not id:
        return None
    window, max_input = _limit(entry, WINDOWS, is_window), _limit(entry, INPUTS, is_count)
    ceiling = _limit(entry, _CEILINGS, is_window)
    if _is_loadable(entry):
        window = _loaded(entry)
    elif text_of(entry.get("type")) == "model":
        # Anthropic sends the whole window as the input limit.
        window, max_input = window or max_input, None
    efforts = _efforts(entry)
    return ModelFacts(
        id=id,
        name=next((name for name in map(text_of, map(entry.get, NAMES)) if name and name != id), ""),
        vendor=_vendor(entry),
        description=text_of(entry.get("description")),
        window=window,
        ceiling=ceiling if window is None else None,
        is_window_default=True if _at(entry, "sources.context_window") == "default" else None,
        max_input=max_input,
        max_output=_limit(entry, OUTPUTS, is_count),
        image_input=_image_input(entry),
        tool_calling=_first(_flag(entry, TOOL_FLAGS), _has_parameter(entry, "tools"), _hint(entry, _TOOLS)),
        reasoning=_reasoning(entry, efforts),
        efforts=efforts,
        prices=_prices(entry),
    )


def can_chat(entry: JsonObject) -> bool:
    """Return whether a model can chat: as the entry says, or else by the prefix of its name."""
    types = {text_of(entry.get("type")), text_of(_at(entry, "capabilities.type"))}
    outputs = _list_at(entry, _OUTPUT_KINDS)
    if outputs is None and "->" in (modality := text_of(_at(entry, "architecture.modality"))):
        outputs = modality.partition("->")[2].split("+")
    methods = _list_at(entry, ("supportedGenerationMethods", "supported_actions"))
    abilities = _list_at(entry, ("capabilities",)) or []
    if types & NOT_CHAT_TYPES or _at(entry, "capabilities.completion_chat") is False:
        return False
    if outputs is not None:
        return "text" in outputs
    if methods is not None:
        return "generateContent" in methods
    if "embedding" in abilities and "completion" not in abilities:
        return False
    return not parse_model_id(_id_of(entry)).name.lower().startswith(NOT_CHAT_NAMES)


def _id_of(entry: JsonObject) -> str:
    for field in IDS:
        if id := text_of(entry.get(field)).strip():
            # Gemini lists resource names; requests use only the last part.
            return id.removeprefix("models/") if field == "name" else id
    return ""


def _vendor(entry: JsonObject) -> str:
    names = (text_of(entry.get(field)) for field in OWNERS)
    return next((name for name in names if name and name.lower() not in PLACEHOLDER_OWNERS), "")


def _is_loadable(entry: JsonObject) -> bool:
    """Return whether this is from LM Studio's own list, which has the maximum even if not loaded."""
    return "loaded_instances" in entry or entry.get("state") in ("loaded", "not-loaded")


def _loaded(entry: JsonObject) -> int | None:
    instances = objects_of(entry.get("loaded_instances"))
    lengths = [
        entry.get("loaded_context_length"),
        *(_at(each, "config.context_length") for each in instances),
    ]
    return _smallest(lengths, is_window)


def _limit(entry: JsonObject, paths: Iterable[str], is_valid: Callable[[int], bool]) -> int | None:
    return _smallest([_at(entry, path) for path in paths], is_valid)


def _smallest(values: Iterable[Any], is_valid: Callable[[int], bool]) -> int | None:
    counts = (count_of(value) for value in values)
    return min((count for count in counts if count is not None and is_valid(count)), default=None)


def _image_input(entry: JsonObject) -> bool | None:
    kinds = _list_at(entry, _INPUT_KINDS)
    if kinds is None and "->" in (modality := text_of(_at(entry, "architecture.modality"))):
        kinds = modality.partition("->")[0].split("+")
    if kinds is not None:
        return "image" in kinds
    is_vision_model = True if entry.get("type") == "vlm" else None
    return _first(_flag(entry, IMAGE_FLAGS), is_vision_model, _hint(entry, _VISION))


def _reasoning(entry: JsonObject, efforts: tuple[str, ...] | None) -> bool | None:
    if efforts is not None and set(efforts) - {"none", "off"}:
        return True
    reported = _first(
        _flag(entry, REASONING_FLAGS), _has_parameter(entry, "reasoning"), _hint(entry, _REASONING)
    )
    # In Codex's format, an empty list of levels means no reasoning.
    return False if reported is None and efforts is not None else reported


def _efforts(entry: JsonObject) -> tuple[str, ...] | None:
    for path in EFFORTS:
        value = _at(entry, path)
        if isinstance(value, dict):
            named = [word for word, support in value.items() if object_of(support).get("supported") is True]
        elif isinstance(value, list):
            named = [text_of(object_of(each).get("effort")) or text_of(each) for each in value]
        else:
            continue
        return tuple(dict.fromkeys(word for word in named if word))
    return None


def _prices(entry: JsonObject) -> Prices | None:
    found = {name: _first(*(_price(_at(entry, path)) for path in paths)) for name, paths in _PRICES}
    if found["input"] is None or found["output"] is None:
        return None
    return Prices(found["input"], found["output"], found["cached_input"], found["cache_write"])


def _price(value: Any) -> float | None:
    """Return the price in dollars per million tokens."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        price = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(price) or price < 0:
        return None
    price = round(price * 1_000_000, 6) if price < _PER_TOKEN_BELOW else price
    return price if price <= _MAX_PRICE else None


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _flag(entry: JsonObject, paths: Iterable[str]) -> bool | None:
    """Return a boolean field. An object counts by its field `supported`, or as true without one."""
    for path in paths:
        value = _at(entry, path)
        if isinstance(value, dict):
            value = value.get("supported", True)
        if isinstance(value, bool):
            return value
    return None


def _list_at(entry: JsonObject, paths: Iterable[str]) -> list[str] | None:
    for path in paths:
        value = _at(entry, path)
        if isinstance(value, list):
            return [text_of(word) for word in value]
    return None


def _has_parameter(entry: JsonObject, name: str) -> bool | None:
    """Return whether a model supports a parameter. OpenRouter lists all, so a missing one is unsupported."""
    names = _list_at(entry, ("supported_parameters",))
    return name in names if names else None


def _hint(entry: JsonObject, hint: _Hint) -> bool | None:
    paths, keywords = hint
    named = {word for path in paths for word in _list_at(entry, (path,)) or ()}
    return True if named & keywords else None


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
