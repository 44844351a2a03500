"""The chat in a pipe: one question; only the text of the answer is printed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TextIO

from penstock.cli import OK, PROBLEM
from penstock.cli.chat.client import ChatClient
from penstock.cli.chat.display import call_line, result_lines
from penstock.cli.chat.session import incomplete
from penstock.cli.endpoint_errors import RetryHandler, explain_error, logged_to
from penstock.cli.terminal import Terminal
from penstock.cli.terminal_text import safe
from penstock.parts.parts import MessagePart, Part, TextPart, ToolCallPart, ToolResultPart
from penstock.provider.loop import Listener

_WIDTH = 200


def answer_plainly(
    runner: asyncio.Runner,
    chat: ChatClient,
    question: Sequence[MessagePart],
    *,
    output: TextIO,
    allow_all: bool,
) -> int:
    """Write the answer to `output` as it arrives, and notices to standard error; return the exit code."""
    writer = _AnswerWriter(output, allow_all)
    with logged_to(RetryHandler(writer.terminal.note)):
        turn = runner.run(chat.ask(question, writer))
    writer.end_line()
    if turn.error is not None:
        writer.terminal.note(explain_error(turn.error, chat.endpoint, chat.model))
        return PROBLEM
    if reason := incomplete(turn):
        writer.terminal.note(reason)
    return PROBLEM if turn.answer is not None and turn.answer.stopped == "turns" else OK


class _AnswerWriter(Listener):
    def __init__(self, output: TextIO, allow_all: bool) -> None:
        self.terminal = Terminal()
        self._output = output
        self._allow_all = allow_all
        self._is_terminal = output.isatty()
        self._at_start = True

    def part(self, part: Part) -> None:
        if isinstance(part, TextPart) and part.value:
            self._output.write(safe(part.value) if self._is_terminal else part.value)
            self._output.flush()
            self._at_start = part.value.endswith("\n")
        elif isinstance(part, ToolCallPart):
            self.end_line()

    async def may_run(self, call: ToolCallPart) -> bool:
        if not self._allow_all:
            self.terminal.note(f"{call_line(call, _WIDTH)} was not run: use --yes to allow it")
        return self._allow_all

    def ran(self, call: ToolCallPart, result: ToolResultPart) -> None:
        if self._allow_all or not result.is_error:
            output = " / ".join(result_lines(result, _WIDTH))
            self.terminal.note(f"{call_line(call, _WIDTH)} -> {output}")

    def end_line(self) -> None:
        if not self._at_start:
            self._output.write("\n")
            self._output.flush()
            self._at_start = True


def read_all() -> str:
    """Return all of standard input. On a terminal, Ctrl-D ends it."""
    from penstock.cli.source import contents

    if sys.stdin is None:
        return ""
    return contents("-", Terminal()).decode("utf-8", "replace")
