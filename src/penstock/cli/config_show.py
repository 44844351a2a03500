"""`penstock config show`: all settings as TOML with their origins as comments, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from penstock.gateway.config.effective import EffectiveSetting
from penstock.gateway.config.toml_lines import Path as TomlPath
from penstock.gateway.config.values import dotted, key, toml_value

_WIDEST = 40
"""Columns of a setting up to which its comment is aligned with the others."""


def as_toml(settings: Sequence[EffectiveSetting], width: int) -> Iterator[str]:
    """Yield the lines of a file with these settings, without those that are not set. A comment that does not
    fit next to its setting is above it."""
    shown = [each for each in settings if each.value is not None]
    for table, group in groupby(shown, key=lambda each: each.table):
        if table:
            yield ""
            yield _header(table)
        lines = [(f"{key(each.name)} = {toml_value(each.value)}", f"# {_comment(each)}") for each in group]
        column = max((len(line) for line, _ in lines if len(line) <= _WIDEST), default=0)
        for line, comment in lines:
            aligned = f"{line:<{column}}  {comment}"
            yield from [aligned] if len(aligned) <= width else [comment, line]


def as_json(settings: Sequence[EffectiveSetting], file: Path | None) -> str:
    rows = [
        {
            "setting": dotted((*each.table, each.name)),
            "value": each.value,
            "origin": each.origin.kind,
            "where": each.origin.where or None,
            **({"unset": each.unset} if each.unset else {}),
        }
        for each in settings
    ]
    return json.dumps({"file": str(file) if file else None, "settings": rows}, indent=2, default=str)


def _header(table: TomlPath) -> str:
    if isinstance(table[-1], int):
        return f"[[{dotted(table[:-1])}]]"
    return f"[{dotted(table)}]"


def _comment(setting: EffectiveSetting) -> str:
    origin = setting.origin
    source = f"preset {origin.where}" if origin.kind == "preset" else origin.where or origin.kind
    return "; ".join([source, *(f"{name} is not set" for name in setting.unset)])
