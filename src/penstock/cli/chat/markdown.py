"""Render streamed Markdown for a terminal. Written output is never rewritten.

The output depends only on the text, not on how it is split into pieces. So the start of a line is buffered
until its kind is known, an inline marker until its closing marker arrives (`markdown_inline.py`), a table
until it is complete (`markdown_tables.py`), and a word until its end (`word_wrap.py`); everything else is
written at once. Lines of code and tables are not wrapped: the terminal does that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.cli.chat.markdown_inline import BOLD, CODE, DIM, MAX_SPAN, UNDERLINE, Span, read_spans
from penstock.cli.chat.markdown_tables import LONGEST_ROW, MarkdownTable, is_delimiter, is_row
from penstock.cli.chat.word_wrap import WordWrap
from penstock.cli.terminal_text import safe

_QUOTE = re.compile(r" {0,3}> ?")
_HEADING = re.compile(r" {0,3}(#{1,6})(?: +|$)")
_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_BULLET = re.compile(r"([ \t]*)[-+*][ \t]+(?=\S)")
_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)")

_UNDECIDED = re.compile(
    r"[ \t]*"
    r"|[ \t]*>"
    r"|[ \t]*(`{1,2}|~{1,2})"
    r"|[ \t]*#{1,6} *"
    r"|[ \t]*[-+*_][ \t]*"
    r"|[ \t]*([-*_])( *\2)+ *"
)
"""Starts of a line whose kind is not yet known."""
_NEEDS_FULL_LINE = re.compile(r"[ \t]*(```|~~~|\|)")
"""Starts of lines that are read only when they are complete."""


class _Fence(NamedTuple):
    """An open code block: its closing marker, and the depth of block quotes around it."""

    marker: str
    length: int
    quotes: int

    def is_closed_by(self, line: str) -> bool:
        run = line.strip(" \t")
        return len(run) >= self.length and set(run) == {self.marker}


class MarkdownRenderer:
    """Convert text, in pieces, to terminal output. Without colour the text stays unchanged; without `width`,
    lines are not wrapped."""

    def __init__(
        self, *, coloured: bool = True, unicode: bool = True, width: Callable[[], int] | None = None
    ) -> None:
        self._coloured = coloured
        self._unicode = unicode
        self._wrap = WordWrap(width) if width else None
        self._reset()

    def _reset(self) -> None:
        self._rest = ""
        """The part of the current line that is not written yet."""
        self._before = ""
        """The character before it."""
        self._codes: tuple[str, ...] | None = None
        """The style of the line's text; None until the kind of the line is known."""
        self._quotes = 0
        self._fence: _Fence | None = None
        self._header: str | None = None
        self._table: MarkdownTable | None = None

    def feed(self, text: str) -> str:
        """Add text and return the output that is ready."""
        text = safe(text)
        if not self._coloured:
            return text
        spans: list[Span] = []
        while text:
            piece, newline, text = text.partition("\n")
            self._rest += piece
            spans += self._read(is_complete=bool(newline))
            if newline:
                spans += self._end_line()
        return "".join(map(painted, self._wrap.feed(spans) if self._wrap else spans))

    def end(self) -> str:
        """Return the buffered output and reset the renderer."""
        spans = self._read(is_complete=True) if self._rest else []
        if self._header is not None or self._table is not None:
            spans += self._end_table()
        self._reset()
        if self._wrap:
            spans = [*self._wrap.feed(spans), *self._wrap.end()]
        return "".join(map(painted, spans))

    def _end_line(self) -> list[Span]:
        is_table_row = self._codes is None  # which has its own newline
        self._rest = self._before = ""
        self._codes = None
        self._quotes = 0
        return [] if is_table_row else [Span("\n")]

    def _read(self, is_complete: bool) -> list[Span]:
        if self._fence is not None and self._codes is None:
            return self._read_code(self._fence, is_complete)
        spans: list[Span] = []
        if self._codes is None:
            decided = self._begin(is_complete)
            if decided is None:
                return []
            spans += decided
        if self._codes is None:  # a buffered table row
            return spans
        if self._codes == (CODE,):
            read, length = [_code(self._rest)] if self._rest else [], len(self._rest)
        else:
            read, length = read_spans(self._rest, is_complete, self._before, self._codes)
        self._before = self._rest[length - 1 : length] or self._before
        self._rest = self._rest[length:]
        return spans + read

    def _read_code(self, fence: _Fence, is_complete: bool) -> list[Span]:
        """Read a line of code. It is written as it arrives, unless it may be the end of the block."""
        line = self._rest
        if fence.quotes:
            if not is_complete:
                return []
            for _ in range(fence.quotes):
                line = _QUOTE.sub("", line, count=1)
        may_close = not line.strip(" \t" + fence.marker) and len(line) <= MAX_SPAN
        if may_close and not is_complete:
            return []
        self._rest, self._codes = "", (CODE,)
        if may_close and fence.is_closed_by(line):
            self._fence = None
            return [Span(line, (DIM,))]
        return [*self._quote_bars(fence.quotes), *([_code(line)] if line else [])]

    def _begin(self, is_complete: bool) -> list[Span] | None:
        """Detect the kind of the line and return its start; None while the kind is unknown."""
        if not is_complete and self._may_change():
            return None
        if not self._quotes and is_row(self._rest):
            return self._read_row()
        spans = self._end_table() if self._header is not None or self._table is not None else []
        while quote := _QUOTE.match(self._rest):
            self._rest = self._rest[quote.end() :]
            self._quotes += 1
            spans += self._quote_bars(1)
            if not is_complete and self._may_change():
                return spans
        self._codes = ()
        is_short = len(self._rest) <= MAX_SPAN
        if is_short and (fence := _FENCE.fullmatch(self._rest)) and "`" not in fence[3]:
            self._fence = _Fence(fence[2][0], len(fence[2]), self._quotes)
            self._codes = (DIM,)
            line, self._rest = self._rest, ""
            return [*spans, Span(line, (DIM,))]
        if heading := _HEADING.match(self._rest):
            self._codes = (BOLD, UNDERLINE) if len(heading[1]) == 1 else (BOLD,)
            self._rest = self._rest[heading.end() :]
        elif is_short and _RULE.fullmatch(self._rest):
            self._rest = ""
            spans.append(Span(("─" if self._unicode else "-") * 24, (DIM,)))
        elif bullet := _BULLET.match(self._rest):
            self._rest = self._rest[bullet.end() :]
            spans.append(Span(bullet[1] + ("• " if self._unicode else "* ")))
            self._before = " "
        return spans

    def _may_change(self) -> bool:
        if _NEEDS_FULL_LINE.match(self._rest):
            is_row_start = self._rest.lstrip(" \t").startswith("|") and not self._quotes
            return len(self._rest) <= (LONGEST_ROW if is_row_start else MAX_SPAN)
        return len(self._rest) <= MAX_SPAN and _UNDECIDED.fullmatch(self._rest) is not None

    def _read_row(self) -> list[Span]:
        """Buffer a table row: the header until the next line, the others until the end of the table."""
        line, self._rest = self._rest, ""
        if self._table is not None:
            return self._table.add(line)
        if self._header is None:
            self._header = line
            return []
        header, self._header = self._header, None
        if is_delimiter(line):
            self._table = MarkdownTable(header, line, unicode=self._unicode)
            return []
        self._header = line
        return _text_line(header)

    def _end_table(self) -> list[Span]:
        spans = self._table.flush() if self._table is not None else []
        if self._header is not None:
            spans += _text_line(self._header)
        self._table = self._header = None
        return spans

    def _quote_bars(self, count: int) -> list[Span]:
        return [Span("│ " if self._unicode else "> ", (DIM,))] * count


def _code(text: str) -> Span:
    return Span(text, (CODE,), is_verbatim=True)


def _text_line(line: str) -> list[Span]:
    return [*read_spans(line, True)[0], Span("\n")]


def painted(span: Span) -> str:
    return f"\033[{';'.join(span.codes)}m{span.text}\033[0m" if span.codes else span.text
