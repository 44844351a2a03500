"""An HTTP response whose body is still arriving."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from penstock.errors import OpenResponsesError
from penstock.net import network_errors
from penstock.net.config import ConnectionConfig
from penstock.net.connection import UpstreamConnection
from penstock.net.error_responses import protocol_error, request_id_of
from penstock.net.masking import Secrets
from penstock.net.response_parser import AnswerHead
from penstock.net.source import Inbox, SourceCallbacks
from penstock.net.wrong_addresses import RequestLine
from penstock.sse import DEFAULT_LIMIT

_ERROR_BODY = 64 * 1024
_LAST_CHUNK = 0.05
"""Seconds to wait for the end of a body after the last event, which often arrives in a separate packet. A new
connection takes as long, so a longer wait would gain nothing."""


class HttpAnswer:
    """A successful response whose body is still to be read, either with `start` or with `read`. The caller
    must close it. `server`, the host and port, and `asked` are for messages."""

    __slots__ = (
        "_config",
        "_connection",
        "_exchange",
        "_inbox",
        "_is_closed",
        "_loop",
        "_server",
        "asked",
        "content_type",
        "headers",
        "request_id",
        "secrets",
        "status",
    )

    def __init__(
        self,
        head: AnswerHead,
        connection: UpstreamConnection,
        config: ConnectionConfig,
        secrets: Secrets,
        server: str,
        asked: RequestLine,
    ) -> None:
        self._connection = connection
        self._exchange = connection.exchange
        self._config = config
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._inbox: Inbox | None = None
        self._is_closed = False
        self.secrets = secrets
        self.asked = asked
        self.status = head.status
        self.headers: Mapping[str, str] = head.headers
        content_type = head.headers.get("content-type", "").partition(";")[0].strip()
        self.content_type: str = secrets.mask_value(content_type).lower()
        self.request_id = request_id_of(head.headers, secrets)

    # -- pushed to callbacks

    def start(self, callbacks: SourceCallbacks) -> None:
        """Pass the body to callbacks, in the event loop's next turn at the earliest. Call it once."""
        if self._is_attached:
            self._connection.start(callbacks, self._failure)

    def pause(self) -> None:
        if self._is_attached:
            self._connection.pause()

    def resume(self) -> None:
        if self._is_attached:
            self._connection.resume()

    # -- pulled

    async def read(self) -> bytes:
        """Return the bytes received since the last call, or wait for more; empty at the end of the body.
        Only the time that is spent here counts for the timeouts."""
        if self._inbox is None:
            self._check_open()
            self._inbox = Inbox(self)
        try:
            return await self._inbox.take()
        finally:
            if self._is_attached:
                self._connection.stop_clock()

    async def body(self) -> bytes:
        """Return the complete body."""
        body = bytearray()
        while data := await self.read():
            body += data
            if len(body) > DEFAULT_LIMIT:
                raise protocol_error(f"the answer is larger than {DEFAULT_LIMIT} bytes", self.request_id)
        return bytes(body)

    async def error_body(self) -> bytes:
        """Return the first part of an error's body, within one `idle_timeout`. Failures end it early: the
        status is more important than the body."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._config.idle_timeout):
                while len(body) < _ERROR_BODY and (data := await self.read()):
                    body += data
        except (TimeoutError, OpenResponsesError):
            pass
        return bytes(body[:_ERROR_BODY])

    # -- secrets

    def mask(self, text: str) -> str:
        """Return the text without the secrets that were sent."""
        return self.secrets.mask(text)

    def mask_value(self, value: Any) -> Any:
        return self.secrets.mask_value(value)

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        return self.secrets.mask_bytes(data, before)

    # -- the end

    def finish(self) -> None:
        """Let the connection read the rest of a body that is about to end, and return to the pool. There are
        no more callbacks."""
        if self._is_attached:
            if self._config.keep_alive:
                self._connection.finish(_LAST_CHUNK)
            else:
                self._connection.close()
        self._detach()

    def close(self) -> None:
        """Close the connection at once. It returns to the pool if the body was received completely."""
        if self._is_attached and not self._loop.is_closed():
            self._connection.close()
        self._detach()

    @property
    def _is_attached(self) -> bool:
        """Whether the connection still belongs to this answer."""
        return not self._is_closed and self._connection.exchange == self._exchange

    def _detach(self) -> None:
        self._is_closed = True
        if self._inbox is not None and not self._inbox.is_ready:
            self._inbox.failed(self._failure(network_errors.Truncated()))

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._failure(network_errors.Truncated())

    def _failure(self, error: Exception) -> Exception:
        return network_errors.disconnected(error, self._server, self.request_id)
