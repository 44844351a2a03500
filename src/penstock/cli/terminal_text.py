"""Make a model's text safe for a terminal, on one line, and short enough."""

from __future__ import annotations

import re

from penstock.cli.terminal import CONTROLS
from penstock.formatting import columns, fitting


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
    room = max_columns - 1
    return (line[: fitting(line, room)].rstrip() if room > 0 else "") + "…"


def _escaped(found: re.Match[str]) -> str:
    return "" if found[0] == "\r" else repr(found[0])[1:-1]
