"""Reads the Chat Completions of every vendor: streamed chunks, and complete answers.

A chunk is read in a fixed order: model and id, the delta, usage, the finish reason. Nothing is keyed on the
id of a chunk (quirk C4), and reading continues after the finish reason: usage and more may follow (quirk C5,
quirk C12).
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.chat.citations import has_citations
from penstock.dialects.chat.common_chunks import ChatCallPiece, CommonChatChunk, read_common
from penstock.dialects.chat.hosted import HOSTED_FIELDS, Hosted
from penstock.dialects.chat.markup import Splitter
from penstock.dialects.chat.reasoning import REASONING_FIELDS, Reasoning
from penstock.dialects.chat.usage import read_usage
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
from penstock.dialects.repeated_chunks import RepeatsText
from penstock.lenient import object_of, objects_of, text_of
from penstock.protocol.content import LogProb, TopLogProb
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    Key,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
)

FINISHES: dict[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end": FinishReason.STOP,
    "complete": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "pause_turn": FinishReason.PAUSE,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content-filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
}
"""The finish reasons of all vendors, in lower case. Any other counts as a stop, with a diagnostic."""

FAILURES: dict[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "abort": "server_error",
    "malformed_function_call": "server_error",
    "insufficient_system_resource": "server_is_overloaded",
}
"""Finish reasons that report a failed answer, and the error code for each."""

CALL_FIELDS = frozenset({"tool_calls", "function_call"})

LEFT_OUT = frozenset({"audio", "copilot_annotations"})
"""Fields of a delta that have content but no equivalent in a Responses stream."""

_CONTENT = b'"content":'

LEGACY_CALL = "function_call"
"""The key of the one call that the legacy field can contain (quirk C23)."""


class ChatReader(RepeatsText):
    """Reads one answer."""

    __slots__ = (
        "_calls",
        "_chunks",
        "_done",
        "_finished",
        "_has_output",
        "_hosted",
        "_info",
        "_last_info",
        "_logprobs",
        "_message",
        "_reasoning",
        "_signed",
        "_splitter",
    )

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._reasoning = Reasoning(plan)
        self._hosted: Hosted | None = None
        """What the vendor did itself; few vendors report it."""
        self._splitter = Splitter.for_plan(plan)
        self._info = UpstreamInfo()
        self._last_info: tuple[Any, ...] = ()
        self._logprobs: list[LogProb] = []
        self._calls: dict[Key, str] = {}
        """The ids of the calls that have started, by key."""
        self._signed: dict[Key, None] = {}
        """The calls whose signatures were sent. An empty set would take three times as much memory."""
        self._message: tuple[dict[str, Any], dict[str, Any]] | None = None
        """A chunk and its choice, if that is a complete message instead of a delta."""
        self._chunks = 0
        self._has_output = False
        self._finished = False
        self._done = False

    @property
    def is_over(self) -> bool:
        return self._done

    def feed(self, frame: Frame) -> list[Delta]:
        common = read_common(frame.data)
        if common is not None and frame.event != "error":
            return self._read_common(common)
        self.text_key = None
        if frame.data.strip() == DONE:
            self._done = True
            return self._settle()
        if not frame.data.strip():
            return []
        chunk = read_object(frame)
        if isinstance(chunk, ErrorDelta):
            return [*self._settle(), chunk]
        return self.read(chunk, is_error=frame.event == "error")

    def read(self, chunk: dict[str, Any], *, is_error: bool = False) -> list[Delta]:
        """Return the deltas of one chunk, or of a complete answer."""
        self._chunks += 1
        deltas = self._read_info(chunk.get("id"), chunk.get("model"), chunk.get("service_tier"))
        choice = self._choice(chunk, deltas)
        deltas += self._read_choice(chunk, choice)
        deltas += read_usage(chunk)
        error = error_delta(chunk) if is_error else _error_of(chunk, choice)
        if error is not None:
            return [*deltas, *self._settle(), error]
        return deltas + self._read_finish(choice)

    def end(self) -> list[Delta]:
        """Return the last deltas: the upstream has ended. Without a finish reason and [DONE], it was cut off
        (decision 5)."""
        deltas = self._settle()
        if self._finished:
            return deltas
        if not self._chunks:
            return [ErrorDelta("upstream_empty", "the upstream ended without sending anything")]
        if self._done:
            return [*deltas, FinishDelta(FinishReason.STOP)]
        return [*deltas, ErrorDelta("upstream_truncated", "the upstream ended in the middle of its answer")]

    # The chunk

    def _read_common(self, chunk: CommonChatChunk) -> list[Delta]:
        """Return what `read` returns for this chunk. It leaves out the steps that would find nothing."""
        self._chunks += 1
        deltas: list[Delta] = []
        delta = chunk.choices[0].delta
        if delta.reasoning_content or delta.reasoning:
            field = "reasoning_content" if delta.reasoning_content else "reasoning"
            deltas = self._reasoning.plain(delta.reasoning_content or delta.reasoning or "", field)
            self._has_reasoning()
        if delta.content:
            deltas += self._text(delta.content)
        if delta.tool_calls:
            deltas += self._before_output()
            deltas += [self._call_piece(call) for call in delta.tool_calls]
        if deltas:
            self._has_output = True
        if (chunk.id, chunk.model, chunk.service_tier) != self._last_info:
            deltas = self._read_info(chunk.id, chunk.model, chunk.service_tier) + deltas
        self.text_key = _CONTENT if self._splitter is None and _is_only_text(deltas) else None
        return deltas

    def _read_info(self, id: Any, model: Any, service_tier: Any) -> list[Delta]:
        raw_info = (id, model, service_tier)
        if raw_info == self._last_info:
            return []
        self._last_info = raw_info
        info = UpstreamInfo(
            id=self._info.id or text_of(id) or None,
            model=text_of(model) or self._info.model,
            service_tier=text_of(service_tier) or self._info.service_tier,
        )
        if info == self._info:
            return []
        self._info = info
        return [info]

    def _choice(self, chunk: dict[str, Any], deltas: list[Delta]) -> dict[str, Any]:
        """Return the first choice: a response has no others (quirk C33)."""
        read: dict[str, Any] = {}
        for choice in objects_of(chunk.get("choices")):
            index = choice.get("index")
            if isinstance(index, int) and index != 0:
                deltas.append(
                    DiagnosticDelta("choice_left_out", "the upstream sent several choices; the first is used")
                )
            elif not read:
                read = choice
        return read

    def _read_choice(self, chunk: dict[str, Any], choice: dict[str, Any]) -> list[Delta]:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            # A message next to it is a copy, or everything so far (quirk C32).
            return self._read_delta(chunk, choice, delta)
        if isinstance(choice.get("message"), dict):
            self._message = (chunk, choice)
            return []
        text = {"content": choice["text"]} if isinstance(choice.get("text"), str) else {}
        return self._read_delta(chunk, choice, text)

    def _read_message(self) -> list[Delta]:
        """Read a complete message, unless it repeats what was streamed."""
        if self._message is None or self._has_output:
            return []
        (chunk, choice), self._message = self._message, None
        return self._read_delta(chunk, choice, object_of(choice.get("message")), whole=True)

    def _read_delta(
        self, chunk: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any], *, whole: bool = False
    ) -> list[Delta]:
        present = {name for name, value in delta.items() if value}
        deltas: list[Delta] = []
        if choice.get("logprobs"):
            self._logprobs += _logprobs_of(choice)
        if not present.isdisjoint(REASONING_FIELDS):
            deltas += self._read_reasoning(delta)
        if not present.isdisjoint(HOSTED_FIELDS):
            deltas += self._hosted_of().read(delta)
        if "content" in present:
            is_thought = "extra_content" in present and _is_thought(delta)
            content = delta["content"]
            deltas += [self._thought(text_of(content))] if is_thought else self._read_content(content)
        if refusal := text_of(delta.get("refusal")):
            deltas += [*self._before_output(), RefusalDelta(refusal)]
        if has_citations(chunk, delta):
            deltas += self._hosted_of().citations.read(chunk, delta)
        if not present.isdisjoint(CALL_FIELDS):
            deltas += self._read_calls(delta, whole=whole)
        for name in present.intersection(LEFT_OUT):
            deltas.append(DiagnosticDelta("field_left_out", f"the vendor sent {name!r}, which was left out"))
        self._has_output = self._has_output or bool(deltas)
        return deltas

    def _hosted_of(self) -> Hosted:
        self._hosted = self._hosted or Hosted()
        return self._hosted

    def _read_reasoning(self, delta: dict[str, Any]) -> list[Delta]:
        deltas = self._reasoning.read(delta)
        if deltas:
            self._has_reasoning()
        return deltas

    def _has_reasoning(self) -> None:
        """Note that the upstream sent reasoning in a field of its own."""
        self._logprobs.clear()  # they belong to the reasoning
        if self._splitter is not None:
            self._splitter.reasoning_is_separate()

    def _thought(self, text: str) -> Delta:
        """Return reasoning that is part of the content."""
        self._reasoning.add_text(text)
        return ReasoningDelta(text)

    # Text

    def _read_content(self, content: Any) -> list[Delta]:
        if isinstance(content, str):
            return self._text(content)
        deltas: list[Delta] = []
        for part in objects_of(content):
            # Mistral's content is a list of typed parts, thinking among them (quirk C27).
            kind = text_of(part.get("type"))
            if kind == "thinking":
                thinking = part.get("thinking")
                texts = [thinking] if isinstance(thinking, str) else objects_of(thinking)
                deltas += [self._thought(text) for each in texts if (text := _part_text(each))]
            elif text := _part_text(part):
                deltas += self._text(text)
            elif kind not in ("", "text"):
                deltas.append(
                    DiagnosticDelta("content_left_out", f"a content part of type {kind!r} was left out")
                )
        return deltas

    def _text(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self._splitter is not None:
            return self._split(self._splitter.feed(text))
        logprobs, self._logprobs = self._logprobs or None, []
        return [*self._reasoning.settle(), TextDelta(text, None, logprobs)]

    def _split(self, pieces: list[Delta]) -> list[Delta]:
        """Return the splitter's deltas, without logprobs, which cannot be assigned to its pieces."""
        self._logprobs.clear()
        deltas: list[Delta] = []
        for piece in pieces:
            if isinstance(piece, ReasoningDelta):
                self._reasoning.add_text(piece.text)
            else:
                deltas += self._reasoning.settle()
            deltas.append(piece)
        return deltas

    # Calls

    def _read_calls(self, delta: dict[str, Any], *, whole: bool) -> list[Delta]:
        deltas: list[Delta] = []
        for position, call in enumerate(objects_of(delta.get("tool_calls"))):
            deltas += self._read_call(
                call, _key_of(call.get("index")) if not whole else position, whole=whole
            )
        legacy = object_of(delta.get("function_call"))
        if legacy:
            deltas += self._read_call({"function": legacy}, LEGACY_CALL, whole=whole)
        return [*self._before_output(), *deltas] if deltas else []

    def _read_call(self, call: dict[str, Any], key: Key | None, *, whole: bool) -> list[Delta]:
        """Return names, ids and arguments as received; `stream/calls/assembler.py` joins them."""
        is_custom = call.get("type") == "custom" or isinstance(call.get("custom"), dict)
        function = object_of(call.get("custom" if is_custom else "function"))
        arguments = function.get("input" if is_custom else "arguments")
        id = text_of(call.get("id"))
        deltas = self._read_signature(call, key if key is not None else id or LEGACY_CALL, id)
        deltas.append(
            ToolCallDelta(
                key=key,
                id=id or None,
                name=text_of(function.get("name")) or None,
                type="custom" if is_custom else None,
                arguments=arguments if isinstance(arguments, str | dict) else None,
                whole=whole,
            )
        )
        return deltas

    def _call_piece(self, call: ChatCallPiece) -> Delta:
        self._calls.setdefault(call.index, "")
        if call.custom is not None:
            return ToolCallDelta(call.index, type="custom", arguments=call.custom.input)
        return ToolCallDelta(call.index, arguments=call.function.arguments if call.function else None)

    def _read_signature(self, call: dict[str, Any], key: Key, id: str) -> list[Delta]:
        """Return the signature of a call. It must precede the call, so a late one is left out."""
        deltas = self._reasoning.of_call(call, key)
        has_started = key in self._calls and id in ("", self._calls[key])
        self._calls[key] = id or self._calls.get(key, "")
        if deltas and has_started:
            late = DiagnosticDelta("late_signature", "a signature was left out: its call had already started")
            return [] if key in self._signed else [late]
        if deltas:
            self._signed[key] = None
        return deltas

    # The end

    def _before_output(self) -> list[Delta]:
        """Return the deltas to emit before output that ends the reasoning and text so far."""
        held = self._split(self._splitter.flush()) if self._splitter is not None else []
        return held + self._reasoning.settle()

    def _settle(self) -> list[Delta]:
        """Return everything that was held back."""
        return self._read_message() + self._before_output()

    def _read_finish(self, choice: dict[str, Any]) -> list[Delta]:
        text = text_of(choice.get("finish_reason")).strip()
        if not text:
            return []
        self._finished = True
        reason = FINISHES.get(text.lower())
        if reason is not None:
            return [*self._settle(), FinishDelta(reason)]
        if text.lower() in FAILURES:
            message = f"the upstream stopped with the finish reason {text!r}"
            return [*self._settle(), ErrorDelta(FAILURES[text.lower()], message)]
        unknown = DiagnosticDelta(
            "unknown_finish", f"the finish reason {text[:64]!r} is unknown; it was read as a normal stop"
        )
        return [*self._settle(), unknown, FinishDelta(FinishReason.STOP)]


