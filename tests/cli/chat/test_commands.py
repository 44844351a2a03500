"""Slash commands and completion."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import UsageError
from penstock.cli.chat.client import ChatClient
from penstock.cli.chat.commands import COMMANDS, complete, run_command
from penstock.cli.chat.screen import Screen
from penstock.models.info import ModelInfo
from penstock.parts.parts import ChatMessage, DataPart, MessagePart, Role, TextPart
from tests.cli.chat.fakes import FakeChat, FakeTerminal, model, use_terminal
from tests.cli.chat.scripts import PIXEL

MODELS = [model("gpt-5", image_input=True), model("gpt-5-mini"), model("qwen3")]


class FakeSession:
    """What commands use of a session."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, models: list[ModelInfo] | None = None) -> None:
        self.terminal: FakeTerminal = use_terminal(monkeypatch)
        self.fake = FakeChat(models=models or MODELS)
        self.chat: ChatClient = self.fake.client
        self.screen = Screen()
        self.images: list[DataPart] = []
        self.thinking = "folded"
        self.is_over = False

    def known_models(self) -> list[ModelInfo]:
        return self.fake.listed

    def list_models(self) -> list[ModelInfo]:
        return self.fake.listed

    def switch(self, model: str) -> None:
        self.fake.info = next((info for info in self.fake.listed if info.id == model), None)

    def run(self, line: str) -> list[str]:
        """Run a command and return the lines that it prints."""
        self.terminal.seek(0)
        self.terminal.truncate()
        run_command(self, line)
        return self.terminal.lines


def add_exchange(session: FakeSession, *content: MessagePart) -> None:
    session.chat.transcript.add([ChatMessage(Role.USER, content)])


def test_help_lists_every_command_and_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = FakeSession(monkeypatch).run("/help")
    assert [line.split()[0] for line in lines[: len(COMMANDS)]] == [*COMMANDS]
    assert any(line.startswith("  Ctrl-D ") for line in lines)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/nonsense x", "unknown command /nonsense: try /help"),
        ("/modle x", "unknown command /modle: try /model"),
        ("/undo", "there is nothing to undo"),
        ("/save", "a file name is missing: /save FILE"),
        ("/image", "a path is missing: /image PATH"),
        ("/image nowhere.png", "cannot read nowhere.png"),
    ],
)
def test_a_wrong_command_is_refused(monkeypatch: pytest.MonkeyPatch, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FakeSession(monkeypatch).run(line)


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("gpt-5", "the model is now gpt-5"),
        ("MINI", "the model is now gpt-5-mini"),
        ("qw", "the model is now qwen3"),
    ],
)
def test_the_model_is_switched_by_its_name_or_a_unique_part(
    monkeypatch: pytest.MonkeyPatch, argument: str, line: str
) -> None:
    assert FakeSession(monkeypatch).run(f"/model {argument}") == [line]


def test_an_unlisted_model_is_used_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = FakeSession(monkeypatch).run("/model secret-model")
    assert line.endswith("(not listed by the endpoint)")


def test_models_are_listed_with_the_current_one_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(monkeypatch)
    first, second = session.run("/model gpt")
    assert first.startswith("* gpt-5 ")
    assert first.endswith("100,000  images reasoning")
    assert second.startswith("  gpt-5-mini ")
    many = FakeSession(monkeypatch, [model(f"m{number}") for number in range(33)])
    assert many.run("/model")[-1] == "  and 3 more: filter them with /model TEXT"


def test_undo_and_clear_change_the_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(monkeypatch)
    add_exchange(session, TextPart("first"))
    add_exchange(session, DataPart(PIXEL, "image/png"))
    assert session.run("/undo") == ["removed: (an image)"]
    assert session.run("/undo") == ["removed: first"]
    add_exchange(session, TextPart("again"))
    session.images.append(DataPart(PIXEL, "image/png"))
    assert session.run("/clear") == ["started a new conversation"]
    assert (session.chat.transcript.exchanges, session.images) == ([], [])


def test_a_conversation_is_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session = FakeSession(monkeypatch)
    add_exchange(session, TextPart("first"))
    file = tmp_path / "a.jsonl"
    assert session.run(f"/save {file}")[0].startswith("saved 1 message; continue with --load ")
    assert file.exists()


def test_an_image_waits_for_the_next_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PIXEL)
    session = FakeSession(monkeypatch)
    assert session.run(f"/image {tmp_path / 'a.png'}")[0].endswith("will be sent with your next message")
    assert [image.mime for image in session.images] == ["image/png"]


def test_thinking_usage_and_quit(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(monkeypatch)
    assert session.run("/thinking") == ["thinking is shown in full"]
    assert session.run("/thinking") == ["thinking is shown folded"]
    assert session.run("/usage") == ["no usage yet"]
    session.run("/quit")
    assert session.is_over


@pytest.mark.parametrize(
    ("line", "word", "completions"),
    [
        ("", "/s", ["/save"]),
        ("", "/", [*COMMANDS]),
        ("/model ", "gpt", ["gpt-5", "gpt-5-mini"]),
        ("/save ", "a", ["a.png", "ab/"]),
        ("look at ", "@a.", ["@a.png"]),
        ("some ", "/s", []),
        ("some ", "words", []),
    ],
)
def test_words_are_completed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, word: str, completions: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").touch()
    (tmp_path / "ab").mkdir()
    assert complete(FakeSession(monkeypatch), line, word) == completions
