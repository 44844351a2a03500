"""A terminal to run a program in and to inspect: tmux, on its own socket."""

from __future__ import annotations

import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from tests.cli.running import environment

LONGEST = 20.0
"""Seconds until a wait fails. It is a limit, not a delay."""


def has_tmux() -> bool:
    return shutil.which("tmux") is not None


class TmuxTerminal:
    """One program on one screen. Leaving the `with` block ends both."""

    def __init__(self, *command: str, changes: Mapping[str, str] | None = None) -> None:
        self._socket = f"penstock-{secrets.token_hex(6)}"
        self._command = command
        self._environment = environment(TERM="screen-256color", **(changes or {}))
        for name in ("COLUMNS", "LINES", "TMUX"):
            self._environment.pop(name, None)

    def __enter__(self) -> Self:
        # The line after the program's end shows its exit code; `cat` keeps the screen. Ctrl-C also goes
        # to the shell, which must ignore it.
        line = f"trap : INT; {shlex.join(self._command)}; echo '[ended with '$?']'; exec cat"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "sh", "-c", line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server")

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste like a terminal, with paste brackets if the program enabled them."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def screen(self) -> str:
        """Return everything shown, including scrolled lines; wrapped lines are joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-1000").rstrip()

    def styled(self) -> str:
        """Return the screen with its styles."""
        return self._tmux("capture-pane", "-p", "-e", "-J", "-S", "-1000")

    def wait_for(self, wanted: str | Callable[[str], bool]) -> str:
        """Wait until the screen has it, and return the screen."""
        is_there = wanted if callable(wanted) else lambda screen: wanted in screen
        deadline = time.monotonic() + LONGEST
        while not is_there(screen := self.screen()):
            if time.monotonic() > deadline:
                raise AssertionError(f"the screen never had {wanted!r}:\n{screen}")
            time.sleep(0.02)  # between two polls
        return screen

    def wait_for_prompt(self) -> str:
        return self.wait_for(lambda screen: screen.splitlines()[-1:] == [">"])

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments],
            capture_output=True,
            env=self._environment,
            timeout=LONGEST,
        )
        return done.stdout.decode()
