"""The output of commands: colour, width, and escaping of control characters.

Nothing else writes to the standard streams (`tests/cli/test_print_paths.py`), except the screen of the chat,
which uses the same guard.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
from typing import Protocol, TextIO

from penstock.cli.terminal_text import escaped, guarded, safe
from penstock.formatting import printable, wrapped

_CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2"}


class Terminal:
    """Standard output: coloured only on a terminal, and safe whatever a stream contains.

    `secret` is never written: if a server echoes the key, `[key]` is shown instead.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.width = shutil.get_terminal_size((100, 24)).columns
        self.room = self.width if sys.stdout.isatty() or os.environ.get("COLUMNS") else None
        """The columns that text and tables must fit; None if the output is a pipe or a file, and `COLUMNS`,
        which `watch` sets for example, does not say otherwise."""
        self.unicode = _can_encode(sys.stdout.encoding, "├─━┤…✓")

    def paint(self, text: str, colour: str) -> str:
        return f"\033[{_CODES[colour]}m{text}\033[0m" if self._coloured and text else text

    def conceal(self, text: str) -> str:
        """Return `text` without the secret."""
        return text.replace(self._secret, "[key]") if self._secret else text

    def clean(self, text: str) -> str:
        """Return `text` on one line, without the secret and with control characters escaped."""
        return printable(self.conceal(text))

    def line(self, text: str) -> None:
        """Write a line and flush it: the stream may be live."""
        output_line(text)

    def begin_line(self, text: str) -> None:
        """Write the beginning of a line, which the user continues."""
        print(guarded(text), end="", flush=True)

    def wrapped(self, text: str, indent: str = "", *, first: str = "", colour: str = "") -> None:
        """Write clean text, wrapped at words if it must fit. `first` begins the first line, `indent` the
        others."""
        for line in [first + text] if self.room is None else wrapped(text, self.room, indent, first=first):
            self.line(self.paint(line, colour) if colour else line)

    def result(self, text: str) -> None:
        """Write untrusted JSON: unchanged to a file or pipe, escaped on a terminal."""
        print(escaped(text) if sys.stdout.isatty() else text, flush=True)

    def output(self) -> TerminalOutput:
        """Return an output for bytes with the same rule as `result`."""
        return _Escaping() if sys.stdout.isatty() else sys.stdout.buffer

    def note(self, text: str) -> None:
        """Write a message for the user to standard error."""
        write_error(self.clean(text))


def terminal_width(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream writes to, as it is now."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        found = 0
    return found or shutil.get_terminal_size().columns


def write_error(text: str) -> None:
    """Write a message to standard error: wrapped on a terminal, else on one line."""
    message = f"penstock: {text}"
    if not sys.stderr.isatty():
        lines = [message]
    else:
        lines = [
            line for each in message.split("\n") for line in wrapped(each, terminal_width(sys.stderr), "  ")
        ]
    error_line("\n".join(lines))


def output_line(text: str) -> None:
    """Write a line to standard output."""
    print(guarded(text), flush=True)


def error_line(text: str) -> None:
    """Write a line to standard error, without `penstock:` in front."""
    print(guarded(text), file=sys.stderr, flush=True)


def show_status(text: str) -> None:
    """Write a line to standard error that the next one overwrites; an empty text only removes it."""
    sys.stderr.write(f"\r\033[K{guarded(text)}\r")
    sys.stderr.flush()


class SafeErrors(io.TextIOBase):
    """Standard error for other people's code: control characters are escaped."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def write(self, text: str) -> int:
        sys.stderr.write(safe(text))
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


class TerminalOutput(Protocol):
    """Standard output for the results of a command."""

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class _Escaping:
    """Standard output on a terminal, escaped. A write may end in the middle of a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes, /) -> int:
        sys.stdout.write(escaped(self._decoder.decode(data)))
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def _can_encode(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
