"""What the gateway sees of an upstream, wherever it is: across the network, or built in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.net.source import UpstreamSource
from penstock.upstream.keys import KeyRing


class Upstream(Protocol):
    """A place that answers requests in one dialect."""

    name: str
    dialect: Dialect
    keys: KeyRing
    pass_key: bool
    """Is a client's own key sent here, where it brings one?"""

    def target(self, model: str, key: str) -> Target:
        """A model here, for a plan."""

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        """The answer, when it is a success; whatever else happens is raised as an `OpenResponsesError`.

        `headers` are this turn's own, such as `traceparent`.
        """

    async def aclose(self) -> None:
        """Close what is kept open."""
