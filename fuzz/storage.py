"""The folders of inputs: what is kept in the repository, and what a run finds."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from fuzz.execution import Failure
from fuzz.target import Target

ROOT = Path(__file__).parent.parent
_PART = 3000
"""Bytes of the beginning and of the end of a recording that are used."""


class Input(Struct, frozen=True):
    """`is_recorded`: it is a recording or was made from one, and must not get into the repository."""

    data: bytes
    is_recorded: bool = False


class Folders(Struct, frozen=True):
    """`kept` and `regressions` are in the repository: for each target, inputs that reach different code, and
    inputs that once failed. `local` has what runs on this machine found. `recordings` are recorded streams
    next to the repository, if there are any."""

    kept: Path = ROOT / "fuzz" / "corpus"
    regressions: Path = ROOT / "fuzz" / "regressions"
    local: Path = ROOT / "build" / "fuzz"
    recordings: Path = ROOT.parent / "shared" / "recordings"

    def kept_inputs(self, target: Target) -> Iterator[bytes]:
        """Yield the inputs in the repository."""
        yield from read_folder(self.kept / target.name)
        yield from read_folder(self.regressions / target.name)

    def known_inputs(self, target: Target, *, with_recordings: bool) -> Iterator[Input]:
        """Yield everything that a run starts from."""
        for data in self.kept_inputs(target):
            yield Input(data)
        for data in read_folder(self._found(target, is_recorded=False)):
            yield Input(data)
        if with_recordings:
            for data in read_folder(self._found(target, is_recorded=True)):
                yield Input(data, is_recorded=True)
            if target.recordings:
                for data in read_folder(self.recordings / target.recordings):
                    yield Input(shortened(data), is_recorded=True)

    def save(self, target: Target, found: Input) -> None:
        folder = self._found(target, is_recorded=found.is_recorded)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name_of(found.data)).write_bytes(found.data)

    def save_finding(self, target: Target, data: bytes, failure: Failure) -> tuple[Path, str]:
        """Store a failing input, and next to it what happened. Return its path, and how to run it again."""
        folder = self.local / "findings" / target.name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name_of(data)
        command = f'make fuzz ARGS="--reproduce {path}"'
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(
            f"{failure.signature}\n\n{command}\n\n{failure.report}\n", "utf-8"
        )
        return path, command

    def _found(self, target: Target, *, is_recorded: bool) -> Path:
        return self.local / ("recorded" if is_recorded else "corpus") / target.name


def name_of(data: bytes) -> str:
    return sha256(data).hexdigest()[:12]


def read_folder(folder: Path) -> Iterator[bytes]:
    """Yield the files of a folder, in the order of their names."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.is_file():
                yield path.read_bytes()


def shortened(data: bytes) -> bytes:
    """Return the beginning and the end of a long stream."""
    if len(data) <= 2 * _PART:
        return data
    separator = b"\n\n" if b"\n\n" in data else b"\n"
    return data[:_PART].rpartition(separator)[0] + separator + data[-_PART:].partition(separator)[2]
