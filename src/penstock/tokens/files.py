"""What files cost that are neither text nor images: rules of thumb, stated here and in the documentation."""

from __future__ import annotations

import re

PER_PAGE = 1500
"""A page of a PDF. Anthropic documents 1,500 to 3,000, of text and picture; others take less."""

BYTES_PER_TOKEN = 500
"""Anything else. Sound at 32 tokens and 16 kB a second is that, and film is not far from it."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_BYTES_PER_PAGE = 50_000
"""For a PDF that packs its pages away where they cannot be counted."""


def file_tokens(data: bytes) -> int:
    if not data.startswith(b"%PDF-"):
        return -(-len(data) // BYTES_PER_TOKEN)
    pages = len(_PAGE.findall(data)) or -(-len(data) // _BYTES_PER_PAGE)
    return PER_PAGE * pages
