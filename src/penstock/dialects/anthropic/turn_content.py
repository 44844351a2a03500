"""The content of a turn with server tools, as Anthropic sent it, so that the turn can be continued.

A turn that pauses (`pause_turn`) or waits for a client's tool is continued by sending all of its blocks back:
the uses and results of Anthropic's own tools among its text and thinking. Items for clients cannot express
these blocks, so they are sealed in a reasoning item, together with the blocks around them. If a turn with
server tools ends normally, its text is enough, and nothing is sealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from penstock.dialects.envelope import sealed_reasoning
from penstock.dialects.history import Call, HistoryReasoning, HistoryText
from penstock.dialects.plan import Target
from penstock.lenient import object_of, objects_of, text_of
from penstock.stream.deltas import Delta, Key

Block = dict[str, Any]
Piece = HistoryReasoning | HistoryText | Call

USES = ("server_tool_use", "mcp_tool_use")
"""Blocks that use a server tool. Its result is a block with the same id, in this message or a later one."""

RESULT_SUFFIX = "_tool_result"
_CONTENT = "content"
"""The `type` of the payload."""

_STREAMED = {"text": "text", "thinking": "thinking", "partial_json": "input"}
"""Fields of a block that arrive in fragments: the field of the delta, and that of the block."""


class _OpenBlock(Struct):
    block: Block
    fragments: dict[str, list[str]]

    def complete(self) -> Block:
        block = dict(self.block)
        for field, fragments in self.fragments.items():
            text = "".join(fragments)
            block[field] = _input_of(text) if field == "input" else text_of(block.get(field)) + text
        return block


class TurnContent:
    """Collects the blocks of one message, except the calls of client tools."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._blocks: dict[Key, _OpenBlock] = {}
        self._uses: set[str] = set()
        """The ids of all server tool uses of the message."""
        self._has_server_tools = False
        """Whether the collected blocks contain a use or a result."""
        self._answers_earlier_use = False

    def start(self, key: Key, block: Block) -> None:
        type = text_of(block.get("type"))
        if type in ("tool_use", "compaction", "fallback"):
            return
        self._blocks[key] = _OpenBlock(block, {})
        if type in USES:
            self._has_server_tools = True
            self._uses.add(text_of(block.get("id")))
        elif type.endswith(RESULT_SUFFIX):
            self._has_server_tools = True
            is_earlier = text_of(block.get("tool_use_id")) not in self._uses
            self._answers_earlier_use = self._answers_earlier_use or is_earlier

    def feed(self, key: Key, delta: Block) -> None:
        opened = self._blocks.get(key)
        if opened is None:
            return
        for name, field in _STREAMED.items():
            if fragment := text_of(delta.get(name)):
                self.add(key, field, fragment)
        if signature := text_of(delta.get("signature")):
            opened.block = {**opened.block, "signature": signature}
        if citation := object_of(delta.get("citation")):
            citations = [*objects_of(opened.block.get("citations")), citation]
            opened.block = {**opened.block, "citations": citations}

    def add(self, key: Key, field: str, fragment: str) -> None:
        """Add a fragment to a field of a block."""
        opened = self._blocks.get(key)
        if opened is not None:
            fragments = opened.fragments.get(field)
            if fragments is None:
                fragments = opened.fragments[field] = []
            fragments.append(fragment)

    def before_call(self) -> list[Delta]:
        """Return the sealed content before a call of a client tool, if it has server tools."""
        return self._sealed() if self._has_server_tools else []

    def at_end(self, *, is_paused: bool) -> list[Delta]:
        """Return the sealed content of a message that pauses, or that continues one that did."""
        needed = self._has_server_tools and (is_paused or self._answers_earlier_use)
        return self._sealed(is_paused=is_paused) if needed else []

    def _sealed(self, *, is_paused: bool = False) -> list[Delta]:
        blocks = [opened.complete() for opened in self._blocks.values()]
        self._blocks, self._has_server_tools = {}, False
        payload: dict[str, Any] = {
            "type": _CONTENT,
            "content": [block for block in blocks if _is_sendable(block)],
        }
        if is_paused:
            payload["paused"] = True
        # As data of a call, it becomes an item of its own.
        return [sealed_reasoning(self._target, payload, attached="turn", call="turn")]


def _input_of(text: str) -> dict[str, Any]:
    try:
        return object_of(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _is_sendable(block: Block) -> bool:
    """Return whether Anthropic accepts a block back: neither empty text nor unsigned thinking."""
    if block.get("type") == "text":
        return bool(text_of(block.get("text")).strip())
    return block.get("type") != "thinking" or bool(text_of(block.get("signature")))


def content_of(piece: Piece) -> list[Block] | None:
    """Return the blocks in a sealed turn; None if the piece is anything else."""
    if not isinstance(piece, HistoryReasoning) or piece.attached != "turn":
        return None
    payload = object_of(piece.payload)
    return objects_of(payload.get(_CONTENT)) if payload.get("type") == _CONTENT else None


def is_paused(piece: Piece) -> bool:
    return isinstance(piece, HistoryReasoning) and object_of(piece.payload).get("paused") is True


def without_repeats(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of a turn without those that a sealed content after them contains."""
    kept: list[Piece] = []
    for piece in pieces:
        content = content_of(piece)
        if content is not None:
            while kept and _is_in(kept[-1], content):
                kept.pop()
        kept.append(piece)
    return kept


def _is_in(piece: Piece, content: list[Block]) -> bool:
    if isinstance(piece, Call) or content_of(piece) is not None:
        return False
    if isinstance(piece, HistoryText):
        return piece.text in "".join(text_of(block.get("text")) for block in content)
    # The signature or the data identifies thinking. Without either, it cannot be sent back.
    payload = object_of(piece.payload)
    return any(
        all(block.get(name) == payload.get(name) for name in ("signature", "data")) for block in content
    )


def without_unanswered_uses(blocks: list[Block]) -> list[Block]:
    """Return the blocks without uses of server tools that have no result. Anthropic accepts them only where
    the turn continues."""
    answered = {text_of(block.get("tool_use_id")) for block in blocks}
    return [
        block for block in blocks if block.get("type") not in USES or text_of(block.get("id")) in answered
    ]
