"""What the name of a model says: who offers it, which family and version it is of, and when it was made.

Nothing here decides a limit. Names that look alike belong to models that are not (ask I2), so the
catalog asks for the name itself.
"""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.dialects.families import FAMILIES, family_of
from penstock.dialects.presets import MAKERS, PRESETS

VENDORS = frozenset({*PRESETS, *MAKERS, *(word for row in PRESETS.values() for word in row.model_prefixes)})
"""Words that stand before a `:` or a `.` as the vendor. Before a `/`, any word does."""

_FAMILY_WORDS = frozenset(word for words in FAMILIES.values() for word in words.split())
_STEPS = frozenset({"accounts", "models", "publishers", "projects", "locations", "endpoints", "deployments"})
"""Steps of a path that name no vendor: `accounts/fireworks/models/kimi-k2-instruct`."""
_REGION = re.compile(r"(us|eu|apac|global|us-gov|jp|au|ca)\.(?=[a-z0-9]+\.)")
"""Where Bedrock runs a model: `us.anthropic.claude-sonnet-4-5-20250929-v1:0`."""
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_DATE = re.compile(
    rf"[-@](20\d\d-{_MONTH}-{_DAY}|20\d\d{_MONTH}{_DAY}|{_MONTH}-20\d\d|{_MONTH}-{_DAY}"
    rf"|2\d{_MONTH}{_DAY}|2\d{_MONTH}|{_MONTH}{_DAY}|latest)(-v\d)?\Z",
    re.ASCII | re.IGNORECASE,
)
"""At the end of a name, all the ways to write a date, and `latest`. Behind it Bedrock has a revision."""
_VERSION = re.compile(r"v?([korm]?\d{1,2}(?:\.\d{1,3})*[on]?)", re.ASCII)
"""`5.1`, `v3`, `4o`, `o3`, `k2`, `r1`, and neither a size (`70b`) nor a mixture (`8x7b`)."""
_JOINED = re.compile(r"[a-z]{2,}(\d.*)", re.ASCII)
"""A family and its version in one word: `qwen2.5`."""


class ModelIdentity(Struct, frozen=True):
    """A model's name, taken apart. What a name does not say is empty."""

    id: str
    vendor: str
    """As it is written in the id; it is not guessed from the family."""
    name: str
    """Without the vendor, the date and the tag."""
    family: str
    """As `penstock.dialects.families` has it; a model of no known family is one of its own."""
    version: str
    date: str
    """As it is written, or `latest`."""
    tag: str
    """What stands behind a `:`, for instance a size at Ollama or `free` at OpenRouter."""


def parse_model_id(id: str) -> ModelIdentity:
    """Take a name apart. Every text has an identity, if need be one without parts."""
    *steps, last = id.strip().rstrip("/").split("/")
    vendor = _vendor_of(steps)
    before, last, tag = _without_tag(last)
    before, last = _without_dots(before, last)
    name, date = _without_date(last)
    return ModelIdentity(id, before or vendor, name, family_of(name), _version_of(name), date, tag)


def _vendor_of(steps: list[str]) -> str:
    for step in reversed(steps):
        vendor = step.rpartition(":")[2]
        if vendor and vendor.lower() not in _STEPS:
            return vendor
    return ""


def _without_tag(name: str) -> tuple[str, str, str]:
    """The vendor before a colon, the name, and the tag behind one: `openai:gpt-5` and `qwen2.5-coder:7b`."""
    before, colon, behind = name.partition(":")
    if not colon:
        return "", name, ""
    if before.lower() == "ft":  # a fine-tuned model at OpenAI: `ft:gpt-4o-mini-2024-07-18:people::id`
        name, _, tag = behind.partition(":")
        return "", name, tag
    # Ollama has models that are called like their maker: `mistral:7b`.
    is_family = before.lower() in _FAMILY_WORDS
    if before.lower() in VENDORS and not (is_family and family_of(behind) not in FAMILIES):
        name, _, tag = behind.partition(":")
        return before, name, tag
    return "", before, behind


def _without_dots(vendor: str, name: str) -> tuple[str, str]:
    """Bedrock's way to write a vendor: `openai.gpt-oss-120b`."""
    before, dot, behind = _REGION.sub("", name, count=1).partition(".")
    if dot and behind and before.lower() in VENDORS:
        return before, behind
    return vendor, name


def _without_date(name: str) -> tuple[str, str]:
    found = _DATE.search(name)
    return (name[: found.start()], found[1].lower()) if found and found.start() else (name, "")


def _version_of(name: str) -> str:
    words = re.split(r"[-_ ]", name.lower())
    for word, following in zip(words, [*words[1:], ""], strict=True):
        joined = _JOINED.fullmatch(word)
        found = _VERSION.fullmatch(joined[1] if joined else word)
        if found:
            # Anthropic writes `claude-3-5-sonnet`, others `claude-3.5-sonnet`.
            is_minor = found[1].isdigit() and len(following) == 1 and following.isascii()
            return f"{found[1]}.{following}" if is_minor and following.isdigit() else found[1]
    return ""
