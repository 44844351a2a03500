"""What the commands may assume about the place where their output goes."""

from __future__ import annotations

import os
import shutil
import sys

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

    def note(self, text: str) -> None:
        """For the person, beside the result: standard error."""
        print(f"penstock: {self.clean(text)}", file=sys.stderr, flush=True)


def _can_encode(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
