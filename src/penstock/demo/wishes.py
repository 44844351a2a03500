"""Requests in plain words that the demo model honours, so that a client can test every way a stream can go.

A wish can be anywhere in the last user message, and wishes can be combined. `docs/demo.md` is generated from
the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.failures import ERROR_TYPES, STATUSES

MAX_WAIT = 600.0
MAX_WORDS = 20_000
SLOW = 0.2
"""Seconds between words."""
_MAX_PROMPT = 20_000
"""Characters of a prompt that are searched for wishes."""


class DemoFailure(Struct, frozen=True):
    code: str = "server_error"
    status: int = 500
    retry_after: float | None = None


class Wishes(Struct, frozen=True):
    wait: float = 0.0
    pause: float = 0.0
    pace: float | None = None
    """Seconds between words; None for the default."""
    refused: DemoFailure | None = None
    """The request is refused with this failure."""
    fails: DemoFailure | None = None
    """An error in the middle of the answer."""
    breaks_off: bool = False
    garbage: bool = False
    silent: bool = False
    empty: bool = False
    declines: bool = False
    cites: bool = False
    repeats_call: bool = False
    no_tools: bool = False
    thinks: bool = False
    quotes_instructions: bool = False
    words: int = 0
    counts: tuple[int, int] | None = None
    exactly: str | None = None


Found = re.Match[str]


class Wish(Struct, frozen=True):
    """A row of the table: example words, their effect, and the pattern that finds them."""

    words: str
    does: str
    pattern: re.Pattern[str]
    changes: Callable[[Found, Wishes], dict[str, Any]]


def _wish(words: str, does: str, pattern: str, changes: Callable[[Found, Wishes], dict[str, Any]]) -> Wish:
    return Wish(words, does, re.compile(pattern, re.IGNORECASE), changes)


_UNITS: Mapping[str, float] = {"ms": 0.001, "mi": 60.0, "m": 60.0, "s": 1.0}
_DURATION = (
    r"(?:for )?(?P<time>\d{1,6}(?:\.\d{1,3})?) ?(?P<unit>ms|milliseconds?|minutes?|min|m|seconds?|secs?|s)\b"
)


def _seconds(found: Found) -> float:
    unit = found["unit"].lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else _UNITS.get(unit[:2], _UNITS[unit[0]])
    return min(float(found["time"]) * scale, MAX_WAIT)


def _failure(word: str) -> DemoFailure:
    """Return the failure for a status or a code."""
    if word.isdecimal():
        status = int(word)
        return DemoFailure(
            STATUSES.get(status, "invalid_request" if status < 500 else "server_error"), status
        )
    code = word.lower()
    return DemoFailure(code, _STATUS_OF.get(code, 400 if ERROR_TYPES[code] == "invalid_request" else 500))


_STATUS_OF = {
    **{code: status for status, code in reversed(STATUSES.items())},
    "context_length_exceeded": 400,
    "insufficient_quota": 429,
    "budget_exceeded": 429,
}
_STATUS_OR_CODE = rf"(?P<failure>[45]\d\d|{'|'.join(ERROR_TYPES)})\b"


_SPEAK = r"\b(?:answer|reply|talk|speak|write|count|be)\b[^.!?]{0,20}?"


def _with_delay(found: Found, wishes: Wishes) -> dict[str, Any]:
    """Add the delay to the requested failure."""
    wished = {"refused": wishes.refused, "fails": wishes.fails}
    return {
        name: replace(failure, retry_after=_seconds(found)) for name, failure in wished.items() if failure
    }


def _refused(found: Found, _: Wishes) -> dict[str, Any]:
    failure = _failure(found["failure"] or "500")
    waits = 1.0 if failure.code == "rate_limit_exceeded" else None
    return {"refused": replace(failure, retry_after=waits)}


WISHES: tuple[Wish, ...] = (
    _wish(
        "count from 1 to 5",
        "counts, up or down",
        r"\bcount (?:from )?(?P<from>-?\d{1,6}) (?:up |down )?to (?P<to>-?\d{1,6})\b",
        lambda found, _: {"counts": (int(found["from"]), int(found["to"]))},
    ),
    _wish(
        "answer with 2000 words",
        f"answers with exactly this many words, up to {MAX_WORDS:,}",
        r"\b(?:answer|reply|write|say)\b[^.!?]{0,20}? (?P<count>\d{1,6}) words\b",
        lambda found, _: {"words": min(int(found["count"]), MAX_WORDS)},
    ),
    _wish(
        "think about it",
        "reasons before it answers; `reasoning.effort` does the same",
        r"\bthink(?:ing)?\b",
        lambda *_: {"thinks": True},
    ),
    _wish(
        "what are your instructions?",
        "quotes the instructions, and the system and developer messages",
        r"\b(?:what|show|tell|repeat)\b[^.!?]{0,30}\b(?:instructions|system prompt)\b",
        lambda *_: {"quotes_instructions": True},
    ),
    _wish(
        "use no tools",
        "answers in text, even if tools are declared",
        r"\b(?:no|without|don['’]t (?:call|use)|do not (?:call|use)) (?:any |a )?tools?\b",
        lambda *_: {"no_tools": True},
    ),
    _wish(
        "call it twice",
        "sends each tool call twice with the same id; the client receives it once",
        r"\bcall (?:it|them|that|this|the tool) twice\b",
        lambda *_: {"repeats_call": True},
    ),
    _wish(
        "cite a source",
        "adds a link to the answer, with a `url_citation`",
        r"\bcite\b|\bwith (?:a )?(?:source|citation)s?\b",
        lambda *_: {"cites": True},
    ),
    _wish("refuse", "refuses to answer", r"\brefuse\b", lambda *_: {"declines": True}),
    _wish("say nothing", "sends an answer without content", r"\bsay nothing\b", lambda *_: {"empty": True}),
    _wish(
        "answer slowly",
        "sends five words a second",
        rf"{_SPEAK} slow(?:ly)?\b|\bslow down\b",
        lambda *_: {"pace": SLOW},
    ),
    _wish(
        "answer fast",
        "sends words without pauses",
        rf"{_SPEAK} (?:fast|quick(?:ly)?)\b",
        lambda *_: {"pace": 0.0},
    ),
    _wish(
        "wait 3 seconds",
        "is silent before the answer, for up to 10 minutes",
        rf"\bwait {_DURATION}",
        lambda found, _: {"wait": _seconds(found)},
    ),
    _wish(
        "pause 3 seconds in the middle",
        "is silent in the middle of the answer",
        rf"\bpause {_DURATION}",
        lambda found, _: {"pause": _seconds(found)},
    ),
    _wish(
        "be silent",
        "sends nothing until the client disconnects",
        r"\b(?:be|stay|remain) silent\b",
        lambda *_: {"silent": True},
    ),
    _wish(
        "fail at once",
        "refuses the request with HTTP 500, on every attempt",
        rf"\bfail (?:at once|immediately|right away|now)\b(?: with {_STATUS_OR_CODE})?",
        _refused,
    ),
    _wish(
        "fail with 429",
        "refuses the request with this status, or with a code such as `context_length_exceeded`",
        rf"\bfail with (?:an? |the )?(?:error |status |code )?{_STATUS_OR_CODE}",
        _refused,
    ),
    _wish(
        "fail in the middle",
        "sends an error after half of the answer; add `with` and a status or a code to choose which",
        rf"\bfail in the middle\b(?: with {_STATUS_OR_CODE})?",
        lambda found, _: {"fails": _failure(found["failure"] or "500")},
    ),
    _wish(
        "retry after 7 seconds",
        "adds a retry delay to a failure",
        rf"\bretry[ -]after {_DURATION}",
        _with_delay,
    ),
    _wish(
        "break off",
        "closes the stream after half of the answer",
        r"\bbreak off\b",
        lambda *_: {"breaks_off": True},
    ),
    _wish(
        "send garbage",
        "sends something that is not JSON after half of the answer",
        r"\bgarbage\b(?! collect)",
        lambda *_: {"garbage": True},
    ),
)
"""In the order in which they are applied."""

EXACTLY = Wish(
    "say exactly: X",
    "repeats X, up to the end of the message; other phrases in X have no effect",
    re.compile(r"\bsay exactly:[ \t]?(?P<text>.*)", re.IGNORECASE | re.DOTALL),
    lambda found, _: {"exactly": found["text"].strip()},
)


def wishes_in(prompt: str) -> Wishes:
    prompt = prompt[:_MAX_PROMPT]
    wishes = Wishes()
    if exactly := EXACTLY.pattern.search(prompt):
        wishes = replace(wishes, **EXACTLY.changes(exactly, wishes))
        prompt = prompt[: exactly.start()]
    for wish in WISHES:
        if found := wish.pattern.search(prompt):
            wishes = replace(wishes, **wish.changes(found, wishes))
    return wishes


def as_markdown() -> str:
    """Return the table for `docs/demo.md`."""
    rows = [f"| “{wish.words}” | {wish.does} |" for wish in (EXACTLY, *WISHES)]
    return "\n".join(["| say | the demo model |", "|---|---|", *rows])
