"""Find out whether a Markdown text ends inside a fenced code block: what follows would be shown as code.

Only a fence outside of lists and quotes has to be closed: the next line that does not belong to its list or
quote ends any other (CommonMark 0.31, section 4.5).
"""

from __future__ import annotations

import re

from msgspec import Struct

_LINE_END = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)")
_CLOSING_FENCE = re.compile(r" {0,3}(`{3,}|~{3,}) *")
_BREAK = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})")
"""A thematic break. It may look like a list: `* * *`."""
_NO_TEXT = re.compile(rf" *| {{0,3}}#{{1,6}}(?: .*)?|{_BREAK.pattern}")
"""Nothing, a heading or a thematic break: no line of a paragraph."""
_UNDERLINE = re.compile(r" {0,3}(?:-+|=+) *")
"""Makes the paragraph before it a heading."""
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?: {1,4}(?=[^ ])| (?= )|(?= *$))")
"""The marker of a list item, with the spaces that belong to it."""

_INTERRUPTING_ITEM = re.compile(r" {0,3}(?:[-+*]|1[.)]) +[^ ]")
"""Only such an item can follow a paragraph without a blank line."""


class _Container(Struct, frozen=True):
    """A quote, or a list item whose content is indented by `indent`."""

    indent: int = 0
    is_quote: bool = False

    def rest(self, line: str) -> str | None:
        """Return the line without what makes it belong to this container; None if it does not belong."""
        if self.is_quote:
            marker = _QUOTE.match(line)
            return line[marker.end() :] if marker else None
        belongs = not line.strip() or line[: self.indent].isspace()
        return line[self.indent :] if belongs else None


def closing_fence(text: str) -> str:
    """Return what to append to a text so that it does not end inside a code block; usually ""."""
    blocks = _Blocks()
    for line in _LINE_END.split(text):
        blocks.read(line.expandtabs(4))
    if not blocks.fence or blocks.containers:
        return ""
    return blocks.fence if text.endswith(("\n", "\r")) else f"\n{blocks.fence}"


class _Blocks:
    """The blocks that are open after a line."""

    def __init__(self) -> None:
        self.containers: list[_Container] = []
        self.fence = ""
        self._is_paragraph = False
        self._is_empty_item = False

    def read(self, line: str) -> None:
        if self._is_empty_item and not line.strip():
            self.containers.pop()  # only one line of an item may be empty before its content
        rest, depth = self._within(line)
        is_inside = depth == len(self.containers)
        if self.fence and is_inside:
            closing = _CLOSING_FENCE.fullmatch(rest)
            self.fence = "" if closing and closing[1].startswith(self.fence) else self.fence
            return
        opened, rest = _opened(rest, continues_paragraph=self._is_paragraph and is_inside)
        fence = _FENCE.fullmatch(rest)
        continues = self._is_paragraph and not opened
        is_text = not (fence or _NO_TEXT.fullmatch(rest)) and (continues or not rest.startswith("    "))
        if continues and is_inside and _UNDERLINE.fullmatch(rest):
            is_text = False
        if continues and is_text:
            return  # even if the markers of its containers are missing
        self.containers[depth:] = opened
        self.fence = (fence[1] or fence[2]) if fence else ""
        self._is_paragraph = is_text
        self._is_empty_item = bool(opened) and not opened[-1].is_quote and not rest.strip()

    def _within(self, line: str) -> tuple[str, int]:
        """Return the rest of a line, and how many of the open containers it belongs to."""
        for depth, container in enumerate(self.containers):
            rest = container.rest(line)
            if rest is None:
                return line, depth
            line = rest
        return line, len(self.containers)


def _opened(line: str, *, continues_paragraph: bool) -> tuple[list[_Container], str]:
    """Return the containers that a line begins, and the rest of the line."""
    opened: list[_Container] = []
    while not _BREAK.fullmatch(line):
        item = _ITEM.match(line)
        if item and continues_paragraph and not opened and not _INTERRUPTING_ITEM.match(line):
            break
        if marker := _QUOTE.match(line):
            opened.append(_Container(is_quote=True))
        elif marker := item:
            # The space after the marker of an empty item may be missing.
            opened.append(_Container(max(marker.end(), len(marker[0].rstrip()) + 1)))
        else:
            break
        line = line[marker.end() :]
    return opened, line
