"""The interactive chat on a terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.chat.client import ChatClient, ChatTurn, question_of
from penstock.cli.chat.commands import complete, run_command
from penstock.cli.chat.display import TurnDisplay
from penstock.cli.chat.images import mentioned_images
from penstock.cli.chat.prompt import Prompt
from penstock.cli.chat.screen import Screen, ToolOutputStream
from penstock.cli.chat.usage import footer
from penstock.cli.endpoint_errors import RetryHandler, explain_error, logged_to
from penstock.cli.terminal_text import one_line
from penstock.errors import OpenResponsesError
from penstock.formatting import counted
from penstock.models.info import ModelInfo
from penstock.parts.parts import DataPart, MessagePart

_TICK = 0.5
_SHORTEN = "/undo removes the last exchange, /clear starts a new conversation"


class Session:
    """One interactive session. `runner` has the event loop, which runs only during requests."""

    def __init__(
        self,
        runner: asyncio.Runner,
        chat: ChatClient,
        *,
        images: Sequence[DataPart] = (),
        thinking: str = "folded",
        allow_all: bool = False,
    ) -> None:
        self.chat = chat
        self.screen = Screen()
        self.images: list[DataPart] = [*images]
        self.thinking = thinking
        self.is_over = False
        self._runner = runner
        self._allow_all = allow_all
        self._always: set[str] = set()
        self._prompt = Prompt(self.screen, lambda line, word: complete(self, line, word))
        self._listed: list[ModelInfo] = []
        self._last_was_interrupt = False

    def converse(self) -> int:
        """Run until Ctrl-D, /quit, or Ctrl-C twice at the prompt."""
        self._greet()
        while not self.is_over:
            try:
                line = self._prompt.read()
            except KeyboardInterrupt:
                self._interrupt_at_prompt()
                continue
            self._last_was_interrupt = False
            if line is None:
                break
            if line.strip():
                self._handle(line)
        return OK

    def ask_once(self, text: str) -> int:
        """Send one question and return the exit code."""
        turn = self._ask(self._question(text))
        return OK if turn is not None and turn.error is None else PROBLEM

    def known_models(self) -> list[ModelInfo]:
        """Return the last list of models, for completion, which must not wait."""
        return self._listed

    def list_models(self) -> list[ModelInfo]:
        try:
            self._listed = self._runner.run(self.chat.models())
        except OpenResponsesError as error:
            raise UsageError(explain_error(error, self.chat.endpoint)) from None
        return self._listed

    def switch(self, model: str) -> None:
        self._runner.run(self.chat.choose(model))

    def _greet(self) -> None:
        with suppress(UsageError):
            self.list_models()
        model = f"{one_line(self.chat.model)} at {one_line(self.chat.endpoint.display_url)}"
        tools = f", tools: {', '.join(tool.spec.name for tool in self.chat.tools)}" if self.chat.tools else ""
        self.screen.line(f"{model}{tools}. /help lists the commands.", "dim")
        if count := len(self.chat.transcript.exchanges):
            self.screen.line(f"loaded a conversation with {count} exchange{'s' * (count != 1)}", "dim")

    def _interrupt_at_prompt(self) -> None:
        self.screen.write("\n")
        if self._last_was_interrupt:
            self.is_over = True
            return
        self._last_was_interrupt = True
        self.screen.line("(press Ctrl-C again, Ctrl-D or /quit to quit)", "dim")

    def _handle(self, line: str) -> None:
        """Run a command or send a message. Errors are shown, and the session continues."""
        try:
            if line.startswith("/"):
                run_command(self, line)
            else:
                self._ask(self._question(line))
        except UsageError as error:
            self.screen.sentence(one_line(str(error)), "red")

    def _question(self, text: str) -> list[MessagePart]:
        text, images = mentioned_images(text)
        question = question_of(text, [*self.images, *images])
        info = self.chat.info
        if len(question) > 1 and info is not None and not info.image_input:
            is_known = info.sources.get("image_input") != "default"
            warning = "does not accept images" if is_known else "may not accept images"
            self.screen.line(f"{one_line(info.id)} {warning}", "yellow")
        self.images.clear()
        return question

    def _ask(self, question: Sequence[MessagePart]) -> ChatTurn | None:
        """Run one turn. Ctrl-C stops only the turn."""
        interrupt = _Interrupt()
        display = TurnDisplay(
            self.screen,
            self._prompt,
            thinking=self.thinking,
            always=self._always,
            allow_all=self._allow_all,
            asking=lambda: self._asking(interrupt),
            interrupted=interrupt.hit,
        )
        turn = None
        # A second Ctrl-C stops the turn at once, without an orderly end.
        interrupted = suppress(KeyboardInterrupt, asyncio.CancelledError)
        with (
            logged_to(RetryHandler(self._show_retry)),
            redirect_stdout(ToolOutputStream(self.screen)),
            interrupted,
        ):
            turn = self._runner.run(self._turn(question, display, interrupt))
        display.finish()
        self._show_outcome(turn)
        return turn

    @contextmanager
    def _asking(self, interrupt: _Interrupt) -> Iterator[None]:
        with interrupt.paused(), redirect_stdout(self.screen.stream):  # readline needs the terminal itself
            yield

    async def _turn(
        self, question: Sequence[MessagePart], display: TurnDisplay, interrupt: _Interrupt
    ) -> ChatTurn:
        async def tick() -> None:
            while True:
                display.tick()
                await asyncio.sleep(_TICK)

        interrupt.listen()
        ticking = asyncio.create_task(tick(), name="penstock clock")
        try:
            return await self.chat.ask(question, display, interrupt.cancel)
        finally:
            ticking.cancel()
            interrupt.ignore()

    def _show_retry(self, message: str) -> None:
        self.screen.line(one_line(message, self.screen.width - 1), "yellow")

    def _show_outcome(self, turn: ChatTurn | None) -> None:
        """Show why a turn failed or was cut off, and its usage."""
        if turn is None:
            self.screen.line("stopped; the question was not added to the conversation", "yellow")
            return
        if turn.error is not None:
            message = explain_error(turn.error, self.chat.endpoint, self.chat.model, shorten=_SHORTEN)
            self.screen.sentence(message, "red")
        elif turn.answer is not None and turn.answer.stopped == "cancelled":
            note = "" if turn.is_in_transcript else "; the question was not added to the conversation"
            self.screen.line(f"stopped{note}", "yellow")
        elif reason := incomplete(turn):
            self.screen.line(reason, "yellow")
        if line := footer(turn.requests, self.chat.info, unicode=self.screen.unicode):
            self.screen.line(line, "dim")
        self.screen.line()


def incomplete(turn: ChatTurn) -> str:
    """Return why the answer is incomplete; empty if it is complete."""
    answer = turn.answer
    if answer is None:
        return ""
    if answer.stopped == "turns":
        rounds = counted(len(answer.results), "round")
        return f"stopped after {rounds} of tool calls without an answer; ask again to continue"
    finish = answer.results[-1].finish
    if finish == "length":
        return "the answer was cut off: it reached the output token limit"
    if finish == "content_filter":
        return "the answer was cut off by the endpoint's content filter"
    if not answer.text and finish != "cancelled":
        return "the model returned no text"
    return ""


class _Interrupt:
    """Ctrl-C during a turn: the first requests an orderly stop, the second cancels the task."""

    def __init__(self) -> None:
        self.cancel = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def listen(self) -> None:
        self._task = asyncio.current_task()
        with suppress(NotImplementedError):  # without signal handlers, Ctrl-C is a KeyboardInterrupt
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.hit)

    def ignore(self) -> None:
        with suppress(NotImplementedError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)

    def hit(self) -> None:
        if self.cancel.is_set() and self._task is not None:
            self._task.cancel()
        self.cancel.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let Ctrl-C raise KeyboardInterrupt as usual while the user is prompted."""
        self.ignore()
        try:
            yield
        finally:
            self.listen()
