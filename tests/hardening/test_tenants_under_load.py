"""Three tenants work at the same time, and send each other's ids to every route: nothing leaks (ask K1)."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.editor.route import editor_routes
from penstock.gateway.http.access import create_key
from penstock.gateway.routes import ROUTES
from penstock.inspector.routes import inspector_routes
from penstock.parts.markers import marker_part
from penstock.parts.wire import part_to_json
from tests.client.server import in_a_thread
from tests.gateway.api.crossings import ROWS, SOCKET_ROWS, Answer, Ids, Row, filled, plain, post, unknown
from tests.gateway.running import SECRET_KEY, Json, Running, gateway, read_all
from tests.gateway.websocket_client import talking
from tests.hardening.echoing_upstream import EchoingUpstream
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.hardening

SECONDS = 60.0 if os.environ.get("PENSTOCK_HARDENING") == "long" else 15.0
NAMES = ("alice", "bob", "carol")
_CONFIG = """
passthrough = "chat"
[server]
record = true
workers = 2
[limits]
retries = 0
[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""
VARYING = ("date", "x-penstock-overhead-ms", "x-request-id")

REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "{thought}"}
USER = {"role": "user", "content": "hello"}
MORE_ROWS = [
    post("responses", 200, model="any", input=[REASONING, USER]),
    post("responses", 200, model="any", input="x", prompt_cache_key="{cache_key}"),
    post("parts", 200, method="respond", model="any", messages=[]),
    *(
        Row("GET", f"/inspector/api/turns/{{response}}{each}")
        for each in ("", "/content", "/events", "/parts")
    ),
    Row("GET", "/inspector/api/turns/{request}"),
    Row("GET", "/inspector/api/turns/{slow}"),
    Row("POST", "/inspector/api/turns/{response}/replay"),
    Row("GET", "/inspector/api/threads/{response}"),
    Row("GET", "/inspector/api/threads/{conversation}"),
    Row("GET", "/v1/responses/{slow}"),
    Row("GET", "/v1/responses/{slow}?stream=true&starting_after=0"),
    Row("POST", "/v1/responses/{slow}/cancel"),
    Row("DELETE", "/v1/responses/{slow}"),
    post("responses", 400, model="any", input="x", previous_response_id="{slow}"),
    Row("GET", "/v1/turns?key={owner}", status=403),
    Row("GET", "/v1/turns?model={model}", status=200),
    Row("GET", "/v1/turns?search={request}", status=200),
    Row("GET", "/v1/usage?key={owner}", status=403),
    Row("GET", "/v1/usage?model={model}", status=200),
    Row("GET", "/inspector/api/dashboard?key={owner}", status=403),
]
"""Beside those of a gateway without load: the inspector, the editor's route, and turns that are running."""

LISTS = (
    *(
        "/v1/turns",
        "/v1/usage?by=key,model",
        "/v1/models",
        "/inspector/api/session",
        "/inspector/api/threads",
    ),
    *("/inspector/api/dashboard?by=model", "/inspector/api/connect", "/inspector/api/rules", "/metrics"),
)
"""What a tenant may list: only what is its own."""
WITHOUT_IDS = ("models/*", "inspector/api/feed", "inspector/api/check", "inspector/api/translate")
"""Routes without an id of a tenant. The feed is read during the whole test; the last two read what they are
sent."""


def name_of(path: str) -> str:
    return re.sub(r"\{.*?\}", "*", path)


def route_of(path: str) -> str:
    return name_of(path.partition("?")[0].removeprefix("/v1").strip("/"))


def test_every_route_is_crossed() -> None:
    """A new route is added to the rows, to the lists, or to the routes without ids."""
    routes = {**ROUTES, **inspector_routes(), **editor_routes("http://127.0.0.1:1")}
    crossed = {
        (name_of(row.path.partition("?")[0].removeprefix("/v1").strip("/")), row.method) for row in _all()
    }
    crossed |= {(each.partition("?")[0].removeprefix("/v1").strip("/"), "GET") for each in LISTS}
    forgotten = [
        (name_of(path), method)
        for path, methods in routes.items()
        for method, route in methods.items()
        if not route.is_open and (name_of(path), method) not in crossed and name_of(path) not in WITHOUT_IDS
    ]
    assert forgotten == []


