"""Call ids in the editor's name space.

The editor keeps the calls of all providers in one conversation, so ours carry a prefix there (seed 000).
It is put on when a call leaves for the editor and taken off when it comes back, once each, so whatever the
endpoint's id is, it is the same again; the prefix never counts towards the limit of 64 (decisions 21).
"""

from __future__ import annotations

PREFIX = "gw-"


def to_editor(call_id: str) -> str:
    """The id of one of our calls, as the editor gets it."""
    return PREFIX + call_id


def from_editor(call_id: str) -> str:
    """The endpoint's own id; a foreign one is as it was."""
    return call_id.removeprefix(PREFIX)
