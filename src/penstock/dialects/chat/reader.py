"""Reads Chat Completions as every vendor speaks it: chunks, and whole answers.

One chunk is read in a fixed order: who answers, what the delta says, usage, and last how it ended. Nothing is
keyed on the id of a chunk (quirk C4), and reading goes on after the finish: usage and more may follow
(quirk C5, quirk C12).
"""

from __future__ import annotations

from typing import Any

from penstock.dialects.chat.citations import Citations
from penstock.dialects.chat.hosted import HOSTED_FIELDS, Hosted
from penstock.dialects.chat.markup import Splitter
from penstock.dialects.chat.reasoning import REASONING_FIELDS, Reasoning
from penstock.dialects.chat.usage import read_usage
from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.dialects.plan import Plan
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
"""How vendors say that the model stopped, in lower case. Any other word is a stop, with a diagnostic."""

FAILURES: dict[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "abort": "server_error",
    "malformed_function_call": "server_error",
    "insufficient_system_resource": "server_is_overloaded",
}
"""Words in the place of a finish that say that the answer failed, and the code for each."""

CALL_FIELDS = frozenset({"tool_calls", "function_call"})

LEFT_OUT = frozenset({"audio", "copilot_annotations"})
"""Fields of a delta that carry something and that a Responses stream has no place for."""

LEGACY_CALL = "function_call"
"""The key of the one call that the legacy field can make (quirk C23)."""


