"""The turns of a history as Gemini's contents.

Neighbours of one role are one content. A signature goes back on the part that it came on (ask C3); the
summaries of thoughts do not go back. What is written for a turn depends on the turns before it and never on
those after it, so a longer conversation starts with the parts of a shorter one (ask D5). A quirk
states the one exception: `drops_old_reasoning`.
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.gemini.content import Part, parts_of, text_part
from penstock.dialects.gemini.thinking import GeminiTraits
from penstock.dialects.history import (
    AssistantTurn,
    Call,
    History,
    HistoryReasoning,
    HistoryText,
    OutputsTurn,
    SystemTurn,
    ToolOutput,
    Turn,
    UserTurn,
    framed,
)
from penstock.dialects.plan import Plan
from penstock.errors import DecodeError
from penstock.lenient import parse_json
from penstock.stream.diagnostics import Diagnostics

BEGINNING = "[The conversation begins with your own turn.]"
CONTINUE = "[Please go on.]"

UNSIGNED = "skip_thought_signature_validator"
"""Google's own word for a call that another model made: such a call has no signature to show (ask C5)."""


def contents_of(
    plan: Plan, history: History, traits: GeminiTraits, told: Diagnostics
) -> list[dict[str, Any]]:
    writer = _ContentsWriter(plan, traits, told)
    current = _last_user_turn(history.turns) if plan.target.quirks.drops_old_reasoning else 0
    for index, turn in enumerate(history.turns):
        writer.write(turn, keeps_reasoning=index >= current)
    return writer.ended()


def _last_user_turn(turns: list[Turn]) -> int:
    return max((index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)


class _ContentsWriter:
    def __init__(self, plan: Plan, traits: GeminiTraits, told: Diagnostics) -> None:
        self._quirks = plan.target.quirks
        self._traits = traits
        self._told = told
        self._contents: list[dict[str, Any]] = []

    def write(self, turn: Turn, *, keeps_reasoning: bool) -> None:
        if isinstance(turn, UserTurn):
            self._add("user", parts_of(turn.parts, self._quirks, self._told))
        elif isinstance(turn, SystemTurn):
            self._add("user", [{"text": framed(turn.text)}] if turn.text.strip() else [])
        elif isinstance(turn, AssistantTurn):
            kept = [
                piece for piece in turn.pieces if keeps_reasoning or not isinstance(piece, HistoryReasoning)
            ]
            self._add("model", _ModelTurn(self._traits, self._told).parts(kept))
        else:
            self._add("user", self._outputs(turn))

    def ended(self) -> list[dict[str, Any]]:
        """A conversation begins and ends with the user: Gemini refuses it otherwise."""
        if not self._contents:
            raise DecodeError("there is nothing to send", "input")
        if self._contents[-1]["role"] == "model":
            self._told.tell(
                "turn_added", "the input does not end with the user; a request to go on was added"
            )
            self._add("user", [{"text": CONTINUE}])
        return self._contents

    def _add(self, role: str, parts: list[Part]) -> None:
        if not parts:
            return
        if not self._contents and role == "model":
            self._told.tell(
                "turn_added", "the input begins with the assistant; a user turn was put before it"
            )
            self._contents.append({"role": "user", "parts": [{"text": BEGINNING}]})
        if self._contents and self._contents[-1]["role"] == role:
            self._contents[-1]["parts"] += parts
        else:
            self._contents.append({"role": role, "parts": parts})

    def _outputs(self, turn: OutputsTurn) -> list[Part]:
        """The responses together, as many as there were calls; what is no text follows them."""
        responses: list[Part] = []
        media: list[Part] = []
        for output in turn.outputs:
            text, others = self._output(output)
            function = {"id": output.id, "name": output.name, "response": {"output": text}}
            responses.append({"functionResponse": {key: value for key, value in function.items() if value}})
            if others:
                media += [{"text": f"[from the output of {output.name}]"}, *others]
        return responses + media

    def _output(self, output: ToolOutput) -> tuple[str, list[Part]]:
        """Text stays text, whatever JSON is in it: Gemini would read a schema into it (ask B12)."""
        if isinstance(output.content, str):
            return output.content, []
        parts = parts_of(output.content, self._quirks, self._told)
        texts = [part["text"] for part in parts if "text" in part]
        return "\n".join(texts), [part for part in parts if "text" not in part]


class _ModelTurn:
    """What the model did in one go. Signatures find their parts."""

    def __init__(self, traits: GeminiTraits, told: Diagnostics) -> None:
        self._traits = traits
        self._told = told
        self._parts: list[Part] = []
        self._signature = ""
        """Of the next call."""

    def parts(self, pieces: list[HistoryReasoning | HistoryText | Call]) -> list[Part]:
        for piece in pieces:
            if isinstance(piece, HistoryReasoning):
                self._thought(piece)
            elif isinstance(piece, HistoryText):
                self._parts += [part] if (part := text_part(piece.text)) else []
            else:
                self._call(piece)
        if self._signature:
            self._told.tell("reasoning_left_out", "a signature whose call is not there was left out")
        self._vouch()
        return self._parts

    def _call(self, call: Call) -> None:
        function = {"id": call.id, "name": call.name, "args": self._arguments(call)}
        part: Part = {
            "functionCall": {key: value for key, value in function.items() if value or key == "args"}
        }
        if self._signature:
            part["thoughtSignature"], self._signature = self._signature, ""
        self._parts.append(part)

    def _thought(self, thought: HistoryReasoning) -> None:
        payload = thought.payload if isinstance(thought.payload, dict) else {}
        signature = payload.get("thoughtSignature")
        if not isinstance(signature, str) or not signature:
            if thought.text and not thought.foreign:
                self._told.tell("reasoning_left_out", "reasoning without a signature was left out")
            return
        kind = str(payload.get("part") or ("functionCall" if thought.attached == "call" else "empty_text"))
        if kind == "functionCall" and not payload.get("after"):
            self._signature = signature
        elif kind == "thought":
            # The one thought that goes back: a signature cannot be taken off its part.
            said = thought.summary or thought.text
            self._parts.append({"text": said, "thought": True, "thoughtSignature": signature})
        elif kind in _SIGNED_BEFORE:
            self._sign_last(_SIGNED_BEFORE[kind], signature)
        elif kind == "empty_text":
            self._parts.append({"text": "", "thoughtSignature": signature})
        else:
            self._told.tell("reasoning_left_out", f"the signature of a part {kind!r} was left out")

    def _sign_last(self, field: str, signature: str) -> None:
        """The part before is the signed one; if it is gone, an empty one carries the signature."""
        last = self._parts[-1] if self._parts else {}
        if field in last and "thoughtSignature" not in last:
            last["thoughtSignature"] = signature
        else:
            self._parts.append({"text": "", "thoughtSignature": signature})

    def _vouch(self) -> None:
        """The first call of a step has a signature; one that another model made says that it has none."""
        calls = [part for part in self._parts if "functionCall" in part]
        if self._traits.signed_calls and calls and not any("thoughtSignature" in part for part in calls):
            calls[0]["thoughtSignature"] = UNSIGNED
            self._told.tell("unsigned_call", "a call of another model was sent without a signature")

    def _arguments(self, call: Call) -> dict[str, Any]:
        try:
            arguments = parse_json(call.arguments)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            return arguments
        self._told.tell("odd_arguments", f"the arguments of a call to {call.name!r} are no JSON object")
        return {"arguments": call.arguments}


_SIGNED_BEFORE = {"text": "text", "functionCall": "functionCall"}
"""Parts whose signature comes after them, and the field by which they are known."""
