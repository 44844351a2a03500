"""`penstock explain`: run as a process on the file of a store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from penstock.store.sqlite.store import open_sqlite_store
from tests.cli.running import Result, penstock
from tests.explain.archives import CALL, CREATED, DELTA, IN_PROGRESS, MESSAGE, added, fallback_turn
from tests.stored_turns import ANSWER, BEGIN, CONTENT, ERROR, PROMPT, Turn, log, make_store


def explain(store: Path, *options: str, id: str = "resp_a") -> Result:
    return penstock("explain", id, "--store", str(store), *options)


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
    assert f"{path} has no response resp_b." in result.stderr
    assert "--store" in result.stderr


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = explain(tmp_path / "none.db")
    assert result.returncode == 2
    assert "none.db: there is no such file" in result.stderr
