"""What the reader remembers of content blocks."""

from __future__ import annotations

from penstock.dialects.runs import ContentBlock


class Block(ContentBlock):
    """A content block. A delta that no start came before makes one without a type."""

    type: str = ""
    signature: str = ""
    compaction: dict[str, str] = {}
    """What there is to seal of a compaction."""
