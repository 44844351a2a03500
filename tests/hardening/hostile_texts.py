"""Texts that attack a terminal, and a search for what of them has reached one."""

from __future__ import annotations

import re

from penstock.cli.terminal_text import CONTROLS

INJECTED = "INJECTED-LINE"
TEXTS: dict[str, str] = {
    "colour": "\x1b[5;7mblink",
    "clear screen": "\x1b[2J\x1b[1;1H",
    "report position": "\x1b[6n",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "device control": "\x1bP+q544e\x1b\\",
    "application": "\x1b_Gf=100;AAAA\x1b\\",
    "C1 sequence": "\x9b31mred\x9d0;t\x9c",
    "next line": f"a\x85{INJECTED}",
    "bell and backspace": "\x07a\b\b\b",
    "overprint": f"harmless\r{INJECTED}",
    "line feed": f"a\n{INJECTED}",
    "vertical tab": f"a\x0b{INJECTED}\x0c{INJECTED}",
    "line separator": f"a\u2028{INJECTED}\u2029{INJECTED}",
    "direction": "\u202e txt.exe \u2066\u2067\u2068\u2069\u200f\u061c",
    "invisible": "\ufeff\u2060\xad\u180e\u2062\U000e0041",
    "null": "a\x00b\x7f",
    "shift": "\x0e\x0flqqk",
    "reset": "\x1bc\x1b(0",
}
ALL = " ".join(TEXTS.values())

_OURS = re.compile(r"\x1b\[(?:[0-9]|3[0-9])(?:;(?:[0-9]|3[0-9]))*m|\r?\r\x1b\[K|\x1b\[\?2004[hl]\r?")
"""Colours, the removal of a status line, and readline's marks around what is pasted."""


def foreign(shown: bytes) -> list[str]:
    """Return what of the texts has reached the terminal: control sequences that are not ours."""
    text = shown.decode("utf-8", "surrogateescape")
    text = text.replace("\x1b[5;7m", "\x1b[?")  # a colour that we never use
    rest = _OURS.sub("", text).replace("\r\n", "\n")
    return [
        f"{found[0]!r} in {rest[max(found.start() - 40, 0) : found.end() + 20]!r}"
        for found in CONTROLS.finditer(rest)
    ]


def injected(shown: bytes) -> list[str]:
    """Return the lines that a text from outside has begun. Those of a wrapped sentence are indented."""
    text = _OURS.sub("", shown.decode("utf-8", "surrogateescape"))
    return [line for line in re.split(r"[\r\n]+", text) if line.startswith(INJECTED)]
