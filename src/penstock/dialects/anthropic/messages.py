"""The turns of a history as Anthropic's messages.

Neighbours of one role are one message: Anthropic joins them anyway, and its imitators refuse them. What is
written for a turn depends on the turns before it and never on those after it, so a longer conversation
starts with the blocks of a shorter one (ask D5). A quirk states the one exception:
`drops_old_reasoning`.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.dialects.anthropic.content import Block, blocks_of, text_block
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
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")


def messages_of(plan: Plan, history: History, told: Diagnostics) -> list[dict[str, Any]]:
    writer = _MessagesWriter(plan, told)
    current = _last_user_turn(history.turns) if plan.target.quirks.drops_old_reasoning else 0
    for index, turn in enumerate(history.turns):
        writer.write(turn, keeps_reasoning=index >= current)
    return writer.ended()


def _last_user_turn(turns: list[Turn]) -> int:
    return max((index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)


def loop_without_thinking(messages: list[dict[str, Any]]) -> bool:
    """Is a tool loop going on that began without this maker's thinking? Then none may be asked for now."""
    if len(messages) < 2 or messages[-1]["content"][0]["type"] != "tool_result":
        return False
    return messages[-2]["content"][0]["type"] not in THINKING


class _MessagesWriter:
    def __init__(self, plan: Plan, told: Diagnostics) -> None:
        self._quirks = plan.target.quirks
        self._told = told
        self._messages: list[dict[str, Any]] = []
        self._ids: dict[str, str] = {}
        """The ids of the last assistant turn: the history's, and the ones sent."""
        self._used = UniqueIds()

    def write(self, turn: Turn, *, keeps_reasoning: bool) -> None:
        if isinstance(turn, UserTurn):
            self._add("user", blocks_of(turn.parts, self._quirks, self._told))
        elif isinstance(turn, SystemTurn):
            self._add_system(turn.text)
        elif isinstance(turn, AssistantTurn):
            self._add("assistant", self._assistant(turn, keeps_reasoning=keeps_reasoning))
        else:
            self._add("user", self._outputs(turn))

    def ended(self) -> list[dict[str, Any]]:
        """A conversation ends with the user: newer models refuse one that ends with their own words."""
        if not self._messages:
            raise DecodeError("there is nothing to send", "input")
        if self._messages[-1]["role"] != "user":
            self._told.tell(
                "turn_added", "the input does not end with the user; a request to go on was added"
            )
            self._add("user", [{"type": "text", "text": CONTINUE}])
        return self._messages

    def _add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if not self._messages and role == "assistant":
            self._told.tell(
                "turn_added", "the input begins with the assistant; a user turn was put before it"
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

    def _assistant(self, turn: AssistantTurn, *, keeps_reasoning: bool) -> list[Block]:
        """In the order in which it was said. A turn must not end with thinking: the rest was cut off."""
        self._ids = {}
        blocks = [
            block
            for piece in turn.pieces
            if keeps_reasoning or not isinstance(piece, HistoryReasoning)
            if (block := self._piece(piece)) is not None
        ]
        while blocks and blocks[-1]["type"] in THINKING:
            blocks.pop()
            self._told.tell("reasoning_left_out", "reasoning that nothing follows was left out")
        return blocks

    def _piece(self, piece: HistoryReasoning | HistoryText | Call) -> Block | None:
        if isinstance(piece, HistoryReasoning):
            return self._thought(piece)
        if isinstance(piece, HistoryText):
            return text_block(piece.text)
        self._ids[piece.id] = self._free_id(piece.id)
        return {
            "type": "tool_use",
            "id": self._ids[piece.id],
            "name": piece.name,
            "input": self._arguments(piece),
        }

    def _thought(self, thought: HistoryReasoning) -> Block | None:
        """Byte for byte what came (ask C2). Unsigned thinking is refused, so it is not sent."""
        payload = thought.payload if isinstance(thought.payload, dict) else {}
        signature, data = payload.get("signature"), payload.get("data")
        if isinstance(signature, str) and signature:
            # The payload's own text, should the reader have sealed it: clients lose reasoning text.
            text = payload.get("thinking")
            said = text if isinstance(text, str) else thought.text or thought.summary
            return {"type": "thinking", "thinking": said, "signature": signature}
        if isinstance(data, str) and data:
            return {"type": "redacted_thinking", "data": data}
        if not thought.foreign:
            self._told.tell("reasoning_left_out", "reasoning without a signature was left out")
        return None

    def _arguments(self, call: Call) -> dict[str, Any]:
        try:
            arguments = parse_json(call.arguments)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            return arguments
        self._told.tell("odd_arguments", f"the arguments of a call to {call.name!r} are no JSON object")
        return {"arguments": call.arguments}

    def _free_id(self, id: str) -> str:
        """Unique in the whole conversation and of few characters; other upstreams' ids are neither
        (quirk C19)."""
        return self._used.first_free(_NOT_IN_IDS.sub("_", id) or "call", separator="_")

    def _outputs(self, turn: OutputsTurn) -> list[Block]:
        """All results of a turn in one message, directly behind it."""
        return [self._result(self._ids[output.id], output.content) for output in turn.outputs]

    def _result(self, id: str, content: Any) -> Block:
        result: Block = {"type": "tool_result", "tool_use_id": id}
        if isinstance(content, str):
            return {**result, "content": content} if content.strip() else result
        blocks = blocks_of(content, self._quirks, self._told)
        return {**result, "content": blocks} if blocks else result
