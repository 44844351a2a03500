"""Compaction (ask G4): any model compacts a conversation, over every route, for its own tenant only."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from penstock.gateway.api.compact import INSTRUCTION
from penstock.gateway.app import GatewayApp
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.compactions import Summary
from penstock.gateway.history.sealing import Sealer
from penstock.gateway.http.asgi import Message
from penstock.gateway.settings import ClientKey, Limits, Settings
from penstock.store.memory import MemoryStore
from penstock.upstream.target import UpstreamTarget
from tests.client.server import answer as answered
from tests.client.server import in_a_thread, run
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import RELEASES, Reply, Running, judge
from tests.gateway.stored_responses import sent_to
from tests.gateway.upstream import (
    USAGE,
    ScriptedUpstream,
    begun,
    said,
    streamed,
    until_gone,
)
from tests.protocol.schema import complaints

SEALER = Sealer("the secret of these tests")


TRIGGER = {"type": "compaction_trigger"}


QUESTION = {"type": "message", "role": "user", "content": "where is the lamp?"}


LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}


KEYS = {"alice": "pk-alice", "bob": "pk-bob"}


class Client:
    """A client of a gateway in the same process."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def ask(
        self,
        path: str,
        key: str = "",
        method: str = "POST",
        leaves: Callable[[], Any] | None = None,
        **body: Any,
    ) -> Reply:
        """Return the answer. The client disconnects when `leaves` is set."""
        sent: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode()}]
        replied: list[Message] = []

        async def receive() -> Message:
            while not sent and not (leaves and leaves()):
                await asyncio.sleep(0.005)
            return sent.pop() if sent else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            replied.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers += [(b"authorization", f"Bearer {key}".encode())] if key else []
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        await GatewayApp(self.gateway)(scope, receive, send)
        if not replied:
            return Reply(0, {}, b"")
        named = {name.decode(): value.decode() for name, value in replied[0]["headers"]}
        return judge(replied[0]["status"], named, b"".join(each["body"] for each in replied[1:]))

    async def compact(self, model: str, *items: Any, **fields: Any) -> Reply:
        return await self.ask("/v1/responses/compact", model=model, input=list(items), **fields)

    async def create(self, model: str, *items: Any, **fields: Any) -> Reply:
        return await self.ask("/v1/responses", model=model, input=list(items), **fields)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedUpstream]:
    upstream = ScriptedUpstream()
    with in_a_thread(upstream):
        yield upstream


@pytest.fixture
def served(scripted: ScriptedUpstream) -> Callable[..., Any]:
    """Runs a test with a client of a gateway whose models are all at the scripted upstream."""

    def serve(test: Callable[[Client], Awaitable[None]], **settings: Any) -> None:
        async def whole() -> None:
            targets = (UpstreamTarget(name="chat", base_url=f"{scripted.url}/v1"),)
            limits = Limits(retries=settings.pop("retries", 0))
            chosen = Settings(targets=targets, passthrough="chat", limits=limits, **settings)
            gateway = Gateway(chosen, store=MemoryStore(), sealer=SEALER)
            try:
                await test(Client(gateway))
            finally:
                await gateway.aclose()

        run(whole())

    return serve


def summary_in(item: Any, tenant: str = "local") -> Summary:
    assert item.keys() == {"type", "id", "status", "encrypted_content"}
    assert (item["type"], item["status"], item["id"][:4]) == ("compaction", "completed", "cmp_")
    data = SEALER.open(tenant, item["encrypted_content"])
    assert data is not None
    return msgspec.json.decode(data, type=Summary)


def messages(scripted: ScriptedUpstream, model: str, which: int = -1) -> list[tuple[str, Any]]:
    sent = scripted.asked_for(model)[which].json["messages"]
    return [(each["role"], each.get("content")) for each in sent]


# The endpoint


