"""The chat on a terminal: a prompt, an answer, and so on until the person has enough."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from penstock.cli import FOUND, OK, UsageError
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
from penstock.models.info import ModelInfo
from penstock.parts.parts import DataPart, MessagePart

_TICK = 0.5
_SHORTEN = "/undo takes back the last exchange, /clear begins anew"


class Session:
    """One run of the program. `runner` has the event loop, which runs only while something is asked."""

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
        """Until the end: Ctrl-D, /quit, or Ctrl-C twice at the prompt."""
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
                self._take(line)
        return OK

    def ask_once(self, text: str) -> int:
        """One question, and the program is over."""
        turn = self._ask(self._question(text))
        return OK if turn is not None and turn.error is None else FOUND

    def known_models(self) -> list[ModelInfo]:
        """For completion, which must not wait."""
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
        place = f"{one_line(self.chat.model)} at {one_line(self.chat.endpoint.place)}"
        tools = f", tools: {', '.join(tool.spec.name for tool in self.chat.tools)}" if self.chat.tools else ""
        self.screen.line(f"{place}{tools}. /help shows what else you can type.", "dim")
        if count := len(self.chat.transcript.exchanges):
            self.screen.line(f"the conversation has {count} exchange{'s' * (count != 1)} already", "dim")

    def _interrupt_at_prompt(self) -> None:
        self.screen.write("\n")
        if self._last_was_interrupt:
            self.is_over = True
            return
        self._last_was_interrupt = True
        self.screen.line("(Ctrl-C once more, Ctrl-D or /quit ends)", "dim")

    def _take(self, line: str) -> None:
        """Whatever goes wrong with a line is told, and the next one is read."""
        try:
            if line.startswith("/"):
                run_command(self, line)
            else:
                self._ask(self._question(line))
        except UsageError as error:
            self.screen.line(one_line(str(error)), "red")

    def _question(self, text: str) -> list[MessagePart]:
        text, images = mentioned_images(text)
        question = question_of(text, [*self.images, *images])
        info = self.chat.info
        if len(question) > 1 and info is not None and not info.image_input:
            is_known = info.sources.get("image_input") != "default"
            doubt = (
                "takes no images, it is said" if is_known else "may take no images: nobody says that it does"
            )
            self.screen.line(f"{one_line(info.id)} {doubt}", "yellow")
        self.images.clear()
        return question

    def _ask(self, question: Sequence[MessagePart]) -> ChatTurn | None:
        """One turn. Ctrl-C stops it and nothing else."""
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
        # Whoever stops a turn for the second time wants it stopped at once, without an end of its own.
        stopped = suppress(KeyboardInterrupt, asyncio.CancelledError)
        with (
            logged_to(RetryHandler(self._tell_of_retry)),
            redirect_stdout(ToolOutputStream(self.screen)),
            stopped,
        ):
            turn = self._runner.run(self._turn(question, display, interrupt))
        display.finish()
        self._tell(turn)
        return turn

    @contextmanager
    def _asking(self, interrupt: _Interrupt) -> Iterator[None]:
        with interrupt.paused(), redirect_stdout(self.screen.stream):  # readline wants the terminal itself
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

    def _tell_of_retry(self, message: str) -> None:
        self.screen.line(one_line(message, self.screen.width - 1), "yellow")

    def _tell(self, turn: ChatTurn | None) -> None:
        """What there is to say behind a turn, and what was used."""
        if turn is None:
            self.screen.line("stopped; the question is not part of the conversation", "yellow")
            return
        if turn.error is not None:
            message = explain_error(turn.error, self.chat.endpoint, self.chat.model, shorten=_SHORTEN)
            self.screen.line(message, "red")
        elif turn.answer is not None and turn.answer.stopped == "cancelled":
            lost = "" if turn.is_kept else "; the question is not part of the conversation"
            self.screen.line(f"stopped{lost}", "yellow")
        elif reason := incomplete(turn):
            self.screen.line(reason, "yellow")
        if line := footer(turn.requests, self.chat.info, unicode=self.screen.unicode):
            self.screen.line(line, "dim")
        self.screen.line()


def incomplete(turn: ChatTurn) -> str:
    """Why an answer is not a whole one; empty when it is."""
    answer = turn.answer
    if answer is None:
        return ""
    if answer.stopped == "turns":
        return f"stopped after {len(answer.results)} rounds of tools without an answer; ask on to go on"
    finish = answer.results[-1].finish
    if finish == "length":
        return "the answer is cut off: it reached the limit of its length"
    if finish == "content_filter":
        return "the answer is cut off by the endpoint's content filter"
    if not answer.text and finish != "cancelled":
        return "the model gave no answer"
    return ""


class _Interrupt:
    """Ctrl-C while a turn runs: the first asks it to stop, the second stops it."""

    def __init__(self) -> None:
        self.cancel = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def listen(self) -> None:
        self._task = asyncio.current_task()
        with suppress(NotImplementedError):  # where loops have no signals, Ctrl-C is a KeyboardInterrupt
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
        """While a question is asked, Ctrl-C is a KeyboardInterrupt as usual."""
        self.ignore()
        try:
            yield
        finally:
            self.listen()
