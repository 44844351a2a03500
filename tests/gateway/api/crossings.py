"""Every way to send an id of another tenant, and what may differ between two answers."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from tests.gateway.running import Json

Ids = dict[str, str]
"""The ids of a tenant, by what they are of."""


class Answer(Struct, frozen=True):
    """What a client receives, and what its upstream was sent."""

    status: int
    headers: dict[str, str]
    body: str
    sent: tuple[Any, ...]


class Row(Struct, frozen=True):
    """One way to send an id. `{...}` stands for the id; `{mine}` and `{my_response}` belong to the client.

    `status` is what another tenant gets, and `kept` what the owner gets.
    """

    method: str
    path: str
    body: Any = None
    status: int = 404
    kept: int = 200

    @property
    def name(self) -> str:
        body = "" if self.body is None else f" {json.dumps(self.body)}"
        return f"{self.method} {self.path}{body}".replace("/v1/", "")

    @property
    def route(self) -> tuple[str, str]:
        path = re.sub(r"\{\w+\}", "*", self.path.partition("?")[0])
        return path.removeprefix("/v1/"), self.method


def post(path: str, status: int = 404, **body: Any) -> Row:
    return Row("POST", f"/v1/{path}", body, status)


def reference(id: str) -> Json:
    return {"type": "item_reference", "id": id}


def asking(path: str, **fields: Any) -> list[Row]:
    """The ways to send an id within a request to a model."""
    output = {"type": "function_call_output", "call_id": "{call}", "output": "x"}
    unknown_compaction = {"type": "compaction", "encrypted_content": "{sealed}"}
    user = {"role": "user", "content": "hello"}
    return [
        post(path, 400, model="any", input="x", previous_response_id="{response}", **fields),
        post(path, 400, model="any", input=[output], previous_response_id="{my_response}", **fields),
        post(path, 400, model="any", input=[user, reference("{item}")], **fields),
        post(path, 400, model="any", input=[user, reference("{said}")], **fields),
        post(path, 200, model="any", input=[unknown_compaction, user], **fields),
    ]


def within_a_conversation(path: str, **fields: Any) -> list[Row]:
    return [
        post(path, model="any", input="x", conversation="{conversation}", **fields),
        post(path, model="any", input="x", conversation={"id": "{conversation}"}, **fields),
    ]


TRIGGER = {"type": "compaction_trigger"}

ROWS = [
    Row("GET", "/v1/responses/{response}"),
    Row("GET", "/v1/responses/{response}?stream=true"),
    Row("GET", "/v1/responses/{response}?stream=true&starting_after=1"),
    Row("GET", "/v1/responses/{response}?stream=true&starting_after=99999"),
    Row("HEAD", "/v1/responses/{response}"),
    Row("DELETE", "/v1/responses/{response}"),
    Row("POST", "/v1/responses/{response}/cancel"),
    Row("GET", "/v1/responses/{response}/input_items"),
    Row("GET", "/v1/responses/{my_response}/input_items?after={said}", status=200),
    *asking("responses"),
    *asking("responses", stream=True),
    *asking("responses", store=False),
    *asking("responses", background=True),
    *asking("responses/compact"),
    *asking("responses/input_tokens"),
    *within_a_conversation("responses"),
    *within_a_conversation("responses", stream=True),
    *within_a_conversation("responses", background=True),
    *within_a_conversation("responses/input_tokens"),
    post("responses", 400, model="any", input=[TRIGGER], previous_response_id="{response}"),
    post("responses", 400, model="any", input=[reference("{item}"), TRIGGER]),
    Row("GET", "/v1/conversations/{conversation}"),
    Row("POST", "/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    Row("DELETE", "/v1/conversations/{conversation}"),
    Row("GET", "/v1/conversations/{conversation}/items"),
    Row("GET", "/v1/conversations/{mine}/items?after={noted}", status=200),
    post("conversations/{conversation}/items", items=[{"role": "user", "content": "x"}]),
    post("conversations/{mine}/items", 400, items=[reference("{item}")]),
    post("conversations/{mine}/items", 400, items=[reference("{noted}")]),
    post("conversations", 400, items=[reference("{said}")]),
    Row("GET", "/v1/conversations/{conversation}/items/{noted}"),
    Row("GET", "/v1/conversations/{mine}/items/{noted}"),
    Row("DELETE", "/v1/conversations/{conversation}/items/{noted}"),
    Row("DELETE", "/v1/conversations/{mine}/items/{noted}"),
    Row("GET", "/v1/turns?search={response}", status=200),
]

SOCKET_ROWS = [
    *asking("socket"),
    *asking("socket", store=False),
    *within_a_conversation("socket"),
    post("socket", 400, model="any", input=[TRIGGER], previous_response_id="{response}"),
    post("socket", 400, model="any", input="x", previous_response_id="{response}", generate=False),
]


def unknown(ids: Ids) -> Ids:
    """Unknown ids of the same shape."""
    return {name: f"{id[:-8]}{'0' * 8}" for name, id in ids.items()}


def filled(value: Any, ids: Ids) -> Any:
    """Anything with its placeholders filled in."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], value)
    if isinstance(value, dict):
        return {name: filled(each, ids) for name, each in value.items()}
    return [filled(each, ids) for each in value] if isinstance(value, list) else value


def plain(answer: Answer, ids: Ids) -> Answer:
    """An answer without the values that differ every time, and without the requested ids."""
    body = answer.body
    for name, id in ids.items():
        body = body.replace(id, f"<{name}>").replace(id[:64], f"<{name}>")
    body = re.sub(r'"(resp|msg|fc|rs|cmp|call|conv|item)_[0-9a-f]{32,}', r'"<new \1>', body)
    body = re.sub(r'("\w+_at":) ?\d+', r"\1 <time>", body)
    body = re.sub(r'("encrypted_content":) ?"[^"]+"', r"\1 <sealed>", body)
    return Answer(answer.status, answer.headers, body, answer.sent)
