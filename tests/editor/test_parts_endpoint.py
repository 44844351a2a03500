"""`POST /v1/parts`: the lines of the editor host from a gateway, one request at a time."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import LAST_CHUNK, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.probes import has_logged, wait_for
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, SECRET_PROMPT, Reply, Running, gateway
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import (
    USAGE,
    ScriptedUpstream,
    begun,
    frames,
    said,
    streamed,
    until,
    until_gone,
)
from tests.provider.host.host_process import Answer, Json, user

pytestmark = pytest.mark.e2e

PATH = "/v1/parts"


def ask(penstock: Running, method: str, *, key: str = "", **fields: Any) -> tuple[Reply, Answer]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    reply = penstock.ask({"method": method, **fields}, PATH, headers=headers)
    is_lines = reply.headers["content-type"] == "application/x-ndjson"
    return reply, Answer(lines_of(reply.body) if is_lines else [])


def lines_of(body: bytes) -> list[Json]:
    """Return the lines without the empty ones, which are heartbeats."""
    return [json.loads(line) for line in body.splitlines() if line]


def respond(penstock: Running, model: str, *messages: Json, key: str = "", **fields: Any) -> Answer:
    sent = list(messages) or [user(SECRET_PROMPT)]
    reply, answered = ask(penstock, "respond", key=key, model=model, messages=sent, **fields)
    assert reply.status == 200, reply.body
    return answered


def test_a_response_is_sent_in_lines(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("route-text", streamed(*said(SECRET_ANSWER)))
    answered = respond(penstock, "route-text", id="mine")
    assert {line["id"] for line in answered.lines} == {"mine"}
    assert answered.text == SECRET_ANSWER
    assert [line["type"] for line in answered.lines][-3:] == ["usage", "marker", "done"]
    assert answered.end["result"]["finish"] == "stop"
    assert (
        penstock.ask(path=f"/v1/responses/{answered.end['result']['response_id']}", method="GET").status
        == 200
    )


def test_without_an_id_lines_have_none(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("route-plain", streamed(*said("well")))
    assert all("id" not in line for line in respond(penstock, "route-plain").lines)


def test_the_other_methods(penstock: Running) -> None:
    _, models = ask(penstock, "models", refresh=True)
    assert "demo" in [model["id"] for model in models.end["models"]]
    _, counted = ask(penstock, "count_tokens", id=1, model="gpt-4o", text="Hello")
    assert counted.lines == [{"id": 1, "type": "done", "tokens": 1}]
    _, usage = ask(penstock, "usage", key="sk-nobody-has-this")
    assert (usage.end["usage"]["total"]["requests"], usage.end["usage"]["recent"]) == (0, [])


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"junk", "invalid_json", None),
        (b"[]", "invalid_request", None),
        (b"{}", "invalid_request", "method"),
        (b'{"id": [], "method": "usage"}', "invalid_request", "id"),
        (b'{"method": "configure", "endpoint": "http://127.0.0.1:1"}', "invalid_request", "method"),
        (b'{"method": "cancel", "request": 1}', "invalid_request", "method"),
        (b'{"method": "respond", "model": "m", "messages": [1]}', "invalid_request", "messages[0]"),
    ],
)
def test_an_invalid_request_is_an_http_error(
    penstock: Running, body: bytes, code: str, param: str | None
) -> None:
    reply = penstock.ask(body, PATH)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, code, param)


def test_only_post_is_allowed(penstock: Running) -> None:
    reply = penstock.ask(path=PATH, method="GET")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


def test_a_failure_before_the_first_line_is_an_http_error(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    from tests.provider.scripted_provider import refused

    upstream.play("route-refused", refused(429, "rate_limit_exceeded", "slow", retry_after="77"))
    reply, _ = ask(penstock, "respond", model="route-refused", messages=[user("a")])
    assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (
        429,
        "rate_limit_exceeded",
        "77",
    )
    assert reply.error["message"].startswith("Too many requests: wait 77 s and try again (")


def test_a_failure_after_the_first_line_is_an_error_line(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    error = {"error": {"message": "the machine is on fire", "type": "server_error"}}
    upstream.play("route-broken", streamed(chat_chunk({"content": "half"}), error))
    answered = respond(penstock, "route-broken")
    assert (answered.text, answered.end["type"], answered.end["name"]) == ("half", "error", "ServerError")


def opened(
    penstock: Running, model: str, headers: dict[str, str] | None = None
) -> http.client.HTTPConnection:
    connection = penstock.connect()
    body = json.dumps({"method": "respond", "model": model, "messages": [user("a")]})
    connection.request("POST", PATH, body, headers or {})
    return connection


def test_lines_are_sent_immediately_and_a_disconnect_cancels(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("route-left", [*begun(chat_chunk({"content": "begun"})), until_gone(gone)])
    connection = opened(penstock, "route-left")
    answer = connection.getresponse()
    assert json.loads(answer.readline())["value"] == "begun"
    assert not gone.is_set()
    connection.close()
    answer.close()
    assert gone.wait(20), "the upstream is still read"


def test_a_disconnect_before_the_first_line_cancels(penstock: Running, upstream: ScriptedUpstream) -> None:
    asked, gone = threading.Event(), threading.Event()

    async def came(_: Any) -> None:
        asked.set()

    upstream.play("route-early", [came, until_gone(gone)])
    connection = opened(penstock, "route-early")
    assert asked.wait(20)
    connection.close()
    assert gone.wait(20), "the upstream is still asked"


def test_a_follow_up_references_the_previous_response(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("route-follow", streamed(*said("well")))
    first = respond(penstock, "route-follow", user("Hello"))
    said_before = {"role": 2, "content": [{"type": "text", "value": "well"}, first.marker()]}
    second = respond(penstock, "route-follow", user("Hello"), said_before, user("More"))
    stored = penstock.ask(path=f"/v1/responses/{second.end['result']['response_id']}", method="GET").json
    assert stored["previous_response_id"] == first.end["result"]["response_id"]


KEYS = """
passthrough = "chat"

