"""Built-in facts about widely used models, for endpoints that list only names.

A row applies to the model with exactly this name. Only parts of a name that do not change the model are
ignored: the vendor, a date, and the tag of a route; `.` and `-` between digits are the same. A size is part
of the name: `gpt-4o:7b` is not `gpt-4o`. A dated name may have its own row, which takes precedence.

The limits are those that the vendor publishes for its own API. Models with open weights have no limits here:
they depend on how the host loads the model.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from penstock.models.identity import ModelIdentity, parse_model_id
from penstock.models.info import ModelFacts

ROUTES = frozenset({"free", "nitro", "floor", "online", "extended", "thinking", "exacto", "beta"})
"""OpenRouter's tags: the same model by another route."""

NOT_CHAT_NAMES = (
    "text-embedding-",
    "gemini-embedding-",
    "mistral-embed",
    "text-moderation-",
    "omni-moderation-",
    "whisper-",
    "tts-",
    "dall-e-",
    "gpt-image-",
    "sora-",
    "imagen-",
    "veo-",
    "gpt-realtime",
    "gpt-audio",
    "gpt-4o-realtime-",
    "gpt-4o-mini-realtime-",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-mini-tts",
)
"""Name prefixes of models that cannot chat, for lists that contain only names."""

_TEXT = ModelFacts(image_input=False, tool_calling=True, reasoning=False)
_VISION = ModelFacts(image_input=True, tool_calling=True, reasoning=False)
_REASONING = ModelFacts(image_input=False, tool_calling=True, reasoning=True)
_VISION_REASONING = ModelFacts(image_input=True, tool_calling=True, reasoning=True)
_LOW_TO_HIGH = ("low", "medium", "high")
_NO_EFFORTS = ()
"""The model reasons, but rejects a request with any effort."""


def _facts(
    capabilities: ModelFacts,
    window: int | None = None,
    output: int | None = None,
    efforts: tuple[str, ...] | None = None,
) -> ModelFacts:
    return replace(capabilities, window=window, max_output=output, efforts=efforts)


