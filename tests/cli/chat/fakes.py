"""A terminal, a keyboard and a chat client in memory, for the parts of `penstock chat`."""

from __future__ import annotations

import asyncio
import builtins
import io
import re
import sys
from collections.abc import Sequence
from typing import cast

import pytest

from penstock.cli.chat.client import ChatClient, ChatTurn
from penstock.cli.chat.transcript import Transcript
from penstock.errors import OpenResponsesError
from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts, ModelInfo
from penstock.parts.parts import ChatMessage, MessagePart, Role, TextPart
from penstock.parts.result import StreamResult
from penstock.provider.loop import Answer, Listener, Tool
from penstock.provider.tracker import UsageTracker
from tests.cli.endpoints import endpoint

STYLE = re.compile(r"\x1b\[[0-9;]*m")


class FakeTerminal(io.StringIO):
    """Standard output that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    @property
    def raw(self) -> str:
        return self.getvalue()

    @property
    def text(self) -> str:
        """Return what was written, without styles."""
        return STYLE.sub("", self.getvalue())

    @property
    def lines(self) -> list[str]:
        """Return the finished lines; a status line that was erased is not among them."""
        written = self.text.removesuffix("\n").split("\n")
        return [line.rpartition("\r\033[K")[2] for line in written]


def use_terminal(monkeypatch: pytest.MonkeyPatch, *, columns: int = 80, term: str = "xterm") -> FakeTerminal:
    """Replace standard output. Call it in the test itself: pytest replaces `sys.stdout` after fixtures."""
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


class Keyboard:
    """Typed lines for `input`; an exception is raised instead. At the end it is Ctrl-D."""

    def __init__(self, *typed: str | type[BaseException]) -> None:
        self._typed = [*typed]
        self.prompts: list[str] = []

    def __call__(self, prompt: str = "") -> str:
        self.prompts.append(re.sub(r"[\001\002]|\x1b\[[0-9;]*m", "", prompt))
        line = self._typed.pop(0) if self._typed else EOFError
        if isinstance(line, str):
            return line
        raise line


def use_keyboard(monkeypatch: pytest.MonkeyPatch, *typed: str | type[BaseException]) -> Keyboard:
    keyboard = Keyboard(*typed)
    monkeypatch.setattr(builtins, "input", keyboard)
    return keyboard


def model(id: str, **facts: int | bool) -> ModelInfo:
    return enrich(ModelFacts(id=id, window=100_000, max_output=1_000, **facts))  # type: ignore[arg-type]


class FakeChat:
    """A `ChatClient` without an endpoint: each question takes the next reply, a text or an error."""

    def __init__(self, *replies: str | BaseException, models: Sequence[ModelInfo] = ()) -> None:
        self.endpoint = endpoint()
        self.transcript = Transcript()
        self.tools: list[Tool] = []
        self.listed = [*(models or [model("one")])]
        self.info: ModelInfo | None = self.listed[0]
        self.asked: list[list[MessagePart]] = []
        self.provider = FakeProvider()
        self.finish = "stop"
        self.stopped = "answered"
        self._replies = [*replies]

    @property
    def model(self) -> str:
        return self.info.id if self.info else ""

    async def models(self) -> list[ModelInfo]:
        return self.listed

    async def choose(self, wanted: str | None) -> None:
        self.info = next((info for info in self.listed if info.id == wanted), None) or model(wanted or "")

    async def ask(
        self, content: Sequence[MessagePart], listener: Listener, cancel: asyncio.Event | None = None
    ) -> ChatTurn:
        self.asked.append([*content])
        reply = self._replies.pop(0)
        if isinstance(reply, OpenResponsesError):
            return ChatTurn([], error=reply, is_in_transcript=False)
        if isinstance(reply, BaseException):
            raise reply
        if reply:
            listener.part(TextPart(reply))
        messages = [ChatMessage(Role.ASSISTANT, [TextPart(reply)])]
        self.transcript.add([ChatMessage(Role.USER, content), *messages])
        stopped = "cancelled" if cancel is not None and cancel.is_set() else self.stopped
        return ChatTurn([], Answer(reply, messages, [StreamResult(finish=self.finish)], stopped))

    @property
    def client(self) -> ChatClient:
        return cast(ChatClient, self)


class FakeProvider:
    def __init__(self) -> None:
        self.tracker = UsageTracker()