class ChatReader:
    """One answer."""

    def __init__(self, plan: Plan) -> None:
        self._reasoning = Reasoning(plan.target)
        self._citations = Citations()
        self._hosted = Hosted(self._citations)
        self._splitter = Splitter.wanted_by(plan)
        self._info = UpstreamInfo()
        self._named: tuple[Any, ...] = ()
        self._logprobs: list[LogProb] = []
        self._calls: dict[Key, str] = {}
        """The calls that have begun, with their ids."""
        self._signed: set[Key] = set()
        self._message: tuple[dict[str, Any], dict[str, Any]] | None = None
        """A choice that came as a whole message and not as a delta, and its chunk."""
        self._chunks = 0
        self._spoke = False
        self._finished = False
        self._done = False

    @property
    def is_over(self) -> bool:
        return self._done

    def feed(self, frame: Frame) -> list[Delta]:
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
        """What one chunk, or one whole answer, says."""
        self._chunks += 1
        told = self._read_info(chunk)
        choice = self._choice(chunk, told)
        told += self._read_choice(chunk, choice)
        told += read_usage(chunk)
        error = error_delta(chunk) if is_error else _error_of(chunk, choice)
        if error is not None:
            return [*told, *self._settle(), error]
        return told + self._read_finish(choice)

    def end(self) -> list[Delta]:
        """The upstream has ended. It was cut off if it never said why, nor that it was done (decision 5)."""
        told = self._settle()
        if self._finished:
            return told
        if not self._chunks:
            return [ErrorDelta("upstream_empty", "the upstream ended without saying anything")]
        if self._done:
            return [*told, FinishDelta(FinishReason.STOP)]
        return [*told, ErrorDelta("upstream_truncated", "the upstream ended in the middle of its answer")]

    # The chunk

    def _read_info(self, chunk: dict[str, Any]) -> list[Delta]:
        named = (chunk.get("id"), chunk.get("model"), chunk.get("service_tier"))
        if named == self._named:
            return []
        self._named = named
        info = UpstreamInfo(
            id=self._info.id or text_of(chunk.get("id")) or None,
            model=text_of(chunk.get("model")) or self._info.model,
            service_tier=text_of(chunk.get("service_tier")) or self._info.service_tier,
        )
        if info == self._info:
            return []
        self._info = info
        return [info]

    def _choice(self, chunk: dict[str, Any], told: list[Delta]) -> dict[str, Any]:
        """The choice that is read: the first one, as a response has no others (quirk C33)."""
        read: dict[str, Any] = {}
        for choice in objects_of(chunk.get("choices")):
            index = choice.get("index")
            if isinstance(index, int) and index != 0:
                told.append(DiagnosticDelta("choice_left_out", "only the first of several answers is read"))
            elif not read:
                read = choice
        return read

    def _read_choice(self, chunk: dict[str, Any], choice: dict[str, Any]) -> list[Delta]:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            # A message beside it is a copy, or all there is so far (quirk C32).
            return self._read_delta(chunk, choice, delta)
        if isinstance(choice.get("message"), dict):
            self._message = (chunk, choice)
            return []
        text = {"content": choice["text"]} if isinstance(choice.get("text"), str) else {}
        return self._read_delta(chunk, choice, text)

    def _read_message(self) -> list[Delta]:
        """An answer that came whole, unless it repeats what was streamed."""
        if self._message is None or self._spoke:
            return []
        (chunk, choice), self._message = self._message, None
        return self._read_delta(chunk, choice, object_of(choice.get("message")), whole=True)

    def _read_delta(
        self, chunk: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any], *, whole: bool = False
    ) -> list[Delta]:
        said = {name for name, value in delta.items() if value}
        told: list[Delta] = []
        if choice.get("logprobs"):
            self._logprobs += _logprobs_of(choice)
        if not said.isdisjoint(REASONING_FIELDS):
            told += self._read_reasoning(delta)
        if not said.isdisjoint(HOSTED_FIELDS):
            told += self._hosted.read(delta)
        if "content" in said:
            is_thought = "extra_content" in said and _is_thought(delta)
            content = delta["content"]
            told += [ReasoningDelta(text_of(content))] if is_thought else self._read_content(content)
        if refusal := text_of(delta.get("refusal")):
            told += [*self._before_output(), RefusalDelta(refusal)]
        told += self._citations.read(chunk, delta)
        if not said.isdisjoint(CALL_FIELDS):
            told += self._read_calls(delta, whole=whole)
        for name in said.intersection(LEFT_OUT):
            told.append(DiagnosticDelta("field_left_out", f"the vendor sent {name!r}, which has no place"))
        self._spoke = self._spoke or bool(told)
        return told

    def _read_reasoning(self, delta: dict[str, Any]) -> list[Delta]:
        told = self._reasoning.read(delta)
        if told:
            self._logprobs.clear()  # they are the reasoning's
            if self._splitter is not None:
                self._splitter.reasoning_came_apart()
        return told

    # Text

    def _read_content(self, content: Any) -> list[Delta]:
        if isinstance(content, str):
            return self._text(content)
        told: list[Delta] = []
        for part in objects_of(content):
            # Mistral's content is a list of typed parts, thinking among them (quirk C27).
            kind = text_of(part.get("type"))
            if kind == "thinking":
                thinking = part.get("thinking")
                texts = [thinking] if isinstance(thinking, str) else objects_of(thinking)
                told += [ReasoningDelta(text) for each in texts if (text := _part_text(each))]
            elif text := _part_text(part):
                told += self._text(text)
            elif kind not in ("", "text"):
                told.append(
                    DiagnosticDelta("content_left_out", f"a content part of type {kind!r} was left out")
                )
        return told

    def _text(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self._splitter is not None:
            return self._split(self._splitter.feed(text))
        logprobs, self._logprobs = self._logprobs, []
        return [*self._reasoning.settle(), TextDelta(text, logprobs=logprobs or None)]

    def _split(self, pieces: list[Delta]) -> list[Delta]:
        """What the splitter found. Logprobs cannot be told apart with it, and are not given."""
        self._logprobs.clear()
        told: list[Delta] = []
        for piece in pieces:
            if not isinstance(piece, ReasoningDelta):
                told += self._reasoning.settle()
            told.append(piece)
        return told

    # Calls

    def _read_calls(self, delta: dict[str, Any], *, whole: bool) -> list[Delta]:
        told: list[Delta] = []
        for place, call in enumerate(objects_of(delta.get("tool_calls"))):
            told += self._read_call(call, _key_of(call.get("index")) if not whole else place, whole=whole)
        legacy = object_of(delta.get("function_call"))
        if legacy:
            told += self._read_call({"function": legacy}, LEGACY_CALL, whole=whole)
        return [*self._before_output(), *told] if told else []

    def _read_call(self, call: dict[str, Any], key: Key | None, *, whole: bool) -> list[Delta]:
        """Names, ids and arguments as they come; `stream/calls/assembler.py` puts them together."""
        is_custom = call.get("type") == "custom" or isinstance(call.get("custom"), dict)
        function = object_of(call.get("custom" if is_custom else "function"))
        arguments = function.get("input" if is_custom else "arguments")
        id = text_of(call.get("id"))
        told = self._read_signature(call, key if key is not None else id or LEGACY_CALL, id)
        told.append(
            ToolCallDelta(
                key=key,
                id=id or None,
                name=text_of(function.get("name")) or None,
                type="custom" if is_custom else None,
                arguments=arguments if isinstance(arguments, str | dict) else None,
                whole=whole,
            )
        )
        return told

    def _read_signature(self, call: dict[str, Any], key: Key, id: str) -> list[Delta]:
        """A signature goes before its call: a late one cannot, and a repeated one need not."""
        told = self._reasoning.of_call(call, key)
        has_begun = key in self._calls and id in ("", self._calls[key])
        self._calls[key] = id or self._calls.get(key, "")
        if told and has_begun:
            late = DiagnosticDelta("late_signature", "a signature came after its call had begun")
            return [] if key in self._signed else [late]
        if told:
            self._signed.add(key)
        return told

    # The end

    def _before_output(self) -> list[Delta]:
        """What has to be said before output that ends the reasoning and the text so far."""
        held = self._split(self._splitter.flush()) if self._splitter is not None else []
        return held + self._reasoning.settle()

    def _settle(self) -> list[Delta]:
        """Everything that was kept for later."""
        return self._read_message() + self._before_output()

    def _read_finish(self, choice: dict[str, Any]) -> list[Delta]:
        told = text_of(choice.get("finish_reason")).strip()
        if not told:
            return []
        self._finished = True
        reason = FINISHES.get(told.lower())
        if reason is not None:
            return [*self._settle(), FinishDelta(reason)]
        if told.lower() in FAILURES:
            message = f"the upstream stopped with {told!r}"
            return [*self._settle(), ErrorDelta(FAILURES[told.lower()], message)]
        unknown = DiagnosticDelta(
            "unknown_finish", f"the upstream stopped with {told[:64]!r}: read as a stop"
        )
        return [*self._settle(), unknown, FinishDelta(FinishReason.STOP)]


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    """A whole answer, as the deltas of one that is streamed."""
    reader = ChatReader(plan)
    return reader.feed(Frame(None, body.decode(errors="replace"))) + reader.end()


def _error_of(chunk: dict[str, Any], choice: dict[str, Any]) -> ErrorDelta | None:
    """The error in a chunk, wherever vendors put it (quirk C37)."""
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
    """Google's compatible endpoint sends thoughts as content, with a mark beside it."""
    return object_of(object_of(delta.get("extra_content")).get("google")).get("thought") is True


def _key_of(index: Any) -> Key | None:
    """The index of a call is a key and no position: it may begin at 1, or be anything (quirk C16)."""
    return index if isinstance(index, int | str) and not isinstance(index, bool) else None


def _part_text(part: Any) -> str:
    return part if isinstance(part, str) else text_of(object_of(part).get("text"))


def _logprobs_of(choice: dict[str, Any]) -> list[LogProb]:
    """Logprobs with every field that the Responses shape requires (quirk C34)."""
    made: list[LogProb] = []
    for entry in objects_of(object_of(choice.get("logprobs")).get("content")):
        top = [_logprob(each) for each in objects_of(entry.get("top_logprobs"))]
        one = _logprob(entry)
        made.append(
            {"token": one["token"], "logprob": one["logprob"], "bytes": one["bytes"], "top_logprobs": top}
        )
    return made


def _logprob(entry: dict[str, Any]) -> TopLogProb:
    value, given = entry.get("logprob"), entry.get("bytes")
    return {
        "token": text_of(entry.get("token")),
        "logprob": float(value) if isinstance(value, int | float) else 0.0,
        "bytes": [each for each in given if isinstance(each, int)] if isinstance(given, list) else [],
    }
