"""The extension: its node tests, and what must match between it and the Python backend."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from penstock.cli.vscode_host import LEVELS
from penstock.dialects.presets import PRESETS, supports_responses
from penstock.parts.citations import Citations
from penstock.parts.messages import SystemRole
from penstock.version import VERSION
from tests.gateway.running import gateway

ROOT = Path(__file__).parent.parent.parent
EXTENSION = ROOT / "vscode"
TESTS = sorted((Path(__file__).parent / "unit").glob("*.test.js"))
OLDEST_NODE = 20
"""It has the global `fetch` and `Object.hasOwn`; VS Code 1.104 has a newer node."""

MANIFEST = json.loads((EXTENSION / "package.json").read_text())


@cache
def node() -> str:
    """Return the path of node; skip the test if there is none, or an old one."""
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
def test_the_node_tests_pass(file: Path) -> None:
    run_tests(file)


@pytest.mark.e2e
def test_the_extension_with_the_real_host(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        output = run_tests(
            Path(__file__).parent / "unit" / "real.test.js",
            PENSTOCK_ENDPOINT=f"{running.url}/v1",
            PENSTOCK_PYTHON=sys.executable,
        )
    assert "# skipped 0" in output


def run_tests(file: Path, **environment: str) -> str:
    done = subprocess.run(
        [node(), "--test-reporter=tap", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass [1-9]|^# skipped [1-9]", done.stdout, re.MULTILINE), done.stdout
    return done.stdout


def test_version_and_licence_match_the_package() -> None:
    assert MANIFEST["version"] == VERSION
    assert (EXTENSION / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_types_are_those_of_the_oldest_editor() -> None:
    """Newer types would hide that an API is missing in the oldest version."""
    oldest = MANIFEST["engines"]["vscode"].lstrip("^")
    assert f"@types/vscode@{oldest} " in (ROOT / "Makefile").read_text()


def test_the_offered_presets_support_the_responses_api() -> None:
    rows = re.findall(r"^  \['(\w+)', '", (EXTENSION / "src" / "endpoints.js").read_text(), re.MULTILINE)
    assert "vercel" in rows
    assert [name for name in rows if name not in PRESETS or not supports_responses(PRESETS[name])] == []


CHOICES: dict[str, tuple[str, ...]] = {
    "citations": get_args(Citations),
    "systemRole": get_args(SystemRole),
    "logLevel": LEVELS,
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_setting_offers_what_the_backend_accepts(name: str) -> None:
    setting = MANIFEST["contributes"]["configuration"]["properties"][f"penstock.{name}"]
    assert setting["enum"] == [*CHOICES[name]]
    assert len(setting["enumDescriptions"]) == len(setting["enum"])


def test_every_setting_is_documented() -> None:
    settings = MANIFEST["contributes"]["configuration"]["properties"]
    readme = (EXTENSION / "README.md").read_text()
    assert [name for name in settings if f"`{name}`" not in readme] == []


def test_the_table_of_settings_has_the_names_and_defaults_of_the_manifest() -> None:
    page = (ROOT / "docs" / "vscode.md").read_text()
    table = page.partition("### Settings\n")[2].partition("\n\n###")[0]
    documented: dict[str, str] = {}
    for names, defaults in re.findall(r"^\| (`penstock\.[^|]*) \| ([^|]*) \|", table, re.MULTILINE):
        shown = defaults.split(", ")
        documented.update(zip(names.replace("`", "").split(", "), shown, strict=True))
    settings = MANIFEST["contributes"]["configuration"]["properties"]
    assert documented == {name: _shown(setting["default"]) for name, setting in settings.items()}


def _shown(default: object) -> str:
    """Return a default as the page shows it."""
    words = {"": "empty", "[]": "none"}
    text = default if isinstance(default, str) else json.dumps(default)
    return words.get(text, f"`{text}`")


def test_citations_are_listed_at_the_end_by_default() -> None:
    settings = MANIFEST["contributes"]["configuration"]["properties"]
    names = ("citations", "errorsAsText", "systemRole")
    assert [settings[f"penstock.{name}"]["default"] for name in names] == ["end", False, "system"]


def test_no_proposal_is_enabled() -> None:
    assert "enabledApiProposals" not in MANIFEST


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_images_and_links_of_a_page_exist(page: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", (EXTENSION / page).read_text())
    assert [link for link in links if not (EXTENSION / link).exists()] == []


WALKTHROUGH = MANIFEST["contributes"]["walkthroughs"][0]
COMMANDS = {each["command"] for each in MANIFEST["contributes"]["commands"]}
EDITORS_OWN = {"workbench.action.chat.open"}
"""Commands of VS Code that the walkthrough runs; a test in a real VS Code checks that they exist."""


def test_the_walkthrough_has_three_steps_connect_model_and_usage() -> None:
    assert [step["id"] for step in WALKTHROUGH["steps"]] == ["connect", "model", "usage"]


@pytest.mark.parametrize("step", WALKTHROUGH["steps"], ids=lambda step: step["id"])
def test_a_step_of_the_walkthrough_has_known_commands_a_picture_and_an_event(
    step: dict[str, object],
) -> None:
    linked = re.findall(r"\]\(command:([\w.]+)\)", str(step["description"]))
    assert linked
    assert set(linked) <= COMMANDS | EDITORS_OWN
    media = step["media"]
    assert isinstance(media, dict)
    assert (EXTENSION / media["image"]).is_file()
    assert media["altText"]
    keys = re.search(
        r"^const KEYS = \{(.*)\};$", (EXTENSION / "src" / "walkthrough.js").read_text(), re.MULTILINE
    )
    assert keys
    (key,) = re.findall(rf"\b{step['id']}: '([\w.]+)'", keys[1])
    assert step["completionEvents"] == [f"onContext:{key}"]


def test_the_first_step_links_to_an_endpoint_and_to_the_local_gateway() -> None:
    for command in ("penstock.addEndpoint", "penstock.startGateway"):
        assert f"(command:{command})" in WALKTHROUGH["steps"][0]["description"]


def test_without_a_setting_the_wheel_of_the_extension_is_installed() -> None:
    assert MANIFEST["contributes"]["configuration"]["properties"]["penstock.package"]["default"] == ""
