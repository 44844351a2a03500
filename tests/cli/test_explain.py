"""`penstock explain`: run as a process on the file of a store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.store.ledger import TurnRecord
from penstock.store.sqlite.store import open_sqlite_store
from tests.cli.running import Result, penstock
from tests.explain.archives import CALL, CREATED, DELTA, IN_PROGRESS, MESSAGE, added, fallback_turn
from tests.gateway.running import gateway
from tests.store.ledger_records import NOON, ended, started
from tests.stored_turns import ANSWER, BEGIN, CONTENT, ERROR, PROMPT, Turn, log, make_store


def explain(store: Path, *options: str, id: str = "resp_a", columns: str = "") -> Result:
    return penstock("explain", *([id] if id else []), "--store", str(store), *options, COLUMNS=columns)


def text_of(tmp_path: Path, turn: Turn) -> str:
    """Return the output for a turn, which never has its content."""
    result = explain(make_store(tmp_path / "store.db", turn))
    assert result.returncode == 0, result.stderr
    assert [text for text in CONTENT if text in result.stdout] == []
    return result.stdout


def test_status_sentences_and_timeline_are_printed(tmp_path: Path) -> None:
    status, sentences, timeline = text_of(tmp_path, fallback_turn(tenant="anna")).split("\n\n")
    assert status == "resp_a  completed"
    assert sentences.splitlines()[4:] == [
        "Completed normally.",
        "First output after 650 ms; 2.10 s in total, of which 3 ms in the gateway.",
        "1,200 input tokens (1,000 cached), 34 output tokens (12 for reasoning).",
    ]
    assert timeline.splitlines()[0] == "    0.000 s  request to first for model-x (chat, 1.2 kB)"
    assert timeline.splitlines()[-1] == "    2.600 s  completed (last event, number 9)"


async def _restart(path: Path) -> None:
    store = await open_sqlite_store(path, clock=lambda: BEGIN + 500)
    await store.aclose()


def test_a_turn_is_running_until_another_gateway_ends_it(tmp_path: Path) -> None:
    events = log((0.0, CREATED), (0.0, IN_PROGRESS), (1.0, added(MESSAGE)), (3.0, DELTA))
    path = make_store(tmp_path / "store.db", Turn("resp_a", status="in_progress", events=events))
    assert explain(path).stdout.startswith("resp_a  running\n")
    asyncio.run(_restart(path))
    text = explain(path).stdout
    assert "Failed: the gateway ended the response (gateway_restarted: " in text
    assert "First output after 1.00 s; last activity after 3.00 s." in text
    assert "  500.000 s  failed (last event" in text


def test_control_characters_are_escaped(tmp_path: Path) -> None:
    text = text_of(tmp_path, fallback_turn(events=log((0.0, added({**CALL, "name": "\x1b[2Jlook"})))))
    assert "\x1b" not in text
    assert "calling \\x1b[2Jlook" in text


def test_content_is_shown_only_on_request(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", fallback_turn())
    text = explain(path, "--content").stdout
    assert f"input\n  user: {PROMPT}\n" in text
    assert f"output\n  assistant: {ANSWER}\n" in text
    assert f"failures\n  {ERROR}\n" in text


def test_json_is_one_object(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", fallback_turn())
    result = explain(path, "--json")
    assert [text for text in CONTENT if text in result.stdout] == []
    found: dict[str, Any] = json.loads(result.stdout)
    assert (found["id"], found["verdict"]["closer"]) == ("resp_a", "upstream")
    assert json.loads(explain(path, "--json", "--content").stdout)["content"]["input"] == [f"user: {PROMPT}"]


def test_an_unknown_id_says_which_file_was_searched(tmp_path: Path) -> None:
    path = make_store(tmp_path / "store.db", fallback_turn())
    result = explain(path, id="resp_b")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{path} has no turn resp_b." in result.stderr
    assert "--store" in result.stderr


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = explain(tmp_path / "none.db")
    assert result.returncode == 2
    assert "none.db: there is no such file" in result.stderr


# The ledger


def with_records(path: Path, *records: TurnRecord) -> Path:
    async def fill() -> None:
        store = await open_sqlite_store(path)
        for record in records:
            store.settle_turn(record)
        await store.aclose()

    asyncio.run(fill())
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A stored turn, one that was not stored, one that failed, and one that was refused before them."""
    path = make_store(tmp_path / "store.db", fallback_turn())
    private = ended(started("resp_private", NOON + 3), tokens=100, cost=0.0012)
    failed = replace(ended(started("resp_failed", NOON + 2)), outcome="failed", closer="timeout")
    refused = replace(ended(started("resp_refused", NOON)), outcome="refused", closer="gateway", status=429)
    return with_records(
        path,
        replace(ended(started("resp_a", NOON + 1), tokens=10), is_stored=True, request_id="their/own-id"),
        private,
        replace(failed, code="upstream_timeout", target="local", attempts=2),
        replace(refused, code="rate_limit_exceeded"),
    )


