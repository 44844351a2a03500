"""`penstock` itself: help, version, exit codes, and lazy imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock as library
from penstock.cli import COMMANDS, main
from tests.cli.running import environment, penstock


def test_version_is_the_librarys() -> None:
    result = penstock("--version")
    assert (result.returncode, result.stdout) == (0, f"penstock {library.__version__}\n")


def test_help_lists_the_commands() -> None:
    result = penstock("--help")
    assert result.returncode == 0
    assert result.stderr == ""
    for command in COMMANDS:
        assert f"\n    {command}" in result.stdout


def test_without_a_command_the_help_goes_to_standard_error() -> None:
    result = penstock()
    assert result.returncode == 2
    assert result.stdout == ""
    assert "usage: penstock" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["chek"],
        ["--nope"],
        ["check"],
        ["check", "--nope", "x"],
        ["translate", "x"],
        ["render"],
        ["serve", "x"],
    ],
)
def test_wrong_usage_is_one_message(arguments: list[str]) -> None:
    result = penstock(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "usage: penstock" in result.stderr
    assert "error:" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)]
)
def test_help_imports_nothing_slow(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from penstock.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "costly = {'msgspec', 'asyncio', 'urllib.request', 'http.client', 'penstock.stream.checker'}\n"
        "sys.exit(', '.join(sorted(costly & set(sys.modules))) or None)\n"
    )
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(command, capture_output=True, env=environment(), timeout=60)
    assert result.stderr == b""
    assert result.returncode == 0


def test_main_can_be_called_from_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "a\0b"]) == 2
    assert "cannot read" in capsys.readouterr().err