CATALOG: dict[str, ModelFacts] = {
    # OpenAI
    "gpt-3.5-turbo": _facts(_TEXT, 16_385, 4_096),
    "gpt-4": _facts(_TEXT, 8_192, 8_192),
    "gpt-4-turbo": _facts(_VISION, 128_000, 4_096),
    "gpt-4o": _facts(_VISION, 128_000, 16_384),
    "gpt-4o-2024-05-13": _facts(_VISION, 128_000, 4_096),
    "gpt-4o-mini": _facts(_VISION, 128_000, 16_384),
    "gpt-4.1": _facts(_VISION, 1_047_576, 32_768),
    "gpt-4.1-mini": _facts(_VISION, 1_047_576, 32_768),
    "gpt-4.1-nano": _facts(_VISION, 1_047_576, 32_768),
    "o1": _facts(_VISION_REASONING, 200_000, 100_000, _LOW_TO_HIGH),
    "o3": _facts(_VISION_REASONING, 200_000, 100_000, _LOW_TO_HIGH),
    "o3-mini": _facts(_REASONING, 200_000, 100_000, _LOW_TO_HIGH),
    "o4-mini": _facts(_VISION_REASONING, 200_000, 100_000, _LOW_TO_HIGH),
    "gpt-5": _facts(_VISION_REASONING, 400_000, 128_000, ("minimal", *_LOW_TO_HIGH)),
    "gpt-5-mini": _facts(_VISION_REASONING, 400_000, 128_000, ("minimal", *_LOW_TO_HIGH)),
    "gpt-5-nano": _facts(_VISION_REASONING, 400_000, 128_000, ("minimal", *_LOW_TO_HIGH)),
    "gpt-5-codex": _facts(_VISION_REASONING, 400_000, 128_000, _LOW_TO_HIGH),
    "gpt-5.1": _facts(_VISION_REASONING, 400_000, 128_000, ("none", *_LOW_TO_HIGH)),
    "gpt-5.1-codex": _facts(_VISION_REASONING, 400_000, 128_000, _LOW_TO_HIGH),
    "gpt-5.1-codex-mini": _facts(_VISION_REASONING, 400_000, 128_000),
    "gpt-5.2": _facts(_VISION_REASONING, 400_000, 128_000, ("none", *_LOW_TO_HIGH, "xhigh")),
    "gpt-oss-20b": _facts(_REASONING, efforts=_LOW_TO_HIGH),
    "gpt-oss-120b": _facts(_REASONING, efforts=_LOW_TO_HIGH),
    # Anthropic
    "claude-3-haiku": _facts(_VISION, 200_000, 4_096),
    "claude-3-opus": _facts(_VISION, 200_000, 4_096),
    "claude-3-5-haiku": _facts(_VISION, 200_000, 8_192),
    "claude-3-5-sonnet": _facts(_VISION, 200_000, 8_192),
    "claude-3-7-sonnet": _facts(_VISION_REASONING, 200_000, 64_000),
    "claude-sonnet-4": _facts(_VISION_REASONING, 200_000, 64_000),
    "claude-sonnet-4-0": _facts(_VISION_REASONING, 200_000, 64_000),
    "claude-opus-4": _facts(_VISION_REASONING, 200_000, 32_000),
    "claude-opus-4-0": _facts(_VISION_REASONING, 200_000, 32_000),
    "claude-opus-4-1": _facts(_VISION_REASONING, 200_000, 32_000),
    "claude-sonnet-4-5": _facts(_VISION_REASONING, 200_000, 64_000),
    "claude-haiku-4-5": _facts(_VISION_REASONING, 200_000, 64_000),
    "claude-opus-4-5": _facts(_VISION_REASONING, 200_000, 64_000),
    # Google
    "gemini-2.0-flash": _facts(_VISION, 1_048_576, 8_192),
    "gemini-2.0-flash-lite": _facts(_VISION, 1_048_576, 8_192),
    "gemini-2.5-pro": _facts(_VISION_REASONING, 1_048_576, 65_536),
    "gemini-2.5-flash": _facts(_VISION_REASONING, 1_048_576, 65_536),
    "gemini-2.5-flash-lite": _facts(_VISION_REASONING, 1_048_576, 65_536),
    "gemini-3-pro-preview": _facts(_VISION_REASONING, 1_048_576, 65_536),
    # Others
    "deepseek-chat": _facts(_TEXT, 128_000, 8_192),
    "deepseek-reasoner": _facts(_REASONING, 128_000, 64_000),
    "mistral-large": ModelFacts(window=128_000, tool_calling=True),
    "grok-3": _facts(_TEXT, 131_072),
    "grok-3-mini": _facts(_REASONING, 131_072, efforts=("low", "high")),
    "grok-4": _facts(_VISION_REASONING, 256_000, efforts=_NO_EFFORTS),
    "grok-4-1-fast-reasoning": _facts(_VISION_REASONING, 2_000_000, efforts=_NO_EFFORTS),
    "grok-code-fast-1": _facts(_REASONING, 256_000, efforts=_NO_EFFORTS),
    "command-a": _facts(_TEXT, 256_000, 8_000),
    "command-r": _facts(_TEXT, 128_000, 4_000),
    "command-r-plus": _facts(_TEXT, 128_000, 4_000),
    "kimi-k2-instruct": _facts(_TEXT),
    "kimi-k2-thinking": _facts(_REASONING),
    "glm-4.5": _facts(_REASONING),
    "glm-4.6": _facts(_REASONING),
}
"""`docs/models.md` contains this table; a test compares them."""


def _normalized(name: str) -> str:
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name.lower())


_BY_NAME = {_normalized(name): facts for name, facts in CATALOG.items()}


def in_catalog(model: str | ModelIdentity) -> ModelFacts | None:
    """Return the catalog's facts about exactly this model, or None."""
    identity = parse_model_id(model) if isinstance(model, str) else model
    # Bedrock appends a revision number.
    if identity.tag.lower() not in ROUTES and identity.tag not in ("", "0"):
        return None
    name = _normalized(identity.name)
    return _BY_NAME.get(f"{name}-{identity.date}") or _BY_NAME.get(name)


def as_markdown() -> str:
    """Return the table in `docs/models.md`."""
    lines = ["| model | window | output | images | reasoning | efforts |", "|---|---|---|---|---|---|"]
    for name, facts in CATALOG.items():
        limits = [f"{limit:,}" if limit else "" for limit in (facts.window, facts.max_output)]
        abilities = ["yes" if able else "" for able in (facts.image_input, facts.reasoning)]
        efforts = "rejects any" if facts.efforts == _NO_EFFORTS else ", ".join(facts.efforts or ())
        cells = [f"`{name}`", *limits, *abilities, efforts]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
