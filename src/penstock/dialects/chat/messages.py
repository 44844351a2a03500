"""Renders a history as the messages of Chat Completions.

The messages of turn n+1 start with those of turn n, unchanged: prompt caches rely on it (ask D5). The only
exception are vendors that forbid old reasoning (`Quirks.drops_old_reasoning`).
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import msgspec

from penstock.dialects.chat.content import Content, flat
from penstock.dialects.chat.reasoning import PLAIN_FIELDS
from penstock.dialects.history import (
    AssistantTurn,
    Call,
    History,
    HistoryReasoning,
    HistoryText,
    OutputsTurn,
    SystemTurn,
    ToolOutput,
    UserTurn,
    framed,
)
from penstock.dialects.plan import Target
from penstock.dialects.presets.rows import vendor_facts
from penstock.stream.diagnostics import Diagnostics

Message = dict[str, Any]

_SHORT_ID = re.compile(r"[A-Za-z0-9]{9}")

ATTACHED = "[the output is attached to the next message]"
_ATTACHMENT = "[attached: the output of the call {id} to {name}]"


NO_REASONING = "[not available]"
"""Sent for missing reasoning where it is required. An empty text counts as missing (ask C1, ask C5)."""


class Messages:
    """Renders one history. `diagnostics` receives everything that could not be sent unchanged. `thinks`: the
    model is asked to reason."""

    def __init__(
        self, target: Target, history: History, diagnostics: Diagnostics, *, thinks: bool = False
    ) -> None:
        self._target = target
        self._thinks = thinks
        self._quirks = target.quirks
        self._history = history
        self._diagnostics = diagnostics
        self._content = Content(target, diagnostics)
        self._has_short_ids = vendor_facts(target.vendor).short_call_ids
        self._system_role = "developer" if self._quirks.developer_role else "system"

    def render(self, more_system: str = "") -> list[Message]:
        """Return all messages; `more_system` is added after the other instructions."""
        turns = self._history.turns
        users = [index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)]
        last_user = users[-1] if users else -1
        messages = self._system([*self._history.system, *([more_system] if more_system else [])])
        for index, turn in enumerate(turns):
            if isinstance(turn, UserTurn):
                messages += self._user(turn)
            elif isinstance(turn, SystemTurn):
                messages += self._late_system(turn.text)
            elif isinstance(turn, AssistantTurn):
                drops = self._quirks.drops_old_reasoning and index < last_user
                messages += self._assistant(turn, drops_reasoning=drops)
            else:
                messages += self._outputs(turn)
        return messages

    def _system(self, texts: list[str]) -> list[Message]:
        """Merge system messages into one, because chat templates refuse a second (ask T1)."""
        if self._quirks.system_first and texts:
            texts = ["\n\n".join(texts)]
        return [{"role": self._system_role, "content": text} for text in texts]

    def _late_system(self, text: str) -> list[Message]:
        if not text:
            return []
        if self._quirks.system_first:
            return [{"role": "user", "content": framed(text)}]
        return [{"role": self._system_role, "content": text}]

    def _user(self, turn: UserTurn) -> list[Message]:
        content = flat(self._content.parts(turn.parts))
        return [{"role": "user", "content": content}] if content else []

    def _assistant(self, turn: AssistantTurn, *, drops_reasoning: bool) -> list[Message]:
        texts = [piece.text for piece in turn.pieces if isinstance(piece, HistoryText)]
        thoughts = [
            piece for piece in turn.pieces if isinstance(piece, HistoryReasoning) and not piece.foreign
        ]
        message: Message = {"role": "assistant", "content": "\n\n".join(texts) or None}
        if not drops_reasoning:
            self._add_reasoning(message, [thought for thought in thoughts if thought.attached != "call"])
        if calls := self._calls(turn):
            message["tool_calls"] = calls
            if self._quirks.requires_reasoning and self._quirks.reasoning_field not in message:
                self._add_placeholder(message, turn)
        if message["content"] is None and not calls:
            if len(message) == 2:
                return []
            message["content"] = ""  # reasoning alone: null is for messages with calls
        return [message]

    def _add_reasoning(self, message: Message, thoughts: list[HistoryReasoning]) -> None:
        """Add reasoning to a message: the vendor's own fields unchanged, and the text (ask C1, quirk C26)."""
        sealed = _joined([_fields(thought) for thought in thoughts])
        # Interleaved with text, it is several items; the upstream knows it as one text.
        text = "".join(map(_text_of, thoughts))
        field = self._text_field(sealed)
        if text and field:
            message[field] = text
        elif text and not sealed:
            self._diagnostics.report(
                "reasoning_left_out", "reasoning was left out: this upstream does not accept it"
            )
        message.update({name: value for name, value in sealed.items() if name not in message})

    def _add_placeholder(self, message: Message, turn: AssistantTurn) -> None:
        """Replace reasoning that the upstream requires, if it was another model's or is lost."""
        if any(isinstance(piece, HistoryReasoning) and piece.foreign for piece in turn.pieces):
            message[self._quirks.reasoning_field] = NO_REASONING
        elif self._thinks:
            message[self._quirks.reasoning_field] = NO_REASONING
            self._diagnostics.report(
                "reasoning_missing", "the reasoning before a call is missing; a placeholder was sent"
            )

    def _text_field(self, sealed: dict[str, Any]) -> str:
        """Return the field for plain text. With `reasoning_details`, text without details is `reasoning`."""
        if self._quirks.reasoning_field:
            return self._quirks.reasoning_field
        return "reasoning" if self._quirks.reasoning_details and not sealed else ""

    def _calls(self, turn: AssistantTurn) -> list[dict[str, Any]]:
        """Return the calls, each with the signature directly before it (ask C3)."""
        calls: list[dict[str, Any]] = []
        attached: dict[str, Any] = {}
        for piece in turn.pieces:
            if isinstance(piece, HistoryReasoning) and piece.attached == "call" and not piece.foreign:
                attached |= _fields(piece)
            elif isinstance(piece, Call):
                function = {"name": piece.name, "arguments": self._arguments(piece)}
                call = {"id": self._id(piece.id), "type": "function", "function": function}
                calls.append(attached | call)
                attached = {}
        return calls

    def _arguments(self, call: Call) -> str:
        """Return valid JSON: servers parse the arguments of old calls, and fail on truncated ones."""
        try:
            if isinstance(msgspec.json.decode(call.arguments), dict):
                return call.arguments
        except (msgspec.DecodeError, RecursionError):
            pass
        self._diagnostics.report(
            "odd_arguments", f"the arguments of a call to {call.name!r} are not a JSON object"
        )
        return msgspec.json.encode({"arguments": call.arguments}).decode()

    def _outputs(self, turn: OutputsTurn) -> list[Message]:
        """Return the tool messages. Content other than text follows as a user message (ask B10)."""
        messages: list[Message] = []
        attachments: list[dict[str, Any]] = []
        for output in turn.outputs:
            text, media = self._output(output)
            messages.append({"role": "tool", "tool_call_id": self._id(output.id), "content": text})
            attachments += media
        if attachments:
            messages.append({"role": "user", "content": attachments})
        return messages

    def _output(self, output: ToolOutput) -> tuple[str, list[dict[str, Any]]]:
        if isinstance(output.content, str):
            return output.content, []
        parts = self._content.parts(output.content)
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        media = [part for part in parts if part["type"] != "text"]
        if not media:
            return text, []
        title = _ATTACHMENT.format(id=self._id(output.id), name=output.name)
        return text or ATTACHED, [{"type": "text", "text": title}, *media]

    def _id(self, call_id: str) -> str:
        if not self._has_short_ids or _SHORT_ID.fullmatch(call_id):
            return call_id
        return sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _fields(thought: HistoryReasoning) -> dict[str, Any]:
    """Return what the reader sealed: fields of the message or the call, under the vendor's own names. Plain
    text is not among them: whether and where it is sent depends on the upstream."""
    payload = thought.payload if isinstance(thought.payload, dict) else {}
    return {name: value for name, value in payload.items() if name not in PLAIN_FIELDS}


def _text_of(thought: HistoryReasoning) -> str:
    """Return the plain text. Prefer what the reader sealed: clients lose text or send it as a summary."""
    payload = thought.payload if isinstance(thought.payload, dict) else {}
    sealed = (value for name in PLAIN_FIELDS if isinstance(value := payload.get(name), str))
    return next(sealed, "") or thought.text or thought.summary


def _joined(sealed: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge fields: concatenate lists of details, and use the last value of any other field."""
    joined: dict[str, Any] = {}
    for fields in sealed:
        for name, value in fields.items():
            if isinstance(value, list) and isinstance(earlier := joined.get(name), list):
                earlier += value
            else:
                joined[name] = list(value) if isinstance(value, list) else value
    return joined
