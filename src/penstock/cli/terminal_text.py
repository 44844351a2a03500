"""Make a model's text safe for a terminal, and measure its width in columns."""

from __future__ import annotations

import re
import unicodedata

from penstock.cli.terminal import CONTROLS


def safe(text: str) -> str:
    """Return `text` with control characters escaped; line breaks and tabs stay.

    Characters are replaced one by one, so a text may be passed in pieces. Carriage returns are removed:
    before a newline they mean nothing, elsewhere they would overwrite the line.
    """
    return CONTROLS.sub(_escaped, text)


def one_line(text: str, max_columns: int = 0) -> str:
    """Return `text` on one line and safe, shortened to `max_columns` if that is given."""
    line = " ".join(safe(text).split())
    return shortened(line, max_columns) if max_columns else line


def shortened(line: str, max_columns: int) -> str:
    """Return as much of the line as fits, with an ellipsis if it was cut."""
    if columns(line) <= max_columns:
        return line
    characters: list[str] = []
    room = max(max_columns - 1, 0)
    for character in line:
        room -= columns(character)
        if room < 0:
            break
        characters.append(character)
    return "".join(characters).rstrip() + "…"


def columns(text: str) -> int:
    """Return the width of a safe text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escaped(found: re.Match[str]) -> str:
    return "" if found[0] == "\r" else repr(found[0])[1:-1]
