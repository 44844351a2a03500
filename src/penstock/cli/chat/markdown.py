"""Markdown for a terminal, while it comes: what is written is never written again.

What is shown depends on the text alone and not on how it was cut. So a beginning of a line is held until it
is known what kind of line it is, a marker in a line until its other half is there (`markdown_inline.py`), a
table until it is over (`markdown_tables.py`); everything else goes out at once. Lines are not wrapped: the
terminal does that, and does it again when its width changes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.cli.chat.markdown_inline import BOLD, CODE, DIM, MOST, UNDERLINE, Span, read_spans
from penstock.cli.chat.markdown_tables import LONGEST_ROW, MarkdownTable, is_delimiter, is_row
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
"""Beginnings of a line that may become one thing or another."""
_UNTIL_ITS_END = re.compile(r"[ \t]*(```|~~~|\|)")
"""Beginnings of lines that are read when they are whole."""


class _Fence(NamedTuple):
    """An open block of code: what closes it, and the quotes that it stands in."""

    marker: str
    length: int
    quotes: int

    def is_closed_by(self, line: str) -> bool:
        run = line.strip(" \t")
        return len(run) >= self.length and set(run) == {self.marker}


class MarkdownRenderer:
    """Text in, in pieces; what to write to the terminal out. Without colour the text is left as it is."""

    def __init__(self, *, coloured: bool = True, unicode: bool = True) -> None:
        self._coloured = coloured
        self._unicode = unicode
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._rest = ""
        """What of the current line is not shown yet."""
        self._before = ""
        """The character before that."""
        self._codes: tuple[str, ...] | None = None
        """How the text of the line is shown; None until it is known what the line is."""
        self._quotes = 0
        self._fence: _Fence | None = None
        self._header: str | None = None
        self._table: MarkdownTable | None = None

    def feed(self, text: str) -> str:
        text = safe(text)
        if not self._coloured:
            return text
        spans: list[Span] = []
        while text:
            piece, newline, text = text.partition("\n")
            self._rest += piece
            spans += self._read(is_whole=bool(newline))
            if newline:
                spans += self._end_line()
        return "".join(map(_painted, spans))

    def end(self) -> str:
        """What was held back. The next text begins anew."""
        spans = self._read(is_whole=True) if self._rest else []
        if self._header is not None or self._table is not None:
            spans += self._end_table()
        self._begin_anew()
        return "".join(map(_painted, spans))

    def _end_line(self) -> list[Span]:
        is_held = self._codes is None  # a row of a table, which has its own newline
        self._rest = self._before = ""
        self._codes = None
        self._quotes = 0
        return [] if is_held else [Span("\n")]

    def _read(self, is_whole: bool) -> list[Span]:
        if self._fence is not None and self._codes is None:
            return self._read_code(self._fence, is_whole)
        spans: list[Span] = []
        if self._codes is None:
            decided = self._begin(is_whole)
            if decided is None:
                return []
            spans += decided
        if self._codes is None:  # a row that is held
            return spans
        if self._codes == (CODE,):
            read, length = [Span(self._rest, (CODE,))] if self._rest else [], len(self._rest)
        else:
            read, length = read_spans(self._rest, is_whole, self._before, self._codes)
        self._before = self._rest[length - 1 : length] or self._before
        self._rest = self._rest[length:]
        return spans + read

    def _read_code(self, fence: _Fence, is_whole: bool) -> list[Span]:
        """A line of code goes out as it comes, unless it may be the end of the block."""
        line = self._rest
        if fence.quotes:
            if not is_whole:
                return []
            for _ in range(fence.quotes):
                line = _QUOTE.sub("", line, count=1)
        is_open = not line.strip(" \t" + fence.marker) and len(line) <= MOST
        if is_open and not is_whole:
            return []
        self._rest, self._codes = "", (CODE,)
        if is_open and fence.is_closed_by(line):
            self._fence = None
            return [Span(line, (DIM,))]
        return [*self._quote_bars(fence.quotes), *([Span(line, (CODE,))] if line else [])]

    def _begin(self, is_whole: bool) -> list[Span] | None:
        """Find out what kind of line this is and show how it begins; None while that cannot be known."""
        if not is_whole and self._may_change():
            return None
        if self._is_held():
            return self._hold()
        spans = self._end_table() if self._header is not None or self._table is not None else []
        while quote := _QUOTE.match(self._rest):
            self._rest = self._rest[quote.end() :]
            self._quotes += 1
            spans += self._quote_bars(1)
            if not is_whole and self._may_change():
                return spans
        self._codes = ()
        short = len(self._rest) <= MOST
        if short and (fence := _FENCE.fullmatch(self._rest)) and "`" not in fence[3]:
            self._fence = _Fence(fence[2][0], len(fence[2]), self._quotes)
            self._codes = (DIM,)
            shown, self._rest = self._rest, ""
            return [*spans, Span(shown, (DIM,))]
        if heading := _HEADING.match(self._rest):
            self._codes = (BOLD, UNDERLINE) if len(heading[1]) == 1 else (BOLD,)
            self._rest = self._rest[heading.end() :]
        elif short and _RULE.fullmatch(self._rest):
            self._rest = ""
            spans.append(Span(("─" if self._unicode else "-") * 24, (DIM,)))
        elif bullet := _BULLET.match(self._rest):
            self._rest = self._rest[bullet.end() :]
            spans.append(Span(bullet[1] + ("• " if self._unicode else "* ")))
            self._before = " "
        return spans

    def _may_change(self) -> bool:
        if _UNTIL_ITS_END.match(self._rest):
            most = LONGEST_ROW if self._rest.lstrip(" \t").startswith("|") and not self._quotes else MOST
            return len(self._rest) <= most
        return len(self._rest) <= MOST and _UNDECIDED.fullmatch(self._rest) is not None

    def _is_held(self) -> bool:
        return not self._quotes and is_row(self._rest)

    def _hold(self) -> list[Span]:
        """A row: the header waits for the line below it, the others for the end of the table."""
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
        spans = self._table.shown() if self._table is not None else []
        if self._header is not None:
            spans += _text_line(self._header)
        self._table = self._header = None
        return spans

    def _quote_bars(self, count: int) -> list[Span]:
        return [Span("│ " if self._unicode else "> ", (DIM,))] * count


def _text_line(line: str) -> list[Span]:
    return [*read_spans(line, True)[0], Span("\n")]


def _painted(span: Span) -> str:
    return f"\033[{';'.join(span.codes)}m{span.text}\033[0m" if span.codes else span.text
