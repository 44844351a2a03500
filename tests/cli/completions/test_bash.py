"""The completions in a real bash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli import COMMANDS
from penstock.cli.completions.bash import bash_script
from penstock.cli.completions.command_words import CommandWords, CompletedArgument, all_commands
from penstock.dialects.presets import PRESETS
from tests.cli.completions.shells import bash_replies, completed_by_key, shell

ALL_PRESETS = " ".join(sorted(PRESETS))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("penstock ser", "serve"),
        ("penstock co", "connect config completions"),
        ("penstock ", " ".join(COMMANDS)),
        ("penstock -", "-h --help -V --version"),
        ("penstock serve --pre", "--preset"),
        ("penstock serve --preset ant", "anthropic"),
        ("penstock serve --preset ", ALL_PRESETS),
        ("penstock serve --preset = ant", "anthropic"),
        ("penstock serve --preset =", ALL_PRESETS),
        ("penstock serve --port 1 --log-level w", "warning"),
        ("penstock serve --log-level = info --dialect r", "responses"),
        ("penstock serve --model ser", ""),
        ("penstock translate --accent ", "openresponses openai copilot"),
        ("penstock check --format ", "text json github junit"),
        ("penstock check --for", "--format"),
        ("penstock check one.sse --js", "--json"),
        ("penstock store ", "stats prune export fail-queued migrate import"),
        ("penstock store pr", "prune"),
        ("penstock store prune --max", "--max-size"),
        ("penstock store prune --json", ""),
        ("penstock config show --pre", "--preset"),
        ("penstock connect cod", "codex"),
        ("penstock connect --model codex c", "codex"),
        ("penstock run ", "codex"),
        ("penstock run codex --pre", "--preset"),
        ("penstock run codex --preset ant", "anthropic"),
        ("penstock keys cr", "create"),
        ("penstock keys create cr", ""),
        ("penstock completions ", "bash zsh fish"),
        ("penstock chat serve", ""),
        ("penstock unknown --pre", ""),
        ("penstock check --api-key-env PLANTED_V", "PLANTED_VARIABLE"),
    ],
)
def test_what_is_completed(tmp_path: Path, line: str, expected: str) -> None:
    words = re.split(" ", line)
    assert bash_replies(words, tmp_path, PLANTED_VARIABLE="x") == (expected.split() or [""])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("penstock check str", ["stream one.sse"]),
        ("penstock check one.sse str", ["stream one.sse"]),
        ("penstock replay str", ["stream one.sse"]),
        ("penstock serve --config pen", ["penstock.toml"]),
        ("penstock serve --store n", ["none"]),
        ("penstock config check pen", ["penstock.toml"]),
        ("penstock chat --tools pen", ["penstock.toml"]),
        ("penstock chat pen", [""]),
    ],
)
def test_files_are_completed_where_they_are_expected(tmp_path: Path, line: str, expected: list[str]) -> None:
    for name in ("stream one.sse", "penstock.toml"):
        (tmp_path / name).touch()
    assert bash_replies(line.split(" "), tmp_path) == expected


def test_every_flag_of_every_command_is_completed(tmp_path: Path) -> None:
    for command in all_commands()[::4]:  # a sample: every bash takes a while
        flags = [flag for option in command.options for flag in option.flags]
        assert bash_replies(["penstock", *command.path, "-"], tmp_path) == flags


def test_a_repeated_argument_is_completed_at_every_position() -> None:
    argument = CompletedArgument(title="COLOUR", values=("red", "green"), is_repeated=True)
    script = bash_script([CommandWords(path=(), options=(), positionals=(argument,), subcommands={})])
    assert '":"[0-9]*) values="red green" kind="" ;;' in script


@pytest.mark.e2e
def test_the_tab_key_completes_a_line(tmp_path: Path) -> None:
    command = [shell("bash"), "--norc", "--noprofile", "-i"]
    (tmp_path / "stream one.sse").touch()
    bash_replies(["penstock", ""], tmp_path)  # writes the script
    source = "source .penstock.bash"
    completed_by_key(command, source, "penstock serve --preset anth", "--preset anthropic ", tmp_path)
    completed_by_key(command, source, "penstock serve --preset=anth", "--preset=anthropic ", tmp_path)
    completed_by_key(command, source, "penstock check str", r"penstock check stream\ one.sse", tmp_path)
