"""What the gateway speaks, and what it says to everything else."""

from __future__ import annotations

import gzip
import json
import re
import socket
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from penstock.gateway.http.access import create_key
from tests.client.server import answer, in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_KEY, SECRET_PROMPT, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, said, streamed

BODY = {"model": "demo", "input": "say exactly: hello"}


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/responses", "/v1/responses/", "/v1/responses?accent=openai"]
)
def test_responses_are_made_with_and_without_v1(penstock: Running, path: str) -> None:
    assert penstock.ask(BODY, path).text == "hello"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/chat/completions", "/chat/completions is not supported"),
        ("/chat/completions", "/chat/completions is not supported"),
        ("/v1/messages", "/v1/messages is not supported"),
        ("/v1/embeddings", "/v1/embeddings is not supported"),
        ("/v1/v1/responses", "/v1 twice"),
        ("/anything", "no such path"),
    ],
)
def test_another_path_is_told_what_is_spoken_here(penstock: Running, path: str, words: str) -> None:
    reply = penstock.ask(BODY, path)
    assert (reply.status, reply.error["code"], reply.error["type"]) == (404, "not_found", "not_found")
    assert words in reply.error["message"]
    assert "POST /v1/responses" in reply.error["message"]


def test_another_method_is_told_which_one(penstock: Running) -> None:
    reply = penstock.ask(path="/v1/responses", method="GET")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip, zstd": lambda data: zstandard.ZstdCompressor().compress(gzip.compress(data)),
}


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_compressed_body_is_read(penstock: Running, upstream: ScriptedUpstream, encoding: str) -> None:
    """Ask K4; the upstream is sent what was in it, uncompressed and without the header."""
    model = upstream.play(f"compressed-{encoding}", streamed(*said("ok")))
    body = json.dumps({"model": model, "input": SECRET_PROMPT * 50}).encode()
    reply = penstock.ask(ENCODERS[encoding](body), headers={"content-encoding": encoding})
    assert reply.text == "ok"
    [asked] = upstream.asked_for(model)
    assert "content-encoding" not in asked.headers


def test_a_body_that_is_too_large_unknown_or_broken_is_refused(penstock: Running) -> None:
    """Ask K4: 413 for a bomb, 415 for an encoding that nobody knows, 400 for what cannot be unpacked."""
    bomb = zstandard.ZstdCompressor().compress(b" " * (65 * 1024 * 1024))
    for body, encoding, status in ((bomb, "zstd", 413), (b"x", "lzma", 415), (b"x", "gzip", 400)):
        reply = penstock.ask(body, headers={"content-encoding": encoding})
        assert reply.status == status
    assert penstock.ask(BODY).text == "hello"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b"[]", "invalid_request", None),
        (b"\xff", "invalid_json", None),
        (b"[" * 100_000, "invalid_request", None),
        ({"input": "x"}, "missing_required_parameter", "model"),
        ({"model": "demo"}, "missing_required_parameter", "input"),
        ({"model": 7, "input": "x"}, "invalid_request", "model"),
        ({"model": "demo", "input": 7}, "invalid_request", "input"),
        (
            {"model": "demo", "input": [{"type": "function_call_output"}]},
            "invalid_request",
            "input[0].call_id",
        ),
        ({"model": "demo", "input": "x", "temperature": 3}, "invalid_request", "temperature"),
        ({"model": "demo", "input": "x", "top_logprobs": 21}, "invalid_request", "top_logprobs"),
        ({"model": "demo", "input": "x", "max_output_tokens": 0}, "invalid_request", "max_output_tokens"),
        ({"model": "demo", "input": "x", "truncation": "maybe"}, "invalid_request", "truncation"),
        ({"model": "demo", "input": "x", "stream": "yes"}, "invalid_request", "stream"),
        (
            {"model": "demo", "input": "x", "previous_response_id": "resp_1"},
            "previous_response_not_found",
            "previous_response_id",
        ),
        (
            {"model": "demo", "input": [{"type": "item_reference", "id": "msg_1"}]},
            "item_not_found",
            "input[0].id",
        ),
    ],
)
def test_a_wrong_request_is_told_which_field_is_wrong(
    penstock: Running, body: object, code: str, param: str | None
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = penstock.ask(data)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, code, param)


