"""`penstock explain` and `penstock store` on the store of a gateway that is running, or was killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import penstock
from tests.client.server import answer, in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, SECRET_PROMPT, Live, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, begun, rest, said, streamed, until, until_gone

pytestmark = pytest.mark.e2e

CONFIG = """
passthrough = "first"

[limits]
patience = 0.3
retries = 0

[targets.first]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]

[targets.second]
base_url = "{url}/v1"

[models.both]
targets = ["first/busy", "second/ready"]
"""


@contextmanager
def started(folder: Path, upstream: ScriptedUpstream) -> Iterator[Running]:
    config = CONFIG.format(url=upstream.url)
    with gateway(folder, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as running:
        yield running


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def running(folder: Path, upstream: ScriptedUpstream) -> Iterator[Running]:
    with started(folder, upstream) as gateway:
        yield gateway


def tool(folder: Path, *words: str) -> str:
    """Run a command on the store of the running gateway."""
    result = penstock(*words, "--store", str(folder / "store.sqlite"))
    assert result.returncode == 0, result.stderr
    return result.stdout


def explained(folder: Path, id: str, until: str = "") -> str:
    """Return the explanation of a turn, which never has its content.

    A running gateway writes to the file with a small delay, so wait until `until` appears.
    """
    deadline = time.monotonic() + 10
    while True:
        text = tool(folder, "explain", id)
        assert [word for word in (SECRET_KEY, SECRET_PROMPT, SECRET_ANSWER) if word in text] == []
        if until in text:
            return text
        assert time.monotonic() < deadline, text


def id_in(live: Live) -> str:
    live.until(b"response.output_item.added")
    return live.body.partition(b'"id":"')[2].partition(b'"')[0].decode()


def exported(folder: Path, *words: str) -> list[Any]:
    return [json.loads(line) for line in tool(folder, "store", "export", *words).splitlines()]


def test_a_turn_with_a_fallback_is_explained(
    running: Running, folder: Path, upstream: ScriptedUpstream
) -> None:
    upstream.play("busy", [answer(429, {"error": {"message": f"no: {SECRET_PROMPT}"}})])
    upstream.play("ready", streamed(*said(SECRET_ANSWER)))
    id = running.stream("both").last["id"]
    text = explained(folder, id)
    assert "There were 2 attempts." in text
    assert "The request to upstream first (chat) for busy failed: HTTP 429" in text
    assert "The request to upstream second (chat) for ready was answered with HTTP 200." in text
    assert "Completed normally." in text
    assert "11 input tokens (5 cached), 7 output tokens (3 for reasoning)." in text
    assert "Diagnostic fell_back: " in text
    request = text.index("request to second for ready")
    assert text.index(" s  failed: ") < request
    assert request < text.index("opened message")
    (record,) = exported(folder, id)
    assert record["input"][0]["content"] == [{"type": "input_text", "text": SECRET_PROMPT}]
    assert [each["kind"] for each in record["traces"]][:4] == ["request", "failure", "request", "answer"]
    assert SECRET_KEY not in json.dumps(record)


def test_a_running_turn_is_explained(running: Running, folder: Path, upstream: ScriptedUpstream) -> None:
    go_on = threading.Event()
    script = [*begun(chat_chunk({"content": SECRET_ANSWER})), until(go_on), rest("more")]
    with running.live(upstream.play("slow", script)) as live:
        try:
            id = id_in(live)
            # The log and the traces of a running turn reach the file independently of each other.
            assert "Not ended" in explained(folder, id, until="opened message")
            answered = "The request to upstream first (chat) for slow was answered with HTTP 200."
            assert answered in explained(folder, id, until=answered)
            assert json.loads(tool(folder, "store", "stats", "--json"))["by_status"]["in_progress"] == 1
            assert "deleted" in tool(folder, "store", "prune", "--older-than", "0s")
            assert [each["id"] for each in exported(folder)] == [id], "what runs is not deleted"
        finally:
            go_on.set()
        assert live.rest().events[-1]["type"] == "response.completed"
    assert "Completed normally." in explained(folder, id)


def test_a_disconnected_client_is_reported(
    running: Running, folder: Path, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    with running.live(
        upstream.play("left", [*begun(chat_chunk({"content": "x"})), until_gone(gone)])
    ) as live:
        id = id_in(live)
    assert gone.wait(10)
    text = explained(folder, id, until="Cancelled: ")
    assert "the client disconnected (client_gone" in text
    assert "closed message" in text


def test_a_gateway_continues_after_its_store_was_pruned(running: Running, folder: Path) -> None:
    first = running.whole("demo").last["id"]
    tool(folder, "store", "prune", "--older-than", "0s")
    assert running.ask(path=f"/v1/responses/{first}", method="GET").status == 404
    second = running.whole("demo").last["id"]
    assert running.ask(path=f"/v1/responses/{second}", method="GET").json["status"] == "completed"
    assert running.whole("demo", previous_response_id=second).status == 200


def test_a_turn_whose_gateway_was_killed_is_explained(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    held = threading.Event()
    script = [*begun(chat_chunk({"content": SECRET_ANSWER})), until(held)]
    with started(tmp_path, upstream) as dying, dying.live(upstream.play("dies", script)) as live:
        id = id_in(live)
        explained(tmp_path, id, until="opened message")
        dying.process.kill()
        dying.process.wait(20)
    held.set()
    assert "Not ended" in explained(tmp_path, id), "looking at it does not end it"
    with started(tmp_path, upstream):
        text = explained(tmp_path, id)
    assert "Failed: the gateway ended the response (gateway_restarted" in text
    assert "request to first for dies" in text


@pytest.mark.parametrize("accent", ["openresponses", "openai", "copilot"])
def test_check_asks_a_gateway_for_the_accent_that_it_checks(accent: str, tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        url = f"{running.url}/v1"
        arguments = ("check", url, "--model", "demo", "--prompt", "think, then call a tool", "--json")
        result = penstock(*arguments, "--accent", accent)
        assert (result.returncode, json.loads(result.stdout)["violations"]) == (0, []), result.stderr
        verdicts = [line for line in running.log if line.get("event") == "turn"]
        assert [verdict["accent"] for verdict in verdicts] == [accent]
