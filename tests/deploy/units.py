"""Units of systemd."""

from __future__ import annotations

from pathlib import Path


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a unit: each setting with all of its values."""
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()):
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return found