def _is_only_text(deltas: list[Delta]) -> bool:
    return len(deltas) == 1 and isinstance(deltas[0], TextDelta) and not deltas[0].logprobs


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    """Return the deltas of an answer that was not streamed."""
    reader = ChatReader(plan)
    return reader.feed(Frame(None, body.decode(errors="replace"))) + reader.end()


def _error_of(chunk: dict[str, Any], choice: dict[str, Any]) -> ErrorDelta | None:
    """Return the error in a chunk; vendors put it in various places (quirk C37)."""
    error = chunk.get("error") or choice.get("error") or object_of(chunk.get("x_groq")).get("error")
    if (error and isinstance(error, str | list)) or (isinstance(error, dict) and any(error.values())):
        return error_delta({"error": error})
    if "base_resp" in chunk and object_of(chunk["base_resp"]).get("status_code"):
        return error_delta(object_of(chunk["base_resp"]))  # MiniMax
    if "choices" in chunk or "usage" in chunk:
        return None
    is_marked = chunk.get("object") == "error" or chunk.get("type") == "error"
    if is_marked or any(chunk.get(name) for name in ("message", "detail", "errors")):
        return error_delta(chunk)
    return None


def _is_thought(delta: dict[str, Any]) -> bool:
    """Return whether the content is a thought: Google's compatible endpoint marks it in `extra_content`."""
    return object_of(object_of(delta.get("extra_content")).get("google")).get("thought") is True


