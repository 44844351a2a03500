"""An upstream that is not an API, or that refuses the key: the client learns what must be changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import Script, answer
from tests.gateway.running import SECRET_KEY, Reply, Running, gateway
from tests.gateway.scripts import STOP, body, text
from tests.gateway.upstream import USAGE, ScriptedUpstream, frames, streamed

CONFIG = """
passthrough = "mine"

[targets.mine]
base_url = "{url}/v1"
keys = ["MINE_KEY"]

[targets.other]
base_url = "{url}/v1"

[targets.overriding]
base_url = "{url}/v1"
keys = ["MINE_KEY"]
headers = {{ authorization = "$HEADER_VALUE" }}

[targets.passing]
base_url = "{url}/v1"
pass_key = true

[targets.openai]
preset = "openai"
base_url = "{url}/v1"

[models.over-other]
target = "other"

[models.over-header]
target = "overriding"

[models.over-passing]
target = "passing"

[models.over-openai]
target = "openai"
"""


FRONT = """
passthrough = "behind"

[targets.behind]
base_url = "{url}/v1"
dialect = "responses"
keys = ["FRONT_ONE", "FRONT_TWO"]
"""


@pytest.fixture(scope="module")
def wrong(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("wrong")
    environment = {"MINE_KEY": SECRET_KEY, "HEADER_VALUE": "Bearer of-the-header", "OPENAI_API_KEY": ""}
    with gateway(folder, config=CONFIG.format(url=upstream.url), environment=environment) as running:
        yield running


def ask(running: Running, model: str, stream: bool, **settings: Any) -> Reply:
    return running.stream(model, **settings) if stream else running.whole(model, **settings)


PAGE = b"<!doctype html><html><head><title>Open WebUI</title></head></html>"

NO_ANSWERS: dict[str, tuple[Script, str]] = {
    "a web page": ([answer(200, PAGE, "text/html")], "a web page (text/html, titled “Open WebUI”)"),
    "text": ([answer(200, b"Welcome", "text/plain")], "text (text/plain: “Welcome”)"),
    "an empty body": ([answer(200, b"", "text/html")], "HTTP 200 and an empty body (text/html)"),
    "an empty body without a type": ([answer(200, b"", "")], "HTTP 200 and an empty body (no content type)"),
    "no content": ([answer(204)], "HTTP 204 and an empty body"),
    "an object": ([answer(200, {"status": "ok"})], "JSON that is not an answer (application/json"),
    "a word": ([answer(200, b'"ok"', "application/json")], 'text (application/json: “"ok"”)'),
    "a list": ([answer(200, [])], "JSON that is not an answer (application/json: “[]”)"),
    "a redirect": ([answer(302, location="/login?token=s3cret")], "/login, which is not followed"),
    "a redirect to nowhere": ([answer(301)], "HTTP 301 without an address"),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", NO_ANSWERS)
def test_an_answer_of_no_api_names_the_content_type_and_the_base_url(
    wrong: Running, upstream: ScriptedUpstream, kind: str, stream: bool
) -> None:
    script, words = NO_ANSWERS[kind]
    upstream.play("w1", script)
    before = len(upstream.asked_for("w1"))
    reply = ask(wrong, "w1", stream)
    assert (reply.status, reply.error["code"]) == (502, "upstream_invalid")
    assert words in reply.error["message"]
    assert f"POST {upstream.url}/v1/chat/completions" in reply.error["message"]
    assert "check the base URL" in reply.error["message"]
    assert "s3cret" not in reply.body.decode()
    assert len(upstream.asked_for("w1")) == before + 1  # it is not asked again


WRONG_ADDRESSES: dict[str, Script] = {
    "Go": [answer(404, b"404 page not found", "text/plain")],
    "nginx": [answer(404, b"<html><head><title>404 Not Found</title></head></html>", "text/html")],
    "FastAPI": [answer(404, {"detail": "Not Found"})],
    "a page that takes no POST": [answer(405, b"<html><h1>Method Not Allowed</h1></html>", "text/html")],
    "a page that takes no JSON": [answer(415, PAGE, "text/html")],
    "a server of files": [answer(501, PAGE, "text/html")],
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", WRONG_ADDRESSES)
def test_a_plain_404_is_about_the_address_and_not_the_model(
    wrong: Running, upstream: ScriptedUpstream, kind: str, stream: bool
) -> None:
    upstream.play("w2", WRONG_ADDRESSES[kind])
    reply = ask(wrong, "w2", stream)
    assert (reply.status, reply.error["code"]) == (502, "upstream_not_found")
    assert f"(POST {upstream.url}/v1/chat/completions; check the base URL)" in reply.error["message"]


OTHER_404S: dict[str, tuple[dict[str, Any], int, str]] = {
    "a file": (
        {"message": "No such File object: f", "type": "invalid_request_error"},
        400,
        "invalid_request",
    ),
    "no provider": ({"message": "No endpoints found that support tool use."}, 404, "model_not_found"),
    "our own word": ({"message": "model 'x' was not found", "code": "not_found"}, 404, "model_not_found"),
}


@pytest.mark.parametrize("kind", OTHER_404S)
def test_a_404_about_something_else_does_not_blame_the_address(
    wrong: Running, upstream: ScriptedUpstream, kind: str
) -> None:
    error, status, code = OTHER_404S[kind]
    upstream.play("w7", [answer(404, {"error": error})])
    reply = wrong.stream("w7")
    assert (reply.status, reply.error["code"]) == (status, code)
    assert "base URL" not in reply.error["message"]


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/octet-stream", "text/html"])
def test_a_stream_with_a_wrong_content_type_is_read(
    wrong: Running, upstream: ScriptedUpstream, content_type: str
) -> None:
    upstream.play("w3", body(frames(*text("One", " two"), STOP, USAGE), content_type))
    assert wrong.stream("w3").text == "One two"


REFUSED: dict[str, tuple[str, str, str, str]] = {
    "the target's key": ("w4", "", 'the key of target "mine" (from MINE_KEY): no', "upstream_unauthorized"),
    "no key": (
        "over-other",
        "",
        "add the name of the key's variable to targets.other.keys): no",
        "upstream_unauthorized",
    ),
    "no key of a preset": ("over-openai", "", "set OPENAI_API_KEY): no", "upstream_unauthorized"),
    "the client's own key": (
        "over-passing",
        "sk-of-the-client",
        'refused your own key, which target "passing" passes on',
        "authentication_error",
    ),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("case", REFUSED)
def test_a_401_of_an_upstream_says_which_targets_key_was_refused(
    wrong: Running, upstream: ScriptedUpstream, case: str, stream: bool
) -> None:
    model, own, words, code = REFUSED[case]
    upstream.play(model, [answer(401, {"error": {"message": "no"}})])
    headers = {"authorization": f"Bearer {own}"} if own else {}
    reply = ask(wrong, model, stream, headers=headers)
    assert (reply.status, reply.error["code"]) == (401, code)
    assert words in reply.error["message"]
    assert SECRET_KEY not in reply.body.decode()
    assert "sk-of" not in reply.body.decode()


def test_the_log_names_the_variable_of_the_refused_key(wrong: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("w5", [answer(403, {"error": {"message": "no permission for this model"}})])
    reply = wrong.stream("w5")
    assert (reply.status, reply.error["code"]) == (403, "upstream_forbidden")
    verdict = wrong.verdict(reply.headers["x-request-id"])
    assert (verdict["target"], verdict["refused_keys"]) == ("mine", ["MINE_KEY"])
    assert "refused keys: MINE_KEY" in verdict["message"]


def test_the_log_names_the_header_that_overrides_a_key(wrong: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("over-header", [answer(401, {"error": {"message": "no"}})])
    reply = wrong.stream("over-header")
    assert "(targets.overriding.headers): no" in reply.error["message"]
    assert wrong.verdict(reply.headers["x-request-id"])["refused_keys"] == ["targets.overriding.headers"]


def test_a_403_that_is_not_about_keys_names_none(wrong: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("w8", [answer(403, {"error": {"message": "Country not supported"}})])
    reply = wrong.stream("w8")
    assert (reply.status, reply.error["code"]) == (403, "upstream_forbidden")
    assert 'refused the request of target "mine" (403): Country not supported' in reply.error["message"]
    assert "refused_keys" not in wrong.verdict(reply.headers["x-request-id"])


CHAINED: dict[str, tuple[str, int]] = {
    "over-other": ("upstream_unauthorized", 401),
    "over-openai": ("upstream_forbidden", 403),
}


@pytest.mark.parametrize("model", CHAINED)
def test_a_gateway_behind_this_one_keeps_its_refusal_and_our_key_is_not_blamed(
    tmp_path: Path, upstream: ScriptedUpstream, wrong: Running, model: str
) -> None:
    code, status = CHAINED[model]
    upstream.play(model, [answer(status, {"error": {"message": "the key has no permission"}})])
    environment = {"FRONT_ONE": SECRET_KEY, "FRONT_TWO": "sk-front-two-22222222"}
    with gateway(tmp_path, config=FRONT.format(url=wrong.url), environment=environment) as front:
        for _ in range(2):
            reply = front.stream(model)
            assert (reply.status, reply.error["code"]) == (status, code)
            assert reply.error["type"] == "invalid_request"
            assert reply.error["message"].startswith('target "behind" reports: ')
            assert "FRONT_" not in reply.error["message"]
            verdict = front.verdict(reply.headers["x-request-id"])
            assert verdict["attempts"] == 1  # the other key is not tried
            assert "refused_keys" not in verdict


def test_an_accepted_key_is_not_in_the_log(wrong: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("w6", streamed(*text("One"), STOP, USAGE))
    assert "refused_keys" not in wrong.verdict(wrong.stream("w6").headers["x-request-id"])
