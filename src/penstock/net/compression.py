"""The libraries that decompress bodies, imported when a body needs one."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.extras import EXTRAS

if TYPE_CHECKING:
    from backports.zstd import ZstdDecompressor

WINDOW_LOG = 23
"""RFC 9659: the maximum window size of zstd over HTTP is 8 MB."""


@cache
def has_brotli() -> bool:
    """Return whether brotli is installed, without importing it."""
    return find_spec(EXTRAS["brotli"].module) is not None


def brotli_library() -> Any:
    import brotli  # type: ignore[import-untyped]

    return brotli


@cache
def zstd_library() -> Any:
    """Return the module of the standard library, which Python has since 3.14, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def zstd_decoder() -> ZstdDecompressor:
    """Return a decoder for one frame."""
    zstd = zstd_library()
    decoder: ZstdDecompressor = zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
    )
    return decoder
