"""Make a model's text safe for a terminal, on one line, and short enough."""

from __future__ import annotations

import json
import re

from penstock.formatting import columns, fitting

CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200e\u200f\u2028-\u202e\u2061-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, direction overrides and invisible characters, but not tabs, newlines and the joiners
that emoji and Persian need."""
_OWN = re.compile(r"(\x1b\[[0-9;]{1,8}m|\r\x1b\[K)")
"""Colours and styles, and the removal of the status line."""


def safe(text: str) -> str:
    """Return `text` with control characters escaped; line breaks and tabs stay.

    Characters are replaced one by one, so a text may be passed in pieces. Carriage returns are removed:
    before a newline they mean nothing, elsewhere they would overwrite the line.
    """
    return CONTROLS.sub(_replaced, text)


def escaped(text: str) -> str:
    """Escape control characters as JSON does, so that JSON copied from the terminal is unchanged."""
    return CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def guarded(text: str) -> str:
    """Return output with every control character escaped, except our own colours and status line.

    This is the last step of all output, in case the one who composed it has forgotten to escape a text from
    outside. It cannot tell a foreign colour from ours: use `safe` or `one_line` for such texts as well.
    """
    if text.isprintable():
        return text
    pieces = _OWN.split(text)
    return "".join(piece if number % 2 else safe(piece) for number, piece in enumerate(pieces))


def one_line(text: str, max_columns: int = 0) -> str:
    """Return `text` on one line and safe, shortened to `max_columns` if that is given."""
    line = " ".join(safe(text).split())
    return shortened(line, max_columns) if max_columns else line


def shortened(line: str, max_columns: int) -> str:
    """Return as much of the line as fits, with an ellipsis if it was cut."""
    if columns(line) <= max_columns:
        return line
    return line[: fitting(line, max_columns - 1)].rstrip() + "…"


def _replaced(found: re.Match[str]) -> str:
    return "" if found[0] == "\r" else repr(found[0])[1:-1]
