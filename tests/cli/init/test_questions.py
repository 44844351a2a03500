"""The questions of `penstock init`: what is asked, and how an answer is read."""

from __future__ import annotations

import io
import sys

import pytest

from penstock.cli import UsageError
from penstock.cli.init.questions import Questions
from penstock.cli.terminal import Terminal
from penstock.upstream.discovery import FoundUpstream

LOCAL = FoundUpstream(
    name="ollama", preset="ollama", base_url="http://127.0.0.1:11434/v1", models=("qwen3:8b", "gemma3")
)
VENDOR = FoundUpstream(
    name="anthropic",
    preset="anthropic",
    base_url="https://api.anthropic.com/v1",
    key_variable="ANTHROPIC_API_KEY",
    models=("claude-a", "claude-b", "claude-c", "claude-d", "claude-old"),
)
AWAY = FoundUpstream(
    name="openai",
    preset="openai",
    base_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
    models=("gpt-5.5",),
    problem="cannot be reached: " + "for some long reason, " * 5,
)
FOUND = [LOCAL, VENDOR, AWAY]


def questions(monkeypatch: pytest.MonkeyPatch, *typed: str) -> Questions:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    return Questions(Terminal(), takes_defaults=False)


def test_what_was_found_is_shown_with_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions(monkeypatch).show(FOUND)
    title, first, second, third = capsys.readouterr().out.splitlines()
    assert title == "Found:"
    assert first == "   1  Ollama     http://127.0.0.1:11434/v1, 2 models"
    assert second.endswith("Anthropic  ANTHROPIC_API_KEY, 5 models")
    assert third == "   3  OpenAI     OPENAI_API_KEY, which cannot be reached now"


def test_what_was_found_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    questions(monkeypatch).show(FOUND)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 50


def test_a_mistyped_model_gets_a_suggestion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions(monkeypatch, "gema3", "nothing-like-it", "1").default_model(FOUND)
    printed = capsys.readouterr().out
    assert "There is no such model; did you mean gemma3?" in printed
    assert "There is no such model; type a number or a name from the list." in printed


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ([""], FOUND),
        (["2"], [VENDOR]),
        (["3,1"], [LOCAL, AWAY]),
        ([" 1 2 "], [LOCAL, VENDOR]),
        (["0"], []),
        (["4", "ollama", "0,1", "1"], [LOCAL]),
    ],
)
def test_upstreams_are_chosen_by_number(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    chosen: list[FoundUpstream],
) -> None:
    assert questions(monkeypatch, *typed).upstreams(FOUND) == chosen
    refused = capsys.readouterr().out.count("Please type numbers from 1 to 3, separated by commas.")
    assert refused == len(typed) - 1


@pytest.mark.parametrize(
    ("typed", "name", "upstream"),
    [
        ([""], "qwen3:8b", LOCAL),
        (["3"], "claude-a", VENDOR),
        (["claude-d"], "claude-d", VENDOR),
        (["claude-old"], "claude-old", VENDOR),
        (["99", "no-such-model", "gemma3"], "gemma3", LOCAL),
    ],
)
def test_the_default_model_is_a_number_or_any_listed_name(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: list[str],
    name: str,
    upstream: FoundUpstream,
) -> None:
    model = questions(monkeypatch, *typed).default_model(FOUND)
    assert model is not None
    assert (model.name, model.model, model.upstream) == (name, name, upstream)
    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines()[1:4]] == [
        ["1", "qwen3:8b", "Ollama"],
        ["2", "gemma3", "Ollama"],
        ["3", "claude-a", "Anthropic"],
    ]
    assert printed.count("There is no such model") == len(typed) - 1


def test_nothing_is_asked_where_there_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = questions(monkeypatch)
    assert asking.default_model([]) is None
    only = asking.default_model([AWAY])
    assert only is not None
    assert only.name == "gpt-5.5"


@pytest.mark.parametrize(
    ("typed", "allowed"), [("", True), ("Y", True), ("yes", True), ("n", False), ("?", False)]
)
def test_a_vendor_is_tried_only_with_consent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, allowed: bool
) -> None:
    assert questions(monkeypatch, typed).may_spend([VENDOR, AWAY]) is allowed
    assert capsys.readouterr().out == (
        "Send a short test to Anthropic and OpenAI? It costs a fraction of a cent. [Y/n] "
    )


def test_defaults_are_taken_without_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    taking = Questions(Terminal(), takes_defaults=True)
    assert taking.upstreams(FOUND) == FOUND
    model = taking.default_model(FOUND)
    assert model is not None
    assert model.name == "qwen3:8b"
    assert taking.may_spend([VENDOR])
    assert capsys.readouterr().out == ""


def test_an_input_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="nothing was written"):
        questions(monkeypatch).upstreams(FOUND)


def test_an_interrupt_ends_the_line_and_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    asking = questions(monkeypatch)
    monkeypatch.setattr(sys.stdin, "readline", interrupt)
    with pytest.raises(KeyboardInterrupt):
        asking.may_spend([VENDOR])
    assert capsys.readouterr().out.endswith("[Y/n] \n")
