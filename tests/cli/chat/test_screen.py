"""The screen: streamed text, lines, and a status line that disappears."""

from __future__ import annotations

import pytest

from penstock.cli.chat.screen import Screen, ToolOutputStream
from tests.cli.chat.fakes import use_terminal


def test_a_line_starts_after_unfinished_text(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, columns=20)
    screen = Screen()
    screen.write("Hello")
    screen.line("a note", "dim")
    screen.write("\033[1mbold\n\033[0m")
    screen.line("next")
    assert terminal.text == "Hello\na note\nbold\nnext\n"


def test_a_status_line_is_shortened_and_erased_by_other_output(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, columns=20)
    screen = Screen()
    screen.status("waiting for a long time …")
    screen.status("ready")
    screen.write("Hello")
    assert terminal.text == "\r\033[Kwaiting for a long…\r\033[Kready\r\033[KHello"


def test_a_sentence_is_wrapped_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, columns=20)
    Screen().sentence("the upstream returned HTTP 502", "red")
    assert terminal.text == "the upstream\n  returned HTTP 502\n"


def test_empty_text_leaves_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, columns=20)
    screen = Screen()
    screen.status("waiting")
    screen.write("")
    assert terminal.text == "\r\033[Kwaiting"


def test_after_the_user_pressed_enter_no_empty_line_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, columns=20)
    screen = Screen()
    screen.write("run it? ")
    screen.typed()
    screen.line("ok")
    assert terminal.text == "run it? ok\n"


def test_a_dumb_terminal_has_no_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, term="dumb")
    Screen().status("waiting")
    assert terminal.raw == ""


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    assert Screen().paint("a", "red") == "\033[31ma\033[0m"
    assert Screen().paint("", "red") == ""
    monkeypatch.setenv("NO_COLOR", "1")
    assert Screen().paint("a", "red") == "a"


def test_the_width_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, columns=40)
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "60")
    assert screen.width == 60


def test_the_output_of_tools_is_dimmed_and_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, columns=20)
    stream = ToolOutputStream(Screen())
    assert stream.writable()
    assert stream.write("\x1b[2Jlooking\n") == 12
    assert terminal.raw == "\033[2m\\x1b[2Jlooking\n\033[0m"
