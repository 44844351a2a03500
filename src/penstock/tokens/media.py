"""Count the tokens of images and other files.

For an image, the size is read from the file header and the rules are from the vendors' documentation, at full
detail. For files that are neither text nor images there are rules of thumb.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil, sqrt

from penstock.dialects.model_families import family_of

Size = tuple[int, int]

DEFAULT_IMAGE_TOKENS = 1000
"""Tokens of an image if its size or the model is unknown; a screenshot has 765 to 1,600."""


def image_tokens(model: str, data: bytes) -> int:
    size = image_size(data)
    return DEFAULT_IMAGE_TOKENS if size is None else _rule_for(model)(*size)


def _tiles(base: int, tile: int) -> Callable[[int, int], int]:
    """OpenAI: fit into 2048 x 2048, shrink the short side to 768, then count tiles of 512 x 512."""

    def tokens(width: int, height: int) -> int:
        scale = min(1.0, 2048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        return base + tile * ceil(width * scale / 512) * ceil(height * scale / 512)

    return tokens


def _patches(multiplier: float) -> Callable[[int, int], int]:
    """OpenAI's small models: at most 1,536 patches of 32 x 32, times a multiplier."""

    def tokens(width: int, height: int) -> int:
        return ceil(min(ceil(width / 32) * ceil(height / 32), 1536) * multiplier)

    return tokens


def _claude(width: int, height: int) -> int:
    """Anthropic: a token for 750 pixels, after fitting into 1568 x 1568 and about 1,600 tokens."""
    scale = min(1.0, 1568 / max(width, height), sqrt(1600 * 750 / (width * height)))
    return ceil(width * height * scale * scale / 750)


def _gemini(width: int, height: int) -> int:
    """Google: 258 for a small image, else 258 for each tile of 768 x 768, with at most 16 tiles."""
    if max(width, height) <= 384:
        return 258
    return 258 * min(ceil(width / 768) * ceil(height / 768), 16)


_OPENAI: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("gpt-4o-mini", _tiles(2833, 5667)),
    (r"gpt-(4\.1|5(\.\d+)?)-mini", _patches(1.62)),
    (r"gpt-(4\.1|5(\.\d+)?)-nano", _patches(2.46)),
    ("o4-mini", _patches(1.72)),
    ("gpt-5", _tiles(70, 140)),
    (r"\bo[13]\b", _tiles(75, 150)),
    ("gpt-4", _tiles(85, 170)),
)
_RULES = {"claude": _claude, "gemini": _gemini, "gemma": _gemini, "gpt": _tiles(85, 170)}


def _rule_for(model: str) -> Callable[[int, int], int]:
    family = family_of(model)
    if family == "gpt":
        for names, rule in _OPENAI:
            if re.search(names, model.lower()):
                return rule
    return _RULES.get(family, lambda *_: DEFAULT_IMAGE_TOKENS)


def image_size(data: bytes) -> Size | None:
    """Return the width and height of a PNG, GIF, JPEG or WebP; None for anything else or a broken file."""
    size: Size | None = None
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        size = _big(data[16:20]), _big(data[20:24])
    elif data.startswith((b"GIF87a", b"GIF89a")):
        size = _little(data[6:8]), _little(data[8:10])
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg(data)
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        size = _webp(data)
    return size if size is not None and min(size) > 0 else None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


_NOT_FRAME_MARKERS = frozenset({0xC4, 0xC8, 0xCC})
"""Markers in the range of frame starts that do not start a frame."""


def _jpeg(data: bytes) -> Size | None:
    """Return the size from the start of the frame, which follows segments of any length."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NOT_FRAME_MARKERS:
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        else:
            at += 2 + max(_big(data[at + 2 : at + 4]), 2)
    return None


def _webp(data: bytes) -> Size | None:
    """Return the size. Each of the three kinds of WebP stores it differently."""
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    if kind == b"VP8L" and len(data) >= 25:
        bits = _little(data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 30:
        return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return None


PER_PAGE = 1500
"""Tokens of a PDF page. Anthropic documents 1,500 to 3,000 for text and image; others use fewer."""

BYTES_PER_TOKEN = 500
"""For any other file. Audio at 32 tokens and 16 kB a second matches this, and video is close."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_BYTES_PER_PAGE = 50_000
"""For a PDF whose pages are compressed and cannot be counted."""


def file_tokens(data: bytes) -> int:
    if not data.startswith(b"%PDF-"):
        return -(-len(data) // BYTES_PER_TOKEN)
    pages = len(_PAGE.findall(data)) or -(-len(data) // _BYTES_PER_PAGE)
    return PER_PAGE * pages
