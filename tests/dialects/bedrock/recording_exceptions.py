"""Recordings in which the oracles are not followed, and why. There are none."""

from __future__ import annotations

EXCEPTIONS: dict[str, str] = {}