@pytest.mark.e2e
def test_a_model_that_is_not_there_is_404_with_those_that_are(tmp_path: Path) -> None:
    with gateway(tmp_path, config='[aliases]\nfast = "demo"\n') as running:
        reply = running.whole("slow")
        assert (reply.status, reply.error["code"], reply.error["param"]) == (404, "model_not_found", "model")
        assert "fast" in reply.error["message"]
        assert "demo" in reply.error["message"]
        assert running.whole("fast", "say exactly: aliased").text == "aliased"


@pytest.mark.e2e
def test_a_request_id_is_echoed_or_made(penstock: Running) -> None:
    assert penstock.whole("demo", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    for unfit in ("", "two words", "x" * 200):
        made = penstock.whole("demo", headers={"x-request-id": unfit}).headers["x-request-id"]
        assert made.startswith("req_")
    assert (
        penstock.ask(path="/nowhere", headers={"x-request-id": "mine-2"}).headers["x-request-id"] == "mine-2"
    )


def test_what_came_in_one_read_leaves_in_one_write(penstock: Running, upstream: ScriptedUpstream) -> None:
    pieces = [chat_chunk({"content": f"{number} "}) for number in range(50)]
    model = upstream.play("at-once", streamed(*pieces, chat_chunk(finish="stop")))
    body = json.dumps({"model": model, "input": "x", "stream": True}).encode()
    lines = [
        "POST /v1/responses HTTP/1.1",
        "host: localhost",
        f"content-length: {len(body)}",
        "connection: close",
    ]
    head = "\r\n".join([*lines, "", ""])
    with socket.create_connection((penstock.address.hostname, penstock.address.port)) as client:
        client.sendall(head.encode() + body)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    chunks = answer.partition(b"\r\n\r\n")[2]
    size = int(chunks.partition(b"\r\n")[0], 16)
    assert chunks[:size].count(b"event: response.output_text.delta") == 50
    assert chunks.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_a_trace_is_passed_on_and_nothing_else_of_the_client(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("traced", streamed(*said("ok")))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {
        "traceparent": trace,
        "tracestate": "a=b",
        "cookie": "c=d",
        "x-mine": "e",
        "authorization": "Bearer x",
    }
    reply = penstock.whole(model, headers=headers)
    assert float(reply.headers["x-penstock-overhead-ms"]) >= 0
    [asked] = upstream.asked_for(model)
    assert (asked.headers["traceparent"], asked.headers["tracestate"]) == (trace, "a=b")
    assert not {"cookie", "x-mine"} & asked.headers.keys()
    assert asked.headers["authorization"] == f"Bearer {SECRET_KEY}"


@pytest.mark.parametrize(
    ("headers", "path", "accent"),
    [
        ({}, "", "openresponses"),
        ({"user-agent": "codex_exec/0.166.0 (Debian)"}, "", "openai"),
        ({"originator": "codex_vscode"}, "", "openai"),
        ({"user-agent": "OpenAI/Python 3.49.0"}, "", "openai"),
        ({"user-agent": "AsyncOpenAI/Python 3.49.0"}, "", "openai"),
        ({"user-agent": "GitHubCopilotChat/0.40"}, "", "copilot"),
        ({"user-agent": "OpenAI/Python 3.49.0", "x-penstock-accent": "openresponses"}, "", "openresponses"),
        ({"x-penstock-accent": "openai"}, "?accent=copilot", "copilot"),
    ],
)
def test_a_client_is_spoken_to_in_its_accent(
    penstock: Running, headers: dict[str, str], path: str, accent: str
) -> None:
    body = {"model": "demo", "input": "say exactly: x", "stream": True, "reasoning": {"effort": "low"}}
    reply = penstock.ask(body, f"/v1/responses{path}", headers=headers, accent=accent)
    spelling = {
        "openresponses": "response.reasoning.delta",
        "openai": "response.reasoning_text.delta",
        "copilot": "response.reasoning_summary_text.delta",
    }
    assert [name for name in spelling.values() if name in reply.types] == [spelling[accent]]


def test_an_accent_that_is_not_there_is_refused(penstock: Running) -> None:
    reply = penstock.ask(BODY, "/v1/responses?accent=texan")
    assert (reply.status, reply.error["param"]) == (400, "accent")


def test_models_are_listed_for_everybody(penstock: Running) -> None:
    """Ask I1: OpenAI's list and Codex's, in one answer."""
    listed = penstock.ask(path="/v1/models?client_version=0.166.0", method="GET").json
    assert listed["object"] == "list"
    assert "demo" in [model["id"] for model in listed["data"]]
    assert "demo" in [model["slug"] for model in listed["models"]]
    [demo] = [model for model in listed["data"] if model["id"] == "demo"]
    assert demo["context_window"] > demo["max_output_tokens"] > 0
    assert penstock.ask(path="/v1/models/demo", method="GET").json == demo
    missing = penstock.ask(path="/v1/models/", method="GET")
    assert missing.json == listed


def test_the_tokens_of_a_request_are_counted(penstock: Running) -> None:
    short = penstock.ask(BODY, "/v1/responses/input_tokens").json
    long = penstock.ask({**BODY, "input": "word " * 1000}, "/v1/responses/input_tokens").json
    assert short["object"] == "response.input_tokens"
    assert long["input_tokens"] > short["input_tokens"] + 900


def test_health_and_metrics(penstock: Running) -> None:
    assert penstock.ask(path="/healthz", method="GET").json == {"status": "ok"}
    assert penstock.ask(path="/readyz", method="GET").json == {"status": "ready"}
    assert penstock.ask(path="/", method="GET").json["name"] == "penstock"
    penstock.whole("demo")
    metrics = penstock.ask(path="/metrics", method="GET").body.decode()
    assert 'penstock_turns_total{model="demo",target="demo",outcome="completed",closer="upstream"}' in metrics
    assert 'penstock_tokens_total{model="demo",kind="output"}' in metrics


def test_head_is_get_without_a_body(penstock: Running) -> None:
    connection = penstock.connect()
    connection.request("HEAD", "/healthz")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-length"), answer.read()) == (200, "15", b"")
    connection.close()


@pytest.mark.e2e
def test_with_keys_only_their_owners_come_in(tmp_path: Path) -> None:
    key, entry = create_key("laptop")
    scripted = ScriptedUpstream()
    config = entry + '\n[targets.own]\nbase_url = "{url}/v1"\npass_key = true\n[models.m]\ntarget = "own"\n'
    with in_a_thread(scripted), gateway(tmp_path, config=config.format(url=scripted.url)) as running:
        for headers in ({}, {"authorization": f"Bearer {SECRET_KEY}"}, {"x-api-key": "pk_wrong"}):
            for path, method in (("/v1/responses", "POST"), ("/v1/models", "GET"), ("/metrics", "GET")):
                reply = running.ask(BODY, path, method=method, headers=headers)
                assert (reply.status, reply.error["code"]) == (401, "authentication_error")
                assert reply.headers["www-authenticate"].startswith("Bearer")
        assert running.ask(path="/healthz", method="GET").status == 200
        for headers in ({"authorization": f"Bearer {key}"}, {"x-api-key": key}):
            reply = running.whole("demo", headers=headers)
            assert running.verdict(reply.headers["x-request-id"])["client"] == "laptop"
        scripted.play("m", streamed(*said("ok")))
        running.whole("m", headers={"x-api-key": key, "authorization": "Bearer sk-upstream"})
        assert scripted.asked_for("m")[0].headers["authorization"] == "Bearer sk-upstream"
        assert key not in json.dumps(running.log)


def scraped(running: Running, key: str) -> str:
    reply = running.ask(path="/metrics", method="GET", headers={"x-api-key": key})
    assert reply.status == 200
    return reply.body.decode()


@pytest.mark.e2e
def test_metrics_of_others_are_for_operators(tmp_path: Path) -> None:
    (mine, first), (theirs, second) = create_key("mine"), create_key("theirs")
    operator, third = create_key("prometheus", operator=True)
    config = f'{first}{second}{third}\n[targets.secret-lab]\nbase_url = "http://127.0.0.1:9/v1"\n'
    config += '[models.secret-project]\ntarget = "secret-lab"\n[limits]\nretries = 0\n'
    with gateway(tmp_path, config=config) as running:
        for model, key in (("demo", mine), ("secret-project", theirs)):
            reply = running.whole(model, headers={"x-api-key": key})
            running.verdict(reply.headers["x-request-id"])  # a turn is counted before this is written
        all_of_it = scraped(running, operator)
        assert 'penstock_turns_total{model="secret-project",target="secret-lab"' in all_of_it
        assert 'penstock_upstream_attempts_total{target="secret-lab"' in all_of_it
        assert 'penstock_turns_total{model="demo"' in all_of_it
        for key in (mine, theirs):
            samples = [line for line in scraped(running, key).splitlines() if not line.startswith("#")]
            assert [line.partition("{")[0].partition(" ")[0] for line in samples] == [
                "penstock_build_info",
                "process_start_time_seconds",
            ]
            assert "secret" not in "".join(samples)


@pytest.mark.e2e
def test_a_name_that_a_client_made_up_is_no_label(tmp_path: Path) -> None:
    scripted = ScriptedUpstream()
    config = 'passthrough = "any"\n[targets.any]\nbase_url = "{url}/v1"\n[aliases]\nshort = "long"\n'
    scripted.play("", [answer(200, {"object": "list", "data": [{"id": "listed"}]})])
    for model in ("listed", "made-up", "long"):
        scripted.play(model, streamed(*said("ok")))
    with in_a_thread(scripted), gateway(tmp_path, config=config.format(url=scripted.url)) as running:
        running.ask(path="/v1/models", method="GET")
        for model in ("listed", "made-up", "short"):
            reply = running.whole(model)
            assert reply.status == 200
            running.verdict(reply.headers["x-request-id"])
        metrics = running.ask(path="/metrics", method="GET").body.decode()
    counted = set(re.findall(r'model="([^"]*)"', metrics))
    assert counted == {"listed", "short", "other"}


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}],
)
def test_no_web_page_can_drive_a_local_gateway(penstock: Running, headers: dict[str, str]) -> None:
    reply = penstock.ask(BODY, headers=headers)
    assert (reply.status, reply.error["code"]) == (403, "permission_denied")
    assert penstock.ask(path="/v1/responses", method="OPTIONS", headers=headers).status == 403


