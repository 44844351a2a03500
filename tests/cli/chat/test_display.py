"""The display of a running turn: text, thinking, tool calls and their permission."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.cli.chat.display import TurnDisplay, call_line, result_lines
from penstock.cli.chat.prompt import Prompt
from penstock.cli.chat.screen import Screen
from penstock.parts.parts import DataPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from tests.cli.chat.fakes import FakeTerminal, use_keyboard, use_terminal

CALL = ToolCallPart("c1", "weather", {"city": "Oslo", "days": 2})


class Stage:
    """A display with a clock and a keyboard of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *typed: Any, **options: Any) -> None:
        self.terminal: FakeTerminal = use_terminal(monkeypatch)
        self.keyboard = use_keyboard(monkeypatch, *typed)
        self.now = 0.0
        self.always: set[str] = set()
        self.interrupts = 0
        screen = Screen()
        values: dict[str, Any] = {"thinking": "folded", "allow_all": False, **options}
        self.display = TurnDisplay(
            screen,
            Prompt(screen, lambda *_: []),
            always=self.always,
            asking=nullcontext,
            interrupted=self._interrupted,
            clock=lambda: self.now,
            **values,
        )

    def _interrupted(self) -> None:
        self.interrupts += 1

    def may_run(self) -> bool:
        return asyncio.run(self.display.may_run(CALL))


def test_text_is_rendered_and_ends_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.display.tick()
    for text in ("some *", "*bold** te", "xt"):
        stage.display.part(TextPart(text))
    stage.display.tick()  # no status while text arrives
    stage.display.finish()
    assert stage.terminal.lines == ["some bold text"]
    assert "\033[1mbold" in stage.terminal.raw


def test_the_status_line_counts_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.now = 3.9
    stage.display.tick()
    assert stage.terminal.text.endswith("waiting … 3 s")


THOUGHTS = [ThinkingPart("I pon"), ThinkingPart("der th"), ThinkingPart("is. "), ThinkingPart(["So", " so"])]


@pytest.mark.parametrize(
    ("mode", "lines"),
    [
        ("folded", ["thought (5 words, 7 s)", "Yes."]),
        ("full", ["I ponder this. So so", "Yes."]),
        ("none", ["Yes."]),
    ],
)
def test_thinking_is_folded_shown_or_hidden(
    monkeypatch: pytest.MonkeyPatch, mode: str, lines: list[str]
) -> None:
    stage = Stage(monkeypatch, thinking=mode)
    for part in THOUGHTS:
        stage.display.part(part)
    stage.now = 7.2
    stage.display.part(TextPart("Yes."))
    stage.display.finish()
    assert stage.terminal.lines == lines


def test_thinking_that_is_shown_is_wrapped_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, thinking="full")
    monkeypatch.setenv("COLUMNS", "20")
    for piece in ("I ponder this ques", "tion for a while.\n"):
        stage.display.part(ThinkingPart(piece))
    stage.display.part(TextPart("Yes."))
    stage.display.finish()
    assert stage.terminal.lines == ["I ponder this", "question for a", "while.", "Yes."]


def test_thinking_without_text_is_not_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encrypted thinking has no text."""
    stage = Stage(monkeypatch)
    stage.display.part(ThinkingPart(""))
    stage.display.part(TextPart("Yes."))
    stage.display.finish()
    assert stage.terminal.lines == ["Yes."]


@pytest.mark.parametrize(
    ("typed", "is_allowed", "always"),
    [
        ("y", True, set()),
        ("yes", True, set()),
        ("a", True, {"weather"}),
        ("n", False, set()),
        ("", False, set()),
    ],
)
def test_a_tool_runs_only_with_permission(
    monkeypatch: pytest.MonkeyPatch, typed: str, is_allowed: bool, always: set[str]
) -> None:
    stage = Stage(monkeypatch, typed)
    assert stage.may_run() is is_allowed
    assert stage.always == always
    assert stage.terminal.lines[0] == '→ weather(city="Oslo", days=2)'


def test_an_allowed_tool_is_not_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, "a")
    assert [stage.may_run(), stage.may_run()] == [True, True]
    assert len(stage.keyboard.prompts) == 1
    trusting = Stage(monkeypatch, allow_all=True)
    assert trusting.may_run()
    assert trusting.keyboard.prompts == []


def test_ctrl_c_at_the_question_stops_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, KeyboardInterrupt)
    assert stage.may_run() is False
    assert stage.interrupts == 1


@pytest.mark.parametrize(("is_error", "style"), [(False, "\033[2m"), (True, "\033[31m")])
def test_a_result_is_shown_and_an_error_in_red(
    monkeypatch: pytest.MonkeyPatch, is_error: bool, style: str
) -> None:
    stage = Stage(monkeypatch)
    stage.display.ran(CALL, ToolResultPart("c1", [TextPart("rain\nwind")], is_error))
    assert stage.terminal.lines == ["← weather: rain", "    wind"]
    assert stage.terminal.raw.startswith(f"{style}← weather: rain")


def test_an_image_of_the_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.display.part(DataPart(b"12345", "image/png"))
    stage.display.part(DataPart(b"x", "usage"))  # not a media type: internal data
    assert stage.terminal.lines == ["[image/png, 5 bytes]"]


def test_a_call_is_shortened_to_the_width() -> None:
    long = ToolCallPart("c", "f", {"a": "x" * 100, "b": {"c": [1, "é"]}})
    assert call_line(long, 200) == f'f(a="{"x" * 100}", b={{"c":[1,"é"]}})'
    assert call_line(long, 30) == 'f(a="' + "x" * 20 + "…"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ([], ["(empty)"]),
        ([TextPart("a\n\n\tb\x1b")], ["a", "    b\\x1b"]),
        ([TextPart("\n".join("abcdef"))], ["a", "b", "c", "d", "(2 more lines)"]),
        (
            [DataPart(b'{"a":1}', "application/json"), DataPart(b"12", "image/png")],
            ['{"a":1}', "[image/png, 2 bytes]"],
        ),
    ],
)
def test_the_first_lines_of_a_result_are_shown(content: list[Any], lines: list[str]) -> None:
    assert result_lines(ToolResultPart("c", content), 80) == lines
