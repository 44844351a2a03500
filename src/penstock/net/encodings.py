"""Decodes compressed bodies piece by piece, so that a small response cannot fill the memory.

Requests ask for uncompressed responses, but some servers compress them all the same.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from penstock.extras import EXTRAS
from penstock.net.compression import brotli_library, has_brotli, zstd_decoder, zstd_library
from penstock.net.network_errors import UndecodableBody

PIECE = 64 * 1024
"""Bytes. The approximate output of one step."""
MOST_MEMBERS = 4096
"""A gzip body may have several members; each takes time, even if it is empty."""


class BodyDecoder(ABC):
    """Decodes one body: `feed` it, then `read` while it `has_more`."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._input = b""
        self._is_started = False

    def feed(self, data: bytes) -> None:
        self._input = self._input + data if self._input else data
        self._is_started = True

    @property
    def has_more(self) -> bool:
        """Whether another `read` may return something without more input."""
        return bool(self._input)

    @property
    def is_complete(self) -> bool:
        """Whether the body may end here. An empty body is complete."""
        return not self._is_started or self._is_finished

    @abstractmethod
    def read(self) -> bytes:
        """Return the next decoded bytes, which may be empty; raise `UndecodableBody`."""

    @property
    @abstractmethod
    def _is_finished(self) -> bool: ...


class _Decompressor(Protocol):
    """What `zlib.decompressobj` returns. Its own type is private."""

    @property
    def eof(self) -> bool: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _ZlibDecoder(BodyDecoder):
    """Decodes gzip, with any number of members, and deflate, with or without zlib's header."""

    def __init__(self, encoding: str, window_bits: int | None) -> None:
        super().__init__(encoding)
        self._window_bits = window_bits
        self._decoder: _Decompressor | None = None
        self._members = 0
        self._is_full = False
        """Whether the last step stopped at its limit: the decoder may hold more output."""

    @property
    def has_more(self) -> bool:
        return self._is_full or (bool(self._input) and not self._waits_for_header)

    @property
    def _waits_for_header(self) -> bool:
        return self._window_bits is None and len(self._input) < 2

    def read(self) -> bytes:
        if self._waits_for_header:
            return b""
        decoder = self._decoder or self._next_member()
        try:
            data = decoder.decompress(self._input, PIECE)
        except zlib.error:
            raise UndecodableBody(self._encoding) from None
        self._is_full = len(data) == PIECE and not decoder.eof
        self._input = decoder.unconsumed_tail
        if decoder.eof:
            self._input = decoder.unused_data
            self._decoder = None
        return data

    def _next_member(self) -> _Decompressor:
        self._members += 1
        is_gzip = self._window_bits is not None and self._window_bits > zlib.MAX_WBITS
        if self._members > (MOST_MEMBERS if is_gzip else 1):
            raise UndecodableBody(self._encoding)
        if self._window_bits is None:
            has_header = self._input[0] & 15 == 8 and int.from_bytes(self._input[:2], "big") % 31 == 0
            self._window_bits = zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
        self._decoder = zlib.decompressobj(self._window_bits)
        return self._decoder

    @property
    def _is_finished(self) -> bool:
        return self._members > 0 and self._decoder is None and not self._input


class _BrotliDecoder(BodyDecoder):
    """Decodes brotli: one stream, with nothing after its end."""

    def __init__(self, encoding: str) -> None:
        super().__init__(encoding)
        brotli = brotli_library()
        self._errors: type[Exception] = brotli.error
        self._decoder = brotli.Decompressor()
        self._is_full = False

    @property
    def has_more(self) -> bool:
        return self._is_full or bool(self._input)

    def read(self) -> bytes:
        data = b""
        if self._decoder.can_accept_more_data():
            data, self._input = self._input, b""
        try:
            decoded: bytes = self._decoder.process(data, output_buffer_limit=PIECE)
        except self._errors:
            raise UndecodableBody(self._encoding) from None
        # The decoder does not say whether it holds more output: only an empty step does.
        self._is_full = bool(decoded) and not self._decoder.is_finished()
        if self._decoder.is_finished() and self._input:
            raise UndecodableBody(self._encoding)
        return decoded

    @property
    def _is_finished(self) -> bool:
        return bool(self._decoder.is_finished())


class _MissingDecoder(BodyDecoder):
    """Stands for a library that is not installed: the error says how to install it."""

    def read(self) -> bytes:
        raise UndecodableBody(self._encoding, EXTRAS["brotli"])

    @property
    def _is_finished(self) -> bool:
        return False


class _ZstdDecoder(BodyDecoder):
    """Decodes zstd, with any number of frames."""

    def __init__(self, encoding: str) -> None:
        super().__init__(encoding)
        self._errors: type[Exception] = zstd_library().ZstdError
        self._decoder = zstd_decoder()

    @property
    def has_more(self) -> bool:
        """The decoder keeps the input that a step did not use, and may hold more output."""
        return bool(self._input) or not (self._decoder.needs_input or self._decoder.eof)

    def read(self) -> bytes:
        if self._decoder.eof:
            self._decoder = zstd_decoder()
        data, self._input = self._input, b""
        try:
            decoded = self._decoder.decompress(data, PIECE)
        except self._errors:
            raise UndecodableBody(self._encoding) from None
        if self._decoder.eof:
            self._input = self._decoder.unused_data
        return decoded

    @property
    def _is_finished(self) -> bool:
        return self._decoder.eof


_DECODERS: dict[str, Callable[[], BodyDecoder]] = {
    "gzip": lambda: _ZlibDecoder("gzip", zlib.MAX_WBITS | 16),
    "x-gzip": lambda: _ZlibDecoder("gzip", zlib.MAX_WBITS | 16),
    "deflate": lambda: _ZlibDecoder("deflate", None),
    "br": lambda: _BrotliDecoder("br") if has_brotli() else _MissingDecoder("br"),
    "zstd": lambda: _ZstdDecoder("zstd"),
}


def decoder_for(encoding: str) -> BodyDecoder | None:
    """Return a decoder for a `content-encoding`; None for bodies that are passed on as they are."""
    make = _DECODERS.get(encoding.strip().lower()) if encoding else None
    return make() if make is not None else None
