"""Sizes, durations, times and lines as people read them."""

from __future__ import annotations

import textwrap
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


def wrapped(text: str, width: int, indent: str = "", *, first: str = "") -> list[str]:
    """Return the lines of a text, wrapped at spaces: ids and URLs are never broken. `indent` is for the lines
    after the first."""
    return textwrap.wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


_NARROWEST = 20
"""Columns. Wrapping to fewer makes a text harder to read."""