def test_the_endpoint_answers_with_one_compaction(served: Any, scripted: ScriptedUpstream) -> None:
    model = scripted.play("compacts", streamed(*said("The lamp is in lamp.py.")))

    async def test(client: Client) -> None:
        reply = await client.compact(model, QUESTION, instructions="be kind", prompt_cache_key="k")
        assert reply.status == 200
        body = reply.json
        assert body["object"] == "response.compaction"
        for release in RELEASES[:1]:  # the release that brought it
            assert complaints(release, "CompactResource", body) == []
        [item] = body["output"]
        made = summary_in(item)
        assert (made.summary, made.model) == ("The lamp is in lamp.py.", model)
        assert made.created_at >= body["created_at"] > 0
        usage = body["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (11, 7)
        assert messages(scripted, model) == [
            ("system", "be kind"),
            ("user", "where is the lamp?"),
            ("user", INSTRUCTION),
        ]

    served(test)


def test_the_demo_model_compacts(served: Any) -> None:
    async def test(client: Client) -> None:
        reply = await client.ask("/v1/responses/compact", model="demo", input="hello")
        [item] = reply.json["output"]
        assert summary_in(item).summary
        assert reply.json["usage"]["output_tokens"] > 0

    served(test)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "hello"}, "model"),
        ({"model": "demo"}, "input"),
        ({"model": "demo", "input": []}, "input"),
        ({"model": "demo", "instructions": "be brief"}, "input"),
        ({"model": "demo", "input": [TRIGGER]}, "input"),
        ({"model": "demo", "previous_response_id": "resp_nowhere"}, "previous_response_id"),
    ],
)
def test_a_missing_parameter_is_named(served: Any, body: dict[str, Any], param: str) -> None:
    async def test(client: Client) -> None:
        reply = await client.ask("/v1/responses/compact", **body)
        assert (reply.status, reply.error["param"]) == (400, param)

    served(test, default_model="demo")


def test_a_stored_chain_is_compacted(served: Any, scripted: ScriptedUpstream) -> None:
    model = scripted.play("chain", streamed(*said("on the table")), streamed(*said("All of it.")))

    async def test(client: Client) -> None:
        first = await client.create(model, QUESTION)
        reply = await client.ask("/v1/responses/compact", model=model, previous_response_id=first.last["id"])
        assert summary_in(reply.json["output"][0]).summary == "All of it."
        sent = messages(scripted, model)
        assert sent[:2] == [("user", "where is the lamp?"), ("assistant", "on the table")]
        found = await client.ask(f"/v1/responses/{reply.json['id']}", method="GET")
        assert found.status == 404  # it is not a response, and cannot be continued

    served(test)


def test_usage_that_is_not_reported_is_that_of_the_summary(served: Any, scripted: ScriptedUpstream) -> None:
    words = "lamp " * 50
    model = scripted.play("uncounted", streamed(*said(words)[:-1]))

    async def test(client: Client) -> None:
        reply = await client.compact(model, QUESTION)
        assert 40 <= reply.json["usage"]["output_tokens"] <= 70

    served(test)


# The trigger


@pytest.mark.parametrize("stream", [True, False])
def test_a_trigger_gets_one_compaction_and_nothing_else(
    served: Any, scripted: ScriptedUpstream, stream: bool
) -> None:
    model = scripted.play(f"triggered-{stream}", streamed(*said("The lamp is in lamp.py.")))

    async def test(client: Client) -> None:
        reply = await client.create(
            model,
            QUESTION,
            TRIGGER,
            stream=stream,
            tools=[LOOK],
            tool_choice="required",
            max_output_tokens=99,
        )
        assert (reply.status, reply.last["status"]) == (200, "completed")
        [item] = reply.last["output"]
        assert summary_in(item).summary == "The lamp is in lamp.py."
        assert reply.last["usage"]["output_tokens"] == 7
        if stream:
            assert reply.types == [
                "response.created",
                "response.in_progress",
                "response.output_item.added",
                "response.output_item.done",
                "response.completed",
            ]
        sent = scripted.asked_for(model)[0].json
        assert not {"tools", "tool_choice"} & sent.keys()
        assert 99 in sent.values()
        assert messages(scripted, model) == [("user", "where is the lamp?"), ("user", INSTRUCTION)]
        kept = await client.ask(f"/v1/responses/{reply.last['id']}", method="GET")
        assert kept.json == reply.last

    served(test)


