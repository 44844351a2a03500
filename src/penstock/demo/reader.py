"""Read the demo model's frames.

A frame is an object with one key that names its kind: `model`, `think`, `summarise`, `seal`, `say`,
`refuse`, `cite`, `call`, `note`, `usage`, `error` or `stop`, which is the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dialects.envelope import seal
from penstock.dialects.frames import error_delta, read_object
from penstock.dialects.plan import Plan, Target
from penstock.lenient import count_of, object_of, objects_of, text_of
from penstock.protocol.content import LogProb, UrlCitation
from penstock.sse import Decoder, Frame
from penstock.stream.deltas import (
    AnnotationDelta,
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    FinishDelta,
    FinishReason,
    OpaqueReasoning,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
    UpstreamInfo,
    UsageDelta,
)

Body = dict[str, Any]


class DemoReader:
    """Turn the frames of one answer into deltas."""

    def __init__(self, plan: Plan) -> None:
        self._target = plan.target
        self._is_over = False
        self._has_frames = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    def feed(self, frame: Frame) -> list[Delta]:
        if self._is_over:
            return []
        self._has_frames = True
        body = read_object(frame)
        if isinstance(body, ErrorDelta):
            self._is_over = True
            return [body]
        deltas = [_READ[word](body, self._target) for word in body if word in _READ]
        self._is_over = any(isinstance(delta, FinishDelta | ErrorDelta) for delta in deltas)
        if deltas or not body:
            return deltas
        return [
            DiagnosticDelta("unknown_frame", f"the demo model sent an unknown frame {next(iter(body))!r}")
        ]

    def end(self) -> list[Delta]:
        if self._is_over:
            return []
        if not self._has_frames:
            return [ErrorDelta("upstream_empty", "the demo model sent an empty answer")]
        return [ErrorDelta("upstream_truncated", "the demo model stopped before the end of its answer")]


def read_body(plan: Plan, body: bytes) -> list[Delta]:
    """Read a complete answer."""
    reader, decoder = DemoReader(plan), Decoder()
    frames = [*decoder.feed(body), *decoder.end()]
    return [delta for frame in frames for delta in reader.feed(frame)] + reader.end()


def _model(body: Body, _: Target) -> Delta:
    return UpstreamInfo(model=text_of(body["model"]) or None)


def _think(body: Body, _: Target) -> Delta:
    return ReasoningDelta(text_of(body["think"]))


def _summarise(body: Body, _: Target) -> Delta:
    return SummaryDelta(text_of(body["summarise"]), part=count_of(body.get("part")) or 0)


def _seal(body: Body, target: Target) -> Delta:
    return OpaqueReasoning(seal(target, body["seal"]))


def _say(body: Body, _: Target) -> Delta:
    logprobs = [_logprob(each) for each in objects_of(body.get("logprobs"))]
    return TextDelta(text_of(body["say"]), logprobs=logprobs or None)


def _logprob(body: Body) -> LogProb:
    alternatives = objects_of(body.get("top_logprobs"))
    return {**_probable(body), "top_logprobs": [_probable(each) for each in alternatives]}  # type: ignore[typeddict-item]


def _probable(body: Body) -> Body:
    numbers = body.get("bytes")
    logprob = body.get("logprob")
    return {
        "token": text_of(body.get("token")),
        "logprob": logprob if isinstance(logprob, int | float) else 0.0,
        "bytes": [each for each in numbers if isinstance(each, int)] if isinstance(numbers, list) else [],
    }


def _refuse(body: Body, _: Target) -> Delta:
    return RefusalDelta(text_of(body["refuse"]))


def _cite(body: Body, _: Target) -> Delta:
    source = object_of(body["cite"])
    return AnnotationDelta(
        UrlCitation(
            url=text_of(source.get("url")),
            title=text_of(source.get("title")),
            start_index=count_of(source.get("start")) or 0,
            end_index=count_of(source.get("end")) or 0,
        )
    )


def _call(body: Body, _: Target) -> Delta:
    call = object_of(body["call"])
    return ToolCallDelta(
        key=count_of(call.get("key")),
        id=text_of(call.get("id")) or None,
        name=text_of(call.get("name")) or None,
        type="custom" if call.get("custom") is True else None,
        arguments=text_of(call.get("input")) or None,
        whole=call.get("end") is True,
    )


def _note(body: Body, _: Target) -> Delta:
    note = object_of(body["note"])
    return DiagnosticDelta(text_of(note.get("code")) or "note", text_of(note.get("message")))


def _usage(body: Body, _: Target) -> Delta:
    usage = object_of(body["usage"])
    return UsageDelta(
        input_tokens=count_of(usage.get("input")),
        cached_tokens=count_of(usage.get("cached")),
        output_tokens=count_of(usage.get("output")),
        reasoning_tokens=count_of(usage.get("reasoning")),
    )


def _error(body: Body, _: Target) -> Delta:
    return error_delta(body)


_STOPS: dict[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
}


def _stop(body: Body, _: Target) -> Delta:
    reason = _STOPS.get(text_of(body["stop"]))
    if reason is None:
        return ErrorDelta("upstream_invalid", "the demo model sent an unknown finish reason")
    return FinishDelta(reason)


_READ: dict[str, Callable[[Body, Target], Delta]] = {
    "model": _model,
    "think": _think,
    "summarise": _summarise,
    "seal": _seal,
    "say": _say,
    "refuse": _refuse,
    "cite": _cite,
    "call": _call,
    "note": _note,
    "usage": _usage,
    "error": _error,
    "stop": _stop,
}
