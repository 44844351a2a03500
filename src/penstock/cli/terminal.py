"""What the commands may assume about the place where their output goes."""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import sys
from typing import Protocol

STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200e\u200f\u2028-\u202e\u2061-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What steers a terminal or turns the direction of text, and what is there without being seen. Tabs, newlines
and the joiners that emoji and Persian are written with stay."""

_CODES = {"red": "31", "green": "32", "dim": "2"}


class Terminal:
    """Standard output: coloured only for a person, safe to show whatever a stream contains.

    `secret` is never written: wherever a server sends a key back, `[key]` is shown in its place.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self.width = shutil.get_terminal_size((100, 24)).columns
        self.unicode = _can_encode(sys.stdout.encoding, "├─━┤…✓")

    def paint(self, text: str, colour: str) -> str:
        return f"\033[{_CODES[colour]}m{text}\033[0m" if self._coloured and text else text

    def conceal(self, text: str) -> str:
        """`text` without the secret."""
        return text.replace(self._secret, "[key]") if self._secret else text

    def clean(self, text: str) -> str:
        """`text` on one line, without the secret and without characters that steer a terminal."""
        text = self.conceal(text)
        if text.isprintable():
            return text
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)

    def line(self, text: str) -> None:
        """Write now, not when a buffer is full: the stream may be a live one."""
        print(text, flush=True)

    def result(self, text: str) -> None:
        """Write JSON that others wrote: exactly for a program, and harmless for a person."""
        self.line(escaped(text) if sys.stdout.isatty() else text)

    def output(self) -> TerminalOutput:
        """The same for bytes, in as many writes as are needed."""
        return _Escaping() if sys.stdout.isatty() else sys.stdout.buffer

    def note(self, text: str) -> None:
        """For the person, beside the result: standard error."""
        print(f"penstock: {self.clean(text)}", file=sys.stderr, flush=True)


class TerminalOutput(Protocol):
    """Standard output for the results of a command."""

    def write(self, data: bytes, /) -> int: ...

    def flush(self) -> None: ...


class _Escaping:
    """Standard output that is a terminal. A character may be cut in two by a write."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes, /) -> int:
        sys.stdout.write(escaped(self._decoder.decode(data)))
        return len(data)

    def flush(self) -> None:
        sys.stdout.flush()


def escaped(text: str) -> str:
    """Written as JSON writes it, so that JSON is still the same JSON when it is copied from the terminal."""
    return STEERING.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _can_encode(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
