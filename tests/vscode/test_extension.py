"""The extension: its own tests in node, and what must agree between it and the Python backend."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.dialects.presets import PRESETS, supports_responses
from penstock.version import VERSION
from tests.gateway.running import gateway

ROOT = Path(__file__).parent.parent.parent
EXTENSION = ROOT / "vscode"
TESTS = sorted((Path(__file__).parent / "unit").glob("*.test.js"))
OLDEST_NODE = 20
"""The global fetch and `Object.hasOwn` are there, and what VS Code 1.104 has is newer."""

MANIFEST = json.loads((EXTENSION / "package.json").read_text())


def node() -> str:
    """The node to run with; skips where there is none, or an old one."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("there is no node")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().lstrip("v").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(f"node is {version.strip()}; {OLDEST_NODE} is needed")
    return program


@pytest.mark.parametrize(
    "file", [each for each in TESTS if each.name != "real.test.js"], ids=lambda file: file.name
)
def test_the_files_of_the_extension(file: Path) -> None:
    run_tests(file)


@pytest.mark.e2e
def test_the_extension_in_front_of_the_real_host(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        output = run_tests(
            Path(__file__).parent / "unit" / "real.test.js",
            PENSTOCK_ENDPOINT=f"{running.url}/v1",
            PENSTOCK_PYTHON=sys.executable,
        )
    assert "# skipped 0" in output


def run_tests(file: Path, **environment: str) -> str:
    done = subprocess.run(
        [node(), "--test", "--test-reporter=tap", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass [1-9]|^# skipped [1-9]", done.stdout, re.MULTILINE), done.stdout
    return done.stdout


def test_versions_and_licence_are_those_of_the_package() -> None:
    assert MANIFEST["version"] == VERSION
    assert (EXTENSION / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_types_are_those_of_the_oldest_editor() -> None:
    """Whoever checks against newer types finds out from a user that something is not there."""
    oldest = MANIFEST["engines"]["vscode"].lstrip("^")
    assert f"@types/vscode@{oldest} " in (ROOT / "Makefile").read_text()


def test_presets_that_are_offered_speak_responses() -> None:
    rows = re.findall(r"^  \['(\w+)', '", (EXTENSION / "src" / "endpoints.js").read_text(), re.MULTILINE)
    assert "vercel" in rows
    assert [name for name in rows if name not in PRESETS or not supports_responses(PRESETS[name])] == []


def test_no_proposal_is_enabled() -> None:
    assert "enabledApiProposals" not in MANIFEST


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_pictures_and_links_of_a_page_are_there(page: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (EXTENSION / page).read_text())
    assert [link for link in links if not (EXTENSION / link).exists()] == []
