"""Reading messages: continued lines, history, completion and short answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.chat import prompt as module
from penstock.cli.chat.prompt import Prompt, paths
from penstock.cli.chat.screen import Screen
from tests.cli.chat.fakes import use_keyboard, use_terminal


class FakeReadline:
    """The part of GNU readline that is used."""

    def __init__(self) -> None:
        self.history: list[str] = []
        self.settings: list[str] = []
        self.completer: Any = None
        self.line, self.start = "", 0
        self.add_history = self.history.append
        self.parse_and_bind = self.settings.append

    def set_completer_delims(self, _: str) -> None: ...
    def set_auto_history(self, _: bool) -> None: ...

    def set_completer(self, completer: Any) -> None:
        self.completer = completer

    def get_line_buffer(self) -> str:
        return self.line

    def get_begidx(self) -> int:
        return self.start


@pytest.fixture
def readline(monkeypatch: pytest.MonkeyPatch) -> FakeReadline:
    fake = FakeReadline()
    use_terminal(monkeypatch)
    monkeypatch.setattr(module, "_readline", lambda: fake)
    return fake


def prompt() -> Prompt:
    return Prompt(Screen(), lambda line, word: [f"{word}1", f"{word}2"] if line == "/model " else [])


@pytest.mark.parametrize(
    ("typed", "message", "prompts"),
    [
        (["hello"], "hello", ["> "]),
        (["first\\", "second\\", "third"], "first\nsecond\nthird", ["> ", ". ", ". "]),
        (["first\\", EOFError], "first\\", ["> ", ". "]),
        ([EOFError], None, ["> "]),
        ([""], "", ["> "]),
    ],
    ids=["one line", "continued", "Ctrl-D in a continued line", "Ctrl-D", "empty"],
)
def test_a_message_is_read(
    readline: FakeReadline,
    monkeypatch: pytest.MonkeyPatch,
    typed: list[Any],
    message: str | None,
    prompts: list[str],
) -> None:
    keyboard = use_keyboard(monkeypatch, *typed)
    assert prompt().read() == message
    assert keyboard.prompts == prompts
    assert readline.history == ([message] if message else [])


def test_ctrl_c_at_the_prompt_is_passed_on(readline: FakeReadline, monkeypatch: pytest.MonkeyPatch) -> None:
    use_keyboard(monkeypatch, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        prompt().read()
    assert readline.history == []


def test_a_short_answer_is_not_in_the_history(
    readline: FakeReadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_keyboard(monkeypatch, " YES ")
    asked = prompt()
    assert [asked.ask("run it? "), asked.ask("run it? ")] == ["yes", ""]  # the second is Ctrl-D
    assert readline.history == []


def test_words_are_completed_after_the_line_before_them(readline: FakeReadline) -> None:
    prompt()
    readline.line, readline.start = "/model g", 7
    assert [readline.completer("g", state) for state in range(3)] == ["g1", "g2", None]
    readline.line, readline.start = "text g", 5
    assert readline.completer("g", 0) is None
    assert "set enable-bracketed-paste on" in readline.settings  # a paste is one message


def test_without_readline_the_prompt_has_no_style(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setattr(module, "_readline", lambda: None)
    keyboard = use_keyboard(monkeypatch, "hello")
    assert prompt().read() == "hello"
    assert keyboard.prompts == ["> "]


@pytest.mark.parametrize(
    ("found", "is_used"),
    [("readline for Python", True), ("Importing this module enables libedit readline", False)],
)
def test_libedit_is_not_used(monkeypatch: pytest.MonkeyPatch, found: str, is_used: bool) -> None:
    class Module:
        __doc__ = found

    monkeypatch.setattr("importlib.import_module", lambda _: Module)
    assert (module._readline() is Module) is is_used


def test_paths_are_completed_with_a_slash_for_folders(tmp_path: Path) -> None:
    (tmp_path / "a[1].png").touch()
    (tmp_path / "ab").mkdir()
    assert paths(f"{tmp_path}/a") == [f"{tmp_path}/a[1].png", f"{tmp_path}/ab/"]
    assert paths(f"{tmp_path}/a[") == [f"{tmp_path}/a[1].png"]
    assert paths(f"{tmp_path}/x") == []
