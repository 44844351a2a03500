"""The vendors that can be chosen by name: `rows.py` has the table, `preset.py` says what a row holds."""

from __future__ import annotations

from hashlib import sha256

from penstock.dialects.families import family_of
from penstock.dialects.plan import Quirks, Target
from penstock.dialects.presets.preset import KEY_HEADERS, Preset
from penstock.dialects.presets.rows import MAKERS, PRESETS, vendor_facts
from penstock.dialects.registry import unknown

__all__ = [
    "KEY_HEADERS",
    "MAKERS",
    "PRESETS",
    "Preset",
    "as_markdown",
    "fingerprint",
    "preset",
    "speaks_responses",
    "target_for",
]


def preset(name: str) -> Preset:
    """The vendor of this name; `LookupError` says which names are near."""
    found = PRESETS.get(name)
    if found is None:
        raise unknown("preset", name, PRESETS)
    return found


def speaks_responses(preset: Preset) -> bool:
    return preset.dialect == "responses" or preset.also_responses


def target_for(
    model: str, vendor: str = "", *, dialect: str = "", quirks: Quirks | None = None, key: str = ""
) -> Target:
    """A model at a vendor, for a plan. A dialect or quirks that are not given are those of the vendor."""
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
    """Tells one key from another and gives neither away."""
    return sha256(key.encode()).hexdigest()[:16] if key else ""


def as_markdown() -> str:
    """The table in `docs/presets.md`."""
    lines = [
        "| preset | vendor | dialect | base URL | key | models, for example |",
        "|---|---|---|---|---|---|",
    ]
    for row in PRESETS.values():
        key = f"`{row.key_variable}`" if row.key_variable else "none"
        title = f"{row.title} ({row.note})" if row.note else row.title
        lines.append(f"| `{row.name}` | {title} | {row.dialect} | `{row.base_url}` | {key} | {row.models} |")
    return "\n".join(lines)
