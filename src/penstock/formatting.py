"""Sizes, durations, times and lines as people read them."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

_UNITS = ("kB", "MB", "GB", "TB")


def format_size(count: int) -> str:
    """Format a number of bytes for people, with at most three digits: `34 kB`."""
    if count < 1000:
        return counted(count, "byte")
    power = min((len(str(count + count // 2000)) - 1) // 3, len(_UNITS))  # 999,999 rounds up to 1.0 MB
    value = count / 1000**power
    return f"{value:.1f} {_UNITS[power - 1]}" if value < 9.95 else f"{value:.0f} {_UNITS[power - 1]}"


def format_duration(seconds: float) -> str:
    """Format a duration: `350 ms`, `2.10 s`, `3 min 20 s`."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def format_time(seconds: float) -> str:
    """Format a timestamp in UTC, so that it reads the same everywhere."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "invalid time"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# Lines of a terminal


def printable(text: str) -> str:
    """Return a text from outside on one line: control characters, line breaks, direction overrides and
    invisible characters are escaped, so that it can neither control a terminal nor look like other lines."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def columns(text: str) -> int:
    """Return the width of a text without control characters in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, width: int, indent: str = "", *, first: str = "") -> list[str]:
    """Return the lines of a text, wrapped at spaces. `first` begins the first line, `indent` the others.

    A word that is longer than a line is broken, unless it is a URL: the terminal wraps it, and it can still
    be clicked and copied.
    """
    width = max(width, _NARROWEST)
    lines: list[str] = []
    line, gap = first, ""
    for word in text.split():
        if gap and columns(line) + 1 + columns(word) > width:
            lines.append(line)
            line, gap = indent, ""
        while columns(line) + columns(gap + word) > width and "://" not in word:
            count = max(fitting(word, width - columns(line)), 1)
            lines.append(line + word[:count])
            line, word = indent, word[count:]
        line, gap = f"{line}{gap}{word}", " "
    return [*lines, line.rstrip()]


def fitting(text: str, width: int) -> int:
    """Return how many characters fit."""
    used = 0
    for count, character in enumerate(text):
        used += _width(character)
        if used > width:
            return count
    return len(text)


_NARROWEST = 20
"""Columns. Wrapping to fewer makes a text harder to read."""