[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""


def test_tenants_see_only_their_own_figures(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    from penstock.gateway.http.access import create_key

    made = {name: create_key(name) for name in ("ada", "bob")}
    config = KEYS.format(url=upstream.url) + "".join(entry for _, entry in made.values())
    upstream.play("route-tenant", streamed(*said("well")))
    with gateway(tmp_path, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as penstock:
        keys = {name: key for name, (key, _) in made.items()}
        first = respond(penstock, "route-tenant", user("Hello"), key=keys["ada"])
        assert first.text == "well"
        totals = {
            name: ask(penstock, "usage", key=key)[1].end["usage"]["total"] for name, key in keys.items()
        }
        assert (totals["ada"]["requests"], totals["bob"]["requests"]) == (1, 0)
        history = [user("Hello"), {"role": 2, "content": [first.marker()]}, user("More")]
        assert respond(penstock, "route-tenant", *history, key=keys["bob"]).text == "well"
        assert len(upstream.asked_for("route-tenant")[-1].json["messages"]) == 2
        for wrong in ("", "pk_wrong"):
            reply, _ = ask(penstock, "usage", key=wrong)
            assert (reply.status, reply.error["code"]) == (401, "authentication_error")


SHORT_LIMITS = """
[limits]
patience = 0.05
comment_every = 0.05
"""


def test_heartbeats_are_empty_lines(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    """Before the first part and between two parts; a later failure is an error line."""
    may_start, ended = threading.Event(), threading.Event()
    error = {"error": {"message": "the machine is on fire", "type": "server_error"}}
    rest = send(chunk(frames(error)) + LAST_CHUNK)
    script = [until(may_start), *begun(chat_chunk({"content": "half"})), until(ended), rest]
    upstream.play("route-silent", script)
    config = KEYS.format(url=upstream.url).replace("[targets", f"{SHORT_LIMITS}\n[targets", 1)
    with gateway(tmp_path, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as penstock:
        connection = opened(penstock, "route-silent")
        answer = connection.getresponse()
        assert (answer.status, answer.readline(), answer.readline()) == (200, b"\n", b"\n")
        may_start.set()
        lines = iter(answer.readline, b"")
        assert json.loads(next(line for line in lines if line != b"\n"))["value"] == "half"
        assert (next(lines), next(lines)) == (b"\n", b"\n")
        ended.set()
        last = lines_of(b"".join(lines))[-1]
        connection.close()
    assert (last["type"], last["name"]) == ("error", "ServerError")


def test_a_response_can_override_the_thinking_mode(penstock: Running, upstream: ScriptedUpstream) -> None:
    thought = chat_chunk({"reasoning_content": "Hm."})
    upstream.play("route-thinking", streamed(thought, *said("A ship.")))
    answers = [respond(penstock, "route-thinking", thinking=each) for each in ("part", "text", "none")]
    assert [bool(each.of("thinking")) for each in answers] == [True, False, False]
    assert ["Hm." in each.text for each in answers] == [False, True, False]


def test_a_response_can_have_its_citations_listed(penstock: Running, upstream: ScriptedUpstream) -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://port.example/", "title": "Port"}}
    upstream.play(
        "route-cited", streamed(*text("A ship."), chat_chunk({"annotations": [cited]}), STOP, USAGE)
    )
    answers = [respond(penstock, "route-cited", citations=each) for each in (None, "off", "inline", "end")]
    assert [each.text for each in answers] == [
        "A ship.",
        "A ship.",
        "A ship. [Port](https://port.example/)",
        "A ship.\n\n---\n\n1. [Port](https://port.example/)\n",
    ]


def test_the_error_of_a_response_is_also_text_if_the_request_asks_for_it(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("route-as-text", streamed(*text("A ship."), {"error": {"message": "sunk"}}))
    plain = respond(penstock, "route-as-text")
    assert (plain.text, plain.end["type"], "as_text" in plain.end) == ("A ship.", "error", False)
    shown = respond(penstock, "route-as-text", errors_as_text=True)
    assert (shown.end["type"], shown.end["as_text"]) == ("error", True)
    assert shown.end["message"] == plain.end["message"]
    assert shown.text == f"A ship.\n\n**Error:** {shown.end['message']}\n\n"


def test_the_role_of_system_messages_can_be_chosen(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("route-roles", streamed(*said("A ship.")))
    system = {"role": 3, "content": "Be brief."}
    sent = []
    for settings in ({}, {"system_role": "system"}, {"system_role": "developer"}):
        answered = respond(penstock, "route-roles", system, user("Hello"), **settings)
        # Targets have their own roles; the stored input has the one that was sent to the gateway.
        path = f"/v1/responses/{answered.end['result']['response_id']}/input_items?order=asc"
        first = penstock.ask(path=path, method="GET").json["data"][0]
        sent.append((first["role"], first["content"][0]["text"]))
    assert sent == [(role, "Be brief.") for role in ("system", "system", "developer")]


def test_a_stopping_gateway_lets_a_turn_finish(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    go_on = threading.Event()
    rest = send(
        chunk(frames(chat_chunk({"content": "ended"}), chat_chunk(finish="stop"), USAGE)) + LAST_CHUNK
    )
    upstream.play("route-drain", [*begun(chat_chunk({"content": "begun, "})), until(go_on), rest])
    config = KEYS.format(url=upstream.url)
    with gateway(tmp_path, config=config, environment={"UPSTREAM_KEY": SECRET_KEY}) as penstock:
        connection = opened(penstock, "route-drain")
        answer = connection.getresponse()
        first = answer.readline()
        penstock.signal(signal.SIGTERM)
        wait_for(lambda: has_logged(penstock, "shutting down"))
        go_on.set()
        lines = lines_of(first + answer.read())
        connection.close()
        assert "".join(line["value"] for line in lines if line["type"] == "text") == "begun, ended"
        assert lines[-1]["type"] == "done"
        assert penstock.process.wait(30) == 0


def test_a_limit_is_learned_in_memory_for_one_caller(penstock: Running, upstream: ScriptedUpstream) -> None:
    from tests.provider.scripted_provider import refused

    message = "This model's maximum context length is 48000 tokens. However, you requested 50123 tokens."
    _, models = ask(penstock, "models", key="one")
    model = models.end["models"][0]["id"]
    upstream.play(model, refused(400, "context_length_exceeded", message))
    reply, _ = ask(penstock, "respond", key="one", model=model, messages=[user("a")])
    assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
    assert (
        "(50,123 tokens; the model's limit is 48,000, which is now known): try again"
        in (reply.error["message"])
    )

    def source(key: str) -> str:
        _, listed = ask(penstock, "models", key=key)
        found = {each["id"]: each["source"] for each in listed.end["models"]}
        return str(found[model])

    assert (source("one"), source("another")) == ("learned", "default")
    _, forgotten = ask(penstock, "forget_limits", key="one")
    assert forgotten.end["forgotten"] == [model]
    assert source("one") == "default"
