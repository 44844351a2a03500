"""Builds the image of deploy/Dockerfile in folders, by running its instructions."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from tests.deploy.container import Container, User, build_environment
from tests.deploy.files import ROOT, BuildStage, stages


class Image:
    """The last stage: its root folder, and how its programs run."""

    def __init__(self, root: Path, stage: BuildStage) -> None:
        self.root, self.stage = root, stage
        uid, gid = stage.one("USER").text.split(":")
        self.user = User(int(uid), int(gid))
        self.folder = stage.one("WORKDIR").text
        self.volume = stage.one("VOLUME").text

    @property
    def entry(self) -> list[str]:
        return self.stage.one("ENTRYPOINT").words

    @property
    def health(self) -> list[str]:
        options, _, command = self.stage.one("HEALTHCHECK").text.partition("CMD ")
        assert options.startswith("--interval=")
        return self.stage.one("HEALTHCHECK")._replace(text=command).words

    def container(self, volume: Path) -> Container:
        """Return a container with a read-only root folder. A new volume is given the folder's contents and
        owner, as Docker does it."""
        if not volume.exists():
            subprocess.run(["cp", "--archive", f"{self.root}{self.volume}", volume], check=True)
        return Container(self.root, writable={self.volume: volume}, user=self.user)

    def environment(self, **more: str) -> dict[str, str]:
        return {**self.stage.environment, **more}


def build(folder: Path) -> Image:
    """Run all instructions of all stages."""
    roots: dict[str, Path] = {}
    for number, stage in enumerate(stages()):
        root = roots[stage.name] = folder / f"stage-{number}"
        root.mkdir()
        _build_stage(stage, root, roots)
    return Image(root, stage)


def _build_stage(stage: BuildStage, root: Path, roots: dict[str, Path]) -> None:
    (root / "opt").mkdir()
    container = Container(root, writable={})
    folder = "/"
    variables: dict[str, str] = {}
    for step in stage.instructions:
        if step.name in ("ENV", "ARG"):
            variables |= step.variables
        elif step.name == "WORKDIR":
            folder = step.text
            (root / folder.strip("/")).mkdir(parents=True, exist_ok=True)
        elif step.name == "COPY":
            _copy(step.text, root, folder, roots)
        elif step.name == "RUN":
            environment = build_environment(variables)
            done = container.run(["/bin/sh", "-c", step.text], environment, folder)
            assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"


def _copy(text: str, root: Path, folder: str, roots: dict[str, Path]) -> None:
    """Copy files as COPY does: of a folder, its contents."""
    words = shlex.split(text)
    source = ROOT
    if words[0].startswith("--from="):
        source = roots[words.pop(0).removeprefix("--from=")]
    *names, target = words
    place = root / (target if target.startswith("/") else f"{folder}/{target}").strip("/")
    for name in names:
        path = source / name.strip("/")
        ignored = shutil.ignore_patterns("__pycache__") if source is ROOT else None
        if path.is_dir():
            shutil.copytree(path, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
