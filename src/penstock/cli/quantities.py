"""Parse durations, times and sizes in options. `penstock.formatting` writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.cli import UsageError

_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt]i?)?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_LONGEST = 100 * 365 * 86_400
"""Seconds. A longer duration is a mistake."""


def parse_span(text: str, option: str) -> float:
    """Return the seconds in a duration such as `30d` or `12h`."""
    matched = _SPAN.fullmatch(text.strip())
    seconds = float(matched[1]) * _SECONDS[matched[2]] if matched else -1.0
    if not 0 <= seconds <= _LONGEST:
        raise UsageError(
            f"{option} needs a duration such as 30d, 12h, 45m or 90s (w for weeks), not {_shown(text)}"
        )
    return seconds


def parse_size(text: str, option: str) -> int:
    """Return the bytes in a size such as `500MB`, `1GiB` or a plain number."""
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise UsageError(f"{option} needs a size such as 500MB, 1GB or 1GiB, not {_shown(text)}")
    unit = (matched[2] or "").lower()
    return int(float(matched[1]) * (1024 if unit.endswith("i") else 1000) ** _POWERS[unit[:1]])


def parse_moment(text: str, option: str, now: float) -> float:
    """Return seconds since 1970, from a duration (before now) or a date; without a time zone it is UTC."""
    if _SPAN.fullmatch(text.strip()):
        return now - parse_span(text, option)
    try:
        date = datetime.fromisoformat(text.strip())
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} needs a duration such as 30d, or a date such as 2026-01-31 or 2026-01-31T12:00, "
            f"not {_shown(text)}"
        ) from None


def _shown(text: str) -> str:
    return repr(text[:40])
