"""Inline Markdown: emphasis, code, links.

A line may arrive in pieces. The result depends only on the line, never on where it was split: a marker waits
for its closing marker or for the end of the line. After `MAX_SPAN` characters it becomes plain text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MAX_SPAN = 400
"""The maximum distance between an opening and its closing marker."""
_MAX_DEPTH = 4

BOLD, DIM, ITALIC, UNDERLINE, STRIKE, CODE = "1", "2", "3", "4", "9", "36"

_SPECIAL = re.compile(r"[\\`*_~\[!]")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class Span(NamedTuple):
    """Text and its terminal style codes."""

    text: str
    codes: tuple[str, ...] = ()
    is_verbatim: bool = False
    """Whether it is code or part of a table, whose lines are never wrapped."""


class _Found(NamedTuple):
    spans: list[Span]
    end: int


class _NeedMore(Exception):  # noqa: N818 - not an error
    """The rest of the line is needed to decide."""


def read_spans(
    text: str, is_complete: bool, before: str = "", codes: Sequence[str] = (), depth: int = 0
) -> tuple[list[Span], int]:
    """Return the spans at the start of `text`, and how many characters they cover.

    `is_complete`: the line ends here, so all of it is read. `before` is the character before `text`.
    """
    outer = tuple(codes)
    spans: list[Span] = []
    plain = at = 0
    while special := _SPECIAL.search(text, at):
        at = special.start()
        try:
            found = _construct(_Line(text, is_complete, depth), at, text[at - 1] if at else before)
        except _NeedMore:
            break
        if found is None:
            at = _run_end(text, at)
            continue
        spans += _plain(text[plain:at], outer)
        spans += [Span(span.text, (*outer, *span.codes)) for span in found.spans]
        plain = at = found.end
    else:
        at = len(text)
    return [*spans, *_plain(text[plain:at], outer)], at


def _plain(text: str, codes: tuple[str, ...]) -> list[Span]:
    return [Span(text, codes)] if text else []


class _Line(NamedTuple):
    text: str
    is_complete: bool
    depth: int

    def known(self, at: int) -> str:
        """Return the character at this position; empty after the end of the line."""
        if at >= len(self.text) and not self.is_complete:
            raise _NeedMore
        return self.text[at : at + 1]

    def missing(self, start: int) -> None:
        """Raise `_NeedMore` if the marker that was not found after `start` may still arrive."""
        if not self.is_complete and len(self.text) - start <= MAX_SPAN:
            raise _NeedMore

    def inner(self, start: int, end: int, *codes: str) -> list[Span]:
        before = self.text[start - 1 : start]
        return read_spans(self.text[start:end], True, before, codes, self.depth + 1)[0]


def _run_end(text: str, at: int) -> int:
    """Return the end of the run of equal characters at `at`; a bracket is always a run of one."""
    end = at + 1
    while text[at] not in "[!\\" and text[end : end + 1] == text[at]:
        end += 1
    return end


def _construct(line: _Line, at: int, before: str) -> _Found | None:
    """Read the construct that starts at `at`; return None if the character is plain text."""
    character = line.text[at]
    if character == "\\":
        following = line.known(at + 1)
        return _Found([Span(following)], at + 2) if following in _PUNCTUATION and following else None
    if character in "[!":
        return _link(line, at)
    start = _run_end(line.text, at)
    line.known(start)  # the run may continue in the next piece
    if character == "`":
        end = _code_end(line, start, start - at)
        return None if end is None else _Found([Span(_code(line.text[start:end]), (CODE,))], end + start - at)
    return _emphasis(line, at, start, before)


def _code(text: str) -> str:
    """Remove the padding spaces, which allow code to start or end with a backtick."""
    if text.startswith(" ") and text.endswith(" ") and text.strip():
        return text[1:-1]
    return text


def _code_end(line: _Line, start: int, length: int) -> int | None:
    """Return the position of the closing run of `length` backticks."""
    at = start
    while (at := line.text.find("`", at, start + MAX_SPAN)) >= 0:
        end = _run_end(line.text, at)
        line.known(end)
        if end - at == length:
            return at
        at = end
    line.missing(start)
    return None


_STYLES = {
    ("*", 1): (ITALIC,),
    ("_", 1): (ITALIC,),
    ("*", 2): (BOLD,),
    ("_", 2): (BOLD,),
    ("*", 3): (BOLD, ITALIC),
    ("_", 3): (BOLD, ITALIC),
    ("~", 2): (STRIKE,),
}


def _emphasis(line: _Line, at: int, start: int, before: str) -> _Found | None:
    marker, length = line.text[at], start - at
    codes = _STYLES.get((marker, length))
    following = line.known(start)
    if codes is None or line.depth >= _MAX_DEPTH or not following or following.isspace():
        return None
    # After a letter or digit, stars are more likely a product or a power, and underscores part of a name. Two
    # stars inside Chinese or Japanese text, which has no spaces, are emphasis.
    is_loose = length == 1 or marker == "_"
    if before.isalnum() and (is_loose or before.isascii()):
        return None
    end = _emphasis_end(line, start, marker, length, is_loose)
    if end is None:
        return None
    return _Found(line.inner(start, end, *codes), end + length)


def _emphasis_end(line: _Line, start: int, marker: str, length: int, is_loose: bool) -> int | None:
    text, at = line.text, start
    while at < min(len(text), start + MAX_SPAN):
        end = _run_end(text, at)
        if text[at] == "\\":
            at += 2
        elif text[at] == "`":
            line.known(end)
            code = _code_end(line, end, end - at)
            at = end if code is None else code + end - at
        elif text[at] == marker and not text[at - 1].isspace() and at > start:
            following = line.known(end)
            is_end = not (is_loose and following.isalnum())
            # A run of three closes one and two at once: the inner emphasis uses the rest.
            if is_end and end - at in (length, 3):
                return end - length
            at = end
        else:
            at = end
    line.missing(start)
    return None


def _link(line: _Line, at: int) -> _Found | None:
    """Read `[text](address)`, or an image if it starts with `!`."""
    start = at + (line.text[at] == "!")
    if line.known(start) != "[":
        return None
    close = _bracket_end(line, start, "[", "]")
    if close is None or line.known(close + 1) != "(":
        return None
    end = _bracket_end(line, close + 1, "(", ")")
    if end is None:
        return None
    address = line.text[close + 2 : end].strip().partition(" ")[0].strip("<>")
    if start > at:
        label = f"[image: {line.text[start + 1 : close]}]"
        return _Found([Span(label, (DIM,)), Span(f" ({address})", (DIM,))], end + 1)
    label = line.text[start + 1 : close]
    if line.depth >= _MAX_DEPTH:
        return None
    text = line.inner(start + 1, close, UNDERLINE)
    target = [] if label == address or not address else [Span(f" ({address})", (DIM,))]
    return _Found([*text, *target], end + 1)


def _bracket_end(line: _Line, start: int, opening: str, closing: str) -> int | None:
    text, depth, at = line.text, 0, start
    while at < min(len(text), start + MAX_SPAN):
        if text[at] == "\\":
            at += 2
            continue
        depth += (text[at] == opening) - (text[at] == closing)
        if not depth:
            return at
        at += 1
    line.missing(start)
    return None
