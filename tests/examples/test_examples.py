"""Every example runs as its index says: a process of its own, with nothing configured."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
INDEX = dict(
    re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) \| (.+) \|$", (EXAMPLES / "README.md").read_text(), re.M)
)
MOST_LINES = 40


def lines_of(name: str, folder: Path) -> list[str]:
    """Run an example in an empty folder, without keys, and return what it printed."""
    kept = {
        key: value for key, value in os.environ.items() if "KEY" not in key and "PROXY" not in key.upper()
    }
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**kept, "PYTHONIOENCODING": "utf-8"},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert list(folder.iterdir()) == []
    return run.stdout.splitlines()


def test_ai_sdk_parts_announces_each_item_once(tmp_path: Path) -> None:
    *events, summary = lines_of("ai_sdk_parts", tmp_path)
    types = [line.partition(" ")[2] for line in events]
    assert types[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert types.count("response.output_item.added") == types.count("response.output_item.done") == 1
    assert types[-1] == "response.completed"
    assert summary == "5 parts, 1 item announced, 1 item in the response"


def test_state_machine_shows_a_refused_call_and_a_lawful_stream(tmp_path: Path) -> None:
    refused, so_far, *events, at_the_end = lines_of("state_machine", tmp_path)
    assert refused == "refused: bridge.stream.output_before_start"
    assert so_far == "so far: in_progress ['message', 'function_call']"
    assert [line.split()[0] for line in events] == [str(number) for number in range(len(events))]
    assert [line for line in events if line.endswith("output_item.added")] == [
        "2 response.output_item.added",
        "9 response.output_item.added",
    ]
    assert at_the_end == "at the end: completed 'Let me look.'"


def test_check_stream_finds_the_item_that_is_announced_twice(tmp_path: Path) -> None:
    lawful, broken, *violations, count = lines_of("check_stream", tmp_path)
    assert lawful == "the stream of the state machine: lawful"
    assert broken == "the same stream with an item announced twice: not lawful"
    assert [line.split(":")[0].strip() for line in violations] == ["sequence.step", "item.added-twice"]
    assert count.startswith(f"{len(penstock.RULES)} rules")


def test_tool_loop_calls_the_tool_and_answers_from_its_result(tmp_path: Path) -> None:
    called, *answer, used = lines_of("tool_loop", tmp_path)
    assert called == "called with {'city': 'Rome'}"
    assert "18 degrees and sunny in Rome" in "\n".join(answer)
    assert re.fullmatch(r"[1-9]\d* tokens in, [1-9]\d* out, 2 turns", used)


def test_console_editor_shows_an_answer_and_cancels_another(tmp_path: Path) -> None:
    models, first, counted, stopped, second, text, cancelled = lines_of("console_editor", tmp_path)
    assert models == "models: ['demo']"
    assert re.fullmatch(r"user: Think about it, .* \(\d+ tokens\)", first)
    assert counted == "1, 2, 3."
    assert re.fullmatch(r"stop, \d+ parts: \['TextPart', 'ThinkingPart'\]", stopped)
    assert second.startswith("user: Count from 1 to 1000.")
    assert text.startswith("1, 2, 3, 4,")
    assert "51" not in text
    assert cancelled == "cancelled, 50 parts: ['TextPart']"


def test_keep_responses_finds_the_response_after_the_store_was_closed(tmp_path: Path) -> None:
    *kept, stored, events = lines_of("keep_responses", tmp_path)
    assert kept[0] == "kept 0 response.created"
    assert kept[-1] == "kept 8 response.completed"
    assert stored == "stored: completed 'Hi.'"
    assert events == "events after 5: [6, 7, 8]"


def test_count_tokens_counts_and_learns(tmp_path: Path) -> None:
    text, *messages, exact, estimated, learned = lines_of("count_tokens", tmp_path)
    assert text == "a text: 4"
    assert [line.partition(":")[0] for line in messages] == ["a message"] * 2
    assert exact == "the conversation for gpt-5-mini: 19 exactly"
    assert re.fullmatch(r"the conversation for claude-sonnet-4-5: \d+ estimated", estimated)
    assert learned == "after learning: 25"


def test_demo_gateway_answers_and_ends(tmp_path: Path) -> None:
    assert lines_of("demo_gateway", tmp_path) == ["the gateway works"]


def test_every_example_has_a_test_and_a_line_in_the_index() -> None:
    tested = {
        name for test in globals() if test.startswith("test_") for name in NAMES if f"test_{name}_" in test
    }
    assert NAMES
    assert sorted(tested) == NAMES
    assert sorted(INDEX) == NAMES


@pytest.mark.parametrize("page", ["README.md", "docs/library.md", "docs/README.md"])
def test_the_index_is_linked(page: str) -> None:
    assert "examples/README.md)" in (ROOT / page).read_text()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    source = (EXAMPLES / f"{name}.py").read_text()
    assert len(source.splitlines()) <= MOST_LINES
    assert ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_uses_public_names_only(name: str) -> None:
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text())
    imported = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    modules = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {each for each in imported | modules if each.startswith("penstock")}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "p"
    }
    assert ours == {"penstock"}
    assert used
    assert used <= set(penstock.__all__)
