"""Wrap streamed text at words. Written output is never rewritten, so a word is held until it is complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from penstock.cli.chat.markdown_inline import Span
from penstock.formatting import columns

_WIDE = "ᄀ-ᅟ⺀-〾ぁ-꓏가-힣豈-﫿︰-﹏！-｠￠-￦\U0001f300-\U0001faff\U00020000-\U0003fffd"
_TOKEN = re.compile(rf"\n|[ \t]+|[{_WIDE}][\ufe0f\u200d\U0001f3fb-\U0001f3ff]*|[^ \t\n{_WIDE}]+")
"""Lines may break before and after wide characters: Chinese and Japanese have no spaces."""
_IS_WIDE = re.compile(f"[{_WIDE}]")
_MARKER = re.compile(r"[•*│>]|\d{1,3}[.)]")
"""The start of a list item or of a quoted line: the lines that continue it are indented by its width."""
_BARS = ("│", ">")


class WordWrap:
    """Break lines at spaces so that they fit. `width` is asked for each word: a window may be resized.

    A word that is longer than a line is written as it is: the terminal wraps it, and it can be copied.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._column = 0
        self._word: list[Span] = []
        self._gap: list[Span] = []
        self._is_long = False
        """Whether the start of a word that fits on no line is written already."""
        self._reset()

    def _reset(self) -> None:
        """Begin a line."""
        self._column = 0
        self._is_at_start = True
        self._indent: list[Span] = []
        """What begins a line that continues this one."""

    def feed(self, spans: Iterable[Span]) -> list[Span]:
        """Add text and return the output that is ready: everything but the last word."""
        ready: list[Span] = []
        for span in spans:
            if span.is_verbatim:
                ready += [*self._end_word(), span]
                self._column += columns(span.text)
                if span.text.endswith("\n"):
                    self._reset()
                continue
            for token in _TOKEN.findall(span.text):
                ready += self._add(Span(token, span.codes))
        return _merged(ready)

    def end(self) -> list[Span]:
        """Return the rest, and begin a line."""
        rest = [*self._end_word(), *self._gap]
        self._gap = []
        self._reset()
        return _merged(rest)

    def _add(self, token: Span) -> list[Span]:
        if token.text == "\n":
            ready = [*self._end_word(), *self._gap, token]
            self._gap = []
            self._reset()
            return ready
        if token.text.isspace():
            ready = self._end_word()
            if self._is_at_start:
                return [*ready, *self._begin_with([token], token)]
            self._gap.append(token)
            return ready
        if self._is_long:
            self._column += columns(token.text)
            return [token]
        ready = self._end_word() if self._is_break(token) else []
        self._word.append(token)
        if _columns(self._word) > self._width():
            ready += self._end_word()
            self._is_long = True
        return ready

    def _is_break(self, token: Span) -> bool:
        before = self._word[-1].text if self._word else ""
        return bool(before and (_IS_WIDE.match(token.text) or _IS_WIDE.match(before)))

    def _end_word(self) -> list[Span]:
        """Return the word with what is before it: spaces, or the start of a new line."""
        self._is_long = False
        word, self._word = self._word, []
        if not word:
            return []
        text = "".join(span.text for span in word)
        if self._is_at_start and _MARKER.fullmatch(text):
            return self._begin_with(word, word[0] if text in _BARS else Span(" " * columns(text)))
        self._is_at_start = False
        gap, self._gap = self._gap, []
        width = self._width()
        needed = sum(columns(span.text) for span in (*gap, *word))
        indent = self._indent if 2 * _columns(self._indent) <= width else []
        if self._column + needed <= width or self._column <= _columns(indent):
            self._column += needed
            return [*gap, *word]
        self._column = _columns(indent) + columns(text)
        return [Span("\n"), *indent, *word]

    def _begin_with(self, start: list[Span], kept: Span) -> list[Span]:
        """Return a part of the start of a line; `kept` begins the lines that continue it."""
        self._indent.append(kept)
        self._column += _columns(start)
        return start


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Join neighbours of the same style, so that each is painted once."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1][1:] == span[1:]:
            span = span._replace(text=merged.pop().text + span.text)
        merged.append(span)
    return merged


def _columns(spans: Iterable[Span]) -> int:
    return sum(columns(span.text) for span in spans)
