"""Turns that nobody waits for: `background: true`."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from openai import OpenAI

from penstock.gateway.http.access import create_key
from tests.client.server import answer, in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.probes import refuses, wait_for
from tests.gateway.running import Reply, Running, gateway
from tests.gateway.stored_responses import TEXT_DELTA, begin, ended, events_only, get, id_in
from tests.gateway.upstream import ScriptedUpstream, begun, rest, said, streamed, until, until_gone

pytestmark = pytest.mark.e2e


def test_a_turn_is_queued_at_once_and_polled_to_its_end(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    model = upstream.play("later", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    id = begin(penstock, model)["id"]
    assert get(penstock, id).json["status"] in ("queued", "in_progress")
    opened.set()
    whole = ended(penstock, id)
    assert (whole["status"], whole["output"][0]["content"][0]["text"]) == ("completed", "ab")
    assert whole["background"] is True
    types = get(penstock, f"{id}?stream=true").types
    assert types[:3] == ["response.created", "response.queued", "response.in_progress"]


def test_it_is_streamed_and_goes_on_when_its_client_left(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    model = upstream.play("later-left", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    with penstock.live(model, background=True) as live:
        id = id_in(live)
        live.until(TEXT_DELTA)
    opened.set()
    assert ended(penstock, id)["status"] == "completed"
    again = get(penstock, f"{id}?stream=true")
    assert again.text == "ab"
    assert again.body.startswith(events_only(live.body))
    assert len(upstream.asked_for(model)) == 1


def test_a_whole_stream_is_lawful_and_is_what_is_kept(penstock: Running) -> None:
    told = penstock.stream("demo", "say exactly: hello", background=True)
    assert (told.text, told.types[-1]) == ("hello", "response.completed")
    id = told.last["id"]
    assert get(penstock, f"{id}?stream=true").body == events_only(told.body)
    assert get(penstock, id).json == told.last


def test_signs_of_life_are_events_of_its_log(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Decision 10: Codex counts nothing else, whoever it is that waits."""
    opened = threading.Event()
    upstream.play("slow-behind", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    with penstock.live("slow-behind", background=True) as live:
        live.until(b"event: response.in_progress", times=2)
        opened.set()
        told = live.rest()
    assert told.types[-1] == "response.completed"


def test_it_is_cancelled(penstock: Running, upstream: ScriptedUpstream) -> None:
    gone = threading.Event()
    model = upstream.play("later-cancel", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    id = begin(penstock, model)["id"]
    wait_for(lambda: upstream.asked_for(model))
    cancelled = penstock.ask(path=f"/v1/responses/{id}/cancel").json
    assert cancelled["status"] == "cancelled"
    assert gone.wait(10)
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").json == cancelled
    assert get(penstock, f"{id}?stream=true").types[-1] == "response.incomplete"


def test_it_is_cancelled_before_it_has_asked_anybody(penstock: Running, upstream: ScriptedUpstream) -> None:
    model = upstream.play("later-at-once", [until_gone(threading.Event())])
    id = begin(penstock, model)["id"]
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"


@pytest.mark.parametrize("code", [400, 401, 429, 500])
def test_a_refusal_of_the_upstream_is_told_in_the_record(
    penstock: Running, upstream: ScriptedUpstream, code: int
) -> None:
    """There is no status left to tell it with."""
    model = upstream.play(f"later-{code}", [answer(code, {"error": {"message": "no"}})])
    failed = ended(penstock, begin(penstock, model)["id"])
    assert failed["status"] == "failed"
    assert failed["error"]["code"]
    assert get(penstock, f"{failed['id']}?stream=true").types[-1] == "response.failed"


def test_what_is_wrong_with_the_request_is_told_at_once(penstock: Running) -> None:
    refused = penstock.whole("demo", background=True, store=False)
    assert (refused.status, refused.error["param"]) == (400, "store")
    unknown = penstock.whole("demo", background=True, previous_response_id="resp_no")
    assert unknown.error["code"] == "previous_response_not_found"
    assert penstock.whole("demo", background=True, temperature=99).error["param"] == "temperature"


def test_it_is_continued_while_it_runs(penstock: Running, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    model = upstream.play("later-chain", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    id = begin(penstock, model, prompt="first")["id"]
    replies: list[Reply] = []
    follow = upstream.play("later-chain-2", streamed(*said("next")))
    asking = threading.Thread(
        target=lambda: replies.append(penstock.whole(follow, "second", previous_response_id=id))
    )
    asking.start()
    opened.set()
    asking.join(20)
    assert replies[0].text == "next"
    sent = [each["content"] for each in upstream.asked_for(follow)[0].json["messages"]]
    assert sent == ["first", "ab", "second"]


def test_another_tenant_cannot_find_or_cancel_it(tmp_path: Path) -> None:
    (mine, first), (theirs, second) = create_key("mine"), create_key("theirs")
    scripted, opened = ScriptedUpstream(), threading.Event()
    with in_a_thread(scripted):
        config = f"{CONFIG.format(url=scripted.url)}\n{first}\n{second}\n"
        with gateway(tmp_path, config=config) as running:
            scripted.play("m", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
            me, them = {"x-api-key": mine}, {"x-api-key": theirs}
            id = begin(running, "m", headers=me)["id"]
            for path, method in (("", "GET"), ("?stream=true", "GET"), ("/cancel", "POST"), ("", "DELETE")):
                refused = running.ask(path=f"/v1/responses/{id}{path}", method=method, headers=them)
                assert refused.error["code"] == "response_not_found"
            opened.set()
            assert ended(running, id, headers=me)["status"] == "completed"


def test_it_may_end_after_sigterm(tmp_path: Path) -> None:
    """It survives its client, and the process waits for it as for others."""
    scripted, opened = ScriptedUpstream(), threading.Event()
    with in_a_thread(scripted):
        config = CONFIG.format(url=scripted.url)
        with gateway(tmp_path, config=config) as running:
            scripted.play("m", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
            id = begin(running, "m")["id"]
            wait_for(lambda: scripted.asked_for("m"))
            running.signal(signal.SIGTERM)
            wait_for(lambda: refuses(running))
            opened.set()
            assert running.process.wait(20) == 0
        with gateway(tmp_path, config=config) as running:
            kept = get(running, id).json
            assert (kept["status"], kept["output"][0]["content"][0]["text"]) == ("completed", "ab")


def test_the_end_of_the_process_is_told_in_the_record(tmp_path: Path) -> None:
    scripted, gone = ScriptedUpstream(), threading.Event()
    with in_a_thread(scripted):
        config = CONFIG.format(url=scripted.url).replace("retries = 0", "retries = 0\ndrain = 0.3")
        with gateway(tmp_path, config=config) as running:
            scripted.play("m", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
            id = begin(running, "m")["id"]
            wait_for(lambda: scripted.asked_for("m"))
            running.signal(signal.SIGTERM)
            assert running.process.wait(20) == 0
        assert gone.wait(10)
        with gateway(tmp_path, config=config) as running:
            kept = get(running, id).json
            assert (kept["status"], kept["error"]["code"]) == ("failed", "shutting_down")


def test_openai_python_polls(penstock: Running) -> None:
    with OpenAI(base_url=f"{penstock.url}/v1", api_key="x", max_retries=0) as client:
        made = client.responses.create(model="demo", input="say exactly: later", background=True)
        assert made.status == "queued"
        wait_for(lambda: client.responses.retrieve(made.id).status == "completed")
        assert client.responses.retrieve(made.id).output_text == "later"
