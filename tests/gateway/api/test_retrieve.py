"""Stored responses: retrieved, resumed, cancelled, deleted (ask G1 to ask G9)."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from openai import OpenAI

from penstock.gateway.gateway import Gateway
from penstock.gateway.http.access import create_key
from penstock.gateway.settings import ClientKey, Settings
from penstock.store.records import LOCAL, StoredResponse
from penstock.store.sqlite.archive import SqliteArchive
from tests.client.server import cut
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.fake_upstreams import paused_upstream
from tests.gateway.in_process import Caller, call, with_gateway
from tests.gateway.probes import kill, wait_for
from tests.gateway.running import Live, Running, gateway
from tests.gateway.scripts import text
from tests.gateway.stored_responses import (
    TEXT_DELTA,
    begin,
    ended,
    events_only,
    get,
    id_in,
    sent_to,
)
from tests.gateway.upstream import (
    ScriptedUpstream,
    begun,
    rest,
    said,
    streamed,
    until,
    until_gone,
)


def delete(running: Running, id: str) -> Any:
    """Delete a response. The answer is not checked: its object is `response`, but it is not one."""
    connection = running.connect()
    connection.request("DELETE", f"/v1/responses/{id}")
    body = json.loads(connection.getresponse().read())
    connection.close()
    return body


@pytest.mark.e2e
def test_a_response_is_retrieved_as_it_was_answered(penstock: Running) -> None:
    format = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    for fields in ({}, {"text": {"format": format}}, {"metadata": {"a": "b"}}):
        for reply in (penstock.stream("demo", **fields), penstock.whole("demo", **fields)):
            assert reply.last["store"] is True
            assert get(penstock, reply.last["id"]).json == reply.last


@pytest.mark.e2e
def test_a_response_is_retrieved_in_the_clients_accent(penstock: Running) -> None:
    format = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    made = penstock.stream("demo", text={"format": format}, accent="openai").last
    id = made["id"]
    assert get(penstock, f"{id}?accent=openai", accent="openai").json == made
    assert get(penstock, id).json["text"]["format"]["schema"] is None


@pytest.mark.e2e
def test_a_response_with_store_false_is_not_found(penstock: Running) -> None:
    reply = penstock.whole("demo", store=False)
    assert reply.last["store"] is False
    missing = get(penstock, reply.last["id"])
    assert (missing.status, missing.error["code"]) == (404, "response_not_found")
    follow = penstock.whole("demo", previous_response_id=reply.last["id"])
    assert (follow.status, follow.error["code"]) == (400, "previous_response_not_found")
    assert follow.error["param"] == "previous_response_id"


@pytest.mark.e2e
def test_failed_and_interrupted_responses_are_stored(penstock: Running, upstream: ScriptedUpstream) -> None:
    broken = streamed(chat_chunk({"content": "half"}), {"error": {"message": "no more"}})
    failed = penstock.stream(upstream.play("kept-failed", broken)).last
    cut = streamed(chat_chunk({"content": "half"}), chat_chunk(finish="length"))
    incomplete = penstock.stream(upstream.play("kept-incomplete", cut)).last
    for made, status in ((failed, "failed"), (incomplete, "incomplete")):
        kept = get(penstock, made["id"]).json
        assert kept == made
        assert (kept["status"], kept["output"][0]["content"][0]["text"]) == (status, "half")


@pytest.mark.e2e
@pytest.mark.parametrize("accent", ["openresponses", "openai", "copilot"])
def test_a_stream_is_resumed(penstock: Running, upstream: ScriptedUpstream, accent: str) -> None:
    """Ask G6: while it runs, by two clients at once, from any event, byte for byte; the upstream gets one
    request."""
    opened = threading.Event()
    reasoned = begun(chat_chunk({"reasoning_content": "hm"}), chat_chunk({"content": "a"}))
    model = upstream.play(f"resumed-{accent}", [*reasoned, until(opened), rest("b")])
    with penstock.live(model, accent=accent) as live:
        id = id_in(live)
        readers = [penstock.connect() for _ in range(2)]
        for number, reader in enumerate(readers):
            path = f"/v1/responses/{id}?stream=true&starting_after={2 + number}"
            reader.request("GET", path, headers={"x-penstock-accent": accent})
        replies = [reader.getresponse() for reader in readers]
        beginnings = [reply.readline() for reply in replies]
        live.until(TEXT_DELTA)
        opened.set()
        whole = live.rest()
        read = [first + reply.read() for first, reply in zip(beginnings, replies, strict=True)]
        resumed = [events_only(each) for each in read]
        for reader in readers:
            reader.close()
    log = events_only(whole.body)
    for number, data in enumerate(resumed):
        assert log.endswith(data)
        first_event = json.loads(data.split(b"\n")[1].removeprefix(b"data: "))
        assert first_event["sequence_number"] == 3 + number
    headers = {"x-penstock-accent": accent}
    assert get(penstock, f"{id}?stream=true", accent=accent, headers=headers).body == log
    assert len(upstream.asked_for(model)) == 1


@pytest.mark.e2e
def test_a_stream_is_resumed_in_another_accent(penstock: Running, upstream: ScriptedUpstream) -> None:
    chunks = [chat_chunk({"reasoning_content": "hm"}), *said("hello")]
    made = penstock.stream(upstream.play("accents", streamed(*chunks)))
    id = made.last["id"]
    for accent, name in (("openai", "reasoning_text"), ("openresponses", "reasoning")):
        headers = {"x-penstock-accent": accent}
        again = get(penstock, f"{id}?stream=true", accent=accent, headers=headers)
        assert f"response.{name}.delta" in again.types
        assert again.last["id"] == id


@pytest.mark.e2e
def test_resuming_after_the_last_event_returns_only_done(penstock: Running) -> None:
    made = penstock.stream("demo")
    last = made.events[-1]["sequence_number"]
    connection = penstock.connect()
    for after in (last, last + 1, 10**17):
        connection.request("GET", f"/v1/responses/{made.last['id']}?stream=true&starting_after={after}")
        assert connection.getresponse().read() == b"data: [DONE]\n\n"
    connection.close()


@pytest.mark.e2e
def test_a_client_that_disconnected_finds_the_partial_response(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """Decision 16."""
    gone = threading.Event()
    upstream.play("left", [*begun(chat_chunk({"content": "half an answer"})), until_gone(gone)])
    with penstock.live("left") as live:
        id = id_in(live)
        live.until(TEXT_DELTA)
    assert gone.wait(10)
    penstock.verdict(live.headers["x-request-id"])
    kept = get(penstock, id).json
    assert (kept["status"], kept["output"][0]["content"][0]["text"]) == ("cancelled", "half an answer")
    assert get(penstock, f"{id}?stream=true").types[-1] == "response.incomplete"


@pytest.mark.e2e
def test_a_response_is_cancelled_over_another_connection(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """Decision 6: the stream ends as incomplete and the record as cancelled; cancelling twice changes
    nothing."""
    gone = threading.Event()
    upstream.play("to-cancel", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
    with penstock.live("to-cancel") as live:
        id = id_in(live)
        live.until(TEXT_DELTA)
        assert get(penstock, id).json["status"] == "in_progress"
        assert delete(penstock, id)["error"]["code"] == "response_running"
        cancelled = penstock.ask(path=f"/v1/responses/{id}/cancel")
        reply = live.rest()
    assert gone.wait(10)
    assert (reply.types[-1], reply.last["incomplete_details"]) == (
        "response.incomplete",
        {"reason": "cancelled"},
    )
    assert cancelled.json["status"] == "cancelled"
    assert cancelled.json["output"][0]["content"][0]["text"] == "a"
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").json == cancelled.json
    assert get(penstock, id).json == cancelled.json
    assert penstock.verdict(live.headers["x-request-id"])["outcome"] == "cancelled"


@pytest.mark.e2e
def test_a_turn_that_waits_for_its_upstream_is_cancelled(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("silent", [until_gone(gone)])
    with penstock.live("silent") as live:
        id = id_in(live)
        assert penstock.ask(path=f"/v1/responses/{id}/cancel").json["status"] == "cancelled"
        assert live.rest().types[-1] == "response.incomplete"
    assert gone.wait(10)


@pytest.mark.e2e
def test_a_response_is_deleted_with_everything(penstock: Running) -> None:
    first = penstock.whole("demo", "say exactly: gone").last
    id, item = first["id"], first["output"][0]["id"]
    [given] = get(penstock, f"{id}/input_items").json["data"]
    follow = penstock.whole("demo", previous_response_id=id).last["id"]
    assert delete(penstock, id) == {"id": id, "object": "response", "deleted": True}
    for path in (id, f"{id}?stream=true", f"{id}/input_items"):
        assert get(penstock, path).status == 404
    assert delete(penstock, id)["error"]["code"] == "response_not_found"
    assert penstock.ask(path=f"/v1/responses/{id}/cancel").status == 404
    for previous in (id, follow):
        reply = penstock.whole("demo", previous_response_id=previous)
        assert reply.error["code"] == "previous_response_not_found"
    for each in (item, given["id"]):
        reply = penstock.ask({"model": "demo", "input": [{"type": "item_reference", "id": each}]})
        assert reply.error["code"] == "item_not_found"


@pytest.mark.e2e
def test_another_tenant_finds_nothing(tmp_path: Path) -> None:
    """Ask K1: on every route the same answer as for an unknown id."""
    (mine, first), (theirs, second) = create_key("mine"), create_key("theirs")
    with gateway(tmp_path, config=f"{first}\n{second}\n") as running:
        me, them = {"x-api-key": mine}, {"x-api-key": theirs}
        kept = running.whole("demo", headers=me).last
        id, item = kept["id"], kept["output"][0]["id"]
        never = f"{id[:-4]}none"
        for path, method in (
            ("", "GET"),
            ("?stream=true", "GET"),
            ("", "DELETE"),
            ("/cancel", "POST"),
            ("/input_items", "GET"),
        ):
            answers = [
                running.ask(path=f"/v1/responses/{each}{path}", method=method, headers=them)
                for each in (id, never)
            ]
            assert [each.status for each in answers] == [404, 404]
            assert answers[0].body.replace(id.encode(), b"") == answers[1].body.replace(never.encode(), b"")
        for path in ("/v1/responses", "/v1/responses/input_tokens"):
            body = {"model": "demo", "input": "x", "previous_response_id": id}
            assert running.ask(body, path, headers=them).error["code"] == "previous_response_not_found"
            reference = {"model": "demo", "input": [{"type": "item_reference", "id": item}]}
            assert running.ask(reference, path, headers=them).error["code"] == "item_not_found"
            assert running.ask(reference, path, headers=me).status == 200
        assert running.ask(path=f"/v1/responses/{id}", method="GET", headers=me).json == kept


@pytest.mark.e2e
@pytest.mark.parametrize("id", ["", "x" * 100_000, "resp_\x00", "../../etc", "r\u00e9sp", "a/b?c=d%00"])
def test_an_odd_id_is_not_found(penstock: Running, id: str) -> None:
    """No id that a client sends may cause an internal error."""
    follow = penstock.whole("demo", previous_response_id=id)
    assert follow.status == 200 if not id else follow.error["code"] == "previous_response_not_found"
    reference = penstock.ask({"model": "demo", "input": [{"type": "item_reference", "id": id}]})
    assert reference.error["code"] == "item_not_found"
    talk = penstock.whole("demo", conversation={"id": id or "none"})
    assert talk.error["code"] == "conversation_not_found"


@pytest.mark.e2e
def test_ids_chosen_by_clients_may_repeat(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Twice in one input, and in unrelated turns."""
    model = upstream.play("same-ids", streamed(*said("ok")))
    items = [{"id": "msg_mine", "role": "user", "content": f"part {number}"} for number in range(2)]
    for _ in range(2):
        made = penstock.ask({"model": model, "input": items}).last["id"]
    assert [content for _, content in sent_to(upstream, model, 1)] == ["part 0", "part 1"]
    data = get(penstock, f"{made}/input_items?order=asc").json["data"]
    assert [each["content"][0]["text"] for each in data] == ["part 0", "part 1"]
    penstock.whole(model, "more", previous_response_id=made)
    assert [content for _, content in sent_to(upstream, model, 2)] == ["part 0", "part 1", "ok", "more"]


