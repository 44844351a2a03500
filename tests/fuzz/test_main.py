"""`make fuzz`, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.__main__ import keep, merge
from fuzz.storage import Folders, Input, name_of

from tests.fuzz.toys import KINDS, branch, toy

ROOT = Path(__file__).parents[2]


def fuzz(*arguments: str) -> tuple[int, str]:
    """Run the command and return its exit code and output. Times are removed, because they differ."""
    command = [sys.executable, "-m", "fuzz", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.mark.e2e
def test_a_run_with_the_same_seed_does_the_same(tmp_path: Path) -> None:
    options = ["--target", "ids", "--target", "sse", "--runs", "40", "--no-recordings"]
    found = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        code, output = fuzz(*options, "--folder", str(folder))
        assert code == 0
        assert output.count("0 findings") == 2
        found.append(
            {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        )
    assert found[0] == found[1]


@pytest.mark.e2e
def test_a_finding_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "findings" / "urls" / "0123456789ab"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"http://localhost")
    code, output = fuzz("--reproduce", str(path))
    assert (code, output.splitlines()[-1]) == (0, "no failure")


@pytest.mark.e2e
def test_an_unknown_target_is_refused() -> None:
    command = [sys.executable, "-m", "fuzz", "--target", "nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "there is no target or group 'nothing'" in done.stderr


def folders(root: Path) -> Folders:
    return Folders(root / "corpus", root / "regressions", root / "local", root / "recordings")


def test_merging_keeps_what_was_written_by_hand_and_the_fewest_others(tmp_path: Path) -> None:
    places = folders(tmp_path)

    def run(data: bytes) -> None:
        for each in set(data):
            branch(each)

    target = toy(run)
    kept = tmp_path / "corpus" / "toy"
    kept.mkdir(parents=True)
    (kept / "by-hand").write_bytes(b"ab")
    (kept / name_of(b"b")).write_bytes(b"b")
    for data in (b"a", b"bc", b"c", b"cde"):
        places.save(target, Input(data))
    places.save(target, Input(b"z", is_recorded=True))
    merge(places, target)
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {
        "by-hand": b"ab",
        name_of(b"cde"): b"cde",
    }


def test_a_finding_becomes_a_case_of_the_tests(tmp_path: Path) -> None:
    finding = tmp_path / "local" / "findings" / "toy" / "0123456789ab"
    finding.parent.mkdir(parents=True)
    finding.write_bytes(b"input")
    assert keep(folders(tmp_path), KINDS, finding, "a-name") == 0
    assert list(folders(tmp_path).kept_inputs(KINDS)) == [b"input"]
