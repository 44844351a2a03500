"""Read Ollama's own stream: one JSON object per line, from `/api/chat` or `/api/generate`.

A call arrives in one line, with an object as arguments and usually without an id. The finish reason is `stop`
even with calls.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from penstock.dialects.frames import DONE, error_delta, read_object
from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.sse import Frame
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)

FINISHES: dict[str, FinishReason] = {
    "": FinishReason.STOP,  # older versions send only `done`
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    # An empty prompt only loads the model, or unloads it.
    "load": FinishReason.STOP,
    "unload": FinishReason.STOP,
}


class OllamaReader:
    """Read one answer."""

    def __init__(self) -> None:
        self._keys = count()
        self._model = ""
        self._received = self._ended = False

    @property
    def is_over(self) -> bool:
        return self._ended

    def feed(self, frame: Frame) -> list[Delta]:
        self._received = True
        if frame.data.strip() == DONE:
            return []
        line = read_object(frame)
        deltas: list[Delta] = [line] if isinstance(line, ErrorDelta) else self._line(line)
        self._ended = self._ended or any(isinstance(delta, FinishDelta | ErrorDelta) for delta in deltas)
        return deltas

    def end(self) -> list[Delta]:
        if self._ended:
            return []
        if not self._received:
            return [ErrorDelta("upstream_empty", "the upstream's answer is empty")]
        return [ErrorDelta("upstream_truncated", "the upstream's answer ended before it was complete")]

    def _line(self, line: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        model = text_of(line.get("model"))
        if model and model != self._model:
            self._model = model
            deltas.append(UpstreamInfo(model=model))
        # `/api/chat` has these fields in `message`, `/api/generate` in the line itself.
        message = object_of(line.get("message")) or line
        thinking = text_of(message.get("thinking"))
        text = text_of(message.get("content")) or text_of(line.get("response"))
        deltas += [ReasoningDelta(thinking)] if thinking else []
        deltas += [TextDelta(text)] if text else []
        for call in objects_of(message.get("tool_calls")):
            deltas.append(self._call(call))
        if line.get("done") is True:
            deltas += _ended(line)
        if line.get("error"):
            deltas.append(error_delta(line))
        return deltas

    def _call(self, call: dict[str, Any]) -> Delta:
        """Read a call. Every entry is a separate call: not all of them have an index."""
        function = object_of(call.get("function"))
        arguments = function.get("arguments")
        return ToolCallDelta(
            key=next(self._keys),
            id=text_of(call.get("id")) or text_of(function.get("id")),
            name=text_of(function.get("name")),
            arguments=arguments if isinstance(arguments, dict | str) else None,
            whole=True,
        )


def _ended(line: dict[str, Any]) -> list[Delta]:
    deltas: list[Delta] = []
    usage = UsageDelta(
        input_tokens=count_of(line.get("prompt_eval_count")), output_tokens=count_of(line.get("eval_count"))
    )
    if usage != UsageDelta():
        deltas.append(usage)
    reason = text_of(line.get("done_reason"))
    deltas.append(FinishDelta(FINISHES.get(reason, FinishReason.STOP)))
    if reason not in FINISHES:
        deltas.append(DiagnosticDelta("unknown_finish", f"the upstream stopped with {reason[:200]}"))
    return deltas
