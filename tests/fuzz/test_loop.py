"""The loop finds planted faults, step by step, and the same ones every time."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from fuzz.loop import Loop, fewest
from fuzz.storage import Folders, Input

from tests.fuzz.toys import KINDS, WORDS, branch, toy


def folders(root: Path) -> Folders:
    return Folders(root / "corpus", root / "regressions", root / "local", root / "recordings")


def loop_in(root: Path, seed: int = 0) -> Loop:
    loop = Loop(KINDS, Random(seed), WORDS, folders=folders(root))
    loop.load([Input(b'{"a":[1]}')])
    return loop


def test_a_fault_behind_several_conditions_is_found_and_minimised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = loop_in(tmp_path)
    while not loop.findings:
        assert loop.runs < 20_000
        loop.step()
    ((signature, path),) = loop.findings.items()
    assert signature == "TypeError"
    value = json.loads(path.read_bytes())
    assert set(value) == {"kind", "id"}
    printed = capsys.readouterr().out
    assert f'make fuzz ARGS="--reproduce {path}"' in printed
    assert "an id that is not a string" in path.with_suffix(".txt").read_text()


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    def found(name: str, seed: int) -> list[bytes]:
        loop = loop_in(tmp_path / name, seed)
        for _ in range(300):
            loop.step()
        return [entry.input.data for entry in loop.entries]

    assert found("a", 1) == found("b", 1)
    assert found("c", 1) != found("d", 2)


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    first = loop_in(tmp_path)
    while first.branches < 4:
        first.step()
    known = list(folders(tmp_path).known_inputs(KINDS, with_recordings=False))
    second = Loop(KINDS, Random(5), WORDS, folders=folders(tmp_path))
    second.load(known)
    assert second.branches == 4


def test_what_is_made_from_recordings_is_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "recordings" / "api").mkdir(parents=True)
    (tmp_path / "recordings" / "api" / "one.json").write_bytes(b'{"a":[1]}')
    target, places = toy(KINDS.run, format="json", recordings="api"), folders(tmp_path)
    loop = Loop(target, Random(0), WORDS, folders=places)
    loop.load(list(places.known_inputs(target, with_recordings=True)))
    while loop.branches < 4:
        loop.step()
    assert list(places.known_inputs(target, with_recordings=False)) == []
    assert len(list(places.known_inputs(target, with_recordings=True))) == len(loop.entries)


def test_one_failure_is_reported_once(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        branch(len(data) % 5)
        raise ValueError("always")

    loop = Loop(toy(run), Random(0), [], folders=folders(tmp_path))
    for _ in range(20):
        loop.step()
    assert len(loop.findings) == 1
    assert loop.entries == []


def test_the_fewest_inputs_that_reach_everything_are_chosen() -> None:
    entries = [
        (b"all but one", frozenset({1, 2, 3})),
        (b"nothing new", frozenset({1})),
        (b"the longer of two", frozenset({4})),
        (b"the shorter", frozenset({4})),
    ]
    assert fewest(entries, 9, 1000) == [b"all but one", b"the shorter"]
    assert fewest(entries, 1, 1000) == [b"all but one"]
    assert fewest(entries, 9, 11) == [b"all but one"]
