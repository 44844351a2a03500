"""Convert the turns of a history to Gemini's contents.

Adjacent turns of one role become one content. A signature is sent back on the part that it arrived on
(ask C3); thought summaries are not sent back. The output for a turn depends only on the turns before it, so
a longer conversation starts with the parts of a shorter one (ask D5). The only exception is the quirk
`drops_old_reasoning`.
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.gemini.content import Part, parts_of, text_part
from penstock.dialects.gemini.server_tools import GeminiServerTools
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
"""Google's documented placeholder for a call by another model, which has no signature (ask C5)."""


def contents_of(
    plan: Plan, history: History, traits: GeminiTraits, diagnostics: Diagnostics
) -> list[dict[str, Any]]:
    writer = _ContentsWriter(plan, traits, diagnostics)
    first_kept = _last_user_turn(history.turns) if plan.target.quirks.drops_old_reasoning else 0
    for index, turn in enumerate(history.turns):
        writer.write(turn, keep_reasoning=index >= first_kept)
    return writer.finish()


def _last_user_turn(turns: list[Turn]) -> int:
    return max((index for index, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)


class _ContentsWriter:
    def __init__(self, plan: Plan, traits: GeminiTraits, diagnostics: Diagnostics) -> None:
        self._quirks = plan.target.quirks
        self._traits = traits
        self._diagnostics = diagnostics
        self._contents: list[dict[str, Any]] = []

    def write(self, turn: Turn, *, keep_reasoning: bool) -> None:
        if isinstance(turn, UserTurn):
            self._add("user", parts_of(turn.parts, self._quirks, self._diagnostics))
        elif isinstance(turn, SystemTurn):
            self._add("user", [{"text": framed(turn.text)}] if turn.text.strip() else [])
        elif isinstance(turn, AssistantTurn):
            pieces = [
                piece for piece in turn.pieces if keep_reasoning or not isinstance(piece, HistoryReasoning)
            ]
            self._add("model", _ModelTurn(self._traits, self._diagnostics).parts(pieces))
        else:
            self._add("user", self._outputs(turn))

    def finish(self) -> list[dict[str, Any]]:
        """Return the contents. They begin and end with the user: Gemini rejects anything else."""
        if not self._contents:
            raise DecodeError("the input has no content that can be sent to this upstream", "input")
        if self._contents[-1]["role"] == "model":
            self._diagnostics.report(
                "turn_added", "the input does not end with the user; a request to continue was added"
            )
            self._add("user", [{"text": CONTINUE}])
        return self._contents

    def _add(self, role: str, parts: list[Part]) -> None:
        if not parts:
            return
        if not self._contents and role == "model":
            self._diagnostics.report(
                "turn_added", "the input begins with the assistant; a user turn was added before it"
            )
            self._contents.append({"role": "user", "parts": [{"text": BEGINNING}]})
        if self._contents and self._contents[-1]["role"] == role:
            self._contents[-1]["parts"] += parts
        else:
            self._contents.append({"role": role, "parts": parts})

    def _outputs(self, turn: OutputsTurn) -> list[Part]:
        """Return one response for each call, followed by the content that cannot be part of it
        (field F13)."""
        responses: list[Part] = []
        media: list[Part] = []
        for output in turn.outputs:
            text, others = self._output(output)
            inside: list[Part] = []
            if self._traits.media_in_outputs:
                inside = [part for part in others if _fits_response(part)]
                others = [part for part in others if not _fits_response(part)]
            function = {
                "id": output.id,
                "name": output.name,
                "response": {"output": text},
                "parts": inside,
            }
            responses.append({"functionResponse": {key: value for key, value in function.items() if value}})
            if others:
                media += [{"text": f"[from the output of {output.name}]"}, *others]
        return responses + media

    def _output(self, output: ToolOutput) -> tuple[str, list[Part]]:
        """Return the text and the other parts. JSON stays text, or Gemini reads it as a schema (ask B12)."""
        if isinstance(output.content, str):
            return output.content, []
        parts = parts_of(output.content, self._quirks, self._diagnostics)
        texts = [part["text"] for part in parts if "text" in part]
        return "\n".join(texts), [part for part in parts if "text" not in part]


class _ModelTurn:
    """Build the parts of one model turn, with each signature on its part."""

    def __init__(self, traits: GeminiTraits, diagnostics: Diagnostics) -> None:
        self._traits = traits
        self._diagnostics = diagnostics
        self._parts: list[Part] = []
        self._signature = ""
        """The signature for the next call."""

    def parts(self, pieces: list[HistoryReasoning | HistoryText | Call]) -> list[Part]:
        for piece in pieces:
            if isinstance(piece, HistoryReasoning):
                self._add_signature(piece)
            elif isinstance(piece, HistoryText):
                self._parts += [part] if (part := text_part(piece.text)) else []
            else:
                self._add_call(piece)
        if self._signature:
            self._diagnostics.report("reasoning_left_out", "a signature without its call was left out")
        self._mark_unsigned_call()
        return self._parts

    def _add_call(self, call: Call) -> None:
        function = {"id": call.id, "name": call.name, "args": self._arguments(call)}
        part: Part = {
            "functionCall": {key: value for key, value in function.items() if value or key == "args"}
        }
        if self._signature:
            part["thoughtSignature"], self._signature = self._signature, ""
        self._parts.append(part)

    def _add_signature(self, thought: HistoryReasoning) -> None:
        payload = thought.payload if isinstance(thought.payload, dict) else {}
        signature = payload.get("thoughtSignature")
        if payload.get("part") in SEALED_PARTS and isinstance(payload.get("value"), dict):
            self._add_sealed_part(payload, signature)
            return
        if not isinstance(signature, str) or not signature:
            if thought.text and not thought.foreign:
                self._diagnostics.report("reasoning_left_out", "reasoning without a signature was left out")
            return
        kind = str(payload.get("part") or ("functionCall" if thought.attached == "call" else "empty_text"))
        if kind == "functionCall" and not payload.get("after"):
            self._signature = signature
        elif kind == "thought":
            # The only thought that is sent back: a signature cannot be separated from its part.
            text = (
                payload["text"] if isinstance(payload.get("text"), str) else thought.summary or thought.text
            )
            self._parts.append({"text": text, "thought": True, "thoughtSignature": signature})
        elif kind in _SIGNED_AFTERWARDS:
            self._sign_last(_SIGNED_AFTERWARDS[kind], signature)
        elif kind == "empty_text":
            self._parts.append({"text": "", "thoughtSignature": signature})
        else:
            self._diagnostics.report(
                "reasoning_left_out", f"the signature of a part of type {kind!r} was left out"
            )

    def _add_sealed_part(self, payload: dict[str, Any], signature: Any) -> None:
        part: Part = {payload["part"]: payload["value"]}
        if isinstance(signature, str) and signature:
            part["thoughtSignature"] = signature
        self._parts.append(part)

    def _sign_last(self, field: str, signature: str) -> None:
        """Sign the previous part; if it is missing, add an empty part for the signature."""
        last = self._parts[-1] if self._parts else {}
        if field in last and "thoughtSignature" not in last:
            last["thoughtSignature"] = signature
        else:
            self._parts.append({"text": "", "thoughtSignature": signature})

    def _mark_unsigned_call(self) -> None:
        """Add the placeholder if no call has a signature: the first call of a step must have one."""
        calls = [part for part in self._parts if "functionCall" in part]
        if self._traits.signed_calls and calls and not any("thoughtSignature" in part for part in calls):
            calls[0]["thoughtSignature"] = UNSIGNED
            self._diagnostics.report("unsigned_call", "a call by another model was sent without a signature")

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


SEALED_PARTS = frozenset({*GeminiServerTools.PARTS, "fileData"})
"""Parts that are sealed as a whole if they are signed."""


def _fits_response(part: Part) -> bool:
    return part.get("inlineData", {}).get("mimeType") in _IN_RESPONSES


_IN_RESPONSES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
"""The media types that a function's response may contain. Source: Google's docs on function calling."""

_SIGNED_AFTERWARDS = {"text": "text", "functionCall": "functionCall"}
"""Parts whose signature arrives after them, and the field that identifies them."""
