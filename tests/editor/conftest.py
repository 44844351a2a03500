"""A gateway with a scripted upstream, shared by tests that need nothing special."""

from __future__ import annotations

from tests.gateway.conftest import penstock, upstream

__all__ = ["penstock", "upstream"]
