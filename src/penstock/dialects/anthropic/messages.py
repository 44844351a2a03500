"""Convert the turns of a history to Anthropic's messages.

Adjacent turns of one role become one message: Anthropic merges them anyway, and compatible APIs reject them.
The output for a turn depends only on the turns before it, so a longer conversation starts with the blocks of
a shorter one (ask D5). The only exception is the quirk `drops_old_reasoning`.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.dialects.anthropic.content import Block, blocks_of, text_block
from penstock.dialects.anthropic.turn_content import (
    content_of,
    is_paused,
    without_repeats,
    without_unanswered_uses,
)
from penstock.dialects.history import (
    AssistantTurn,
    Call,
    History,
    HistoryReasoning,
    HistoryText,
    OutputsTurn,
    SystemTurn,
    Turn,
    UserTurn,
    framed,
)
from penstock.dialects.plan import Plan
from penstock.errors import DecodeError
from penstock.lenient import parse_json
from penstock.stream.diagnostics import Diagnostics
from penstock.tools.call_ids import UniqueIds

BEGINNING = "[The conversation begins with your own turn.]"
CONTINUE = "[Please go on.]"

THINKING = frozenset({"thinking", "redacted_thinking"})
_INVALID_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


def messages_of(plan: Plan, history: History, diagnostics: Diagnostics) -> list[dict[str, Any]]:
    writer = _MessagesWriter(plan, diagnostics)
    first_kept = _last_user_turn(history.turns) if plan.target.quirks.drops_old_reasoning else 0
    for index, turn in enumerate(history.turns):
        is_last = index == len(history.turns) - 1
        writer.write(turn, keep_reasoning=index >= first_kept, is_last=is_last)
    return writer.finish()


def _last_user_turn(turns: list[Turn]) -> int:
    return max((index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)


def loop_without_thinking(messages: list[dict[str, Any]]) -> bool:
    """Return whether a tool loop or a paused turn is in progress that began without thinking; then none may
    be requested."""
    if messages[-1]["role"] == "assistant":
        return messages[-1]["content"][0]["type"] not in THINKING
    if len(messages) < 2 or messages[-1]["content"][0]["type"] != "tool_result":
        return False
    return messages[-2]["content"][0]["type"] not in THINKING


class _MessagesWriter:
    def __init__(self, plan: Plan, diagnostics: Diagnostics) -> None:
        self._quirks = plan.target.quirks
        self._diagnostics = diagnostics
        self._messages: list[dict[str, Any]] = []
        self._ids: dict[str, str] = {}
        """The call ids of the last assistant turn: from the history's id to the id that was sent."""
        self._used = UniqueIds()
        self._is_paused = False
        """Whether the last turn is one that Anthropic paused: it is continued as it is."""

    def write(self, turn: Turn, *, keep_reasoning: bool, is_last: bool) -> None:
        if isinstance(turn, UserTurn):
            self._add("user", blocks_of(turn.parts, self._quirks, self._diagnostics))
        elif isinstance(turn, SystemTurn):
            self._add_system(turn.text)
        elif isinstance(turn, AssistantTurn):
            self._is_paused = is_last and is_paused(turn.pieces[-1])
            self._add("assistant", self._assistant(turn, keep_reasoning=keep_reasoning))
        else:
            self._add("user", self._outputs(turn))

    def finish(self) -> list[dict[str, Any]]:
        """Return the messages, ending with the user: newer models reject a trailing assistant message, unless
        it is a turn that they paused."""
        if not self._messages:
            raise DecodeError("the input has no content that can be sent to this upstream", "input")
        if self._messages[-1]["role"] != "user" and not self._is_paused:
            self._diagnostics.report(
                "turn_added", "the input does not end with the user; a request to continue was added"
            )
            self._add("user", [{"type": "text", "text": CONTINUE}])
        return self._messages

    def _add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if not self._messages and role == "assistant":
            self._diagnostics.report(
                "turn_added", "the input begins with the assistant; a user turn was added before it"
            )
            self._messages.append({"role": "user", "content": [{"type": "text", "text": BEGINNING}]})
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": role, "content": blocks})

    def _add_system(self, text: str) -> None:
        if not text.strip():
            return
        if self._quirks.system_first or not self._messages:
            self._add("user", [{"type": "text", "text": framed(text)}])
        else:
            self._add("system", [{"type": "text", "text": text}])

    def _assistant(self, turn: AssistantTurn, *, keep_reasoning: bool) -> list[Block]:
        """Return the blocks in their original order. Trailing thinking is dropped: its turn was cut off."""
        self._ids = {}
        pieces = without_repeats(turn.pieces)
        blocks = [
            block
            for piece in pieces
            if keep_reasoning or not isinstance(piece, HistoryReasoning) or piece.attached == "turn"
            for block in self._assistant_blocks(piece, keep_reasoning=keep_reasoning)
        ]
        if not self._is_paused and not self._ids:
            blocks = self._without_unanswered_uses(blocks)
        while blocks and not self._is_paused and blocks[-1]["type"] in THINKING:
            blocks.pop()
            self._diagnostics.report(
                "reasoning_left_out", "trailing reasoning was left out: no message or call follows it"
            )
        return blocks

    def _without_unanswered_uses(self, blocks: list[Block]) -> list[Block]:
        kept = without_unanswered_uses(blocks)
        if len(kept) < len(blocks):
            message = "the use of a server tool was left out: its turn was not continued"
            self._diagnostics.report("server_tool_left_out", message)
        return kept

    def _assistant_blocks(
        self, piece: HistoryReasoning | HistoryText | Call, *, keep_reasoning: bool
    ) -> list[Block]:
        content = content_of(piece)
        if content is None:
            block = self._assistant_block(piece)
            return [] if block is None else [block]
        return [block for block in content if keep_reasoning or block.get("type") not in THINKING]

    def _assistant_block(self, piece: HistoryReasoning | HistoryText | Call) -> Block | None:
        if isinstance(piece, HistoryReasoning):
            return self._thinking_block(piece)
        if isinstance(piece, HistoryText):
            return text_block(piece.text)
        self._ids[piece.id] = self._unique_id(piece.id)
        return {
            "type": "tool_use",
            "id": self._ids[piece.id],
            "name": piece.name,
            "input": self._arguments(piece),
        }

    def _thinking_block(self, thought: HistoryReasoning) -> Block | None:
        """Return the thinking unchanged (ask C2). Unsigned thinking is not sent: it would be rejected."""
        payload = thought.payload if isinstance(thought.payload, dict) else {}
        signature, data = payload.get("signature"), payload.get("data")
        if isinstance(signature, str) and signature:
            # Prefer the text that the reader sealed: clients lose reasoning text.
            sealed = payload.get("thinking")
            text = sealed if isinstance(sealed, str) else thought.text or thought.summary
            return {"type": "thinking", "thinking": text, "signature": signature}
        if isinstance(data, str) and data:
            return {"type": "redacted_thinking", "data": data}
        if not thought.foreign:
            self._diagnostics.report("reasoning_left_out", "reasoning without a signature was left out")
        return None

    def _arguments(self, call: Call) -> dict[str, Any]:
        try:
            arguments = parse_json(call.arguments)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            return arguments
        self._diagnostics.report(
            "odd_arguments", f"the arguments of a call to {call.name!r} are not a JSON object"
        )
        return {"arguments": call.arguments}

    def _unique_id(self, id: str) -> str:
        """Return an id that is unique in the conversation and has only allowed characters (quirk C19)."""
        return self._used.first_free(_INVALID_IN_IDS.sub("_", id) or "call", separator="_")

    def _outputs(self, turn: OutputsTurn) -> list[Block]:
        """Return all results of a turn for one message, directly after it."""
        return [self._result(self._ids[output.id], output.content) for output in turn.outputs]

    def _result(self, id: str, content: Any) -> Block:
        result: Block = {"type": "tool_result", "tool_use_id": id}
        if isinstance(content, str):
            return {**result, "content": content} if content.strip() else result
        blocks = blocks_of(content, self._quirks, self._diagnostics)
        return {**result, "content": blocks} if blocks else result