def test_a_request_id_finds_a_stored_turn_with_its_timeline(ledger: Path) -> None:
    result = explain(ledger, id="their/own-id")
    assert result.stdout.startswith("resp_a  completed\n")
    assert "request to first for model-x" in result.stdout
    assert "Cost: unknown, because the model has no price." in result.stdout


def test_a_turn_that_is_not_stored_is_explained_from_the_ledger(ledger: Path) -> None:
    lines = explain(ledger, id="req_resp_private").stdout.splitlines()
    assert lines[0] == "resp_private  completed"
    assert "Completed normally." in lines
    assert "50 input tokens, 50 output tokens." in lines
    assert "Cost: $0.001200." in lines
    assert 'Prompt, answer and events were not stored ("store": false, or a ' in "\n".join(lines)


@pytest.mark.parametrize(
    ("id", "sentence"),
    [
        ("req_resp_failed", "Failed: the gateway timed out waiting for the upstream (upstream_timeout: "),
        ("req_resp_refused", "Refused: the gateway ended the response (rate_limit_exceeded: "),
        ("req_resp_f", "There were 2 attempts."),
    ],
)
def test_failed_and_refused_turns_are_explained(ledger: Path, id: str, sentence: str) -> None:
    assert sentence in explain(ledger, id=id).stdout


def test_a_deleted_response_is_explained_from_the_ledger(tmp_path: Path) -> None:
    path = with_records(tmp_path / "store.db", replace(ended(started("resp_x")), is_stored=True))
    assert "The response is no longer in the store" in explain(path, id="resp_x").stdout


def test_the_newest_turn_and_the_newest_failure_need_no_id(ledger: Path) -> None:
    assert explain(ledger, "--last", id="").stdout.startswith("resp_private  completed\n")
    failed = explain(ledger, "--last", "--failed", "--json", id="")
    assert json.loads(failed.stdout)["ledger"]["request_id"] == "req_resp_failed"


def test_an_ambiguous_beginning_lists_candidates(ledger: Path) -> None:
    result = explain(ledger, id="req_")
    assert result.returncode == 1
    assert "several turns have an id that begins with req_, such as req_resp_refused" in result.stderr


def test_of_several_turns_with_one_request_id_the_newest_is_explained(tmp_path: Path) -> None:
    records = [replace(ended(started(f"resp_{each}", NOON + each)), request_id="same") for each in range(3)]
    result = explain(with_records(tmp_path / "store.db", *records), id="same")
    assert result.stdout.startswith("resp_2  completed\n")
    assert "3 turns have the request id same; this is the newest" in result.stderr


def test_without_turns_the_last_one_is_a_sentence(tmp_path: Path) -> None:
    result = explain(with_records(tmp_path / "store.db"), "--last", id="")
    assert result.returncode == 1
    assert "has no turn yet: `penstock turns` lists what there is" in result.stderr


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("", (), "pass the id of a response or of a request, or --last"),
        ("resp_a", ("--last",), "pass the id of a response or of a request, or --last"),
        ("resp_a", ("--failed",), "--failed needs --last"),
    ],
)
def test_wrong_options_say_what_to_do(
    tmp_path: Path, id: str, options: tuple[str, ...], message: str
) -> None:
    result = explain(tmp_path / "store.db", *options, id=id)
    assert result.returncode == 2
    assert message in result.stderr


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_the_text_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    path = make_store(tmp_path / "store.db", fallback_turn())
    text = explain(path, "--content", columns=str(columns)).stdout
    assert max(map(len, text.splitlines())) <= columns
    assert "34 output tokens" in " ".join(text.split())


@pytest.mark.e2e
def test_turns_of_a_running_gateway_are_listed_and_explained(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    with gateway(tmp_path) as running:
        private = running.whole("demo", store=False, headers={"x-request-id": "ticket-7"})
        failed = running.stream("demo", "fail in the middle")
        stored = running.stream("demo", "Hello!")
        for reply in (private, failed, stored):
            running.verdict(reply.headers["x-request-id"])
        of_gateway = penstock("turns", "--base-url", f"{running.url}/v1", "--json")
        of_file = penstock("turns", "--store", str(store), "--json")
        assert (of_file.returncode, of_file.stdout) == (0, of_gateway.stdout)
        assert [json.loads(line)["outcome"] for line in of_file.stdout.splitlines()] == [
            "completed",
            "failed",
            "completed",
        ]
        by_request = explain(store, id="ticket-7").stdout
        assert by_request.startswith(f"{private.last['id']}  completed\n")
        assert 'not stored ("store": false' in by_request
        newest_failure = explain(store, "--last", "--failed", id="").stdout
        assert newest_failure.startswith(f"{failed.last['id']}  failed\n")
        assert "failed (last event" in newest_failure  # it is stored, so there is a timeline
