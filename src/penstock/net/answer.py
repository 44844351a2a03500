"""An answer whose body is still on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from penstock.errors import OpenResponsesError
from penstock.net import network_errors
from penstock.net.config import ConnectionConfig
from penstock.net.error_responses import request_id_of, unlawful
from penstock.net.masking import Secrets
from penstock.net.source import PulledSource
from penstock.sse import DEFAULT_LIMIT

_ERROR_BODY = 64 * 1024
_LAST_CHUNK = 0.05
"""Seconds for the end of a body behind the last event, which is often in a packet of its own. A handshake
takes as long; who waits longer has gained nothing."""


class HttpAnswer(PulledSource):
    """An answer whose body is still to be read. Whoever has it must close it."""

    def __init__(
        self, response: aiohttp.ClientResponse, config: ConnectionConfig, secrets: Secrets, place: str
    ) -> None:
        super().__init__()
        self._response = response
        self._config = config
        self._place = place
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
        """What has come since the last call, or what comes next; empty at the end of the body."""
        if self._failure is not None:
            raise self._failure
        config, phase = self._config, self._phase
        seconds = config.first_byte_timeout if phase == "first_byte" else config.idle_timeout
        try:
            async with asyncio.timeout(seconds) as clock:
                data = await self._response.content.readany()
            self._phase = "idle"
            return data
        except (aiohttp.ClientError, OSError) as error:  # a TimeoutError is an OSError
            if clock.expired():
                self._failure = network_errors.silence(self._place, phase, seconds, self.request_id)
            else:
                self._failure = network_errors.cut(error, self._place, self.request_id)
        held = self._held_back()
        self.abort()
        if held:
            return held
        raise self._failure

    async def body(self) -> bytes:
        """The whole body."""
        whole = bytearray()
        while data := await self.read():
            whole += data
            if len(whole) > DEFAULT_LIMIT:
                raise unlawful(f"the answer is larger than {DEFAULT_LIMIT} bytes", self.request_id)
        return bytes(whole)

    async def error_body(self) -> bytes:
        """As much of the body as tells what is wrong, without patience: the status has told the most."""
        whole = bytearray()
        try:
            async with asyncio.timeout(self._config.idle_timeout):
                while len(whole) < _ERROR_BODY and (data := await self.read()):
                    whole += data
        except (TimeoutError, OpenResponsesError):
            pass
        return bytes(whole[:_ERROR_BODY])

    def mask(self, text: str) -> str:
        """The same text without the secrets that were sent."""
        return self.secrets.mask(text)

    def mask_value(self, value: Any) -> Any:
        return self.secrets.mask_value(value)

    def mask_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        return self.secrets.mask_bytes(data, before)

    @property
    def is_worth_finishing(self) -> bool:
        """Could the connection be used again, and is not yet free for it?"""
        is_kept = self._config.keep_alive and self.headers.get("connection", "").lower() != "close"
        return is_kept and self._response.connection is not None

    async def finish(self) -> None:
        """Read what is left of a body that is about to end, so that its connection goes back to the pool."""
        await self._stop_reading()
        with suppress(TimeoutError, OpenResponsesError):
            async with asyncio.timeout(_LAST_CHUNK):
                while await self.read():
                    pass
        self.close()

    def close(self) -> None:
        """Close the connection at once; one whose body was read to the end went back to the pool before."""
        if not self._loop.is_closed():
            super().close()
            self.abort()

    def abort(self) -> None:
        """The same for whoever does not read here: a read that waits breaks."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()

    def _held_back(self) -> bytes:
        """What came before the break. aiohttp raises the break first, and would keep this for itself."""
        content = self._response.content
        content.set_exception(None)  # type: ignore[arg-type]  # not declared, and what it starts with
        return content.read_nowait()
