"""Ask K1: an id of another tenant is answered exactly like an unknown one, wherever a client can send an
id."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.gateway.http.access import create_key
from penstock.gateway.routes import ROUTES
from tests.client.server import in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.api.crossings import (
    ROWS,
    SOCKET_ROWS,
    Answer,
    Ids,
    Row,
    filled,
    plain,
    post,
    unknown,
)
from tests.gateway.running import SECRET_KEY, Json, Running, gateway, read_all
from tests.gateway.scripts import TOOL_CALLS, call, calls, text
from tests.gateway.stored_responses import TEXT_DELTA, id_in
from tests.gateway.upstream import ScriptedUpstream, begun, rest, streamed, until
from tests.gateway.websocket_client import talking

pytestmark = pytest.mark.e2e

CONFIG = """
passthrough = "chat"
[limits]
retries = 0
[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""


WITHOUT_IDS = ("models", "models/*", "metrics", "usage")
"""Routes that need a key and take no id of a tenant. tests/gateway/api/test_ledger.py tests whose usage a key
sees; the others return nothing that belongs to a tenant."""


def test_every_route_has_a_row() -> None:
    """A new route is listed here with how it separates tenants, or as one that returns nothing of them."""
    names = {path: re.sub(r"{.*?}", "*", path) for path in ROUTES}
    routes = [(names[path], method) for path, methods in ROUTES.items() for method in methods]
    open_routes = [
        names[path] for path, methods in ROUTES.items() if all(each.is_open for each in methods.values())
    ]
    covered = {row.route for row in ROWS}
    forgotten = [
        each for each in routes if each not in covered and each[0] not in (*WITHOUT_IDS, *open_routes)
    ]
    assert forgotten == []


class Tenant:
    """A client with a key of its own."""

    def __init__(self, running: Running, upstream: ScriptedUpstream, key: str) -> None:
        self._running, self.upstream, self.key = running, upstream, key

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        before = len(self.upstream.asked)
        connection = self._running.connect()
        headers = {"x-api-key": self.key, "x-request-id": "same", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        reply = connection.getresponse()
        named = {name.lower(): value for name, value in reply.getheaders() if name.lower() not in VARYING}
        answer = read_all(reply).decode()
        connection.close()
        if reply.status == 200 and isinstance(body, dict) and body.get("background"):
            self.ask("GET", f"/v1/responses/{json.loads(answer)['id']}?stream=true")  # to its end
        return Answer(reply.status, named, answer, self._sent(before))

    def say(self, body: Json) -> Answer:
        """The same over a WebSocket: its frames, as far as one turn goes."""
        before = len(self.upstream.asked)
        headers = {"x-api-key": self.key, "x-request-id": "same"}
        with talking(self._running, additional_headers=headers) as talk:
            talk.ask(**body)
            events = talk.events()
        status = events[-1].get("status", 200)
        return Answer(status, {}, json.dumps(events), self._sent(before))

    def _sent(self, before: int) -> tuple[Any, ...]:
        asked = self.upstream.asked[before:]
        return tuple(each.json["messages"] for each in asked if each.body)  # `serve` also asks for the models

    def json(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status == 200, answer
        return json.loads(answer.body)


VARYING = ("date", "x-penstock-overhead-ms")


def belongings(tenant: Tenant) -> Ids:
    """New ids of every kind."""
    asked = [{"role": "user", "content": each} for each in ("a question", "and another")]
    made = tenant.json("POST", "/v1/responses", {"model": "any", "input": asked})
    by_type = {item["type"]: item for item in made["output"]}
    given = tenant.json("GET", f"/v1/responses/{made['id']}/input_items")["data"]
    conversation = tenant.json("POST", "/v1/conversations", {"items": asked})["id"]
    noted = tenant.json("GET", f"/v1/conversations/{conversation}/items")["data"]
    sealed = tenant.json("POST", "/v1/responses/compact", {"model": "any", "input": "a secret"})["output"]
    return {
        "response": made["id"],
        "my_response": made["id"],
        "item": by_type["message"]["id"],
        "call": by_type["function_call"]["call_id"],
        "said": given[0]["id"],
        "conversation": conversation,
        "mine": conversation,
        "noted": noted[0]["id"],
        "sealed": sealed[0]["encrypted_content"],
    }


def everything(tenant: Tenant, ids: Ids) -> list[str]:
    """Everything that a tenant can see of its own."""
    response, conversation = f"/v1/responses/{ids['response']}", f"/v1/conversations/{ids['conversation']}"
    paths = [response, f"{response}?stream=true", f"{response}/input_items"]
    paths += [conversation, f"{conversation}/items"]
    answers = [tenant.ask("GET", path) for path in paths]
    assert [each.status for each in answers] == [200] * len(paths)
    return [each.body for each in answers]


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tenant, Tenant, Running]]:
    """The owner and another tenant. Every model sends a sentence and a call, each with new ids."""
    upstream = ScriptedUpstream()
    upstream.play("any", streamed(*text("a sentence"), calls(call(0, None, "look", "{}")), TOOL_CALLS))
    (owned, first), (strange, second) = create_key("owner"), create_key("stranger")
    with in_a_thread(upstream):
        config = f"{CONFIG.format(url=upstream.url)}\n{first}\n{second}\n"
        folder: Path = tmp_path_factory.mktemp("tenants")
        environment = {"UPSTREAM_KEY": SECRET_KEY}
        with gateway(folder, config=config, environment=environment) as running:
            yield Tenant(running, upstream, owned), Tenant(running, upstream, strange), running


def check(row: Row, owner: Tenant, stranger: Tenant, ask: Callable[[Tenant, Ids], Answer]) -> None:
    """Another tenant learns and changes nothing; for the owner the same request has an effect."""
    owned, own = belongings(owner), belongings(stranger)
    own = {name: own[name] for name in ("mine", "my_response")}
    theirs, never = {**owned, **own}, {**unknown(owned), **own}
    before = everything(owner, owned)
    answered = plain(ask(stranger, theirs), theirs)
    assert answered.status == row.status, answered
    assert answered == plain(ask(stranger, never), never)
    assert everything(owner, owned) == before
    kept = plain(ask(owner, owned), owned)
    assert kept.status == row.kept, kept
    assert kept != answered


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_id_of_another_tenant_is_answered_like_an_unknown_one(
    tenants: tuple[Tenant, Tenant, Running], row: Row
) -> None:
    def ask(tenant: Tenant, ids: Ids) -> Answer:
        return tenant.ask(row.method, filled(row.path, ids), filled(row.body, ids))

    check(row, *tenants[:2], ask)


@pytest.mark.parametrize("row", SOCKET_ROWS, ids=lambda row: row.name)
def test_an_id_of_another_tenant_is_unknown_over_a_websocket(
    tenants: tuple[Tenant, Tenant, Running], row: Row
) -> None:
    check(row, *tenants[:2], lambda tenant, ids: tenant.say(filled(row.body, ids)))


RUNNING = [
    Row("GET", "/v1/responses/{response}"),
    Row("GET", "/v1/responses/{response}?stream=true"),
    Row("DELETE", "/v1/responses/{response}"),
    Row("POST", "/v1/responses/{response}/cancel"),
    Row("GET", "/v1/responses/{response}/input_items"),
    post("responses", 400, model="any", input="x", previous_response_id="{response}"),
    post("responses/compact", 400, model="any", input="x", previous_response_id="{response}"),
]


@pytest.mark.parametrize("is_background", [False, True], ids=["foreground", "background"])
def test_a_running_turn_cannot_be_seen_awaited_or_ended_by_another_tenant(
    tenants: tuple[Tenant, Tenant, Running], is_background: bool
) -> None:
    """Waiting for it, as the owner's request does, would reveal that it exists."""
    owner, stranger, running = tenants
    opened = threading.Event()
    steps = [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")]
    model = owner.upstream.play(f"running-{is_background}", steps)
    fields: Json = {"background": is_background, "headers": {"x-api-key": owner.key}}
    with running.live(model, "x", **fields) as live:
        id = id_in(live)
        live.until(TEXT_DELTA)
        ids = {"response": id}
        never = unknown(ids)
        for row in RUNNING:
            both = [
                plain(stranger.ask(row.method, filled(row.path, each), filled(row.body, each)), each)
                for each in (ids, never)
            ]
            assert both[0] == both[1], row.name
            assert both[0].status == row.status
        opened.set()
        reply = live.rest()
    assert (reply.last["status"], reply.text) == ("completed", "ab")
    assert len(owner.upstream.asked_for(model)) == 1