def _all() -> list[Row]:
    return [*ROWS, *MORE_ROWS]


class Tenant:
    """A client with a key, its ids, and every byte that it has received."""

    def __init__(self, name: str, key: str, running: Running) -> None:
        self.name, self.key, self._running = name, key, running
        self.canary = f"canary-{name}-7fQ2x9"
        self.model = f"model-{self.canary}"
        self.ids: Ids = {}
        self.received = 0
        self.turns = 0
        self.leaks: list[str] = []

    def look_at(self, data: bytes, what: str) -> None:
        """Search what was received for texts of the others."""
        self.received += len(data)
        for other in NAMES:
            if other != self.name and (at := data.find(f"canary-{other}".encode())) >= 0:
                self.leaks.append(f"{self.name} got {data[max(at - 80, 0) : at + 60]!r} from {what}")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self._running.connect()
        try:
            sent = {"x-api-key": self.key, "content-type": "application/json", **headers}
            connection.request(method, path, None if body is None else json.dumps(body).encode(), sent)
            reply = connection.getresponse()
            named = {name.lower(): value for name, value in reply.getheaders() if name.lower() not in VARYING}
            data = read_all(reply)
        finally:
            connection.close()
        self.look_at(json.dumps(named).encode() + data, f"{method} {path[:80]}")
        return Answer(reply.status, named, data.decode(), ())

    def json(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        found = self.ask(method, path, body, **headers)
        assert found.status == 200, (path, found)
        return json.loads(found.body)

    def say(self, body: Json) -> Answer:
        with talking(self._running, additional_headers={"x-api-key": self.key}) as talk:
            talk.ask(**body)
            events = talk.events()
        self.look_at(json.dumps(events).encode(), "a WebSocket")
        return Answer(events[-1].get("status", 200), {}, json.dumps(events), ())

    def work(self) -> None:
        """Run turns of every kind, and publish their ids for the others."""
        words, number = f"{self.canary} {self.turns}", f"{self.name}-{self.turns}"
        said = {"role": "user", "content": words}
        fields = {"model": self.model, "instructions": words, "metadata": {"a": words}, "user": words}
        fields |= {"prompt_cache_key": f"cache-{number}", "include": ["reasoning.encrypted_content"]}
        named = {"idempotency-key": f"key-{number}", "x-request-id": f"request-{number}"}
        made = self.json("POST", "/v1/responses", {**fields, "input": [USER, said]}, **named)
        assert self.canary in json.dumps(made)
        by_type = {item["type"]: item for item in made["output"]}
        call = by_type["function_call"]["call_id"]
        output = {"type": "function_call_output", "call_id": call, "output": words}
        self.json("POST", "/v1/responses", {**fields, "previous_response_id": made["id"], "input": [output]})
        given = self.json("GET", f"/v1/responses/{made['id']}/input_items")["data"]
        conversation = self.json("POST", "/v1/conversations", {"items": [said]})["id"]
        self.json("POST", "/v1/responses", {**fields, "conversation": conversation, "input": words})
        noted = self.json("GET", f"/v1/conversations/{conversation}/items")["data"]
        compacted = {"model": self.model, "input": words}
        sealed = self.json("POST", "/v1/responses/compact", compacted)["output"]
        slow = {**fields, "model": f"{self.model}-slow", "input": words, "background": True}
        running = self.json("POST", "/v1/responses", slow)
        self.say({"model": self.model, "input": words})
        message = {"role": 1, "content": [{"type": "text", "value": words}]}
        self.ask("POST", "/v1/parts", {"method": "respond", "model": self.model, "messages": [message]})
        self.ask("POST", "/v1/responses", {**fields, "input": words, "stream": True})
        self.ids = {
            "response": made["id"],
            "my_response": made["id"],
            "item": by_type["message"]["id"],
            "call": call,
            "thought": by_type["reasoning"]["encrypted_content"],
            "said": given[0]["id"],
            "conversation": conversation,
            "mine": conversation,
            "noted": noted[0]["id"],
            "sealed": sealed[-1]["encrypted_content"],
            "slow": running["id"],
            "request": named["x-request-id"],
            "cache_key": f"cache-{number}",
            "owner": self.name,
            "model": self.model,
        }
        self.turns += 1

    def list(self) -> None:
        for path in LISTS:
            assert self.ask("GET", path).status in (200, 403, 404), path

    def follow(self, is_over: threading.Event) -> None:
        """Read the live feed to the end of the test."""
        connection = self._running.connect()
        connection.request("GET", "/inspector/api/feed?since=1", headers={"x-api-key": self.key})
        reply = connection.getresponse()
        assert reply.status == 200
        while not is_over.is_set() and (data := reply.read1(65536)):
            self.look_at(data, "the feed")
        connection.close()


def cross(stranger: Tenant, owner: Tenant, row: Row, is_socket: bool) -> None:
    """Another tenant's id is answered like one that does not exist."""
    own = {name: stranger.ids[name] for name in ("mine", "my_response")}
    theirs = {**owner.ids, **own}
    never = {**unknown(owner.ids), **own}
    found = []
    for ids in (theirs, never):
        path, body = filled(row.path, ids), filled(row.body, ids)
        if (isinstance(body, dict) and body.get("messages") == "{marked}") or row.path == "/v1/parts":
            marker = part_to_json(marker_part("any", f"parts\0{stranger.name}", ids["response"]))
            asked = [{"role": 1, "content": [{"type": "text", "value": each}]} for each in ("a", "b")]
            asked.insert(1, {"role": 2, "content": [{"type": "text", "value": "c"}, marker]})
            body = {**row.body, "messages": asked}
        given = stranger.say(body) if is_socket else stranger.ask(row.method, path, body)
        found.append(without_load(plain(joined(given), ids)))
    assert found[0] == found[1], (row.name[:80], *first_difference(*map(str, found)))
    assert found[0].status == row.status, (row.name, found[0])


def first_difference(one: str, other: str) -> tuple[str, str]:
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
    return one[max(at - 80, 0) : at + 80], other[max(at - 80, 0) : at + 80]


def without_load(answer: Answer) -> Answer:
    """An answer without what depends on the load: numbers and their lengths, ids of calls, and a store that
    was late."""
    headers = {
        name: re.sub(r"(; )?store_late: [^;]*", "", value)
        for name, value in answer.headers.items()
        if name != "content-length"
    }
    headers = {name: value for name, value in headers.items() if value}
    body = re.sub(r"\d+(\.\d+)?", "0", re.sub(r"call_[0-9a-f]+", "call", answer.body))
    for pattern in (r',?\s*\{"code": ?"store_late"[^}]*\}', r',\s*"diagnostics": ?\[\]'):
        body = re.sub(pattern, "", body)
    return Answer(answer.status, headers, body, ())


def joined(answer: Answer) -> Answer:
    """A stream with its texts as one: how they are divided into deltas depends on the load."""
    kind, lines = answer.headers.get("content-type", ""), answer.body.splitlines()
    if kind == "text/event-stream" and "data: {" in answer.body:
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        return Answer(answer.status, answer.headers, json.dumps([_whole(events), events[-1]]), ())
    if kind == "application/x-ndjson":
        body = json.dumps(_whole([json.loads(line) for line in lines if line]))
        return Answer(answer.status, answer.headers, body, ())
    return answer


def _whole(lines: list[Json]) -> list[str]:
    """The texts of a stream as one, and the types of what is no text."""
    texts = [str(line.get("delta") or line.get("value") or "") for line in lines]
    kinds = [line["type"] for line in lines if not line["type"].endswith((".delta", "text", "in_progress"))]
    return ["".join(texts), *kinds]


@contextmanager
def three_tenants(folder: Path, store: str = "") -> Iterator[list[Tenant]]:
    created = {name: create_key(name) for name in NAMES}
    upstream = EchoingUpstream()
    with in_a_thread(upstream):
        config = _CONFIG.format(url=upstream.url) + "\n".join(entry for _, entry in created.values())
        options = ("--store", store) if store else ()
        key = {"UPSTREAM_KEY": SECRET_KEY}
        with gateway(folder, *options, config=config, environment=key) as running:
            yield [Tenant(name, created[name][0], running) for name in NAMES]


def run(tenants: list[Tenant]) -> None:
    """Let everybody work, list and cross until the time is over."""
    is_over, failures = threading.Event(), list[BaseException]()
    for each in tenants:
        each.work()
    begin = time.monotonic()

    def repeat(action: Callable[[], None]) -> None:
        try:
            while not is_over.is_set():
                action()
        except BaseException as error:
            failures.append(error)
            is_over.set()

    def crossing(number: int) -> Callable[[], None]:
        pairs = [(row, False) for row in _all()] + [(row, True) for row in SOCKET_ROWS]
        steps = iter([(pair, step) for step in (1, 2) for pair in pairs] * 1000)

        def step() -> None:
            (row, is_socket), ahead = next(steps)
            stranger = tenants[number]
            cross(stranger, tenants[(number + ahead) % len(tenants)], row, is_socket)
            crossed[number] += 1

        return step

    crossed = [0] * len(tenants)
    actions = [(repeat, (each.work,)) for each in tenants] + [(repeat, (each.list,)) for each in tenants]
    actions += [(repeat, (crossing(number),)) for number in range(len(tenants))]
    threads = [threading.Thread(target=target, args=arguments) for target, arguments in actions]
    threads += [threading.Thread(target=each.follow, args=(is_over,), daemon=True) for each in tenants]
    for thread in threads:
        thread.start()
    needed = 2 * (len(_all()) + len(SOCKET_ROWS))
    while not is_over.wait(0.1):
        if time.monotonic() - begin > SECONDS and min(crossed) >= needed:
            is_over.set()
    for thread in threads:
        thread.join(60)
    if failures:
        print(*failures, sep="\n")
        raise failures[0]
    assert [leak for each in tenants for leak in each.leaks] == []
    turns, received = sum(each.turns for each in tenants), sum(each.received for each in tenants)
    print(f"\n{turns} rounds of work, {sum(crossed)} crossings, {received:,} bytes searched")


def test_nothing_leaks_between_tenants_of_two_workers(tmp_path: Path) -> None:
    with three_tenants(tmp_path) as tenants:
        run(tenants)


def test_nothing_leaks_between_tenants_in_postgresql(tmp_path: Path) -> None:
    cluster = PostgresCluster()
    cluster.start()
    try:
        with three_tenants(tmp_path, cluster.url()) as tenants:
            run(tenants)
    finally:
        cluster.remove()


def test_an_idempotency_key_of_another_tenant_is_free(tmp_path: Path) -> None:
    with three_tenants(tmp_path) as (alice, bob, _):
        body = {"model": "m", "input": alice.canary}
        named = {"idempotency-key": "the same"}
        first = alice.json("POST", "/v1/responses", body, **named)
        assert alice.json("POST", "/v1/responses", body, **named)["id"] == first["id"]
        other = bob.json("POST", "/v1/responses", {"model": "m", "input": "mine"}, **named)
        assert other["id"] != first["id"]
        assert bob.leaks == []


def test_a_leak_would_be_found() -> None:
    tenant = Tenant("bob", "", None)  # type: ignore[arg-type]
    tenant.look_at(b"... canary-alice-7fQ2x9 ...", "a test")
    assert len(tenant.leaks) == 1
