"""A target runs in a process of its own: its crash is a finding."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from fuzz.instrument import Coverage
from fuzz.runner import LastInput, RunOptions, run_all
from fuzz.storage import Folders

from tests.fuzz.toys import branch, toy

pytestmark = pytest.mark.e2e  # it forks


def options(root: Path) -> RunOptions:
    places = Folders(root / "corpus", root / "regressions", root / "local", root / "recordings")
    return RunOptions(seconds=0, runs=200, folders=places)


def test_a_process_that_dies_leaves_its_last_input(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(data: bytes) -> None:
        branch(len(data) % 7)
        if len(data) > 3:
            os.kill(os.getpid(), signal.SIGKILL)

    assert run_all([toy(run)], Coverage(), options(tmp_path)) == 1
    (report,) = (tmp_path / "local" / "findings" / "toy").glob("*.txt")
    assert len(report.with_suffix("").read_bytes()) > 3
    assert "SIGKILL" in report.read_text()
    assert "--reproduce" in capfd.readouterr().out


def test_targets_without_findings_are_counted_as_such(tmp_path: Path) -> None:
    def fail(_: bytes) -> None:
        raise ValueError

    good = toy(lambda data: branch(len(data) % 7))
    assert run_all([good, toy(fail), good], Coverage(), options(tmp_path)) == 1


def test_the_last_input_is_shared() -> None:
    last = LastInput()
    assert last.read() == (0, b"")
    last.write(b"one")
    last.write(b"longer")
    assert last.read() == (2, b"longer")