@pytest.mark.e2e
def test_openai_python_retrieves_resumes_lists_and_deletes(penstock: Running) -> None:
    with OpenAI(base_url=f"{penstock.url}/v1", api_key="x", max_retries=0) as client:
        made = client.responses.create(model="demo", input="say exactly: kept")
        assert client.responses.retrieve(made.id).output_text == "kept"
        events = list(client.responses.retrieve(made.id, stream=True, starting_after=2))
        assert (events[0].sequence_number, events[-1].type) == (3, "response.completed")
        [item] = client.responses.input_items.list(made.id).data
        assert item.type == "message"
        assert client.responses.cancel(made.id).status == "completed"
        follow = client.responses.create(model="demo", input="x", previous_response_id=made.id)
        assert follow.previous_response_id == made.id
        client.responses.delete(made.id)
        assert get(penstock, made.id).status == 404


UNKNOWN = "resp_00000000000000000000000000000000"


@pytest.mark.e2e
@pytest.mark.parametrize("store", [True, False])
def test_every_snapshot_says_whether_the_response_is_stored(penstock: Running, store: bool) -> None:
    reply = penstock.stream("demo", "say exactly: ok", store=store)
    snapshots = [event["response"] for event in reply.events if "response" in event]
    assert [each["store"] for each in snapshots] == [store] * len(snapshots)
    assert [each["id"][:5] for each in snapshots] == ["resp_"] * len(snapshots)
    assert get(penstock, reply.last["id"]).status == (200 if store else 404)


