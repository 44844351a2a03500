"""The whole release command, in a clone of this repository."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from release.changelogs import PLACES, version_in

ROOT = Path(__file__).resolve().parents[2]
VERSION = "98.7.6"
WHO = {"NAME": "A", "EMAIL": "a@example.com"}
ENVIRONMENT = {
    **os.environ,
    **{f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in WHO.items()},
}

pytestmark = pytest.mark.release


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def reaches_npm() -> bool:
    if shutil.which("npm") is None:
        return False
    return subprocess.run(["npm", "view", "typescript", "version"], capture_output=True).returncode == 0


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose remote is a copy of this repository, with an entry in each changelog."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    git(tmp_path, "clone", "--quiet", "--bare", str(ROOT), "remote.git")
    git(tmp_path, "clone", "--quiet", "remote.git", "clone")
    clone = tmp_path / "clone"
    git(clone, "checkout", "--quiet", "-B", "releases")
    for path, heading in (("CHANGELOG.md", "## [Unreleased]"), ("vscode/CHANGELOG.md", "## Unreleased")):
        text = (clone / path).read_text()
        (clone / path).write_text(text.replace(heading, f"{heading}\n\n- a planted change", 1))
    git(clone, "commit", "--quiet", "--all", "--message", "Add entries")
    git(clone, "push", "--quiet", "--set-upstream", "origin", "releases")
    return clone


def test_a_release_is_built_tried_committed_and_tagged(clone: Path) -> None:
    has_npm = reaches_npm()
    options = [] if has_npm else ["--without-extension"]
    command = [sys.executable, "-m", "release", VERSION, *options]
    done = subprocess.run(command, cwd=clone, env=ENVIRONMENT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("installed into a clean environment and works") == 2
    assert "git push --follow-tags" in done.stdout

    assert git(clone, "log", "-1", "--format=%s") == f"Release {VERSION}"
    assert git(clone, "rev-parse", f"v{VERSION}^{{commit}}") == git(clone, "rev-parse", "releases")
    assert git(clone, "status", "--porcelain") == ""
    assert len(git(clone, "worktree", "list").splitlines()) == 1
    changed = {*git(clone, "diff", "--name-only", "HEAD^").splitlines()}
    assert changed == {*PLACES, "CHANGELOG.md", "vscode/CHANGELOG.md"}
    assert {version_in(path, (clone / path).read_text()) for path in PLACES} == {VERSION}
    assert json.loads((clone / "vscode" / "package.json").read_text())["version"] == VERSION
    for path in ("CHANGELOG.md", "vscode/CHANGELOG.md"):
        first, second = [line for line in (clone / path).read_text().splitlines() if line.startswith("## ")][
            :2
        ]
        assert "Unreleased" in first
        assert VERSION in second

    dist = clone / "dist"
    listed = [line.split("  ") for line in (dist / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in listed}
    names = [f"penstock-{VERSION}-py3-none-any.whl", f"penstock-{VERSION}.tar.gz"]
    assert [*sums] == names + ([f"penstock-{VERSION}.vsix"] if has_npm else [])
    assert sums == {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in sums}
    assert (dist / "RELEASE_NOTES.md").read_text().count("- a planted change") == 2
    again = subprocess.run(command, cwd=clone, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert again.returncode == 1
    assert f"there is a tag v{VERSION} already" in again.stderr
    if not has_npm:
        pytest.skip("the npm registry is not reachable, so there was no .vsix; the rest was checked")
