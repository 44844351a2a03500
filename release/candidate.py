"""A release: what must hold before, what is built and tried, and the commit with its tag.

Everything is done in a second working tree of the repository: the versions and changelogs are set there, the
archives are built and tried there, and the commit is made there. Only if all of that succeeds does the branch
advance to the commit, with a tag; so there is nothing to undo after a failure.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from release.changelogs import CHANGELOGS, PLACES, numbers, version_in, with_version
from release.refusal import ReleaseRefused

NOTES = "RELEASE_NOTES.md"
SUMS = "SHA256SUMS"


class Release:
    """A version that is about to be released from the repository in `root`."""

    def __init__(
        self, root: Path, version: str, *, has_extension: bool, python: str = sys.executable
    ) -> None:
        self.root, self.version, self._has_extension = root, version, has_extension
        self._python = python
        self.tag = f"v{version}"
        self._epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())

    @property
    def date(self) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self._epoch))

    def git(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(["git", *words], cwd=folder or self.root, capture_output=True, text=True)
        if done.returncode:
            raise ReleaseRefused(f"git {' '.join(words)} failed: {done.stderr.strip()}")
        return done.stdout.strip()

    # What must hold before

    def check(self) -> None:
        """Raise `ReleaseRefused` if this version cannot be released from this state of the repository."""
        wanted = numbers(self.version)
        if changed := self.git("status", "--porcelain"):
            raise ReleaseRefused(f"the working tree has changes: commit them, or stash them\n{changed}")
        branch = self.git("rev-parse", "--abbrev-ref", "HEAD")
        if branch == "HEAD":
            raise ReleaseRefused("no branch is checked out: a release advances a branch")
        self._check_remote(branch)
        if self.git("tag", "--list", self.tag):
            raise ReleaseRefused(f"there is a tag {self.tag} already: choose the next version")
        tags = [tag[1:] for tag in self.git("tag", "--list", "v*.*.*").split()]
        last = max(tags, key=numbers, default="")
        if last and numbers(last) >= wanted:
            raise ReleaseRefused(f"{last} was released already: choose a higher version than {self.version}")
        versions = {path: version_in(path, self._read(path)) for path in PLACES}
        if len({*versions.values()}) > 1:
            raise ReleaseRefused(f"the files name different versions: {versions}")
        [current] = {*versions.values()}
        if numbers(current) > wanted:
            raise ReleaseRefused(f"the version is {current} already: choose a higher one than {self.version}")
        for changelog in CHANGELOGS:
            changelog.entries(self._read(changelog.path))

    def _check_remote(self, branch: str) -> None:
        if not self.git("remote"):
            return
        self.git("fetch", "--quiet", "--tags")
        upstream = self.git("for-each-ref", "--format=%(upstream:short)", f"refs/heads/{branch}")
        if not upstream:
            raise ReleaseRefused(f"the branch {branch} follows no other: git branch --set-upstream-to=…")
        if behind := int(self.git("rev-list", "--count", f"HEAD..{upstream}")):
            raise ReleaseRefused(f"{branch} is {behind} commits behind {upstream}: pull first")

    def _read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    # The release

    def run(self, *, dry: bool) -> Path:
        """Release, and return the folder with the files. With `dry`, commit and tag nothing."""
        self.check()
        with self._second_tree() as tree:
            notes = self._edit(tree)
            files = self._build(tree)
            check_wheel(files[0])
            if self._has_extension:
                self._check_extension(files[-1], files[0])
            published = self._collect(files, notes)
            if not dry:
                self._commit(tree)
        return published

    @contextmanager
    def _second_tree(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="penstock-release-") as folder:
            tree = Path(folder) / "tree"
            self.git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
            try:
                yield tree
            finally:
                self.git("worktree", "remove", "--force", str(tree))

    def _edit(self, tree: Path) -> str:
        """Set the version everywhere; return the notes of the release."""
        for path in PLACES:
            file = tree / path
            file.write_text(
                with_version(path, file.read_text(encoding="utf-8"), self.version), encoding="utf-8"
            )
        notes = [f"# Penstock {self.version}", ""]
        for changelog, title in zip(CHANGELOGS, ("", "## The VS Code extension\n\n"), strict=True):
            file = tree / changelog.path
            text = file.read_text(encoding="utf-8")
            notes += [title + changelog.entries(text), ""]
            file.write_text(changelog.release(text, self.version, self.date), encoding="utf-8")
        return "\n".join(notes)

    def _build(self, tree: Path) -> list[Path]:
        """Build the archives twice, compare them, and try each; return the wheel, the sdist and the vsix."""
        dist, again = tree / "dist", tree / "again"
        self._make(tree, "dist")
        files = [next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))]
        self._call(tree, self._python, "-m", "build", "--sdist", "--outdir", str(again))
        second = [next(again.glob("*.tar.gz"))]
        if self._has_extension:
            self._make(tree, "vsix")
            # The extension was packed with a wheel of its own.
            files.append(next(dist.glob("*.vsix")))
            shutil.copy(next((tree / "vscode" / "wheel").glob("*.whl")), again)
            (dist / files[-1].name).rename(again / files[-1].name)
            self._make(tree, "vsix")
            second.append(again / files[-1].name)
        else:
            self._call(tree, self._python, "-m", "build", "--wheel", "--outdir", str(again))
        second.append(next(again.glob("*.whl")))
        for other in second:
            if other.read_bytes() != (dist / other.name).read_bytes():
                raise ReleaseRefused(
                    f"{other.name} is not the same when it is built again from the same sources"
                )
        return files

    def _make(self, tree: Path, target: str) -> None:
        """Run a target of the Makefile with the environment of the first tree."""
        environment = Path(self._python).parent.parent
        stamps = [f"--assume-old={environment}/{name}" for name in (".run", ".ready")]
        self._call(tree, "make", "--no-print-directory", f"VENV={environment}", *stamps, target)

    def _call(self, tree: Path, *words: str) -> None:
        constraints = dict.fromkeys(
            ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(tree / "constraints-dev.txt")
        )
        environment = {**os.environ, **constraints, "SOURCE_DATE_EPOCH": str(self._epoch)}
        if words[-1] == "vsix":  # its check imports the package, which must be that of this tree
            environment["PYTHONPATH"] = str(tree / "src")
        done = subprocess.run(words, cwd=tree, env=environment, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise ReleaseRefused(f"{' '.join(words)} failed: see above")

    def _check_extension(self, vsix: Path, wheel: Path) -> None:
        """Its wheel must be the one that was tried. If a VS Code is there, install the extension into it."""
        with zipfile.ZipFile(vsix) as archive:
            if archive.read(f"extension/wheel/{wheel.name}") != wheel.read_bytes():
                raise ReleaseRefused(f"{vsix.name} contains another wheel than {wheel.name}")
        code = shutil.which("code-server") or shutil.which("code")
        if code is None:
            print(f"{vsix.name}: no VS Code is installed here, so only its contents were checked")
            return
        with tempfile.TemporaryDirectory() as folder:
            here = ["--extensions-dir", f"{folder}/extensions", "--user-data-dir", f"{folder}/data"]
            subprocess.run([code, *here, "--install-extension", str(vsix)], check=True, capture_output=True)
            listing = subprocess.run(
                [code, *here, "--list-extensions", "--show-versions"],
                check=True,
                capture_output=True,
                text=True,
            )
        if f"penstock.penstock@{self.version}" not in listing.stdout:
            raise ReleaseRefused(f"{code} did not install {vsix.name}: it lists {listing.stdout.split()}")
        print(f"{vsix.name}: installed by {code}")

    def _collect(self, files: Sequence[Path], notes: str) -> Path:
        """Put the files of the release, and no older ones, into dist/."""
        dist = self.root / "dist"
        dist.mkdir(exist_ok=True)
        for old in (*dist.glob("penstock-*"), dist / SUMS, dist / NOTES):
            old.unlink(missing_ok=True)
        for file in files:
            shutil.copy2(file, dist)
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
        (dist / SUMS).write_text("\n".join(sums) + "\n", encoding="utf-8")
        (dist / NOTES).write_text(notes, encoding="utf-8")
        return dist

    def _commit(self, tree: Path) -> None:
        paths = [*PLACES, *(changelog.path for changelog in CHANGELOGS)]
        self.git("add", "--", *paths, folder=tree)
        self.git("commit", "--quiet", "--message", f"Release {self.version}", folder=tree)
        commit = self.git("rev-parse", "HEAD", folder=tree)
        self.git("merge", "--quiet", "--ff-only", commit)
        self.git("tag", "--annotate", "--message", f"Penstock {self.version}", self.tag, commit)


def check_wheel(wheel: Path) -> None:
    """A `.pth` file would be run by every Python of its environment (ask K5)."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    if found := [name for name in names if name.endswith(".pth") or not name.startswith("penstock")]:
        raise ReleaseRefused(f"{wheel.name} contains what does not belong in it: {found}")