def test_a_trigger_works_in_the_background(served: Any, scripted: ScriptedUpstream) -> None:
    model = scripted.play("later", streamed(*said("Later.")))

    async def test(client: Client) -> None:
        reply = await client.create(model, QUESTION, TRIGGER, background=True, stream=True)
        assert "response.queued" in reply.types
        assert summary_in(reply.last["output"][0]).summary == "Later."

    served(test)


def test_tools_that_came_as_items_are_not_offered(served: Any, scripted: ScriptedUpstream) -> None:
    model = scripted.play("toolless", streamed(*said("No tools.")))

    async def test(client: Client) -> None:
        more = {"type": "additional_tools", "role": "developer", "tools": [LOOK]}
        found = {"type": "tool_search_output", "call_id": "c", "tools": [LOOK]}
        reply = await client.create(model, more, QUESTION, found, TRIGGER)
        assert summary_in(reply.last["output"][0]).summary == "No tools."
        assert "tools" not in scripted.asked_for(model)[0].json

    served(test)


# Failures


def test_a_compaction_fails_like_any_turn(served: Any, scripted: ScriptedUpstream) -> None:
    refused = answered(429, {"error": {"message": "slow down"}}, retry_after="7")
    model = scripted.play("limited", [refused])

    async def test(client: Client) -> None:
        for ask in (client.compact(model, QUESTION), client.create(model, QUESTION, TRIGGER, stream=True)):
            reply = await ask
            assert (reply.status, reply.error["code"]) == (429, "rate_limit_exceeded")
            assert reply.headers["retry-after"] == "7"

    served(test)


BREAKS = streamed(chat_chunk({"content": "half a"}), done=False)


CUT = streamed(chat_chunk({"content": "half a"}), chat_chunk(finish="length"), USAGE)


FILTERED = streamed(chat_chunk({"content": "half a"}), chat_chunk(finish="content_filter"), USAGE)


BLANK = streamed(chat_chunk({"content": " \n"}), chat_chunk(finish="stop"), USAGE)


@pytest.mark.parametrize(
    ("name", "script", "status", "code"),
    [
        ("breaks", BREAKS, 502, "upstream_truncated"),
        ("cut", CUT, 502, "upstream_truncated"),
        ("filtered", FILTERED, 400, "content_filter"),
        ("blank", BLANK, 502, "upstream_empty"),
    ],
)
def test_an_incomplete_summary_is_a_failure(
    served: Any, scripted: ScriptedUpstream, name: str, script: Any, status: int, code: str
) -> None:
    model = scripted.play(name, script)

    async def test(client: Client) -> None:
        reply = await client.compact(model, QUESTION)
        assert (reply.status, reply.error["code"]) == (status, code)
        streamed = await client.create(model, QUESTION, TRIGGER, stream=True)
        assert streamed.last["status"] in ("incomplete", "failed")
        assert streamed.last["output"] == []

    served(test)


def test_a_summary_that_broke_off_is_retried(served: Any, scripted: ScriptedUpstream) -> None:
    """Nothing was sent yet, however much had been received."""
    model = scripted.play("again", BREAKS, streamed(*said("Whole.")))

    async def test(client: Client) -> None:
        reply = await client.create(model, QUESTION, TRIGGER, stream=True)
        assert summary_in(reply.last["output"][0]).summary == "Whole."

    served(test, retries=1)


def test_a_client_that_disconnects_ends_the_call(served: Any, scripted: ScriptedUpstream) -> None:
    gone = threading.Event()
    model = scripted.play("left", [*begun(chat_chunk({"content": "half"})), until_gone(gone)])

    async def test(client: Client) -> None:
        reply = await client.ask(
            "/v1/responses/compact",
            leaves=lambda: scripted.asked_for(model),
            model=model,
            input=[QUESTION],
        )
        assert reply.status == 0
        assert await asyncio.to_thread(gone.wait, 5)
        assert client.gateway.running() == 0

    served(test)


# Compactions in the input


def item_of(tenant: str, summary: str, sealer: Sealer = SEALER) -> dict[str, str]:
    data = msgspec.json.encode(Summary(summary, "m", 1))
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": sealer.seal(tenant, data)}


