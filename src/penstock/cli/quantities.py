"""Times and sizes as people type them in options. `penstock.formatting` writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.cli import UsageError

_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt]i?)?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_LONGEST = 100 * 365 * 86_400
"""Seconds. A longer span is a mistake."""


def parse_span(text: str, option: str) -> float:
    """Seconds, from such as `30d` or `12h`."""
    written = _SPAN.fullmatch(text.strip())
    seconds = float(written[1]) * _SECONDS[written[2]] if written else -1.0
    if not 0 <= seconds <= _LONGEST:
        raise UsageError(
            f"{option} needs a time such as 30d, 12h, 45m or 90s (also w for weeks), not {_shown(text)}"
        )
    return seconds


def parse_size(text: str, option: str) -> int:
    """Bytes, from such as `500MB`, `1GiB` or a plain number."""
    written = _SIZE.fullmatch(text.strip())
    if written is None:
        raise UsageError(f"{option} needs a size such as 500MB, 1GB or 1GiB, not {_shown(text)}")
    unit = (written[2] or "").lower()
    return int(float(written[1]) * (1024 if unit.endswith("i") else 1000) ** _POWERS[unit[:1]])


def parse_moment(text: str, option: str, now: float) -> float:
    """Seconds since 1970, from a span (so long ago) or from a date; one without a zone is UTC."""
    if _SPAN.fullmatch(text.strip()):
        return now - parse_span(text, option)
    try:
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} needs a time ago such as 30d, or a date such as 2026-01-31 or 2026-01-31T12:00, "
            f"not {_shown(text)}"
        ) from None


def _shown(text: str) -> str:
    return repr(text[:40])
