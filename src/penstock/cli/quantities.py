"""Times and sizes: as people type them, and as they read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.cli import UsageError

_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt]i?)?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS = ("kB", "MB", "GB", "TB")
_LONGEST = 100 * 365 * 86_400
"""Seconds. A longer span is a mistake."""


def span(text: str, option: str) -> float:
    """Seconds, from such as `30d` or `12h`."""
    written = _SPAN.fullmatch(text.strip())
    seconds = float(written[1]) * _SECONDS[written[2]] if written else -1.0
    if not 0 <= seconds <= _LONGEST:
        raise UsageError(
            f"{option} needs a time such as 30d, 12h, 45m or 90s (also w for weeks), not {_shown(text)}"
        )
    return seconds


def size(text: str, option: str) -> int:
    """Bytes, from such as `500MB`, `1GiB` or a plain number."""
    written = _SIZE.fullmatch(text.strip())
    if written is None:
        raise UsageError(f"{option} needs a size such as 500MB, 1GB or 1GiB, not {_shown(text)}")
    unit = (written[2] or "").lower()
    return int(float(written[1]) * (1024 if unit.endswith("i") else 1000) ** _POWERS[unit[:1]])


def moment(text: str, option: str, now: float) -> float:
    """Seconds since 1970, from a span (so long ago) or from a date; one without a zone is UTC."""
    if _SPAN.fullmatch(text.strip()):
        return now - span(text, option)
    try:
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} needs a time ago such as 30d, or a date such as 2026-01-31 or 2026-01-31T12:00, "
            f"not {_shown(text)}"
        ) from None


def told_size(count: int) -> str:
    """`34 kB`: three figures are enough for people."""
    if count < 1000:
        return counted(count, "byte")
    power = min((len(str(count + count // 2000)) - 1) // 3, len(_UNITS))  # 999,999 is a million to people
    value = count / 1000**power
    return f"{value:.1f} {_UNITS[power - 1]}" if value < 9.95 else f"{value:.0f} {_UNITS[power - 1]}"


def told_span(seconds: float) -> str:
    """`350 ms`, `2.10 s`, `3 min 20 s`."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def told_moment(seconds: float) -> str:
    """In UTC, so that it is the same wherever it is read."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "at no time"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _shown(text: str) -> str:
    return repr(text[:40])
