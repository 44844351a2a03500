"""Which failures are retried, with which key, and for how long: ask E5, over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.client.server import Script, answer, chunk, cut, in_a_thread, send
from tests.gateway.reply_assertions import failed, statuses
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.scripts import STOP, text
from tests.gateway.upstream import SSE_HEAD, USAGE, ScriptedUpstream, frames, streamed

CONFIG = """
passthrough = "chat"

[limits]
patience = 0.2
comment_every = 0.1
retries = 2
retry_wait = 1

[targets.chat]
base_url = "{url}/v1"
keys = ["KEY_ONE"]

[targets.ring]
base_url = "{url}/v1"
keys = ["KEY_ONE", "KEY_TWO"]

[targets.other-ring]
base_url = "{url}/v1"
keys = ["KEY_ONE", "KEY_TWO"]

[targets.tls]
base_url = "{tls_url}/v1"
ca_file = "{ca_file}"
keys = ["KEY_ONE"]

[targets.untrusted]
base_url = "{tls_url}/v1"
keys = ["KEY_ONE"]

[models.over-ring]
target = "ring"

[models.over-other-ring]
target = "other-ring"

[models.over-tls]
target = "tls"

[models.over-untrusted]
target = "untrusted"
"""

KEYS = {"KEY_ONE": f"{SECRET_KEY}-one", "KEY_TWO": f"{SECRET_KEY}-two"}
ONE, TWO = (f"Bearer {key}" for key in KEYS.values())


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls_upstream(authority: trustme.CA) -> Iterator[ScriptedUpstream]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    scripted = ScriptedUpstream(tls=context)
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def stubborn(
    upstream: ScriptedUpstream,
    tls_upstream: ScriptedUpstream,
    authority: trustme.CA,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    """A gateway with two retries within one second."""
    folder: Path = tmp_path_factory.mktemp("stubborn")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    config = CONFIG.format(url=upstream.url, tls_url=tls_upstream.url, ca_file="ca.pem")
    with gateway(folder, config=config, environment=KEYS) as running:
        yield running


YES = streamed(*text("Yes."), STOP, USAGE)

PASSING: dict[str, Script] = {
    "a rate limit in milliseconds": [answer(429, retry_after_ms="20")],
    "a rate limit in seconds": [answer(429, retry_after="0.02")],
    "a rate limit in words": [answer(429, {"error": {"message": "Please try again in 20ms."}})],
    "a rate limit in the first frame": streamed({"error": {"message": "Rate limit. Try again in 20ms."}}),
    "overload": [answer(503, retry_after_ms="20")],
    "a server error": [answer(500, retry_after_ms="20")],
    "nothing": streamed(done=False),
}


@pytest.mark.parametrize("how", PASSING)
def test_a_passing_failure_is_retried(stubborn: Running, upstream: ScriptedUpstream, how: str) -> None:
    upstream.play("e5", PASSING[how], YES)
    asked = len(upstream.asked_for("e5"))
    reply = stubborn.stream("e5")
    assert (reply.status, reply.text) == (200, "Yes.")
    assert reply.types.count("response.created") == 1
    assert len(upstream.asked_for("e5")) == asked + 2
    assert "diagnostics" not in reply.last
    first, second = upstream.asked_for("e5")[-2:]
    assert first.body == second.body


@pytest.mark.parametrize("broken", [[cut], [send(SSE_HEAD), cut]], ids=["before the answer", "in the answer"])
def test_a_request_that_may_have_been_processed_is_not_sent_again(
    stubborn: Running, upstream: ScriptedUpstream, broken: Script
) -> None:
    """Decision 32: the connection broke after the request was sent. The client decides about a retry."""
    upstream.play("e5-cut", broken, YES)
    asked = len(upstream.asked_for("e5-cut"))
    reply = stubborn.ask({"model": "e5-cut", "input": "x"})
    assert (reply.status, reply.error["code"]) == (502, "upstream_truncated")
    assert len(upstream.asked_for("e5-cut")) == asked + 1


def test_the_client_is_kept_alive_through_a_longer_wait(
    stubborn: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("e5-wait", [answer(429, retry_after_ms="600")], YES)
    reply = stubborn.stream("e5-wait")
    assert (reply.status, reply.text) == (200, "Yes.")
    assert reply.types.count("response.created") == 1
    assert reply.body.index(b"event: response.created") < reply.body.index(b": waiting")


BEYOND: dict[str, tuple[dict[str, str], str]] = {
    "seconds": ({"retry_after": "60"}, "60"),
    "milliseconds": ({"retry_after_ms": "61500"}, "62"),
    "a date": (
        {
            "retry_after": formatdate(1_800_000_090, usegmt=True),
            "date": formatdate(1_800_000_000, usegmt=True),
        },
        "90",
    ),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", BEYOND)
def test_a_wait_beyond_the_budget_is_passed_to_the_client(
    stubborn: Running, upstream: ScriptedUpstream, how: str, stream: bool
) -> None:
    headers, seconds = BEYOND[how]
    upstream.play(
        "e5-long", [answer(429, {"error": {"message": "later"}}, "application/json", **headers)], YES
    )
    asked = len(upstream.asked_for("e5-long"))
    reply = (stubborn.stream if stream else stubborn.whole)("e5-long")
    assert (reply.status, reply.error["code"]) == (429, "rate_limit_exceeded")
    assert reply.headers["retry-after"] == seconds
    assert len(upstream.asked_for("e5-long")) == asked + 1


def test_a_limit_that_stays_is_reported_after_the_last_retry(
    stubborn: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("e5-stays", [answer(429, {"error": {"message": "still"}}, retry_after_ms="10")])
    reply = stubborn.stream("e5-stays")
    assert (reply.status, reply.error["code"]) == (429, "rate_limit_exceeded")
    assert len(upstream.asked_for("e5-stays")) == 3
    assert stubborn.verdict(reply.headers["x-request-id"])["attempts"] == 3


QUOTAS = (
    {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}},
    {"error": {"type": "billing_error", "message": "Your credit balance is too low"}},
    {"error": {"message": "Insufficient balance"}},
)


@pytest.mark.parametrize("body", QUOTAS)
def test_a_spent_quota_is_fatal(stubborn: Running, upstream: ScriptedUpstream, body: Any) -> None:
    upstream.play("e5-quota", [answer(429, body, retry_after_ms="10")], YES)
    asked = len(upstream.asked_for("e5-quota"))
    reply = stubborn.stream("e5-quota")
    assert (reply.status, reply.error["code"]) == (429, "insufficient_quota")
    assert len(upstream.asked_for("e5-quota")) == asked + 1


def test_a_limit_in_the_middle_says_when_in_words_that_codex_parses(
    stubborn: Running, upstream: ScriptedUpstream
) -> None:
    error_chunk = {"error": {"code": "rate_limit_exceeded", "message": "Slow down, retry in 7 seconds"}}
    upstream.play("e5-middle", streamed(*text("One"), error_chunk), YES)
    reply = stubborn.stream("e5-middle")
    error = failed(reply, "rate_limit_exceeded")
    assert "Please try again in 7s" in error["message"]
    assert len(upstream.asked_for("e5-middle")) == 1


def test_a_wrong_request_is_not_sent_again(stubborn: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("e5-wrong", [answer(400, {"error": {"message": "no", "param": "messages[0]"}})])
    reply = stubborn.stream("e5-wrong")
    assert (reply.status, reply.error["param"]) == (400, "messages[0]")
    assert len(upstream.asked_for("e5-wrong")) == 1


# Several keys


def test_another_key_is_used_at_once_and_the_limited_one_rests(
    stubborn: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("over-ring", [answer(429, retry_after="60")], YES)
    assert stubborn.stream("over-ring").text == "Yes."
    assert [each.headers["authorization"] for each in upstream.asked_for("over-ring")] == [ONE, TWO]
    assert stubborn.stream("over-ring").text == "Yes."
    assert upstream.asked_for("over-ring")[-1].headers["authorization"] == TWO
    # If both keys rest, the client has to wait, for as long as the vendor says.
    upstream.play("over-ring", [answer(429, {"error": {"message": "both"}}, retry_after="70")])
    reply = stubborn.stream("over-ring")
    assert (reply.status, reply.headers["retry-after"]) == (429, "70")


def test_a_refused_key_gives_way_to_the_next(stubborn: Running, upstream: ScriptedUpstream) -> None:
    refused = {name: answer(401, {"error": {"message": f"{key} is unknown"}}) for name, key in KEYS.items()}
    upstream.play("over-other-ring", [refused["KEY_ONE"]], YES)
    assert stubborn.stream("over-other-ring").text == "Yes."
    assert stubborn.stream("over-other-ring").text == "Yes."
    used = [each.headers["authorization"] for each in upstream.asked_for("over-other-ring")]
    assert used == [ONE, TWO, TWO]
    upstream.play("over-other-ring", [refused["KEY_TWO"]])
    reply = stubborn.stream("over-other-ring")
    assert (reply.status, reply.error["code"]) == (401, "upstream_unauthorized")
    assert 'refused the key of target "other-ring" (from KEY_TWO)' in reply.error["message"]
    assert SECRET_KEY not in reply.body.decode()
    verdict = stubborn.verdict(reply.headers["x-request-id"])
    assert verdict["refused_keys"] == ["KEY_TWO"]


# TLS


def test_a_cut_inside_tls_is_a_failure(stubborn: Running, tls_upstream: ScriptedUpstream) -> None:
    tls_upstream.play("over-tls", [send(SSE_HEAD + chunk(frames(*text("One", " two"), done=False))), cut])
    reply = stubborn.stream("over-tls")
    failed(reply, "upstream_truncated")
    assert (reply.text, statuses(reply)) == ("One two", ["incomplete"])


def test_a_certificate_that_is_not_trusted_is_named(stubborn: Running) -> None:
    reply = stubborn.stream("over-untrusted")
    assert (reply.status, reply.error["code"]) == (502, "certificate_error")
    assert "ca_file" in reply.error["message"]
