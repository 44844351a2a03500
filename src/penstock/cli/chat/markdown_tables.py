"""Render a Markdown table in aligned columns. It is buffered, because the widest cell may be the last."""

from __future__ import annotations

import re

from penstock.cli.chat.markdown_inline import BOLD, DIM, Span, read_spans
from penstock.formatting import columns

MAX_BUFFERED = 60
"""After this many rows a table is written; later rows are written at once, with the same widths."""
LONGEST_ROW = 2000

_DELIMITERS = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")

_Cell = list[Span]


def is_row(line: str) -> bool:
    return line.lstrip(" \t").startswith("|") and len(line) <= LONGEST_ROW


def is_delimiter(line: str) -> bool:
    """Return whether this is the second line of a table, which defines its columns."""
    return is_row(line) and _DELIMITERS.fullmatch(line) is not None


class MarkdownTable:
    """One table. Rows are added one by one."""

    def __init__(self, header: str, delimiter: str, *, unicode: bool) -> None:
        self._rows: list[list[_Cell]] = [[_styled(cell, BOLD) for cell in _cells(header)]]
        self._is_right = [cell.endswith(":") and not cell.startswith(":") for cell in _texts(delimiter)]
        self._widths: list[int] = []
        self._line, self._cross = ("─", "─┼─") if unicode else ("-", "-+-")
        self._separator = Span(" │ " if unicode else " | ", (DIM,))

    def add(self, line: str) -> list[Span]:
        """Add a row and return the output that is ready: none for the first `MAX_BUFFERED` rows."""
        self._rows.append(_cells(line))
        return self.flush() if self._widths or len(self._rows) >= MAX_BUFFERED else []

    def flush(self) -> list[Span]:
        """Return all rows that were not returned yet."""
        rows, self._rows = self._rows, []
        is_first = not self._widths
        if is_first:
            count = max(map(len, rows))
            self._widths = [max([1, *(_width(row, at) for row in rows)]) for at in range(count)]
        spans: list[Span] = []
        for number, row in enumerate(rows):
            spans += self._row(row)
            if is_first and number == 0:
                spans.append(Span(self._cross.join(self._line * width for width in self._widths), (DIM,)))
                spans.append(Span("\n"))
        return [span._replace(is_verbatim=True) for span in spans]

    def _row(self, row: list[_Cell]) -> list[Span]:
        spans: list[Span] = []
        for at in range(max(len(self._widths), len(row))):
            cell = row[at] if at < len(row) else []
            width = self._widths[at] if at < len(self._widths) else 0
            space = Span(" " * max(width - _width(row, at), 0))
            is_right = at < len(self._is_right) and self._is_right[at]
            spans += [self._separator] if at else []
            spans += [space, *cell] if is_right else [*cell, space]
        return [*(span for span in spans if span.text), Span("\n")]


def _width(row: list[_Cell], at: int) -> int:
    return sum(columns(span.text) for span in row[at]) if at < len(row) else 0


def _styled(cell: _Cell, code: str) -> _Cell:
    return [Span(span.text, (code, *span.codes)) for span in cell]


def _cells(line: str) -> list[_Cell]:
    return [read_spans(cell, True)[0] for cell in _texts(line)]


def _texts(line: str) -> list[str]:
    """Split a row into cells. `\\|` is a literal `|`."""
    inside = re.sub(r"(?<!\\)\|\s*$", "", line.strip().removeprefix("|"))
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inside)]
