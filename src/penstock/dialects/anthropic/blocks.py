"""What the reader remembers of content blocks."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.stream.deltas import Key


class TextRun(Struct):
    """Text blocks that follow each other: one message. `key` is that of the first."""

    key: Key
    length: int = 0
    open: bool = True
    """Is the block that joined last still going on?"""


class Block(Struct):
    """A content block. A delta that no start came before makes one without a type."""

    key: Key
    type: str = ""
    stopped: bool = False
    run: TextRun | None = None
    begin: int = 0
    """Where in its run the block's text began."""
    citations: list[dict[str, Any]] = []
    thinking: list[str] = []
    """The text that the signature is for: sealed with it, because clients lose it (notes/asks C2)."""
    signature: str = ""
    has_arguments: bool = False
    compaction: dict[str, str] = {}
    """What there is to seal of a compaction."""
