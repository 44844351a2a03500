"""The completions in a real zsh, if there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.completions.command_words import CommandWords, CompletedArgument
from penstock.cli.completions.zsh import zsh_script
from tests.cli.completions.shells import completed_by_key, output_of, script, shell


def test_the_script_is_valid(tmp_path: Path) -> None:
    (tmp_path / "_penstock").write_text(script("zsh"))
    assert output_of([shell("zsh"), "-f", "-n", "_penstock"], tmp_path) == ""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("penstock serv", "penstock serve "),
        ("penstock serve --prese", "--preset="),
        ("penstock serve --preset anth", "--preset anthropic "),
        ("penstock store prun", "penstock store prune "),
        ("penstock store prune --max", "--max-size="),
        ("penstock connect cod", "penstock connect codex "),
        ("penstock check str", "penstock check stream.sse "),
        ("penstock vsc", "penstock vscode-host "),
        ("penstock serve --", "a vendor: sets URL"),  # a list with descriptions
    ],
)
def test_the_tab_key_completes_a_line(tmp_path: Path, line: str, wanted: str) -> None:
    (tmp_path / "_penstock").write_text(script("zsh"))
    (tmp_path / "stream.sse").touch()
    setup = "autoload -Uz compinit; compinit -u -D; source ./_penstock; setopt auto_list"
    completed_by_key([shell("zsh"), "-f", "-i"], setup, line, wanted, tmp_path)


def test_texts_are_escaped() -> None:
    option = CompletedArgument(flags=("-o", "--out"), title="A:B", help="it's [here]: x", kind="file")
    made = zsh_script([CommandWords(path=(), options=(option,), positionals=(), subcommands={})])
    assert r"'(-o --out)-o+[it'\''s \[here\]\: x]:A\:B:_files'" in made
    assert r"'(-o --out)--out=[it'\''s \[here\]\: x]:A\:B:_files'" in made


def test_arguments_have_their_position() -> None:
    first = CompletedArgument(title="ACTION", values=("create", "list"))
    rest = CompletedArgument(title="ID", is_repeated=True)
    made = zsh_script([CommandWords(path=("a-b",), options=(), positionals=(first, rest), subcommands={})])
    assert "_penstock_a_b() {" in made
    assert "'1:ACTION:(create list)'" in made
    assert "'*:ID: '" in made
