"""What the demo model does in one turn, step by step, before any of it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

from msgspec import Struct

from penstock.demo import prose
from penstock.demo.calling import LONGEST_ANSWER, DemoCall, calls_for
from penstock.demo.counting import cached_tokens, input_tokens, pieces
from penstock.demo.request import DemoRequest
from penstock.demo.schema.hints import Hints
from penstock.demo.schema.making import make
from penstock.demo.wishes import DemoFailure, Wishes
from penstock.failures import ERROR_TYPES

PACE = 0.01
"""Seconds from word to word."""


class Tell(Struct, frozen=True):
    """A frame. `tokens` is what it counts for; `thinking`, whether it counts as reasoning."""

    frame: dict[str, Any]
    tokens: int = 0
    thinking: bool = False


class Rest(Struct, frozen=True):
    """Silence for so many seconds; None: without an end."""

    seconds: float | None = None


class Garble(Struct, frozen=True):
    """A frame that is no JSON."""

    data: str = "{this is no JSON"


class BreakOff(Struct, frozen=True):
    """The stream is over, though nothing said so."""


Step = Tell | Rest | Garble | BreakOff


def script_of(request: DemoRequest, wishes: Wishes) -> list[Step]:
    """The whole turn. A wish to be refused is granted before it comes to this."""
    opening: list[Step] = [Rest(wishes.wait)] if wishes.wait else []
    if wishes.silent:
        return [*opening, Rest()]
    opening.append(Tell({"model": request.model}))
    calls = (
        [] if wishes.no_tools and request.tool_mode == "auto" else calls_for(request, Hints(request.prompt))
    )
    said = list(_said(request, wishes, calls))
    reason = "tool_calls" if any(isinstance(step, Tell) and "call" in step.frame for step in said) else "stop"
    steps = [*_thinking(request, wishes), *_disturbed(said, wishes)]
    return [*opening, *_limited(request, steps, reason)]


def _thinking(request: DemoRequest, wishes: Wishes) -> Iterator[Step]:
    wanted = request.effort or request.summary or wishes.thinks
    if not wanted or request.effort == "none":
        return
    for piece in pieces(prose.thought(request)):
        yield Tell({"think": piece}, tokens=1, thinking=True)
    if request.summary:
        for part, text in enumerate(prose.summaries(request)):
            # A summary is made of the reasoning, and costs nothing beside it.
            yield from (Tell({"summarise": piece, "part": part}) for piece in pieces(text))
    if request.seals:
        yield Tell({"seal": {"about": prose.excerpt(request.prompt)}})


def _said(request: DemoRequest, wishes: Wishes, calls: list[DemoCall]) -> Iterator[Step]:
    if wishes.empty:
        return
    if wishes.declines:
        yield from (Tell({"refuse": piece}, tokens=1) for piece in pieces(prose.REFUSAL))
    elif calls:
        for index, call in enumerate(calls):
            yield from _told(call, index)
        if wishes.repeats_call:
            yield from (_repeated(call, len(calls) + index) for index, call in enumerate(calls))
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
        yield Tell({"cite": {"url": prose.SOURCE_URL, "title": prose.SOURCE_TITLE, **place}})


def _json(request: DemoRequest) -> Iterator[Step]:
    """One JSON value that fits, and nothing around it."""
    hints = Hints(request.prompt)
    if request.format.type == "json_object":
        value: Any = {"prompt": prose.excerpt(hints.prompt), "words": len(hints.prompt.split()), "demo": True}
    else:
        made = make(request.format.schema, hints)
        value = made.value
        if not made.fits:
            yield _note("no answer was found that fits the schema of `text.format`")
    written = json.dumps(value, ensure_ascii=False)
    if len(written) > LONGEST_ANSWER:
        yield _note("the answer that fits the schema of `text.format` is too long")
        written = "null"
    yield from _words(request, written)


def _words(request: DemoRequest, text: str) -> Iterator[Step]:
    for piece in pieces(text):
        frame: dict[str, Any] = {"say": piece}
        if request.logprobs is not None:
            frame["logprobs"] = [_logprob(piece, request.logprobs)]
        yield Tell(frame, tokens=1)


def _logprob(piece: str, alternatives: int) -> dict[str, Any]:
    """Made up, and the same for the same word."""
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


def _told(call: DemoCall, key: int) -> Iterator[Step]:
    if call.problem:
        yield _note(call.problem)
    named = {"key": key, "id": call.id, "name": call.name, **({"custom": True} if call.custom else {})}
    yield Tell({"call": named}, tokens=1)
    yield from (Tell({"call": {"key": key, "input": piece}}, tokens=1) for piece in pieces(call.arguments))
    yield Tell({"call": {"key": key, "end": True}})


def _repeated(call: DemoCall, key: int) -> Step:
    """The same call once more, whole, as if it were another one."""
    custom = {"custom": True} if call.custom else {}
    again = {"key": key, "id": call.id, "name": call.name, "input": call.arguments, "end": True, **custom}
    return Tell({"call": again})


def _note(message: str) -> Step:
    return Tell({"note": {"code": "schema_not_kept", "message": message}})


# -- what goes wrong, by wish


def _disturbed(steps: list[Step], wishes: Wishes) -> list[Step]:
    """The answer with what was wished for in its middle, which is never before its first word."""
    middle = max(1, len(steps) // 2)
    inserted: list[Step] = [Rest(wishes.pause)] if wishes.pause else []
    if wishes.fails is not None:
        inserted.append(Tell({"error": _error(wishes.fails)}))
    if wishes.garbage:
        inserted.append(Garble())
    if wishes.breaks_off:
        inserted.append(BreakOff())
    return [*steps[:middle], *inserted, *steps[middle:]]


def _error(failure: DemoFailure) -> dict[str, Any]:
    message = "the demo model was asked to fail in the middle"
    if failure.retry_after is not None:
        message += f"; retry in {failure.retry_after:g}s"
    return {"code": failure.code, "message": message, "type": ERROR_TYPES[failure.code]}


def _limited(request: DemoRequest, steps: Iterable[Step], reason: str) -> Iterator[Step]:
    """The steps as far as `max_output_tokens` goes, and the end with what they cost."""
    spent = thought = 0
    for step in steps:
        if isinstance(step, Tell):
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
    yield Tell({"usage": used})
    yield Tell({"stop": reason})


def _is_end(step: Step) -> bool:
    return isinstance(step, BreakOff | Garble) or (isinstance(step, Tell) and "error" in step.frame)
