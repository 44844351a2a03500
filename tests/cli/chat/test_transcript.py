"""The transcript of a chat: undo, save and load."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli import UsageError
from penstock.cli.chat.transcript import Transcript, text_of
from penstock.parts.parts import ChatMessage, Role, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

WEATHER = [
    ChatMessage(Role.USER, [TextPart("weather?")]),
    ChatMessage(
        Role.ASSISTANT, [ThinkingPart("hm", "rs_1"), ToolCallPart("c1", "weather", {"city": "Oslo"})]
    ),
    ChatMessage(Role.USER, [ToolResultPart("c1", [TextPart("rain")])]),
    ChatMessage(Role.ASSISTANT, [TextPart("Rain.")]),
]


def transcript(system: str = "Be brief.") -> Transcript:
    made = Transcript(system)
    made.add(WEATHER)
    return made


def test_a_saved_conversation_is_loaded_as_the_same_exchanges(tmp_path: Path) -> None:
    file = str(tmp_path / "saved.jsonl")
    saved = transcript()
    saved.add([ChatMessage(Role.USER, [TextPart("and tomorrow?")])])
    assert saved.save(file) == 6
    loaded = Transcript()
    loaded.load(file)
    assert loaded.messages == saved.messages
    assert [len(exchange) for exchange in loaded.exchanges] == [4, 1]


def test_undo_removes_the_last_exchange_with_its_tool_calls() -> None:
    made = transcript()
    assert made.undo() == "weather?"
    assert made.undo() is None
    assert [text_of(message) for message in made.messages] == ["Be brief."]


def test_clear_keeps_the_system_prompt() -> None:
    made = transcript()
    made.clear()
    assert [message.role for message in made.messages] == [Role.SYSTEM]
    assert transcript("").messages == WEATHER


def test_a_system_prompt_of_the_command_line_overrides_the_saved_one(tmp_path: Path) -> None:
    file = str(tmp_path / "saved.jsonl")
    transcript("saved").save(file)
    for given, expected in (("", "saved"), ("given", "given")):
        loaded = Transcript(given)
        loaded.load(file)
        assert loaded.system == expected


def test_only_its_own_file_is_overwritten(tmp_path: Path) -> None:
    file, other = tmp_path / "saved.jsonl", tmp_path / "notes.txt"
    other.write_text("notes")
    made = transcript()
    assert [made.save(str(file)), made.save(str(file))] == [5, 5]
    with pytest.raises(UsageError, match=r"notes\.txt already exists: choose another name"):
        made.save(str(other))
    assert other.read_text() == "notes"
    with pytest.raises(UsageError, match="cannot write"):
        made.save(str(tmp_path / "no" / "where"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"role": 1, "content": "a"}\n\n{"role": 1}\n', r"saved\.jsonl:3: content: expected an array"),
        (b"not json\n", r"saved\.jsonl:1: "),
        (None, r"--load: cannot read .*saved\.jsonl: No such file"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_reported_with_its_line(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "saved.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        Transcript().load(str(file))
