"""What the gateway sees of an upstream, wherever it is: across the network, or built in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.dialects.plan import Dialect, Target, UpstreamRequest
from penstock.upstream.keys import KeyRing


class UpstreamAnswer(Protocol):
    """An answer that is a success, whose body is still on its way. Whoever has it must close it."""

    status: int
    content_type: str
    """In small letters and without parameters; empty where the upstream named none."""
    request_id: str | None
    """How the upstream calls this request, for those who run it."""

    async def read(self) -> bytes:
        """What has come since the last call, or what comes next; empty at the end of the body.

        Raises an `OpenResponsesError` when it breaks, or when a time runs out.
        """

    def mask(self, text: str) -> str:
        """The same text without the secrets that were sent."""

    def mask_value(self, value: Any) -> Any:
        """The same value without them, wherever there is text in it."""

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        """What was read without them, to be written down; `before` is the end of what was read before it."""

    async def finish(self) -> None:
        """Read the little that is left, so that the connection can be used again."""

    def close(self) -> None:
        """Stop reading at once. Closing twice does nothing."""


class Upstream(Protocol):
    """A place that answers requests in one dialect."""

    name: str
    dialect: Dialect
    keys: KeyRing
    pass_key: bool
    """Is a client's own key sent here, where it brings one?"""

    def target(self, model: str, key: str) -> Target:
        """A model here, for a plan."""

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamAnswer:
        """The answer, when it is a success; whatever else happens is raised as an `OpenResponsesError`.

        `headers` are this turn's own, such as `traceparent`.
        """

    async def aclose(self) -> None:
        """Close what is kept open."""
