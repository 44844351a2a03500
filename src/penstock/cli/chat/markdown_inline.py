"""Markdown inside of a line: emphasis, code, links.

A line may come in pieces. What is read depends on the line alone and never on where it was cut: a marker
waits until it is known what it is, which the marker that closes it says, or the end of the line. It waits for
`MOST` characters and no longer; then it is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MOST = 400
"""How far apart two markers may be that belong together."""
_DEEPEST = 4

BOLD, DIM, ITALIC, UNDERLINE, STRIKE, CODE = "1", "2", "3", "4", "9", "36"

_SPECIAL = re.compile(r"[\\`*_~\[!]")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class Span(NamedTuple):
    """Text, and the codes that it is shown in."""

    text: str
    codes: tuple[str, ...] = ()


class _Found(NamedTuple):
    spans: list[Span]
    end: int


class _Later(Exception):  # noqa: N818 - no error: the rest of the line will tell
    """It cannot be known yet."""


def read_spans(
    text: str, is_whole: bool, before: str = "", codes: Sequence[str] = (), depth: int = 0
) -> tuple[list[Span], int]:
    """The spans at the beginning of `text`, and how much of it they are.

    `is_whole`: the line ends here, so all of it is read. `before` is the character that stands before it.
    """
    outer = tuple(codes)
    spans: list[Span] = []
    plain = at = 0
    while special := _SPECIAL.search(text, at):
        at = special.start()
        try:
            found = _construct(_Line(text, is_whole, depth), at, text[at - 1] if at else before)
        except _Later:
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
    is_whole: bool
    depth: int

    def known(self, at: int) -> str:
        """The character there, or nothing behind the end of the line."""
        if at >= len(self.text) and not self.is_whole:
            raise _Later
        return self.text[at : at + 1]

    def missing(self, start: int) -> None:
        """What was looked for from `start` on is not there. Can it still come?"""
        if not self.is_whole and len(self.text) - start <= MOST:
            raise _Later

    def inner(self, start: int, end: int, *codes: str) -> list[Span]:
        before = self.text[start - 1 : start]
        return read_spans(self.text[start:end], True, before, codes, self.depth + 1)[0]


def _run_end(text: str, at: int) -> int:
    """Behind the run of equal characters that begins there; a bracket is a run by itself."""
    end = at + 1
    while text[at] not in "[!\\" and text[end : end + 1] == text[at]:
        end += 1
    return end


def _construct(line: _Line, at: int, before: str) -> _Found | None:
    """What begins with the special character there; None when it is only that character."""
    character = line.text[at]
    if character == "\\":
        following = line.known(at + 1)
        return _Found([Span(following)], at + 2) if following in _PUNCTUATION and following else None
    if character in "[!":
        return _link(line, at)
    start = _run_end(line.text, at)
    line.known(start)  # the run may still grow
    if character == "`":
        end = _code_end(line, start, start - at)
        return None if end is None else _Found([Span(_code(line.text[start:end]), (CODE,))], end + start - at)
    return _emphasis(line, at, start, before)


def _code(text: str) -> str:
    """Without the spaces that keep backticks apart from backticks."""
    if text.startswith(" ") and text.endswith(" ") and text.strip():
        return text[1:-1]
    return text


def _code_end(line: _Line, start: int, length: int) -> int | None:
    """Where the run of as many backticks is that ends the code."""
    at = start
    while (at := line.text.find("`", at, start + MOST)) >= 0:
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
    if codes is None or line.depth >= _DEEPEST or not following or following.isspace():
        return None
    # Stars behind a letter or a digit are rather a product or a power, underscores a name. Two stars inside
    # of Chinese or Japanese, which has no spaces, are emphasis.
    is_loose = length == 1 or marker == "_"
    if before.isalnum() and (is_loose or before.isascii()):
        return None
    end = _emphasis_end(line, start, marker, length, is_loose)
    if end is None:
        return None
    return _Found(line.inner(start, end, *codes), end + length)


def _emphasis_end(line: _Line, start: int, marker: str, length: int, is_loose: bool) -> int | None:
    text, at = line.text, start
    while at < min(len(text), start + MOST):
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
            # Three close one and two at once: what is inside keeps its own.
            if is_end and end - at in (length, 3):
                return end - length
            at = end
        else:
            at = end
    line.missing(start)
    return None


def _link(line: _Line, at: int) -> _Found | None:
    """`[text](address)`, and with a `!` before it an image."""
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
    if line.depth >= _DEEPEST:
        return None
    shown = line.inner(start + 1, close, UNDERLINE)
    beside = [] if label == address or not address else [Span(f" ({address})", (DIM,))]
    return _Found([*shown, *beside], end + 1)


def _bracket_end(line: _Line, start: int, opening: str, closing: str) -> int | None:
    text, open_ones, at = line.text, 0, start
    while at < min(len(text), start + MOST):
        if text[at] == "\\":
            at += 2
            continue
        open_ones += (text[at] == opening) - (text[at] == closing)
        if not open_ones:
            return at
        at += 1
    line.missing(start)
    return None
