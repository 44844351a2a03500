"""Parse model names: the vendor, the family, the version and the date.

Nothing here determines a limit. Similar names belong to different models (ask I2), so the catalog matches the
exact name.
"""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.dialects.model_families import FAMILIES, family_of
from penstock.dialects.presets import MAKERS, PRESETS

VENDORS = frozenset({*PRESETS, *MAKERS, *(word for row in PRESETS.values() for word in row.model_prefixes)})
"""Words that are a vendor before a `:` or a `.`. Before a `/`, any word is."""

_FAMILY_WORDS = frozenset(word for words in FAMILIES.values() for word in words.split())
_PATH_SEGMENTS = frozenset(
    {"accounts", "models", "publishers", "projects", "locations", "endpoints", "deployments"}
)
"""Path segments that are not a vendor: `accounts/fireworks/models/kimi-k2-instruct`."""
_REGION = re.compile(r"(us|eu|apac|global|us-gov|jp|au|ca)\.(?=[a-z0-9]+\.)")
"""Bedrock's region prefix: `us.anthropic.claude-sonnet-4-5-20250929-v1:0`."""
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_DATE = re.compile(
    rf"[-@](20\d\d-{_MONTH}-{_DAY}|20\d\d{_MONTH}{_DAY}|{_MONTH}-20\d\d|{_MONTH}-{_DAY}"
    rf"|2\d{_MONTH}{_DAY}|2\d{_MONTH}|{_MONTH}{_DAY}|latest)(-v\d)?\Z",
    re.ASCII | re.IGNORECASE,
)
"""A date in any notation or `latest` at the end of a name. Bedrock appends a revision."""
_VERSION = re.compile(r"v?([korm]?\d{1,2}(?:\.\d{1,3})*[on]?)", re.ASCII)
"""`5.1`, `v3`, `4o`, `o3`, `k2`, `r1`, but not a size (`70b`) or a mixture of experts (`8x7b`)."""
_JOINED = re.compile(r"[a-z]{2,}(\d.*)", re.ASCII)
"""A family and its version in one word: `qwen2.5`."""


class ModelIdentity(Struct, frozen=True):
    """The parts of a model's name. Missing parts are empty."""

    id: str
    vendor: str
    """As written in the id; not guessed from the family."""
    name: str
    """Without the vendor, the date and the tag."""
    family: str
    """As in `penstock.dialects.model_families`; a model of an unknown family is its own family."""
    version: str
    date: str
    """As written, or `latest`."""
    tag: str
    """The text after a `:`, such as a size in Ollama's names or `free` in OpenRouter's."""


def parse_model_id(id: str) -> ModelIdentity:
    """Parse a name. Any text is accepted."""
    *segments, last = id.strip().rstrip("/").split("/")
    vendor = _vendor_of(segments)
    before, last, tag = _split_at_colon(last)
    before, last = _split_at_dot(before, last)
    name, date = _split_date(last)
    return ModelIdentity(id, before or vendor, name, family_of(name), _version_of(name), date, tag)


def _vendor_of(segments: list[str]) -> str:
    for segment in reversed(segments):
        vendor = segment.rpartition(":")[2]
        if vendor and vendor.lower() not in _PATH_SEGMENTS:
            return vendor
    return ""


def _split_at_colon(name: str) -> tuple[str, str, str]:
    """Return the vendor, the name and the tag of a name such as `openai:gpt-5` or `qwen2.5-coder:7b`."""
    before, colon, after = name.partition(":")
    if not colon:
        return "", name, ""
    if before.lower() == "ft":  # a fine-tuned model of OpenAI: `ft:gpt-4o-mini-2024-07-18:people::id`
        name, _, tag = after.partition(":")
        return "", name, tag
    # Some of Ollama's models are named like their vendor: `mistral:7b`.
    is_family = before.lower() in _FAMILY_WORDS
    if before.lower() in VENDORS and not (is_family and family_of(after) not in FAMILIES):
        name, _, tag = after.partition(":")
        return before, name, tag
    return "", before, after


def _split_at_dot(vendor: str, name: str) -> tuple[str, str]:
    """Split off the vendor as Bedrock writes it: `openai.gpt-oss-120b`."""
    before, dot, after = _REGION.sub("", name, count=1).partition(".")
    if dot and after and before.lower() in VENDORS:
        return before, after
    return vendor, name


def _split_date(name: str) -> tuple[str, str]:
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
