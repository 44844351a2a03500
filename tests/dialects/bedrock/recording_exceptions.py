"""Recordings that we read differently from the oracles, and why. There are none."""

from __future__ import annotations

EXCEPTIONS: dict[str, str] = {}
