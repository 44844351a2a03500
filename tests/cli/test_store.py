"""`penstock store`: figures, deleting and export, beside a gateway or without one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import UsageError
from penstock.cli.quantities import parse_moment, parse_size, parse_span
from penstock.formatting import format_duration, format_size
from penstock.store.contract import Trace
from tests.cli.kept import ANSWER, BEGIN, PROMPT, Turn, log, make_store, request, trace
from tests.cli.running import Result, penstock, start

CREATED = (0.0, {"type": "response.created"})
DONE = (2.0, {"type": "response.completed"})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    day = 86_400
    return make_store(
        tmp_path / "store.db",
        Turn("resp_old", age=40 * day, events=log(CREATED, DONE)),
        Turn("resp_new", events=log(CREATED, DONE), verdict={"closer": "upstream"}, tenant="anna"),
        Turn("resp_failed", status="failed"),
        Turn("resp_runs", status="in_progress"),
        conversations=["conv_a"],
    )


def run(action: str, store: Path, *options: str) -> Result:
    return penstock("store", action, "--store", str(store), *options)


def lines(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


# Figures


def test_stats_say_what_there_is(store: Path) -> None:
    result = run("stats", store)
    assert result.returncode == 0, result.stderr
    assert "4 (2 completed, 1 failed, 1 in_progress)" in result.stdout
    assert "conversations 1\n" in result.stdout
    assert "2023-10-05 22:13:20 UTC" in result.stdout
    assert str(store) in result.stdout


def test_stats_as_json(store: Path) -> None:
    (told,) = lines(run("stats", store, "--json"))
    assert told["path"] == str(store)
    assert told["by_status"] == {"completed": 2, "failed": 1, "in_progress": 1}
    assert (told["responses"], told["items"], told["events"], told["conversations"]) == (4, 8, 4, 1)
    assert told["newest"] - told["oldest"] == 40 * 86_400
    assert told["bytes"] > 0


def test_the_default_file_is_the_gateways(tmp_path: Path) -> None:
    (folder := tmp_path / "penstock").mkdir()
    make_store(folder / "responses.sqlite", Turn("resp_a"))
    result = penstock("store", "stats", XDG_DATA_HOME=str(tmp_path))
    assert f"file          {folder / 'responses.sqlite'}" in result.stdout


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    result = run("stats", tmp_path / "none.db")
    assert result.returncode == 2
    assert "none.db: there is no such file" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_cannot_be_looked_into() -> None:
    result = penstock("store", "stats", "--store", "none")
    assert result.returncode == 2
    assert "means that there is no store" in result.stderr


# Deleting


def test_prune_needs_a_bound(store: Path) -> None:
    result = run("prune", store)
    assert result.returncode == 2
    assert "--older-than" in result.stderr
    assert lines(run("stats", store, "--json"))[0]["responses"] == 4


def test_prune_deletes_what_is_old_and_never_what_runs(store: Path) -> None:
    result = run("prune", store, "--older-than", "0s")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("deleted 3 responses and 1 conversation; ")
    assert lines(run("stats", store, "--json"))[0]["by_status"] == {"in_progress": 1}


def test_prune_leaves_what_is_young_enough(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store.db", Turn("resp_old", age=500 * 86_400), Turn("resp_new"))
    result = run("prune", store, "--older-than", "100d")
    assert "deleted 1 response and 0" in result.stdout
    assert [each["id"] for each in lines(run("export", store))] == ["resp_new"]


def test_prune_does_not_believe_a_clock_that_is_far_ahead_unless_told_to(tmp_path: Path) -> None:
    """The store was made by a gateway whose clock said 2023."""
    store = make_store(tmp_path / "store.db", Turn("resp_new"))
    result = run("prune", store, "--older-than", "30d")
    assert result.stdout.startswith("deleted 0 responses and 0 conversations; ")
    assert "ages are measured from 2023-11-15 04:13:20 UTC" in result.stderr
    assert "--trust-clock" in result.stderr
    dry = run("prune", store, "--older-than", "30d", "--dry-run")
    assert "would delete 0 responses" in dry.stdout
    result = run("prune", store, "--older-than", "30d", "--trust-clock")
    assert result.stdout.startswith("deleted 1 response and 0 conversations; ")
    assert result.stderr == ""


def test_prune_to_a_size_says_when_what_runs_is_more(store: Path) -> None:
    result = run("prune", store, "--max-size", "1kB")
    assert result.stdout.startswith("deleted 3 responses and 1 conversation; ")
    assert "still larger than 1.0 kB" in result.stderr


def test_a_dry_run_deletes_nothing(store: Path) -> None:
    result = run("prune", store, "--older-than", "0s", "--max-size", "1kB", "--dry-run")
    assert "would delete 3 responses and 1 conversation because of their age" in result.stdout
    assert "too many" in result.stdout
    assert "small enough" in run("prune", store, "--max-size", "1GB", "--dry-run").stdout
    assert lines(run("stats", store, "--json"))[0]["responses"] == 4


def test_an_option_of_another_action_is_refused(store: Path) -> None:
    result = run("prune", store, "--older-than", "0s", "--since", "1d")
    assert result.returncode == 2
    assert "--since" in result.stderr
    assert lines(run("stats", store, "--json"))[0]["responses"] == 4


# Export


def test_export_has_everything_on_one_line_each(store: Path) -> None:
    result = run("export", store)
    assert result.returncode == 0, result.stderr
    told = {each["id"]: each for each in lines(result)}
    assert list(told) == ["resp_old", "resp_new", "resp_failed", "resp_runs", "conv_a"]
    new = told["resp_new"]
    assert (new["object"], new["tenant"], new["status"]) == ("penstock.response", "anna", "completed")
    assert new["request"] == {"model": "m"}
    assert new["input"][0]["content"][0]["text"] == PROMPT
    assert new["output"][0]["content"][0]["text"] == ANSWER
    assert new["verdict"]["closer"] == "upstream"
    assert [(each["sequence"], each["time"] - BEGIN) for each in new["events"]] == [(0, 0.0), (1, 2.0)]
    assert new["events"][1]["event"]["type"] == "response.completed"
    assert told["resp_runs"]["verdict"] is None
    assert told["conv_a"]["metadata"] == {"topic": "birds"}
    assert told["conv_a"]["items"][0]["content"][0]["text"] == PROMPT


def test_export_has_traces_with_times_sizes_and_recorded_bytes(tmp_path: Path) -> None:
    recorded = b"data: {\xff\x00\n\n"
    traces = [
        request(0.0, "up"),
        Trace("read", BEGIN + 1, recorded, len(recorded)),
        trace(2.0, "read", size=9),
    ]
    store = make_store(tmp_path / "store.db", Turn("resp_a", traces=traces))
    (told,) = lines(run("export", store, "resp_a"))
    asked, first, second = told["traces"]
    assert asked["data"]["target"] == "up"
    assert (asked["kind"], asked["time"], asked["size"]) == ("request", BEGIN, 1_200)
    assert base64.b64decode(first["base64"]) == recorded
    assert second == {"kind": "read", "time": BEGIN + 2, "size": 9}


def test_what_is_no_json_does_not_spoil_the_line(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store.db", Turn("resp_a", traces=[Trace("answer", BEGIN, b"{", 0)]))
    (told,) = lines(run("export", store))
    assert told["traces"][0]["data"] is None


def test_export_of_some_says_which_are_not_there(store: Path) -> None:
    result = run("export", store, "resp_new", "resp_gone")
    assert result.returncode == 1
    assert [each["id"] for each in lines(result)] == ["resp_new"]
    assert "no response resp_gone" in result.stderr


def test_export_since_a_date(store: Path) -> None:
    told = lines(run("export", store, "--since", "2023-11-01"))
    assert [each["id"] for each in told] == ["resp_new", "resp_failed", "resp_runs", "conv_a"]
    assert lines(run("export", store, "--since", "1d")) == []


def test_ids_and_a_time_do_not_go_together(store: Path) -> None:
    assert "not both" in run("export", store, "resp_new", "--since", "1d").stderr


def test_export_into_a_file_is_for_its_owner_alone(store: Path, tmp_path: Path) -> None:
    result = run("export", store, "-o", str(tmp_path / "out.jsonl"))
    assert result.stdout == ""
    out = tmp_path / "out.jsonl"
    assert out.stat().st_mode & 0o777 == 0o600
    assert len(out.read_text().splitlines()) == 5


@pytest.mark.parametrize("end", ["", "-wal", ".lock"])
def test_export_does_not_write_over_the_store(store: Path, end: str) -> None:
    result = run("export", store, "-o", f"{store}{end}")
    assert result.returncode == 2
    assert "is the store itself" in result.stderr
    assert run("stats", store).returncode == 0


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    entries = [(0.0, {"type": "response.output_text.delta", "delta": "x" * 10_000})] * 40
    store = make_store(tmp_path / "store.db", Turn("resp_a", events=log(*entries)))
    with start("store", "export", "--store", str(store)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


# Times and sizes


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("1.5m", 90), ("0s", 0), (" 2 w ", 1_209_600)]
)
def test_times_as_people_type_them(text: str, seconds: float) -> None:
    assert parse_span(text, "--older-than") == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "30 days", "1e9d", "999999999w", "nan"])
def test_other_times_are_told_what_to_be(text: str) -> None:
    with pytest.raises(UsageError, match="--older-than needs a duration such as 30d"):
        parse_span(text, "--older-than")


@pytest.mark.parametrize(
    ("text", "count"), [("500MB", 500_000_000), ("1GiB", 1 << 30), ("1.5kb", 1_500), ("7", 7), ("0b", 0)]
)
def test_sizes_as_people_type_them(text: str, count: int) -> None:
    assert parse_size(text, "--max-size") == count


@pytest.mark.parametrize("text", ["", "MB", "-1", "1 potato", "1EB", "inf"])
def test_other_sizes_are_told_what_to_be(text: str) -> None:
    with pytest.raises(UsageError, match="--max-size needs a size such as 500MB"):
        parse_size(text, "--max-size")


def test_a_moment_is_a_time_ago_or_a_date() -> None:
    assert parse_moment("1h", "--since", 10_000.0) == 6_400.0
    assert parse_moment("1970-01-02", "--since", 0.0) == 86_400.0
    assert parse_moment("1970-01-01T02:00+01:00", "--since", 0.0) == 3_600.0
    with pytest.raises(UsageError, match="--since needs a duration"):
        parse_moment("yesterday", "--since", 0.0)


def test_quantities_as_people_read_them() -> None:
    sizes = [format_size(count) for count in (0, 1, 999, 1_000, 9_960, 34_000, 999_999, 5 * 10**12)]
    assert sizes == ["0 bytes", "1 byte", "999 bytes", "1.0 kB", "10 kB", "34 kB", "1.0 MB", "5.0 TB"]
    spans = [format_duration(seconds) for seconds in (-1, 0.35, 2.1, 59.999, 200, 7_260)]
    assert spans == ["0 ms", "350 ms", "2.10 s", "1 min 0 s", "3 min 20 s", "2 h 1 min"]
