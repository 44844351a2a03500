"""The scripted upstream of the gateway's tests."""

from __future__ import annotations

from tests.gateway.conftest import upstream

__all__ = ["upstream"]
