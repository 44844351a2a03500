"""An HTTP response whose body is still arriving."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from penstock.errors import OpenResponsesError
from penstock.net import network_errors
from penstock.net.config import ConnectionConfig
from penstock.net.error_responses import protocol_error, request_id_of
from penstock.net.masking import Secrets
from penstock.net.source import PulledSource
from penstock.sse import DEFAULT_LIMIT

_ERROR_BODY = 64 * 1024
_LAST_CHUNK = 0.05
"""Seconds to wait for the end of a body after the last event, which often arrives in a separate packet. A new
connection takes as long, so a longer wait would gain nothing."""


class HttpAnswer(PulledSource):
    """A successful response whose body is still to be read. The caller must close it. `server` is the host
    and port, for messages."""

    def __init__(
        self, response: aiohttp.ClientResponse, config: ConnectionConfig, secrets: Secrets, server: str
    ) -> None:
        super().__init__()
        self._response = response
        self._config = config
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._phase = "first_byte"
        self._failure: OpenResponsesError | None = None
        self.secrets = secrets
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        content_type = response.headers.get("content-type", "").partition(";")[0].strip()
        self.content_type: str = secrets.mask_value(content_type).lower()
        self.request_id = request_id_of(response.headers, secrets)

    async def read(self) -> bytes:
        """Return the bytes received since the last call, or wait for more; empty at the end of the body."""
        if self._failure is not None:
            raise self._failure
        config, phase = self._config, self._phase
        seconds = config.first_byte_timeout if phase == "first_byte" else config.idle_timeout
        try:
            async with asyncio.timeout(seconds) as deadline:
                data = await self._response.content.readany()
            self._phase = "idle"
            return data
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            if deadline.expired():
                self._failure = network_errors.timed_out(self._server, phase, seconds, self.request_id)
            else:
                self._failure = network_errors.disconnected(error, self._server, self.request_id)
        buffered = self._buffered()
        self.abort()
        if buffered:
            return buffered
        raise self._failure

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

    def mask(self, text: str) -> str:
        """Return the text without the secrets that were sent."""
        return self.secrets.mask(text)

    def mask_value(self, value: Any) -> Any:
        return self.secrets.mask_value(value)

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        return self.secrets.mask_bytes(data, before)

    @property
    def is_worth_finishing(self) -> bool:
        """Whether reading the rest of the body would return the connection to the pool."""
        is_reusable = self._config.keep_alive and self.headers.get("connection", "").lower() != "close"
        return is_reusable and self._response.connection is not None

    async def finish(self) -> None:
        """Read the rest of a body that is about to end, so that its connection returns to the pool."""
        await self._stop_reading()
        with suppress(TimeoutError, OpenResponsesError):
            async with asyncio.timeout(_LAST_CHUNK):
                while await self.read():
                    pass
        self.close()

    def close(self) -> None:
        """Close the connection at once, unless the body was read completely and it returned to the pool."""
        if not self._loop.is_closed():
            super().close()
            self.abort()

    def abort(self) -> None:
        """Close the connection from outside the reading task: a waiting `read` fails."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()

    def _buffered(self) -> bytes:
        """Return the bytes received before the failure, which aiohttp raises first and would drop."""
        content = self._response.content
        content.set_exception(None)  # type: ignore[arg-type]  # not declared, but the initial value
        return content.read_nowait()
