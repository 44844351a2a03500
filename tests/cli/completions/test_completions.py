"""`penstock completions`: the command."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock.cli.completions import SHELLS
from tests.cli.completions.shells import output_of, shell
from tests.cli.help_texts import PAGE
from tests.cli.running import COMMAND, penstock


@pytest.mark.parametrize("name", SHELLS)
def test_a_script_is_printed_for_every_shell(name: str) -> None:
    result = penstock("completions", name)
    assert (result.returncode, result.stderr) == (0, "")
    assert "vscode-host" in result.stdout


def test_another_shell_is_refused() -> None:
    result = penstock("completions", "tcsh")
    assert (result.returncode, result.stdout) == (2, "")
    assert 'there is no shell called "tcsh"; available: bash, fish, zsh' in result.stderr


def test_the_help_says_how_to_install_each_script() -> None:
    text = penstock("completions", "--help").stdout
    for name in SHELLS:
        assert re.search(rf"penstock completions {name} \\?\s*> ~/", text)


def test_the_commands_of_the_docs_install_the_script(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## penstock completions\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^\$ (.*>.*)$", section, re.MULTILINE)
    assert len(commands) == 2
    changes = {"HOME": str(tmp_path), "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"}
    output_of([shell("bash"), "-c", "; ".join(commands)], tmp_path, **changes)
    program = "source ~/.bashrc; complete -p penstock"
    assert (
        output_of([shell("bash"), "-c", program], tmp_path, **changes) == "complete -F _penstock penstock\n"
    )