# ask G6: a dropped stream


def number_of(live: Live) -> int:
    """The number of the last complete event that a client has read."""
    return int(re.findall(rb'"sequence_number":(\d+)', live.body.rpartition(b"\n\n")[0])[-1])


@pytest.mark.e2e
def test_a_dropped_stream_is_resumed_without_a_second_request(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """The client is cut off after event 17; it reconnects while the turn runs, and again after its end."""
    opened = threading.Event()
    words = text(*(f"{number} " for number in range(20)))
    model = upstream.play("g6", [*begun(*words), until(opened), rest("the end")])
    with penstock.live(model, background=True) as live:
        id = id_in(live)
        live.until(b'"sequence_number":17,')
    connection = penstock.connect()
    connection.request("GET", f"/v1/responses/{id}?stream=true&starting_after=17")
    reply = connection.getresponse()
    first_line = reply.readline()  # it is still running
    opened.set()
    resumed = events_only(first_line + reply.read())
    whole = get(penstock, f"{id}?stream=true")
    assert whole.text == "".join(f"{number} " for number in range(20)) + "the end"
    assert number_of(live) >= 17
    assert events_only(whole.body).endswith(resumed)
    assert json.loads(resumed.split(b"\n")[1].removeprefix(b"data: "))["sequence_number"] == 18
    connection.request("GET", f"/v1/responses/{id}?stream=true&starting_after=17")
    assert connection.getresponse().read() == resumed
    connection.close()
    assert len(upstream.asked_for(model)) == 1


@pytest.mark.e2e
def test_a_pruned_response_is_a_typed_error(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """The store is bounded: a pruned response is answered like an unknown id, and everything else works."""
    config = CONFIG.format(url=upstream.url)
    model = upstream.play("g6-expired", streamed(*said("ok")))
    with gateway(tmp_path, config=config) as running:
        made = running.stream(model, "hello").last
        assert get(running, made["id"]).status == 200
    bounded = config.replace("[limits]", '[limits]\nstore_bytes = "1B"')
    with gateway(tmp_path, config=bounded) as running:
        wait_for(lambda: get(running, made["id"]).status == 404)
        for path in ("", "?stream=true&starting_after=2", "/input_items"):
            reply = get(running, f"{made['id']}{path}")
            assert (reply.status, reply.error["code"]) == (404, "response_not_found")
        follow = running.stream(model, "x", previous_response_id=made["id"])
        assert (follow.status, follow.error["code"]) == (400, "previous_response_not_found")
        assert running.stream(model, "hello").text == "ok"


# ask G7: retrieve, delete, cancel


@pytest.mark.e2e
@pytest.mark.parametrize("id", [UNKNOWN, "nonsense", "x" * 300, "%2e%2e", "resp_%00"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "?stream=true"),
        ("GET", "?stream=true&starting_after=5"),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("GET", "/input_items"),
    ],
)
def test_an_unknown_id_is_a_404_in_json(penstock: Running, id: str, method: str, path: str) -> None:
    reply = penstock.ask(path=f"/v1/responses/{id}{path}", method=method)
    assert reply.headers["content-type"] == "application/json"
    assert (reply.status, reply.error["code"]) == (404, "response_not_found")


@pytest.mark.e2e
def test_cancelling_a_finished_response_changes_nothing(penstock: Running) -> None:
    made = penstock.whole("demo", "say exactly: ok").last
    for _ in range(2):
        reply = penstock.ask(path=f"/v1/responses/{made['id']}/cancel")
        assert (reply.status, reply.json) == (200, made)


# ask G8: what was interrupted


def is_on_disk(store: Path, id: str, text: bytes) -> bool:
    """Whether this part of a running response would survive a crash: deltas are written a moment later."""
    with SqliteArchive(store) as archive:
        return any(text in event.data for event in archive.events(LOCAL, id))


@pytest.mark.e2e
def test_an_interrupted_response_keeps_its_partial_output(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """The upstream, the client and the gateway stop in the middle of a sentence."""
    config, gone = CONFIG.format(url=upstream.url), threading.Event()
    half = begun(*text("half of it"))
    broken = upstream.play("g8-upstream", [*half, cut])
    left = upstream.play("g8-client", [*half, until_gone(gone)])
    killed = upstream.play("g8-gateway", [*half, until_gone(threading.Event())])
    with gateway(tmp_path, config=config) as running:
        ids = [running.stream(broken).last["id"]]
        with running.live(left) as live:
            ids.append(id_in(live))
            live.until(TEXT_DELTA)
        assert gone.wait(10)
        ended(running, ids[1])
        with running.live(killed) as live:
            ids.append(id_in(live))
            live.until(TEXT_DELTA)
            ids.append(begin(running, killed)["id"])
            wait_for(lambda: get(running, ids[3]).json["output"])
            wait_for(lambda: is_on_disk(tmp_path / "store.sqlite", ids[2], b"half"))
            kill(running)
    with gateway(tmp_path, config=config) as running:
        kept = [get(running, id).json for id in ids]
        streams = [get(running, f"{id}?stream=true") for id in ids]
    assert [each["status"] for each in kept] == ["failed", "cancelled", "failed", "failed"]
    assert [each["error"]["code"] for each in kept[2:]] == ["gateway_restarted"] * 2
    for response, stream in zip(kept, streams, strict=True):
        assert stream.last["output"] == response["output"]
    for response in kept[:3]:
        [item] = response["output"]
        assert (item["status"], item["content"][0]["text"]) == ("incomplete", "half of it")


# In this process


async def get_from(gateway: Gateway, path: str, **options: Any) -> Caller:
    return await call(gateway, f"/v1/responses/{path}", method="GET", **options)


@pytest.mark.parametrize("after", [0, 3, 5])
def test_a_stream_is_resumed_after_the_last_event_that_the_client_has(after: int) -> None:
    async def test(gateway: Gateway) -> None:
        first = await call(gateway, model="demo", input="say exactly: one two", stream=True)
        again = await get_from(gateway, f"{first.id}?stream=true&starting_after={after}")
        frames = first.body.split(b"\n\n")
        assert again.body == b"\n\n".join(frames[after + 1 :])

    with_gateway(test)


def test_a_running_stream_can_be_followed_by_several_clients() -> None:
    upstream, gate = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = Caller(gateway, model="m", input="Hi", stream=True)
        await first.received(b"output_text.delta")
        path = f"/v1/responses/{first.id}?stream=true"
        others = [Caller(gateway, path, method="GET") for _ in range(2)]
        for other in others:
            await other.received(b"output_text.delta")
        others[0].disconnect()
        await others[0].task
        gate.set()
        await asyncio.gather(first.task, others[1].task)
        assert others[1].body == first.body

    with_gateway(test, upstream)


@pytest.mark.parametrize("given", ["x", "-1", "1.5", "٣", "9" * 30])
def test_a_number_that_is_not_an_event_number_is_refused(given: str) -> None:
    async def test(gateway: Gateway) -> None:
        made = await call(gateway, input="say exactly: ok")
        refused = await get_from(gateway, f"{made.json['id']}?stream=true&starting_after={quote(given)}")
        assert (refused.status, refused.error["param"]) == (400, "starting_after")

    with_gateway(test)


def test_a_running_response_is_shown_cancelled_and_then_deleted() -> None:
    upstream, _ = paused_upstream()

    async def test(gateway: Gateway) -> None:
        first = Caller(gateway, model="m", input="Hi", stream=True)
        await first.received(b"output_text.delta")
        shown = (await get_from(gateway, first.id)).json
        assert (shown["status"], shown["output"][0]["content"][0]["text"]) == ("in_progress", "a")
        refused = await call(gateway, f"/v1/responses/{first.id}", method="DELETE")
        assert (refused.status, refused.error["code"]) == (409, "response_running")
        for _ in range(2):  # ask F3: cancelling twice is the same as once
            cancelled = await call(gateway, f"/v1/responses/{first.id}/cancel")
            assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        await first.task
        assert first.events[-1]["type"] == "response.incomplete"  # decision 6
        deleted = await call(gateway, f"/v1/responses/{first.id}", method="DELETE")
        assert deleted.json == {"id": first.id, "object": "response", "deleted": True}
        assert (await get_from(gateway, first.id)).status == 404

    with_gateway(test, upstream)


def test_a_response_of_another_tenant_is_like_one_that_never_was() -> None:
    """Ask K1."""
    keys = tuple(ClientKey(name=name, digest=sha256(name.encode()).digest()) for name in ("mine", "theirs"))

    async def test(gateway: Gateway) -> None:
        made = await call(gateway, input="say exactly: ok", headers={"x-api-key": "mine"})
        id = made.json["id"]
        assert (await get_from(gateway, id, headers={"x-api-key": "mine"})).status == 200
        unknown = id[:-4] + "0000"
        for method, path in (("GET", ""), ("GET", "?stream=true"), ("GET", "/input_items"), ("DELETE", "")):
            answers = [
                await call(
                    gateway, f"/v1/responses/{each}{path}", method=method, headers={"x-api-key": "theirs"}
                )
                for each in (id, unknown)
            ]
            assert [each.status for each in answers] == [404, 404]
            assert answers[0].body.replace(id.encode(), b"") == answers[1].body.replace(unknown.encode(), b"")

    with_gateway(test, settings=Settings(keys=keys))


@pytest.mark.parametrize("given", ["where?", [{"role": "user", "content": "where?"}]])
def test_stored_input_is_normalised(given: Any) -> None:
    """Field F9: the types of SDKs require parts, an id and a status, whatever the client sent."""

    async def test(gateway: Gateway) -> None:
        id = (await call(gateway, input=given)).json["id"]
        (item,) = (await get_from(gateway, f"{id}/input_items")).json["data"]
        assert item.pop("id").startswith("msg_")
        assert item == {
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "where?"}],
        }

    with_gateway(test)


