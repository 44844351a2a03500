"""Plan the demo model's turn as a list of steps, before any of it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

from msgspec import Struct

from penstock.demo import prose
from penstock.demo.calling import MAX_VALUE, DemoCall, calls_for
from penstock.demo.counting import cached_tokens, input_tokens, pieces
from penstock.demo.hints import Hints
from penstock.demo.request import DemoRequest
from penstock.demo.schema import make
from penstock.demo.wishes import DemoFailure, Wishes
from penstock.failures import ERROR_TYPES

PACE = 0.01
"""Seconds between words."""


class SendFrame(Struct, frozen=True):
    """Send a frame that counts as `tokens` output tokens; `thinking` marks reasoning tokens."""

    frame: dict[str, Any]
    tokens: int = 0
    thinking: bool = False


class Pause(Struct, frozen=True):
    """Silence for this many seconds, or until the client disconnects if None."""

    seconds: float | None = None


class SendGarbage(Struct, frozen=True):
    """A frame that is not JSON."""

    data: str = "{this is not JSON"


class CloseStream(Struct, frozen=True):
    """End the stream without a finish reason."""


Step = SendFrame | Pause | SendGarbage | CloseStream


def script_of(request: DemoRequest, wishes: Wishes) -> list[Step]:
    """Return the steps of the turn. Refusals are handled earlier, by `DemoUpstream.send`."""
    opening: list[Step] = [Pause(wishes.wait)] if wishes.wait else []
    if wishes.silent:
        return [*opening, Pause()]
    opening.append(SendFrame({"model": request.model}))
    calls = (
        [] if wishes.no_tools and request.tool_mode == "auto" else calls_for(request, Hints(request.prompt))
    )
    answer = list(_answer(request, wishes, calls))
    reason = (
        "tool_calls"
        if any(isinstance(step, SendFrame) and "call" in step.frame for step in answer)
        else "stop"
    )
    steps = [*_thinking(request, wishes), *_with_faults(answer, wishes)]
    return [*opening, *_limited(request, steps, reason)]


def _thinking(request: DemoRequest, wishes: Wishes) -> Iterator[Step]:
    wanted = request.effort or request.summary or wishes.thinks
    if not wanted or request.effort == "none":
        return
    for piece in pieces(prose.thought(request)):
        yield SendFrame({"think": piece}, tokens=1, thinking=True)
    if request.summary:
        for part, text in enumerate(prose.summaries(request)):
            # The summary repeats the reasoning, so it adds no tokens.
            yield from (SendFrame({"summarise": piece, "part": part}) for piece in pieces(text))
    if request.seals:
        yield SendFrame({"seal": {"about": prose.excerpt(request.prompt)}})


def _answer(request: DemoRequest, wishes: Wishes, calls: list[DemoCall]) -> Iterator[Step]:
    if wishes.empty:
        return
    if wishes.declines:
        yield from (SendFrame({"refuse": piece}, tokens=1) for piece in pieces(prose.REFUSAL))
    elif calls:
        for index, call in enumerate(calls):
            yield from _call_steps(call, index)
        if wishes.repeats_call:
            yield from (_repeated_call(call, len(calls) + index) for index, call in enumerate(calls))
    elif request.format.type != "text":
        yield from _json(request)
    else:
        yield from _text(request, wishes)


def _text(request: DemoRequest, wishes: Wishes) -> Iterator[Step]:
    text = prose.answer(request, wishes)
    if wishes.cites:
        text += prose.SOURCE_TEXT
        start, text = len(text), text + f"[{prose.SOURCE_TITLE}]({prose.SOURCE_URL})"
    yield from _words(request, text)
    if wishes.cites:
        place = {"start": start, "end": len(text)}
        yield SendFrame({"cite": {"url": prose.SOURCE_URL, "title": prose.SOURCE_TITLE, **place}})


def _json(request: DemoRequest) -> Iterator[Step]:
    """Answer with one JSON value that matches the schema, and nothing else."""
    hints = Hints(request.prompt)
    if request.format.type == "json_object":
        value: Any = {"prompt": prose.excerpt(hints.prompt), "words": len(hints.prompt.split()), "demo": True}
    else:
        made = make(request.format.schema, hints)
        value = made.value
        if made.problem:
            yield _note(f"the answer may not match the schema of `text.format`: {made.problem}")
    written = json.dumps(value, ensure_ascii=False)
    if len(written) > MAX_VALUE:
        yield _note("an answer that matches the schema of `text.format` would be too long")
        written = "null"
    yield from _words(request, written)


def _words(request: DemoRequest, text: str) -> Iterator[Step]:
    for piece in pieces(text):
        frame: dict[str, Any] = {"say": piece}
        if request.logprobs is not None:
            frame["logprobs"] = [_logprob(piece, request.logprobs)]
        yield SendFrame(frame, tokens=1)


def _logprob(piece: str, alternatives: int) -> dict[str, Any]:
    """Make up probabilities that are always the same for the same word."""
    words = list(dict.fromkeys([piece, piece.upper(), piece.lower(), piece.title(), f"{piece}…"]))
    probable = [
        _probable(word, -0.01 * (index * 100 + crc32(_bytes(piece)) % 100))
        for index, word in enumerate(words)
    ]
    return {**probable[0], "top_logprobs": probable[: max(0, alternatives)]}


def _probable(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": round(logprob, 4), "bytes": list(_bytes(token))}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _call_steps(call: DemoCall, key: int) -> Iterator[Step]:
    if call.problem:
        yield _note(call.problem)
    named = {"key": key, "id": call.id, "name": call.name, **({"custom": True} if call.custom else {})}
    yield SendFrame({"call": named}, tokens=1)
    yield from (
        SendFrame({"call": {"key": key, "input": piece}}, tokens=1) for piece in pieces(call.arguments)
    )
    yield SendFrame({"call": {"key": key, "end": True}})


def _repeated_call(call: DemoCall, key: int) -> Step:
    """Repeat the complete call under another key."""
    custom = {"custom": True} if call.custom else {}
    call_again = {
        "key": key,
        "id": call.id,
        "name": call.name,
        "input": call.arguments,
        "end": True,
        **custom,
    }
    return SendFrame({"call": call_again})


def _note(message: str) -> Step:
    return SendFrame({"note": {"code": "schema_not_kept", "message": message}})


# -- requested faults


def _with_faults(steps: list[Step], wishes: Wishes) -> list[Step]:
    """Insert the requested faults in the middle of the answer, but not before its first word."""
    middle = max(1, len(steps) // 2)
    inserted: list[Step] = [Pause(wishes.pause)] if wishes.pause else []
    if wishes.fails is not None:
        inserted.append(SendFrame({"error": _error(wishes.fails)}))
    if wishes.garbage:
        inserted.append(SendGarbage())
    if wishes.breaks_off:
        inserted.append(CloseStream())
    return [*steps[:middle], *inserted, *steps[middle:]]


def _error(failure: DemoFailure) -> dict[str, Any]:
    message = "the demo model was asked to fail in the middle"
    if failure.retry_after is not None:
        message += f"; retry in {failure.retry_after:g}s"
    return {"code": failure.code, "message": message, "type": ERROR_TYPES[failure.code]}


def _limited(request: DemoRequest, steps: Iterable[Step], reason: str) -> Iterator[Step]:
    """Yield the steps that fit into `max_output_tokens`, then usage and the finish reason."""
    spent = thought = 0
    for step in steps:
        if isinstance(step, SendFrame):
            if request.max_tokens is not None and spent + step.tokens > request.max_tokens:
                reason = "length"
                break
            spent += step.tokens
            thought += step.tokens if step.thinking else 0
        yield step
        if _is_end(step):
            return
    used = {
        "input": input_tokens(request),
        "cached": cached_tokens(request),
        "output": spent,
        "reasoning": thought,
    }
    yield SendFrame({"usage": used})
    yield SendFrame({"stop": reason})


def _is_end(step: Step) -> bool:
    return isinstance(step, CloseStream | SendGarbage) or (
        isinstance(step, SendFrame) and "error" in step.frame
    )
