"""Background turns (`background: true`): no client waits for them."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path

import pytest
from openai import OpenAI

from penstock.errors import AuthenticationError, StoreError
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key
from penstock.store.memory import MemoryStore
from tests.client.server import in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.fake_upstreams import FakeUpstream, paused_upstream
from tests.gateway.fake_upstreams import answer as text_answer
from tests.gateway.in_process import Caller, Json, call, with_gateway
from tests.gateway.probes import refuses, wait_for
from tests.gateway.running import Reply, Running, gateway
from tests.gateway.stored_responses import begin, ended, events_only, get
from tests.gateway.upstream import ScriptedUpstream, begun, rest, said, streamed, until, until_gone


@pytest.mark.e2e
def test_the_whole_stream_is_lawful_and_stored_as_it_was_sent(penstock: Running) -> None:
    reply = penstock.stream("demo", "say exactly: hello", background=True)
    assert (reply.text, reply.types[-1]) == ("hello", "response.completed")
    id = reply.last["id"]
    assert get(penstock, f"{id}?stream=true").body == events_only(reply.body)
    assert get(penstock, id).json == reply.last


@pytest.mark.e2e
def test_heartbeats_are_events_of_its_log(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Decision 10: Codex counts nothing else."""
    opened = threading.Event()
    upstream.play("slow-behind", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
    with penstock.live("slow-behind", background=True) as live:
        live.until(b"event: response.in_progress", times=2)
        opened.set()
        reply = live.rest()
    assert reply.types[-1] == "response.completed"


@pytest.mark.e2e
def test_a_background_turn_is_cancelled(penstock: Running, upstream: ScriptedUpstream) -> None:
    gone = threading.Event()
    model = upstream.play("later-cancel", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    id = begin(penstock, model)["id"]
    wait_for(lambda: upstream.asked_for(model))
    cancelled = penstock.ask(path=f"/v1/responses/{id}/cancel").json
    assert cancelled["status"] == "cancelled"
    assert gone.wait(10)
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").json == cancelled
    assert get(penstock, f"{id}?stream=true").types[-1] == "response.incomplete"


@pytest.mark.e2e
def test_a_background_turn_is_cancelled_before_an_upstream_is_asked(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("later-at-once", [until_gone(threading.Event())])
    id = begin(penstock, model)["id"]
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"


@pytest.mark.e2e
def test_a_wrong_request_is_refused_at_once(penstock: Running) -> None:
    refused = penstock.whole("demo", background=True, store=False)
    assert (refused.status, refused.error["param"]) == (400, "store")
    unknown = penstock.whole("demo", background=True, previous_response_id="resp_no")
    assert unknown.error["code"] == "previous_response_not_found"
    assert penstock.whole("demo", background=True, temperature=99).error["param"] == "temperature"


@pytest.mark.e2e
def test_a_background_turn_is_continued_while_it_runs(penstock: Running, upstream: ScriptedUpstream) -> None:
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


@pytest.mark.e2e
def test_another_tenant_cannot_find_or_cancel_a_background_turn(tmp_path: Path) -> None:
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


@pytest.mark.e2e
def test_a_background_turn_may_end_after_sigterm(tmp_path: Path) -> None:
    """It outlives its client, and the process waits for it like for any other turn."""
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


@pytest.mark.e2e
def test_the_end_of_the_process_is_recorded(tmp_path: Path) -> None:
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


@pytest.mark.e2e
def test_openai_python_polls(penstock: Running) -> None:
    with OpenAI(base_url=f"{penstock.url}/v1", api_key="x", max_retries=0) as client:
        made = client.responses.create(model="demo", input="say exactly: later", background=True)
        assert made.status == "queued"
        wait_for(lambda: client.responses.retrieve(made.id).status == "completed")
        assert client.responses.retrieve(made.id).output_text == "later"


# In this process


def test_the_answer_is_the_queued_response_and_the_turn_runs_without_its_client() -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        queued = await call(gateway, model="m", input="Hi", background=True)
        assert (queued.status, queued.json["status"], queued.json["output"]) == (200, "queued", [])
        path = f"/v1/responses/{queued.json['id']}"
        while not (running := (await call(gateway, path, method="GET")).json)["output"]:
            await asyncio.sleep(0.001)
        assert running["status"] == "in_progress"
        gate.set()
        await gateway.turns.ended.wait()
        whole = (await call(gateway, path, method="GET")).json
        assert (whole["status"], whole["output"][0]["content"][0]["text"]) == ("completed", "ab")
        log = await call(gateway, f"{path}?stream=true", method="GET")
        assert [event["type"] for event in log.events][:3] == [
            "response.created",
            "response.queued",
            "response.in_progress",
        ]

    with_gateway(test, upstream)


def test_the_queued_response_is_in_the_clients_accent() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}

    async def test(gateway: Gateway) -> None:
        for accent, expected in (("openresponses", None), ("openai", {"type": "object"})):
            options = {"model": "demo", "input": "Hi", "background": True, "text": {"format": schema}}
            queued = await call(gateway, f"/v1/responses?accent={accent}", **options)
            assert queued.json["text"]["format"]["schema"] == expected
        await gateway.turns.ended.wait()

    with_gateway(test)


def test_a_streaming_client_that_disconnects_leaves_the_turn_running(verdicts: list[Json]) -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", background=True, stream=True)
        await caller.received(b"output_text.delta")
        caller.disconnect()
        await caller.task
        assert len(gateway.turns) == 1
        gate.set()
        await gateway.turns.ended.wait()
        log = await call(gateway, f"/v1/responses/{caller.id}?stream=true", method="GET")
        assert log.text == "ab"

    with_gateway(test, upstream)
    assert verdicts[0]["outcome"] == "completed"


def test_a_background_turn_must_be_stored() -> None:
    async def test(gateway: Gateway) -> None:
        refused = await call(gateway, input="Hi", background=True, store=False)
        assert (refused.status, refused.error["param"]) == (400, "store")

    with_gateway(test)


def test_a_turn_that_the_store_does_not_take_is_refused_and_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, verdicts: list[Json]
) -> None:
    """After a crash there would be no record of it."""

    async def fail(*_: object, **__: object) -> bool:
        raise StoreError(StoreError.FULL, "the disk is full: planted path")

    monkeypatch.setattr(MemoryStore, "open", fail)
    upstream = FakeUpstream("only", text_answer("Yes."))

    async def test(gateway: Gateway) -> None:
        refused = await call(gateway, model="m", input="Hi", background=True)
        assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
        assert b"planted" not in refused.body

    with_gateway(test, upstream)
    assert upstream.requests == []
    assert (verdicts[0]["outcome"], verdicts[0]["closer"]) == ("refused", "gateway")


def test_a_refusal_of_the_upstream_is_in_the_record() -> None:
    """The client has already been answered, so an HTTP status is no longer possible."""
    upstream = FakeUpstream("only", AuthenticationError("no such key", status=401))

    async def test(gateway: Gateway) -> None:
        queued = await call(gateway, model="m", input="Hi", background=True)
        await gateway.turns.ended.wait()
        record = await call(gateway, f"/v1/responses/{queued.json['id']}", method="GET")
        assert (record.json["status"], record.json["error"]["code"]) == ("failed", "authentication_error")

    with_gateway(test, upstream)
