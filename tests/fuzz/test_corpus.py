"""Every input in the repository is run: what reaches different code, and what once failed."""

from __future__ import annotations

import pytest
from fuzz.mutators import MOST_BYTES
from fuzz.storage import Folders
from fuzz.target import Target
from fuzz.targets import TARGETS

FOLDERS = Folders()
MOST_OF_ALL = 1_000_000
"""Bytes."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_everything_holds_for_the_kept_inputs(target: Target) -> None:
    inputs = list(FOLDERS.kept_inputs(target))
    assert inputs
    for data in inputs:
        target.run(data)


def test_the_kept_inputs_are_few_and_small() -> None:
    files = [path for path in FOLDERS.kept.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) <= MOST_BYTES
    assert sum(path.stat().st_size for path in files) <= MOST_OF_ALL


def test_every_folder_belongs_to_a_target() -> None:
    folders = {path.name for kind in (FOLDERS.kept, FOLDERS.regressions) for path in kind.glob("*/")}
    assert folders <= {target.name for target in TARGETS}
    assert len({target.name for target in TARGETS}) == len(TARGETS)