def test_input_items_are_listed_in_pages() -> None:
    given = [{"type": "message", "role": "user", "content": str(number)} for number in range(5)]

    async def test(gateway: Gateway) -> None:
        id = (await call(gateway, input=given)).json["id"]
        seen: list[str] = []
        path = "input_items?order=asc&limit=2"
        while True:
            page = (await get_from(gateway, f"{id}/{path}")).json
            seen += [item["content"][0]["text"] for item in page["data"]]
            if not page["has_more"]:
                break
            path = f"input_items?order=asc&limit=2&after={page['last_id']}"
        assert seen == ["0", "1", "2", "3", "4"]
        assert (await get_from(gateway, f"{id}/input_items?limit=0")).error["param"] == "limit"

    with_gateway(test)


def test_a_stream_whose_events_were_pruned_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database drops the events of old responses before the responses that newer ones continue."""

    async def body(gateway: Gateway) -> None:
        answered = await call(gateway, input="Hello!")
        stored = await gateway.store.get(LOCAL, answered.json["id"])
        assert stored is not None

        async def without_log(tenant: str, id: str) -> StoredResponse | None:  # noqa: ARG001
            return replace(stored, has_log=False)

        monkeypatch.setattr(gateway.store, "get", without_log)
        path = f"/v1/responses/{answered.json['id']}"
        refused = await call(gateway, f"{path}?stream=true", method="GET")
        assert refused.status == 404
        assert "no longer stored" in refused.error["message"]
        assert (await call(gateway, path, method="GET")).status == 200

    with_gateway(body)
