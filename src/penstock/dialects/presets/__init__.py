"""The vendors that can be selected by name: `rows.py` has the table, `preset.py` defines its columns."""

from __future__ import annotations

from hashlib import sha256

from penstock.dialects.model_families import family_of
from penstock.dialects.plan import Quirks, Target
from penstock.dialects.presets.preset import KEY_HEADERS, Preset
from penstock.dialects.presets.rows import MAKERS, PRESETS, vendor_facts
from penstock.suggestions import unknown

__all__ = [
    "KEY_HEADERS",
    "MAKERS",
    "PRESETS",
    "Preset",
    "as_markdown",
    "example_models",
    "fingerprint",
    "preset",
    "supports_responses",
    "target_for",
]


def preset(name: str) -> Preset:
    """Return the vendor of this name; raise `LookupError` with similar names."""
    found = PRESETS.get(name)
    if found is None:
        raise LookupError(unknown("preset", name, PRESETS))
    return found


def supports_responses(preset: Preset) -> bool:
    """Return whether the vendor supports the Responses API."""
    return preset.dialect == "responses" or preset.also_responses


def target_for(
    model: str, vendor: str = "", *, dialect: str = "", quirks: Quirks | None = None, key: str = ""
) -> Target:
    """Return a model at a vendor as a target. Dialect and quirks default to the vendor's."""
    facts = vendor_facts(vendor)
    return Target(
        model=model,
        vendor=vendor,
        dialect=dialect or facts.dialect,
        family=family_of(model),
        key_fingerprint=fingerprint(key),
        quirks=facts.quirks if quirks is None else quirks,
    )


def fingerprint(key: str) -> str:
    """Return a hash that identifies a key without revealing it."""
    return sha256(key.encode()).hexdigest()[:16] if key else ""


def example_models(preset: str) -> tuple[str, ...]:
    """Return the names of a vendor's example models. Some rows describe them in words instead."""
    names = vendor_facts(preset).models.split(", ")
    return tuple(name for name in names if name and " " not in name)


def as_markdown() -> str:
    """Return the table in `docs/presets.md`."""
    lines = [
        "| preset | vendor | dialect | base URL | key | example models |",
        "|---|---|---|---|---|---|",
    ]
    for row in PRESETS.values():
        key = f"`{row.key_variable}`" if row.key_variable else "none"
        title = f"{row.title} ({row.note})" if row.note else row.title
        lines.append(f"| `{row.name}` | {title} | {row.dialect} | `{row.base_url}` | {key} | {row.models} |")
    return "\n".join(lines)
