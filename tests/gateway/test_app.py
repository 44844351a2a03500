"""What the gateway speaks, and what it says to everything else."""

from __future__ import annotations

import pytest

from tests.gateway.running import Running

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
