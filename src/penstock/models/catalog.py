"""What we know of widely used models, for endpoints that list names and nothing else.

A row counts for the model of exactly this name. Around the name only what does not make another model is
taken away: the vendor, a date, the tag of a route; `.` and `-` between digits are the same. A size is part of
the name: `gpt-4o:7b`, whatever it may be, is not `gpt-4o`. A dated name may have a row of its own, which goes
first.

Limits are those that the maker of a model publishes for its own API. Models with open weights have none here:
how much of them is loaded is for their host to say.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from penstock.models.identity import ModelIdentity, parse_model_id
from penstock.models.info import ModelFacts

ROUTES = frozenset({"free", "nitro", "floor", "online", "extended", "thinking", "exacto", "beta"})
"""OpenRouter's tags: the same model on another way."""

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
"""How the names of models begin that cannot chat, for lists that say nothing of a model but its name."""

_TEXT = ModelFacts(image_input=False, tool_calling=True, reasoning=False)
_SEES = ModelFacts(image_input=True, tool_calling=True, reasoning=False)
_THINKS = ModelFacts(image_input=False, tool_calling=True, reasoning=True)
_BOTH = ModelFacts(image_input=True, tool_calling=True, reasoning=True)
_THREE = ("low", "medium", "high")


def _known(
    can: ModelFacts, window: int | None = None, output: int | None = None, efforts: tuple[str, ...] = ()
) -> ModelFacts:
    return replace(can, window=window, max_output=output, efforts=efforts or None)


CATALOG: dict[str, ModelFacts] = {
    # OpenAI
    "gpt-3.5-turbo": _known(_TEXT, 16_385, 4_096),
    "gpt-4": _known(_TEXT, 8_192, 8_192),
    "gpt-4-turbo": _known(_SEES, 128_000, 4_096),
    "gpt-4o": _known(_SEES, 128_000, 16_384),
    "gpt-4o-2024-05-13": _known(_SEES, 128_000, 4_096),
    "gpt-4o-mini": _known(_SEES, 128_000, 16_384),
    "gpt-4.1": _known(_SEES, 1_047_576, 32_768),
    "gpt-4.1-mini": _known(_SEES, 1_047_576, 32_768),
    "gpt-4.1-nano": _known(_SEES, 1_047_576, 32_768),
    "o1": _known(_BOTH, 200_000, 100_000, _THREE),
    "o3": _known(_BOTH, 200_000, 100_000, _THREE),
    "o3-mini": _known(_THINKS, 200_000, 100_000, _THREE),
    "o4-mini": _known(_BOTH, 200_000, 100_000, _THREE),
    "gpt-5": _known(_BOTH, 400_000, 128_000, ("minimal", *_THREE)),
    "gpt-5-mini": _known(_BOTH, 400_000, 128_000, ("minimal", *_THREE)),
    "gpt-5-nano": _known(_BOTH, 400_000, 128_000, ("minimal", *_THREE)),
    "gpt-5-codex": _known(_BOTH, 400_000, 128_000, _THREE),
    "gpt-5.1": _known(_BOTH, 400_000, 128_000, ("none", *_THREE)),
    "gpt-5.1-codex": _known(_BOTH, 400_000, 128_000, _THREE),
    "gpt-5.1-codex-mini": _known(_BOTH, 400_000, 128_000),
    "gpt-5.2": _known(_BOTH, 400_000, 128_000, ("none", *_THREE, "xhigh")),
    "gpt-oss-20b": _known(_THINKS, efforts=_THREE),
    "gpt-oss-120b": _known(_THINKS, efforts=_THREE),
    # Anthropic
    "claude-3-haiku": _known(_SEES, 200_000, 4_096),
    "claude-3-opus": _known(_SEES, 200_000, 4_096),
    "claude-3-5-haiku": _known(_SEES, 200_000, 8_192),
    "claude-3-5-sonnet": _known(_SEES, 200_000, 8_192),
    "claude-3-7-sonnet": _known(_BOTH, 200_000, 64_000),
    "claude-sonnet-4": _known(_BOTH, 200_000, 64_000),
    "claude-sonnet-4-0": _known(_BOTH, 200_000, 64_000),
    "claude-opus-4": _known(_BOTH, 200_000, 32_000),
    "claude-opus-4-0": _known(_BOTH, 200_000, 32_000),
    "claude-opus-4-1": _known(_BOTH, 200_000, 32_000),
    "claude-sonnet-4-5": _known(_BOTH, 200_000, 64_000),
    "claude-haiku-4-5": _known(_BOTH, 200_000, 64_000),
    "claude-opus-4-5": _known(_BOTH, 200_000, 64_000),
    # Google
    "gemini-2.0-flash": _known(_SEES, 1_048_576, 8_192),
    "gemini-2.0-flash-lite": _known(_SEES, 1_048_576, 8_192),
    "gemini-2.5-pro": _known(_BOTH, 1_048_576, 65_536),
    "gemini-2.5-flash": _known(_BOTH, 1_048_576, 65_536),
    "gemini-2.5-flash-lite": _known(_BOTH, 1_048_576, 65_536),
    "gemini-3-pro-preview": _known(_BOTH, 1_048_576, 65_536),
    # Others
    "deepseek-chat": _known(_TEXT, 128_000, 8_192),
    "deepseek-reasoner": _known(_THINKS, 128_000, 64_000),
    "mistral-large": ModelFacts(window=128_000, tool_calling=True),
    "grok-3": _known(_TEXT, 131_072),
    "grok-3-mini": _known(_THINKS, 131_072, efforts=("low", "high")),
    "grok-4": _known(_BOTH, 256_000),
    "grok-code-fast-1": _known(_THINKS, 256_000),
    "command-a": _known(_TEXT, 256_000, 8_000),
    "command-r": _known(_TEXT, 128_000, 4_000),
    "command-r-plus": _known(_TEXT, 128_000, 4_000),
    "kimi-k2-instruct": _known(_TEXT),
    "kimi-k2-thinking": _known(_THINKS),
    "glm-4.5": _known(_THINKS),
    "glm-4.6": _known(_THINKS),
}
"""The table in `docs/models.md`, which a test compares."""


def _spelled(name: str) -> str:
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name.lower())


_BY_SPELLING = {_spelled(name): facts for name, facts in CATALOG.items()}


def in_catalog(model: str | ModelIdentity) -> ModelFacts | None:
    """What the catalog says of the model of this name, and of no other."""
    identity = parse_model_id(model) if isinstance(model, str) else model
    # Bedrock ends its names with the number of a revision.
    if identity.tag.lower() not in ROUTES and identity.tag not in ("", "0"):
        return None
    name = _spelled(identity.name)
    return _BY_SPELLING.get(f"{name}-{identity.date}") or _BY_SPELLING.get(name)


def as_markdown() -> str:
    """The table in `docs/models.md`."""
    lines = ["| model | window | output | images | reasoning | efforts |", "|---|---|---|---|---|---|"]
    for name, facts in CATALOG.items():
        limits = [f"{limit:,}" if limit else "" for limit in (facts.window, facts.max_output)]
        abilities = ["yes" if able else "" for able in (facts.image_input, facts.reasoning)]
        cells = [f"`{name}`", *limits, *abilities, ", ".join(facts.efforts or ())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