def test_a_compaction_is_sent_as_its_summary(served: Any, scripted: ScriptedUpstream) -> None:
    model = scripted.play("returns", streamed(*said("{The} lamp is in lamp.py.")), streamed(*said("yes")))

    async def test(client: Client) -> None:
        output = (await client.compact(model, QUESTION)).json["output"]
        reply = await client.create(model, *output, {"role": "user", "content": "is it?"})
        assert reply.text == "yes"
        [(role, content), last] = messages(scripted, model)
        assert role == "user"
        assert "<summary>\n{The} lamp is in lamp.py.\n</summary>" in content
        assert last == ("user", "is it?")

    served(test)


def test_a_compaction_is_compacted_again(served: Any, scripted: ScriptedUpstream) -> None:
    model = scripted.play("twice", streamed(*said("first summary")), streamed(*said("second summary")))

    async def test(client: Client) -> None:
        output = (await client.compact(model, QUESTION)).json["output"]
        again = (await client.compact(model, *output, QUESTION)).json["output"]
        assert summary_in(again[0]).summary == "second summary"
        assert "first summary" in messages(scripted, model)[0][1]

    served(test)


def test_another_tenant_cannot_read_a_compaction(served: Any, scripted: ScriptedUpstream) -> None:
    """Ask K1: like a foreign compaction."""
    model = scripted.play("shared", streamed(*said("the secret plan")), streamed(*said("a summary")))
    keys = tuple(ClientKey(name=name, digest=sha256(key.encode()).digest()) for name, key in KEYS.items())

    async def test(client: Client) -> None:
        path = "/v1/responses/compact"
        mine = await client.ask(path, KEYS["alice"], model=model, input=[QUESTION])
        [item] = mine.json["output"]
        assert summary_in(item, "alice").summary == "the secret plan"
        foreign = {"type": "compaction", "encrypted_content": "gAAAAABforeign"}
        headers = []
        for given in (item, foreign):
            reply = await client.ask(path, KEYS["bob"], model=model, input=[given, QUESTION])
            assert messages(scripted, model) == [("user", "where is the lamp?"), ("user", INSTRUCTION)]
            headers.append(reply.headers["x-penstock-diagnostics"])
        assert headers[0] == headers[1]
        assert "compaction_unreadable" in headers[0]

    served(test, keys=keys)


def test_an_answer_that_is_not_streamed_is_summarised_too(served: Any, scripted: ScriptedUpstream) -> None:
    body = {
        "id": "c",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Whole."}, "finish_reason": "stop"}
        ],
        "usage": USAGE["usage"],
    }
    model = scripted.play("unstreamed", [answered(200, body)])

    async def test(client: Client) -> None:
        assert summary_in((await client.compact(model, QUESTION)).json["output"][0]).summary == "Whole."

    served(test)


FOREIGN = {"type": "compaction", "id": "cmp_foreign", "encrypted_content": "gAAAAABforeign"}


@pytest.mark.e2e
@pytest.mark.parametrize("way", ["endpoint", "trigger", "trigger, streamed"])
def test_any_model_compacts_and_reads_its_own(
    penstock: Running, upstream: ScriptedUpstream, way: str
) -> None:
    model = upstream.play(f"g4-{way}", streamed(*said("the lamp is blue")), streamed(*said("blue")))
    history = [{"role": "user", "content": "which lamp?"}]
    if way == "endpoint":
        output = penstock.ask({"model": model, "input": history}, "/v1/responses/compact").json["output"]
    else:
        asked = {"model": model, "input": [*history, TRIGGER], "stream": "streamed" in way}
        output = penstock.ask(asked).last["output"]
    assert [item["type"] for item in output] == ["compaction"]
    assert "lamp" not in output[0]["encrypted_content"]
    given = [FOREIGN, *output, {"role": "user", "content": "which colour?"}]
    reply = penstock.ask({"model": model, "input": given})
    assert reply.text == "blue"
    assert "compaction_unreadable" in reply.headers["x-penstock-diagnostics"]
    [(_, summary), (_, question)] = sent_to(upstream, model, 1)
    assert "the lamp is blue" in summary
    assert question == "which colour?"
    assert b"foreign" not in upstream.asked_for(model)[1].body