@pytest.mark.e2e
def test_a_page_of_an_allowed_origin_may_ask_and_read(tmp_path: Path) -> None:
    with gateway(tmp_path, config='[server]\nallowed_origins = ["https://app.example"]\n') as running:
        origin = {"origin": "https://app.example"}
        before = running.ask(path="/v1/responses", method="OPTIONS", headers=origin)
        assert before.status == 204
        assert "authorization" in before.headers["access-control-allow-headers"]
        assert (
            running.whole("demo", headers=origin).headers["access-control-allow-origin"] == origin["origin"]
        )
        assert (
            running.whole("nobody", headers=origin).headers["access-control-allow-origin"] == origin["origin"]
        )


@pytest.mark.e2e
def test_a_bound_on_turns_is_told_at_once(tmp_path: Path) -> None:
    """Ask J5: no hidden queue."""
    with gateway(tmp_path, config="[limits]\nmax_turns = 1\n") as running:
        connection = running.connect()
        body = json.dumps({"model": "demo", "input": "be silent", "stream": True})
        connection.request("POST", "/v1/responses", body)
        while "penstock_turns_running 1" not in running.ask(path="/metrics", method="GET").body.decode():
            pass
        reply = running.whole("demo")
        assert (reply.status, reply.error["code"]) == (503, "server_is_overloaded")
        assert reply.headers["retry-after"]
        connection.close()
