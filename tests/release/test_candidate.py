"""What a release refuses, in small repositories with the files that it changes."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from release.candidate import Release, check_wheel
from release.changelogs import PLACES
from release.refusal import ReleaseRefused

pytestmark = pytest.mark.release

FILES = {
    "src/penstock/version.py": 'VERSION = "0.4.0"\n',
    "vscode/package.json": '{\n  "version": "0.4.0",\n}\n',
    "docs/ci.md": "    rev: v0.4.0\n",
    "docs/doctor.md": '  "version": "0.4.0",\n',
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n- something\n\n## [0.4.0] - 2026-01-01\n\n- before\n",
    "vscode/CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- something\n",
    "Makefile": "dist:\n\tfalse\n",
}


class Repository:
    """A clone with a remote repository."""

    def __init__(self, folder: Path) -> None:
        self.root, self._remote = folder / "clone", folder / "remote.git"
        self._call(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self._remote))
        self._call(folder, "clone", "--quiet", str(self._remote), str(self.root))
        for name, value in (("user.name", "A"), ("user.email", "a@example.com")):
            self.git("config", name, value)
        self.git("checkout", "--quiet", "-B", "main")
        self.write(FILES)
        self.git("push", "--quiet", "--set-upstream", "origin", "main")

    def _call(self, folder: Path, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def git(self, *words: str) -> str:
        return self._call(self.root, *words)

    def write(self, files: dict[str, str]) -> None:
        """Commit files."""
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")

    def state(self) -> tuple[str, ...]:
        """What a release that was refused must leave as it was."""
        whats = (["rev-parse", "HEAD"], ["tag"], ["status", "--porcelain"], ["worktree", "list"])
        return tuple(self.git(*words) for words in whats)

    def release(self, version: str = "0.5.0") -> None:
        Release(self.root, version, has_extension=False).run(dry=False)

    def leave_branch(self) -> None:
        self.git("checkout", "--quiet", "--detach")

    def fall_behind(self) -> None:
        self.write({"new": "x"})
        self.git("push", "--quiet")
        self.git("reset", "--quiet", "--hard", "HEAD^")

    def lose_upstream(self) -> None:
        self.git("branch", "--unset-upstream")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def changed(path: str, old: str, new: str) -> Callable[[Repository], object]:
    return lambda repository: repository.write({path: FILES[path].replace(old, new)})


REFUSALS: list[tuple[str, str, Callable[[Repository], object]]] = [
    ("the working tree has changes", "0.5.0", lambda repository: (repository.root / "new").write_text("x")),
    ("no branch is checked out", "0.5.0", Repository.leave_branch),
    ("1 commits? behind origin/main", "0.5.0", Repository.fall_behind),
    ("follows no other", "0.5.0", Repository.lose_upstream),
    ("is not a version", "0.5", lambda _: None),
    ("the version is 0.4.0 already", "0.3.9", lambda _: None),
    ("there is a tag v0.5.0", "0.5.0", lambda repository: repository.git("tag", "v0.5.0")),
    ("0.10.0 was released already", "0.9.0", lambda repository: repository.git("tag", "v0.10.0")),
    ("different versions", "0.5.0", changed("vscode/package.json", "0.4.0", "0.3.0")),
    ("CHANGELOG.md has no entries", "0.5.0", changed("CHANGELOG.md", "- something", "")),
    (
        "vscode/CHANGELOG.md has no entries",
        "0.5.0",
        changed("vscode/CHANGELOG.md", "- something", ""),
    ),
    ("does not begin with the section", "0.5.0", changed("vscode/CHANGELOG.md", "Unreleased", "0.5.0")),
    ("make .*dist failed", "0.5.0", lambda _: None),
]


@pytest.mark.parametrize(("message", "version", "prepare"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_a_refused_release_changes_nothing(
    repository: Repository, message: str, version: str, prepare: Callable[[Repository], object]
) -> None:
    prepare(repository)
    before = repository.state()
    with pytest.raises(ReleaseRefused, match=message):
        repository.release(version)
    assert repository.state() == before


def test_the_files_of_the_tests_are_those_of_a_release() -> None:
    assert PLACES.keys() <= FILES.keys()


@pytest.mark.parametrize("name", ["penstock.pth", "tests/x.py"])
def test_a_wheel_with_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    wheel = tmp_path / "penstock-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("penstock/__init__.py", "")
        archive.writestr("penstock-1.2.3.dist-info/METADATA", "")
    check_wheel(wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, "")
    with pytest.raises(ReleaseRefused, match=name):
        check_wheel(wheel)
