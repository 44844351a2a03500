"""The completions in a real fish, if there is one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from penstock.cli.completions.command_words import CommandWords, CompletedArgument
from penstock.cli.completions.fish import fish_script
from tests.cli.completions.shells import output_of, script, shell


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("penstock serv", "serve"),
        ("penstock co", "completions config connect"),
        ("penstock serve --pre", "--preset"),
        ("penstock serve --preset anth", "anthropic"),
        ("penstock serve --preset=anth", "--preset=anthropic"),
        ("penstock store ", "export fail-queued import migrate prune stats"),
        ("penstock store prune --max", "--max-size"),
        ("penstock store stats --max", ""),
        ("penstock connect cod", "codex"),
        ("penstock check str", "stream.sse"),
        ("penstock serve --config str", "stream.sse"),
        ("penstock serve --model str", ""),
        ("penstock chat str", ""),
        ("penstock check --api-key-env PLANTED_V", "PLANTED_VARIABLE"),
    ],
)
def test_what_is_completed(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "penstock.fish").write_text(script("fish"))
    (tmp_path / "stream.sse").touch()
    program = f"source penstock.fish; complete -C {shlex.quote(line)}"
    fish = [shell("fish"), "--no-config", "-c", program]
    found = output_of(fish, tmp_path, HOME=str(tmp_path), PLANTED_VARIABLE="x")
    assert sorted(each.partition("\t")[0] for each in found.splitlines()) == expected.split()


def test_texts_are_escaped() -> None:
    option = CompletedArgument(flags=("-o", "--out"), title="FILE", help=r"it's \ here", kind="file")
    made = fish_script([CommandWords(path=("run",), options=(option,), positionals=(), subcommands={})])
    assert made.endswith(
        r"complete -c penstock -n '__penstock_after run' -s o -l out -r -F -d 'it\'s \\ here'"
    )
