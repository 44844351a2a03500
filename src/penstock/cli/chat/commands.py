"""Slash commands of the chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.cli import UsageError
from penstock.cli.chat.client import ChatClient
from penstock.cli.chat.images import read_image
from penstock.cli.chat.prompt import paths
from penstock.cli.chat.screen import Screen
from penstock.cli.chat.usage import totals
from penstock.cli.terminal_text import one_line, shortened
from penstock.formatting import counted
from penstock.models.info import ModelInfo
from penstock.parts.parts import DataPart
from penstock.suggestions import near_names

_MAX_MODELS = 30

KEYS = (
    ("Ctrl-C", "stop the answer; twice at the prompt: quit"),
    ("Ctrl-D", "quit"),
    ("\\ at the end of a line", "continue on the next line; pasting also works"),
    ("@picture.png", "send the image with the message"),
    ("Tab, ↑", "complete commands, models and paths; earlier messages"),
)


class CommandSession(Protocol):
    """The parts of a session that commands use."""

    chat: ChatClient
    screen: Screen
    images: list[DataPart]
    """Images to send with the next message."""
    thinking: str
    is_over: bool

    def known_models(self) -> list[ModelInfo]:
        """Return the models listed so far, without a request."""

    def list_models(self) -> list[ModelInfo]: ...

    def switch(self, model: str) -> None: ...


def run_command(session: CommandSession, line: str) -> None:
    """Run a slash command; raise `UsageError` if it is unknown or fails."""
    name, _, argument = line.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = " or ".join(near_names(name, COMMANDS)) or "/help"
        raise UsageError(
            f"unknown command {one_line(name, 40)}: try {near} (or start with a space to send it as text)"
        )
    command[1](session, argument.strip())


def complete(session: CommandSession, line: str, word: str) -> list[str]:
    """Return the completions of `word`, which follows `line`."""
    before = line.split()
    if not before and word.startswith("/"):
        return [name for name in COMMANDS if name.startswith(word)]
    if before == ["/model"]:
        names = [info.id for info in session.known_models() if info.id.isprintable()]  # readline types them
        return [name for name in names if name.startswith(word)]
    if before in (["/image"], ["/save"]):
        return paths(word)
    return [f"@{path}" for path in paths(word[1:])] if word.startswith("@") else []


def _help(session: CommandSession, _: str) -> None:
    rows = [*((name, summary) for name, (summary, _) in COMMANDS.items()), *KEYS]
    names = {"/model": "/model [NAME]", "/save": "/save FILE", "/image": "/image PATH"}
    for name, summary in rows:
        session.screen.line(f"  {names.get(name, name):24} {summary}")


def _model(session: CommandSession, wanted: str) -> None:
    listed = session.list_models()
    exact = [info for info in listed if info.id == wanted]
    found = exact or [info for info in listed if wanted.lower() in info.id.lower()]
    if wanted and (len(found) == 1 or not found):
        session.switch(found[0].id if found else wanted)
        note = "" if found else " (not listed by the endpoint)"
        session.screen.line(f"the model is now {one_line(session.chat.model)}{note}", "dim")
        return
    for info in found[:_MAX_MODELS]:
        session.screen.line(_model_line(info, info.id == session.chat.model, session.screen.width))
    if len(found) > _MAX_MODELS:
        session.screen.line(f"  and {len(found) - _MAX_MODELS} more: filter them with /model TEXT", "dim")


def _model_line(info: ModelInfo, is_current: bool, width: int) -> str:
    capabilities = [
        name for name, has in (("images", info.image_input), ("reasoning", info.reasoning)) if has
    ]
    marker = "*" if is_current else " "
    line = f"{marker} {one_line(info.id):32} {info.context_window:>11,}  {' '.join(capabilities)}"
    return shortened(line.rstrip(), width - 1)


def _undo(session: CommandSession, _: str) -> None:
    question = session.chat.transcript.undo()
    if question is None:
        raise UsageError("there is nothing to undo")
    session.screen.line(f"removed: {one_line(question, session.screen.width - 16) or '(an image)'}", "dim")


def _save(session: CommandSession, name: str) -> None:
    if not name:
        raise UsageError("a file name is missing: /save FILE")
    count = session.chat.transcript.save(name)
    session.screen.line(f"saved {counted(count, 'message')}; continue with --load {one_line(name)}", "dim")


def _image(session: CommandSession, name: str) -> None:
    if not name:
        raise UsageError("a path is missing: /image PATH")
    session.images.append(read_image(name))
    session.screen.line(f"{one_line(name)} will be sent with your next message", "dim")


def _thinking(session: CommandSession, _: str) -> None:
    session.thinking = "folded" if session.thinking == "full" else "full"
    session.screen.line(f"thinking is shown {'in full' if session.thinking == 'full' else 'folded'}", "dim")


def _usage(session: CommandSession, _: str) -> None:
    for line in totals(session.chat.provider.tracker):
        session.screen.line(one_line(line), "dim")


def _clear(session: CommandSession, _: str) -> None:
    session.chat.transcript.clear()
    session.images.clear()
    session.screen.line("started a new conversation", "dim")


def _quit(session: CommandSession, _: str) -> None:
    session.is_over = True


COMMANDS: dict[str, tuple[str, Callable[[CommandSession, str], None]]] = {
    "/help": ("show this list", _help),
    "/model": ("list the models, or switch to one", _model),
    "/image": ("send an image with the next message", _image),
    "/thinking": ("switch between full and folded thinking", _thinking),
    "/undo": ("remove the last exchange", _undo),
    "/clear": ("start a new conversation", _clear),
    "/save": ("write the conversation to a file, for --load", _save),
    "/usage": ("show tokens and cost so far", _usage),
    "/quit": ("quit", _quit),
}
