"""What a model says, safe to write to a terminal; and how many columns it takes there."""

from __future__ import annotations

import re
import unicodedata

from penstock.cli.terminal import STEERING


def safe(text: str) -> str:
    """`text` with its lines and tabs, and with everything that a terminal would obey written out.

    It looks at one character at a time, so it may be given a text in pieces. Carriage returns go: in front of
    a newline they mean nothing, elsewhere they would write over what stands there.
    """
    return STEERING.sub(_written_out, text)


def one_line(text: str, most: int = 0) -> str:
    """`text` on one line and safe; cut to `most` columns where that is given."""
    line = " ".join(safe(text).split())
    return shortened(line, most) if most else line


def shortened(line: str, most: int) -> str:
    """As much of a line as fits into so many columns, with a mark where it was cut."""
    if columns(line) <= most:
        return line
    kept: list[str] = []
    room = max(most - 1, 0)
    for character in line:
        room -= columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def columns(text: str) -> int:
    """How wide a terminal shows a text that is safe."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _written_out(found: re.Match[str]) -> str:
    return "" if found[0] == "\r" else repr(found[0])[1:-1]
