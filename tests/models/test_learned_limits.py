"""Limits that errors have taught: what is learned, and a file that several processes share."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from penstock.models.enrich import enrich
from penstock.models.info import LearnedLimit, ModelFacts, ModelInfo
from penstock.models.learned_limits import (
    MAX_FILE_SIZE,
    MAX_LIMITS,
    EndpointLimits,
    LearnedLimits,
    endpoint_of,
    limits_path,
)
from tests.models.model_lists import ANY_JSON

URL = "https://models.example/v1"
NOW = 1_700_000_000.0


def info(id: str = "m", window: int = 100_000, **facts: Any) -> ModelInfo:
    return enrich(ModelFacts(id=id, window=window, **facts))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "penstock" / "limits.json"


def opened(path: Path | None, now: float = NOW) -> EndpointLimits:
    return LearnedLimits(path, clock=lambda: now).at(URL)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/me"}, "/state/penstock/limits.json"),
        (
            {"XDG_STATE_HOME": "relative", "HOME": "/home/me"},
            "/home/me/.local/state/penstock/limits.json",
        ),
        ({"HOME": "/home/me"}, "/home/me/.local/state/penstock/limits.json"),
        ({"USERPROFILE": "/users/me"}, "/users/me/.local/state/penstock/limits.json"),
        ({}, None),
    ],
)
def test_the_file_is_in_the_users_state_folder(environment: dict[str, str], expected: str | None) -> None:
    assert limits_path(environment) == (Path(expected) if expected else None)


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example",
        "https://models.example/",
        "https://models.example/v1/",
        "https://models.example:443/v1",
        "https://models.example/v1?key=sk-secret",
        "https://models.example/v1/responses",
    ],
)
def test_an_endpoint_has_one_name_without_its_query(url: str) -> None:
    assert endpoint_of(url) == URL


def test_a_refusal_that_names_the_limit_is_learned(path: Path) -> None:
    limits = opened(path)
    assert limits.learn(info(), 48_000, 50_123)
    assert limits.all() == {"m": LearnedLimit(48_000, NOW, 50_123)}
    assert opened(path).all() == limits.all()
    assert LearnedLimits(path).at("https://other.example").all() == {}


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        (None, None),
        (None, 50_000),
        (255, 50_000),  # not a window
        (10**12, 10**13),
        (100_000, 200_000),  # the window that is known already
        (200_000, 300_000),
        (48_000, 48_000),  # it would have fitted, so the number is something else
        (48_000, 1_000),
    ],
)
def test_numbers_that_cannot_be_the_limit_teach_nothing(
    path: Path, limit: int | None, refused: int | None
) -> None:
    assert not opened(path).learn(info(), limit, refused)
    assert not path.exists()


def test_a_window_that_the_user_has_set_teaches_nothing(path: Path) -> None:
    set_by_user = enrich(ModelFacts(id="m"), ModelFacts(window=100_000))
    assert not opened(path).learn(set_by_user, 48_000, 50_123)


def test_the_window_that_was_stated_is_stored_and_may_be_absent(path: Path) -> None:
    limits = opened(path)
    limits.learn(info("a"), 48_000, 50_123, 100_000)
    limits.learn(info("b"), 48_000, stated=0)
    limits.learn(info("c"), 48_000)
    assert [each.stated for each in opened(path).all().values()] == [100_000, 0, None]
    content = json.loads(path.read_bytes())
    for entry in content["limits"]:
        del entry["stated"]  # as in files of older versions
    path.write_text(json.dumps(content))
    assert [each.stated for each in opened(path).all().values()] == [None, None, None]


def test_a_later_error_replaces_the_limit_in_both_directions(path: Path) -> None:
    limits = opened(path)
    for limit, is_new in ((48_000, True), (48_000, False), (32_000, True), (64_000, True)):
        lowered = enrich(ModelFacts(id="m", window=100_000), learned=limits.all().get("m"))
        assert limits.learn(lowered, limit) is is_new
        assert limits.all()["m"].limit == limit


def test_a_limit_is_forgotten_if_more_input_is_accepted(path: Path) -> None:
    limits = opened(path)
    limits.learn(info(), 48_000)
    assert not limits.accept("m", 48_000, 90_000)
    assert not limits.accept("m", 90_000, 48_000)  # perhaps the sum of several calls
    assert not limits.accept("another", 90_000, 90_000)
    assert [*limits.all()] == ["m"]
    assert limits.accept("m", 48_001, 48_001)
    assert limits.all() == opened(path).all() == {}


def test_all_limits_or_those_of_some_models_are_forgotten(path: Path) -> None:
    limits = opened(path)
    for id in ("a", "b", "c"):
        limits.learn(info(id), 48_000)
    assert [*limits.forget(["b", "unknown"])] == ["b"]
    assert [*opened(path).all()] == ["a", "c"]
    assert [*limits.forget()] == ["a", "c"]
    assert limits.forget() == {}
    assert opened(path).all() == {}


def test_another_process_sees_a_change_and_loses_nothing(path: Path) -> None:
    one, other = opened(path), opened(path)
    assert other.all() == {}
    one.learn(info("a"), 48_000)
    assert [*other.all()] == ["a"]
    other.learn(info("b"), 32_000)
    one.learn(info("c"), 16_000)
    assert [*one.all()] == [*other.all()] == ["a", "b", "c"]
    other.forget(["a"])
    assert [*one.all()] == ["b", "c"]
    path.unlink()
    assert one.all() == {}


LEARN = """
import sys
from pathlib import Path
from penstock import shared_file
from penstock.models.learned_limits import LearnedLimits