def _key_of(index: Any) -> Key | None:
    """Return the index of a call as a key. It is not a position: it may start at 1 or be anything
    (quirk C16)."""
    return index if isinstance(index, int | str) and not isinstance(index, bool) else None


def _part_text(part: Any) -> str:
    return part if isinstance(part, str) else text_of(object_of(part).get("text"))


def _logprobs_of(choice: dict[str, Any]) -> list[LogProb]:
    """Return the logprobs with every field that the Responses schema requires (quirk C34)."""
    logprobs: list[LogProb] = []
    for entry in objects_of(object_of(choice.get("logprobs")).get("content")):
        top = [_logprob(each) for each in objects_of(entry.get("top_logprobs"))]
        one = _logprob(entry)
        logprobs.append(
            {"token": one["token"], "logprob": one["logprob"], "bytes": one["bytes"], "top_logprobs": top}
        )
    return logprobs


def _logprob(entry: dict[str, Any]) -> TopLogProb:
    value, token_bytes = entry.get("logprob"), entry.get("bytes")
    return {
        "token": text_of(entry.get("token")),
        "logprob": float(value) if isinstance(value, int | float) else 0.0,
        "bytes": [each for each in token_bytes if isinstance(each, int)]
        if isinstance(token_bytes, list)
        else [],
    }
