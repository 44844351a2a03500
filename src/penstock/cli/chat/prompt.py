"""Read typed messages, with line editing, history and completion if readline is available."""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Callable
from typing import Any

from penstock.cli.chat.screen import Screen

Completer = Callable[[str, str], list[str]]
"""Returns the completions of a word, given the line before it and the word."""


class Prompt:
    """Read from the terminal. The history lasts as long as the process."""

    def __init__(self, screen: Screen, completer: Completer) -> None:
        self._screen = screen
        self._completer = completer
        self._completions: list[str] = []
        self._readline = _readline()
        if self._readline is not None:
            self._readline.set_completer_delims(" \t\n")
            self._readline.set_completer(self._complete)
            self._readline.set_auto_history(False)
            for setting in ("tab: complete", "set enable-bracketed-paste on"):  # a paste is one message
                self._readline.parse_and_bind(setting)

    def read(self) -> str | None:
        """Read one message; return None for Ctrl-D. A backslash at the end of a line continues it."""
        self._screen.fresh_line()
        lines: list[str] = []
        while not lines or lines[-1].endswith("\\"):
            try:
                lines.append(input(self._marked("> " if not lines else ". ")))
            except EOFError:
                self._screen.typed()
                if not lines:
                    return None
                break
        self._screen.typed()
        text = "\n".join([*(line.removesuffix("\\") for line in lines[:-1]), lines[-1]])
        if self._readline is not None and text.strip():
            self._readline.add_history(text)
        return text

    def ask(self, question: str) -> str:
        """Read a short answer, which is not added to the history; empty for Ctrl-D."""
        self._screen.fresh_line()
        try:
            return input(question).strip().lower()
        except EOFError:
            return ""
        finally:
            self._screen.typed()

    def _marked(self, prompt: str) -> str:
        """Make the prompt bold. `\\001` and `\\002` mark codes of zero width for readline."""
        if not self._screen.coloured or self._readline is None:
            return prompt
        return f"\001\033[1m\002{prompt}\001\033[0m\002"

    def _complete(self, word: str, state: int) -> str | None:
        if state == 0:
            line = self._readline.get_line_buffer()[: self._readline.get_begidx()]
            self._completions = self._completer(line, word)
        return self._completions[state] if state < len(self._completions) else None


def paths(word: str) -> list[str]:
    """Return the files and folders whose path starts with `word`."""
    found = sorted(glob.glob(glob.escape(os.path.expanduser(word)) + "*"))
    return [path + "/" if os.path.isdir(path) else path for path in found]


def _readline() -> Any:
    """Return GNU readline, or None. On macOS it may be libedit, which has another syntax for settings."""
    try:
        module = importlib.import_module("readline")
    except ImportError:
        return None
    return None if "libedit" in (module.__doc__ or "") else module