shared_file.LOCK_WAIT = 60.0
limits = LearnedLimits(Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for number in range(40):
    limits.put("http://here/v1", f"{sys.argv[2]}{number}", 48_000, None)
"""


def test_two_processes_that_learn_at_the_same_time_lose_nothing(path: Path) -> None:
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, "-c", LEARN, str(path), name], stdin=pipe, stdout=pipe, text=True)
        for name in "ab"
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # both are ready
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    learned = LearnedLimits(path).at("http://here").all()
    assert {*learned} == {f"{name}{number}" for name in "ab" for number in range(40)}


def test_only_the_user_can_read_the_file_and_no_part_file_is_left(path: Path) -> None:
    LearnedLimits(path).at(f"{URL}?key=sk-secret").learn(info(), 48_000)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {*os.listdir(path.parent)} == {path.name, f"{path.name}.lock"}
    assert "sk-secret" not in path.read_text()


def test_without_a_path_limits_are_kept_in_memory() -> None:
    limits = opened(None)
    assert limits.learn(info(), 48_000)
    assert limits.all()["m"].limit == 48_000
    assert limits.problem == ""


def written(*limits: Any, version: Any = 1) -> bytes:
    return json.dumps({"version": version, "limits": limits}).encode()


ENTRY = {"endpoint": URL, "model": "old", "limit": 9_000, "learned": 1}
UNUSABLE = {
    "empty": b"",
    "not JSON": b"limits",
    "not UTF-8": b"\xff\xfe",
    "another shape": b'{"limits": {}}',
    "a wrong type": written({**ENTRY, "limit": "many"}),
    "a newer version": written(ENTRY, version=2),
    "nested": b"[" * 100_000,
    "too large": written(ENTRY) + b" " * MAX_FILE_SIZE,
}


@pytest.mark.parametrize("content", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_is_reported_and_never_overwritten(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    limits = opened(path)
    with caplog.at_level(logging.WARNING):
        assert limits.all() == {}
        assert limits.learn(info(), 48_000)
        assert limits.all()["m"].limit == 48_000  # for this process
    assert len(caplog.records) == 1
    assert str(path) in limits.problem
    assert path.read_bytes() == content
    path.unlink()  # as the message says
    assert [*limits.all()] == ["m"]
    assert limits.learn(info("n"), 48_000)
    assert limits.problem == ""
    assert [*opened(path).all()] == ["m", "n"]
    path.unlink()  # of a file that was used, the user forgets the limits
    assert limits.all() == {}


def test_limits_that_were_stored_survive_that_the_file_is_damaged_and_deleted(path: Path) -> None:
    limits = opened(path)
    limits.learn(info(), 48_000)
    path.write_text("damaged")
    assert [*limits.all()] == ["m"]
    path.unlink()
    assert [*limits.all()] == ["m"]


def test_limits_that_could_not_be_stored_are_merged_with_those_of_another_process(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("damaged")
    limits = opened(path)
    limits.learn(info("mine"), 48_000)
    path.unlink()
    opened(path).learn(info("other"), 32_000)
    assert {*limits.all()} == {"mine", "other"}
    limits.learn(info("more"), 16_000)
    assert {*opened(path).all()} == {"mine", "other", "more"}


@given(ANY_JSON)
def test_any_json_in_the_file_is_harmless(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = tmp_path_factory.mktemp("state") / "limits.json"
    path.write_text(json.dumps({"version": 1, "limits": [content]}))
    limits = opened(path)
    assert limits.all() == {}
    assert limits.learn(info(), 48_000)


def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    limits = opened(tmp_path / "file" / "limits.json")
    with caplog.at_level(logging.WARNING):
        assert limits.learn(info(), 48_000)
        assert limits.all()["m"].limit == 48_000
        assert limits.learn(info("n"), 48_000)
        assert [*limits.all()] == ["m", "n"]
    assert "limits.json" in limits.problem
    assert len(caplog.records) == 1


def test_entries_out_of_range_are_ignored(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(written(ENTRY, {**ENTRY, "model": "tiny", "limit": 3}))
    assert [*opened(path).all()] == ["old"]


def test_the_file_is_bounded_and_keeps_the_newest(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(
        written(*({**ENTRY, "model": f"m{age}", "learned": 10_000 - age} for age in range(MAX_LIMITS)))
    )
    limits = opened(path)
    assert limits.learn(info("newest"), 48_000)
    models = {*limits.all()}
    assert len(models) == MAX_LIMITS
    assert {"newest", "m0"} <= models
    assert f"m{MAX_LIMITS - 1}" not in models


@pytest.mark.parametrize("content", [None, "damaged"])
def test_limits_in_memory_are_bounded_too(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "limits.json" if content else None
    if path and content:
        path.write_text(content)
    limits = opened(path)
    for number in range(MAX_LIMITS + 1):
        limits.learn(info(f"m{number}"), 48_000)
    assert len(limits.all()) == MAX_LIMITS
    assert "m0" not in limits.all()


@pytest.mark.parametrize("name", ["x" * 501, "a\nb", "\ud800"])
def test_a_name_that_cannot_be_stored_is_not(path: Path, name: str) -> None:
    limits = opened(path)
    assert not limits.learn(info(name), 48_000)
    assert limits.all() == {}


def test_listeners_hear_of_every_change_with_its_endpoint() -> None:
    all_limits, heard = LearnedLimits(), list[str]()
    all_limits.on_change(heard.append)
    limits = all_limits.at(URL)
    assert limits.learn(info(), 48_000)
    assert limits.learn(info(), 48_000)  # the same, so it is not a change
    limits.forget(["another"])
    assert heard == [URL]
    limits.forget()
    assert heard == [URL, URL]
