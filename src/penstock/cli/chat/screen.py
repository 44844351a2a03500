"""Write to a terminal: streamed text, separate lines, and a status line that is updated in place.

The width is read each time a line must fit, so that resizing works.
"""

from __future__ import annotations

import io
import os
import shutil
import sys

from penstock.cli.terminal import Terminal
from penstock.cli.terminal_text import guarded, safe, shortened
from penstock.formatting import wrapped

_STYLES = {"bold": "1", "dim": "2", "cyan": "36", "red": "31", "yellow": "33"}


class Screen:
    def __init__(self) -> None:
        self.stream = sys.stdout
        self.unicode = Terminal().unicode
        self.coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._can_move = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._has_status = False
        self._at_start = True

    @property
    def width(self) -> int:
        return shutil.get_terminal_size((100, 24)).columns

    def paint(self, text: str, style: str) -> str:
        return f"\033[{_STYLES[style]}m{text}\033[0m" if self.coloured and text else text

    def write(self, text: str) -> None:
        """Write streamed text. It must be safe already."""
        if not text:
            return
        self._clear()
        self._put(text)
        self._at_start = text.removesuffix("\033[0m").endswith("\n")

    def line(self, text: str = "", style: str = "") -> None:
        """Write a separate line."""
        self.fresh_line()
        self._put((self.paint(text, style) if style else text) + "\n")

    def sentence(self, text: str, style: str) -> None:
        """Write sentences on lines of their own, wrapped at words."""
        for line in wrapped(text, self.width, "  "):
            self.line(line, style)

    def status(self, text: str) -> None:
        """Show a status line, cut so that it does not wrap. Any other output removes it."""
        if not self._can_move:
            return
        if not self._has_status:
            self.fresh_line()
        self._has_status = True
        self._put("\r\033[K" + self.paint(shortened(text, self.width - 1), "dim"))

    def fresh_line(self) -> None:
        self._clear()
        if not self._at_start:
            self._put("\n")
            self._at_start = True

    def typed(self) -> None:
        """Note that the user ended a line, so the cursor is at the start of the next."""
        self._at_start = True
        self._has_status = False

    def _clear(self) -> None:
        if self._has_status:
            self._put("\r\033[K")
            self._has_status = False

    def _put(self, text: str) -> None:
        self.stream.write(guarded(text))
        self.stream.flush()


class ToolOutputStream(io.TextIOBase):
    """Standard output while tools run: shows their output dimmed."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._screen.write(self._screen.paint(safe(text), "dim"))
        return len(text)
