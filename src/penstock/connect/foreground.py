"""Run a client's program in the foreground of the terminal, while this process serves its gateway.

The program is in the process group of this process. So it has the terminal, and Ctrl-C, Ctrl-Z and a change
of the window's size reach it from the terminal as if it had been started alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Self

_SIGNALLED = 128
"""Added to the number of the signal that ended a program, as shells do."""
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
"""The terminal sends these to the program as well."""


class Interrupted(Exception):  # noqa: N818 - named after what happened
    """A signal arrived before the program was started."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
        """The exit code for it."""


class Foreground:
    """Handles signals, and runs at most one program. An asynchronous context manager: signals are handled
    until it is left. Before the program is started, they cancel the block and raise `Interrupted`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._task: asyncio.Task[object] | None = None
        self._ended_by = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (*_PASSED_ON, *_FROM_KEYBOARD):
            loop.add_signal_handler(number, self._received, number)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (*_PASSED_ON, *_FROM_KEYBOARD):
            loop.remove_signal_handler(number)
        if self._ended_by and self._task is not None and kind is asyncio.CancelledError:
            self._task.uncancel()
            raise Interrupted(_SIGNALLED + self._ended_by) from None

    async def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the program to its end; return its exit code, or 128 and the number of the signal that ended
        it. Raise `OSError` if it cannot be started."""
        with _terminal() as terminal:
            modes = None if terminal is None else termios.tcgetattr(terminal)
            self._process = subprocess.Popen(command, env=dict(environment))
            try:
                code = await asyncio.to_thread(self._process.wait)
            finally:
                if self._process.poll() is None:  # an error in this process must not leave it running
                    self._process.terminate()
                    self._process.wait()
            if code < 0 and terminal is not None and modes is not None:
                # It had no time to do so itself, and the shell would not echo what is typed.
                with suppress(termios.error):
                    termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
        return code if code >= 0 else _SIGNALLED - code

    def _received(self, number: signal.Signals) -> None:
        if self._process is None:
            self._ended_by = number
            if self._task is not None:
                self._task.cancel()
        elif number in _PASSED_ON:
            self._process.send_signal(number)
        else:
            with _terminal() as terminal:
                # The keys of the terminal have sent it to the program as well; another process has not.
                if terminal is None:
                    self._process.send_signal(number)


@contextmanager
def _terminal() -> Iterator[int | None]:
    """Open the terminal if this process is in its foreground; else yield None."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield terminal if _is_in_foreground(terminal) else None
    finally:
        os.close(terminal)


def _is_in_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
