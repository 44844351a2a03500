"""The hook for other repositories, with the configuration of docs/ci.md and the real pre-commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.version import VERSION
from tests.cli import streams
from tests.installing import NO_NETWORK, InstallError, OutOfReachError, give_up

ROOT = Path(__file__).resolve().parents[2]
PRE_COMMIT = str(Path(sys.executable).with_name("pre-commit"))
PACKAGED = ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml", "src")
"""What is needed to install the package from its repository."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("git"), reason="pre-commit needs git"),
]


class Project:
    """A repository with recordings, and pre-commit with an empty cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        unset = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self._environment = {**unset, "PRE_COMMIT_HOME": str(folder / "cache")}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=600, env=self._environment
        )

    def git(self, *arguments: str) -> None:
        who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.com")
        self.run("git", *who, *arguments).check_returncode()

    def check(self, *files: str) -> tuple[int, str]:
        result = self.run(PRE_COMMIT, "run", "--files", *files)
        return result.returncode, result.stdout


def hook_repository(folder: Path) -> Path:
    """Commit a copy of the package as it is now."""
    project = Project(folder)
    project.folder.mkdir(parents=True)
    for name in PACKAGED:
        path = ROOT / name
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, project.folder / name, ignore=ignored)
        else:
            shutil.copy(path, project.folder / name)
    project.git("init", "--quiet")
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "Release")
    project.git("tag", f"v{VERSION}")
    return project.folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with the configuration of the page, whose hook is installed."""
    folder = tmp_path_factory.mktemp("pre-commit")
    repository = hook_repository(folder / "hooks")
    [shown] = re.findall(r"```yaml\n(repos:.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    configuration, count = re.subn(r"(?<=repo: ).*", str(repository), shown)
    assert count == 1
    project = Project(folder)
    recordings = project.folder / "recordings"
    recordings.mkdir(parents=True)
    (project.folder / ".pre-commit-config.yaml").write_text(configuration)
    (recordings / "good.sse").write_bytes(streams.as_sse(streams.hello(), done=False))
    (recordings / "good.ndjson").write_bytes(streams.as_lines(streams.hello()))
    (recordings / "twice.sse").write_bytes(streams.as_sse(streams.announced_twice()))
    (recordings / "notes.txt").write_text("not a stream")
    (project.folder / "elsewhere.sse").write_text("not a stream")
    project.git("init", "--quiet")
    project.git("add", "--all")
    installed = project.run(PRE_COMMIT, "install-hooks")
    if installed.returncode:
        output = installed.stdout + installed.stderr
        unreachable = [line for line in output.splitlines() if any(code in line for code in NO_NETWORK)]
        problem = OutOfReachError(unreachable[0].strip()) if unreachable else InstallError(output[-2000:])
        give_up("the hook", problem)
    yield project
    shutil.rmtree(folder)


def test_lawful_recordings_pass(project: Project) -> None:
    code, shown = project.check("recordings/good.sse", "recordings/good.ndjson")
    assert (code, "Passed" in shown) == (0, True), shown


def test_an_unlawful_recording_fails_and_is_named(project: Project) -> None:
    """Also if it is the only file of the commit."""
    code, shown = project.check("recordings/twice.sse")
    assert code == 1
    assert "- exit code: 1" in shown
    assert "recordings/twice.sse:13: call.duplicate  event 4: two items have call id" in shown


def test_other_files_are_not_checked(project: Project) -> None:
    code, shown = project.check("recordings/notes.txt", "elsewhere.sse")
    assert (code, "(no files to check)Skipped" in shown) == (0, True), shown


def test_the_hook_can_be_tried_without_a_configuration(project: Project) -> None:
    [repository] = re.findall(r"repo: (.*)", (project.folder / ".pre-commit-config.yaml").read_text())
    every_file = ("--files", "recordings/notes.txt", "recordings/good.ndjson", "recordings/twice.sse")
    tried = project.run(PRE_COMMIT, "try-repo", repository, "penstock-check", "--verbose", *every_file)
    assert tried.returncode == 1
    assert "recordings/good.ndjson: lawful: 11 events" in tried.stdout
    assert "2 files: 1 lawful, 1 unlawful" in tried.stdout
