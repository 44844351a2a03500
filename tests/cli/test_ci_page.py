"""The commands of docs/ci.md do what the page shows. Other tests run its pytest and pre-commit examples."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.cli import streams
from tests.cli.running import COMMAND, environment

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    (recordings / "good.sse").write_bytes(streams.as_sse(streams.hello()))
    (recordings / "twice.sse").write_bytes(streams.as_sse(streams.announced_twice()))
    return tmp_path


def run(command: str, folder: Path) -> tuple[int, str]:
    path = f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(PATH=path, GITHUB_WORKSPACE=str(folder)),
    )
    assert result.stderr == ""
    return result.returncode, result.stdout


def test_the_commands_print_what_is_shown(folder: Path) -> None:
    examples = re.findall(r"```console\n\$ (.*)\n((?s:.*?))```", PAGE)
    assert len(examples) == 3
    for command, shown in examples:
        code, printed = run(command, folder)
        assert code == 1
        pattern = r"[^\n]*".join(re.escape(part) for part in shown.split("..."))
        assert re.fullmatch(pattern, printed), printed
    [suite] = Xml.parse(folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_the_commands_of_pipelines_run(folder: Path) -> None:
    pipelines = "".join(re.findall(r"```(?:yaml|groovy)\n(.*?)```", PAGE, re.DOTALL))
    commands = re.findall(r"penstock check [^'\n]*", pipelines)
    assert len(commands) == 3
    for command in commands:
        assert run(command, folder)[0] == 1
