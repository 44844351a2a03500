"""`penstock store`: statistics, pruning and export."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.gateway.config.file import find_config
from penstock.gateway.config.options import ServeOptions, settings_from
from penstock.store import hold_store
from penstock.store.records import Trace
from tests.cli.running import Result, penstock, start
from tests.stored_turns import ANSWER, BEGIN, PROMPT, Turn, log, make_store, request, trace

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


def test_stats_count_responses_items_and_events(store: Path) -> None:
    result = run("stats", store)
    assert result.returncode == 0, result.stderr
    assert "4 (2 completed, 1 failed, 1 in_progress)" in result.stdout
    assert "conversations 1\n" in result.stdout
    assert "2023-10-05 22:13:20 UTC" in result.stdout
    assert str(store) in result.stdout


def test_stats_as_json(store: Path) -> None:
    (stats,) = lines(run("stats", store, "--json"))
    assert stats["path"] == str(store)
    assert stats["by_status"] == {"completed": 2, "failed": 1, "in_progress": 1}
    assert (stats["responses"], stats["items"], stats["events"], stats["conversations"]) == (4, 8, 4, 1)
    assert stats["newest"] - stats["oldest"] == 40 * 86_400
    assert stats["bytes"] > 0


def test_the_default_file_is_that_of_the_gateway(tmp_path: Path) -> None:
    (folder := tmp_path / "penstock").mkdir()
    make_store(folder / "responses.sqlite", Turn("resp_a"))
    result = penstock("store", "stats", XDG_DATA_HOME=str(tmp_path))
    assert f"file          {folder / 'responses.sqlite'}" in result.stdout


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PENSTOCK_CONFIG": "{folder}/penstock.toml"}, "of the file"),
        ({"XDG_CONFIG_HOME": "{folder}/user"}, "of the user's file"),
        ({"PENSTOCK_STORE": "{folder}/of a variable"}, "of a variable"),
        (
            {"PENSTOCK_CONFIG": "{folder}/penstock.toml", "PENSTOCK_STORE": "{folder}/of a variable"},
            "of a variable",
        ),
    ],
    ids=["named", "of the user", "variable", "both"],
)
def test_the_store_is_the_one_that_serve_uses(
    tmp_path: Path, variables: dict[str, str], expected: str
) -> None:
    """docs/deploy.md says so."""
    for name, place in (
        ("of the file", "penstock.toml"),
        ("of the user's file", "user/penstock/penstock.toml"),
    ):
        (file := tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'[store]\nurl = "{tmp_path / name}"\n')
    environment: dict[str, Any] = {each: value.format(folder=tmp_path) for each, value in variables.items()}
    served = settings_from(ServeOptions(), find_config(tmp_path / "elsewhere", environment), environment)
    assert served.store == str(tmp_path / expected)
    make_store(Path(served.store), Turn("resp_a"))
    (stats,) = lines(penstock("store", "stats", "--json", **environment))
    assert (stats["path"], stats["responses"]) == (served.store, 1)


def test_a_missing_file_is_named_and_not_created(tmp_path: Path) -> None:
    result = run("stats", tmp_path / "none.db")
    assert result.returncode == 2
    assert "none.db: there is no such file" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_store_with_none() -> None:
    result = penstock("store", "stats", "--store", "none")
    assert result.returncode == 2
    assert "there is no store" in result.stderr


# Deleting


def test_prune_needs_a_limit(store: Path) -> None:
    result = run("prune", store)
    assert result.returncode == 2
    assert "--older-than" in result.stderr
    assert lines(run("stats", store, "--json"))[0]["responses"] == 4


def test_prune_deletes_old_responses_and_never_running_ones(store: Path) -> None:
    result = run("prune", store, "--older-than", "0s")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("deleted 3 responses and 1 conversation; ")
    assert lines(run("stats", store, "--json"))[0]["by_status"] == {"in_progress": 1}


def test_prune_keeps_recent_responses(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store.db", Turn("resp_old", age=500 * 86_400), Turn("resp_new"))
    result = run("prune", store, "--older-than", "100d")
    assert "deleted 1 response and 0" in result.stdout
    assert [each["id"] for each in lines(run("export", store))] == ["resp_new"]


def test_prune_trusts_a_clock_that_is_far_ahead_only_on_request(tmp_path: Path) -> None:
    """The store was written by a gateway whose clock was in 2023."""
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


def test_prune_reports_that_running_turns_exceed_the_size(store: Path) -> None:
    result = run("prune", store, "--max-size", "1kB")
    assert result.stdout.startswith("deleted 3 responses and 1 conversation; ")
    assert "still larger than 1.0 kB" in result.stderr


def test_a_dry_run_deletes_nothing(store: Path) -> None:
    result = run("prune", store, "--older-than", "0s", "--max-size", "1kB", "--dry-run")
    assert "would delete 3 responses and 1 conversation because of their age" in result.stdout
    assert "over the limit" in result.stdout
    assert "within the limit" in run("prune", store, "--max-size", "1GB", "--dry-run").stdout
    assert lines(run("stats", store, "--json"))[0]["responses"] == 4


def test_nothing_is_queued_in_the_store_of_a_gateway_of_one_process(store: Path) -> None:
    result = run("fail-queued", store)
    assert (result.returncode, result.stdout) == (0, "no background response was waiting to be started\n")


def test_what_is_queued_is_not_failed_while_a_gateway_uses_the_file(store: Path) -> None:
    with hold_store(store):
        result = run("fail-queued", store)
    assert result.returncode == 2
    assert "a gateway uses this store" in result.stderr


def test_an_option_of_another_action_is_refused(store: Path) -> None:
    result = run("prune", store, "--older-than", "0s", "--since", "1d")
    assert result.returncode == 2
    assert "--since" in result.stderr
    assert lines(run("stats", store, "--json"))[0]["responses"] == 4


# Export


def test_export_writes_one_line_per_record(store: Path) -> None:
    result = run("export", store)
    assert result.returncode == 0, result.stderr
    records = {each["id"]: each for each in lines(result)}
    assert list(records) == ["resp_old", "resp_new", "resp_failed", "resp_runs", "conv_a"]
    new = records["resp_new"]
    assert (new["object"], new["tenant"], new["status"]) == ("penstock.response", "anna", "completed")
    assert new["request"] == {"model": "m"}
    assert new["input"][0]["content"][0]["text"] == PROMPT
    assert new["output"][0]["content"][0]["text"] == ANSWER
    assert new["verdict"]["closer"] == "upstream"
    assert [(each["sequence"], each["time"] - BEGIN) for each in new["events"]] == [(0, 0.0), (1, 2.0)]
    assert new["events"][1]["event"]["type"] == "response.completed"
    assert records["resp_runs"]["verdict"] is None
    assert records["conv_a"]["metadata"] == {"topic": "birds"}
    assert records["conv_a"]["items"][0]["content"][0]["text"] == PROMPT


def test_export_has_traces_with_times_sizes_and_recorded_bytes(tmp_path: Path) -> None:
    recorded = b"data: {\xff\x00\n\n"
    traces = [
        request(0.0, "up"),
        Trace("read", BEGIN + 1, recorded, len(recorded)),
        trace(2.0, "read", size=9),
    ]
    store = make_store(tmp_path / "store.db", Turn("resp_a", traces=traces))
    (record,) = lines(run("export", store, "resp_a"))
    asked, first, second = record["traces"]
    assert asked["data"]["target"] == "up"
    assert (asked["kind"], asked["time"], asked["size"]) == ("request", BEGIN, 1_200)
    assert base64.b64decode(first["base64"]) == recorded
    assert second == {"kind": "read", "time": BEGIN + 2, "size": 9}


def test_data_that_is_not_json_does_not_break_the_line(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store.db", Turn("resp_a", traces=[Trace("answer", BEGIN, b"{", 0)]))
    (record,) = lines(run("export", store))
    assert record["traces"][0]["data"] is None


def test_export_reports_missing_ids(store: Path) -> None:
    result = run("export", store, "resp_new", "resp_gone")
    assert result.returncode == 1
    assert [each["id"] for each in lines(result)] == ["resp_new"]
    assert "no response resp_gone" in result.stderr


def test_export_since_a_date(store: Path) -> None:
    records = lines(run("export", store, "--since", "2023-11-01"))
    assert [each["id"] for each in records] == ["resp_new", "resp_failed", "resp_runs", "conv_a"]
    assert lines(run("export", store, "--since", "1d")) == []


def test_ids_and_a_time_exclude_each_other(store: Path) -> None:
    assert "not both" in run("export", store, "resp_new", "--since", "1d").stderr


def test_only_the_owner_can_read_an_exported_file(store: Path, tmp_path: Path) -> None:
    result = run("export", store, "-o", str(tmp_path / "out.jsonl"))
    assert result.stdout == ""
    out = tmp_path / "out.jsonl"
    assert out.stat().st_mode & 0o777 == 0o600
    assert len(out.read_text().splitlines()) == 5


@pytest.mark.parametrize("end", ["", "-wal", ".lock"])
def test_export_does_not_overwrite_the_store(store: Path, end: str) -> None:
    result = run("export", store, "-o", f"{store}{end}")
    assert result.returncode == 2
    assert "is the store itself" in result.stderr
    assert run("stats", store).returncode == 0


def test_a_reader_that_stops_early_is_not_an_error(tmp_path: Path) -> None:
    entries = [(0.0, {"type": "response.output_text.delta", "delta": "x" * 10_000})] * 40
    store = make_store(tmp_path / "store.db", Turn("resp_a", events=log(*entries)))
    with start("store", "export", "--store", str(store)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""
