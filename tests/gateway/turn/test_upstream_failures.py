"""Every failure of an upstream has the right code and status: ask E1 and ask E2, over HTTP."""

from __future__ import annotations

import json
from itertools import product
from threading import Event
from typing import Any

import pytest

from tests.client.server import Script, answer, chunk, cut, head, send
from tests.gateway import scripts
from tests.gateway.reply_assertions import failed, statuses
from tests.gateway.running import SECRET_KEY, Running
from tests.gateway.scripts import ANTHROPIC, HASTY, RESPONSES, RICH, STOP, TOOLS, body, text, typed
from tests.gateway.upstream import (
    SSE_HEAD,
    USAGE,
    ScriptedUpstream,
    begun,
    frames,
    streamed,
    until,
    until_gone,
)

# ask E1: what fails in the middle

TEN = [f"word{number} " for number in range(10)]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded, come back"}}
BROKEN_CHUNK = {"error": {"message": "The engine is on fire", "code": 503}, "choices": []}
RATE_LIMITED = {
    "error": {"message": "Rate limit reached. Try again in 20s.", "code": "rate_limit_exceeded"},
    "choices": [],
}

FAILURES: dict[str, tuple[str, Script, str, str]] = {
    "Anthropic is overloaded": (
        ANTHROPIC,
        body(typed([scripts.message_start(), *scripts.text_block(0, *TEN, stop=False), OVERLOADED])),
        "server_is_overloaded",
        "Overloaded, come back",
    ),
    "an error in a chunk": (
        "d10",
        streamed(*text(*TEN), BROKEN_CHUNK, done=False),
        "server_is_overloaded",
        "The engine is on fire",
    ),
    "a named event": (
        "d10",
        body(frames(*text(*TEN), done=False) + b'event: error\ndata: {"message": "out of memory"}\n\n'),
        "server_error",
        "out of memory",
    ),
    "a failed response": (
        RESPONSES,
        body(
            typed(
                [
                    *scripts.rich_responses()[:9],
                    {
                        "type": "response.failed",
                        "response": {"error": {"code": "server_error", "message": "the model broke"}},
                    },
                ]
            )
        ),
        "server_error",
        "the model broke",
    ),
    "a reset": ("d10", [*begun(*text(*TEN)), cut], "upstream_truncated", "broke"),
    "no JSON": ("d10", body(frames(*text(*TEN), "{broken", done=False)), "upstream_invalid", "{broken"),
    "a stall": (
        HASTY,
        [*begun(*text(*TEN)), until_gone(Event())],
        "upstream_timeout",
        "nothing arrived for 0.5 seconds",
    ),
    "the rate limit": ("d10", streamed(*text(*TEN), RATE_LIMITED), "rate_limit_exceeded", "try again in 20s"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_in_the_middle_has_the_vendors_message(
    penstock: Running, upstream: ScriptedUpstream, kind: str
) -> None:
    model, script, code, words = FAILURES[kind]
    upstream.play(model, script)
    reply = penstock.stream(model)
    error = failed(reply, code)
    assert words.lower() in error["message"].lower()
    assert reply.last["output"][0]["type"] == "message"
    assert statuses(reply) == ["incomplete"]
    if model != RESPONSES:
        assert reply.text == "".join(TEN)
    usage = reply.last["usage"]
    assert usage["input_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert len(upstream.asked_for(model)) >= 1
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert (verdict["outcome"], verdict["code"], verdict["terminal_sent"]) == ("failed", code, True)
    assert verdict["closer"] == ("timeout" if kind == "a stall" else "upstream")


STATUS_OF = {
    "server_is_overloaded": 503,
    "server_error": 500,
    "upstream_timeout": 504,
    "rate_limit_exceeded": 429,
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_client_that_does_not_stream_gets_a_status_and_what_had_come(
    penstock: Running, upstream: ScriptedUpstream, kind: str
) -> None:
    model, script, code, words = FAILURES[kind]
    upstream.play(model, script)
    reply = penstock.whole(model)
    assert (reply.status, reply.error["code"]) == (STATUS_OF.get(code, 502), code)
    assert words.lower() in reply.error["message"].lower()
    partial = reply.json["response"]
    assert (partial["status"], partial["error"]["code"]) == ("failed", code)
    assert partial["output"][0]["status"] == "incomplete"


def test_a_client_that_does_not_stream_gets_a_retry_after(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("d10-wait", streamed(*text(*TEN), RATE_LIMITED))
    assert penstock.whole("d10-wait").headers["retry-after"] == "20"


@pytest.mark.parametrize("before", [[], text(*TEN)])
def test_a_key_that_the_vendor_repeats_is_masked(
    penstock: Running, upstream: ScriptedUpstream, before: list[dict[str, Any]]
) -> None:
    """Ask K3: in the first frame, where it becomes an HTTP error, and in the middle of a stream."""
    upstream.play("d10-key", streamed(*before, {"error": {"message": f"key {SECRET_KEY} was revoked"}}))
    for reply in (penstock.stream("d10-key"), penstock.whole("d10-key")):
        assert SECRET_KEY not in reply.body.decode()
        assert "was revoked" in reply.body.decode()


HANGING: dict[str, tuple[str, bytes, str]] = {
    "an error in a chunk": ("a10", frames(*text(*TEN), BROKEN_CHUNK, done=False), "response.failed"),
    "no JSON": ("a10", frames(*text(*TEN), "{broken", done=False), "response.failed"),
    "Anthropic is overloaded": (
        ANTHROPIC,
        typed([scripts.message_start(), *scripts.text_block(0, *TEN, stop=False), OVERLOADED]),
        "response.failed",
    ),
    "[DONE]": ("a10", frames(*text(*TEN), STOP, USAGE), "response.completed"),
    "message_stop": (ANTHROPIC, RICH[ANTHROPIC](), "response.completed"),
    "response.completed": (RESPONSES, RICH[RESPONSES](), "response.completed"),
}


# ask A10
@pytest.mark.parametrize("kind", HANGING)
def test_an_upstream_that_keeps_its_socket_open_does_not_keep_the_client(
    penstock: Running, upstream: ScriptedUpstream, kind: str
) -> None:
    """The answer to the client ends, and the upstream's connection is closed."""
    model, data, end = HANGING[kind]
    gone = Event()
    upstream.play(model, [send(SSE_HEAD + chunk(data)), until_gone(gone)])
    reply = penstock.stream(model, tools=TOOLS)
    assert reply.types[-1] == end
    assert gone.wait(5)


# ask E2: what fails before the first byte

STATUSES: dict[int, tuple[int, str]] = {
    400: (400, "invalid_request"),
    401: (401, "upstream_unauthorized"),
    402: (429, "insufficient_quota"),
    403: (403, "upstream_forbidden"),
    404: (404, "model_not_found"),
    405: (502, "upstream_not_found"),
    413: (400, "context_length_exceeded"),
    422: (400, "invalid_request"),
    429: (429, "rate_limit_exceeded"),
    500: (500, "server_error"),
    502: (500, "server_error"),
    503: (503, "server_is_overloaded"),
    529: (503, "server_is_overloaded"),
    # Statuses of proxies for a server that did not answer: the request itself is valid.
    408: (504, "upstream_timeout"),
    421: (500, "server_error"),
    425: (503, "server_is_overloaded"),
    499: (500, "server_error"),
    504: (504, "upstream_timeout"),
    520: (500, "server_error"),
    521: (500, "server_error"),
    522: (504, "upstream_timeout"),
    523: (500, "server_error"),
    524: (504, "upstream_timeout"),
    525: (500, "server_error"),
    526: (500, "server_error"),
    527: (500, "server_error"),
    528: (500, "server_error"),
    530: (500, "server_error"),
    598: (504, "upstream_timeout"),
    599: (504, "upstream_timeout"),
}


@pytest.mark.parametrize(
    ("status", "stream"), [*((status, True) for status in STATUSES), (400, False), (429, False), (504, False)]
)
def test_a_refusal_is_an_http_error_of_its_kind(
    penstock: Running, upstream: ScriptedUpstream, status: int, stream: bool
) -> None:
    message = f"No: {SECRET_KEY} is not welcome"  # upstreams repeat keys
    upstream.play(f"e2-{status}", [answer(status, {"error": {"message": message}}, retry_after="17")])
    reply = penstock.stream(f"e2-{status}") if stream else penstock.whole(f"e2-{status}")
    assert (reply.status, reply.error["code"]) == STATUSES[status]
    assert "No: " in reply.error["message"]
    assert SECRET_KEY not in reply.body.decode()
    assert reply.headers["x-request-id"] in reply.error["message"]
    assert reply.headers["retry-after"] == "17"
    assert reply.headers["content-type"] == "application/json"
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert (verdict["outcome"], verdict["upstream_status"]) == ("refused", status)


PAGE = b"<!DOCTYPE html><html><head><title>Gone away</title></head><body><h1>Ray ID</h1></body></html>"
BODIES: dict[str, tuple[bytes, str, str]] = {
    "none": (b"", "", "and no body"),
    "a web page": (PAGE, "text/html; charset=UTF-8", "and a web page: Gone away"),
    "a web page that claims to be JSON": (PAGE, "application/json", "and a web page: Gone away"),
}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, "none") for status in STATUSES if status not in (400, 404, 422)),
        *product((429, 502), BODIES),
    ],
)
def test_a_status_means_the_same_without_an_error_object(
    penstock: Running, upstream: ScriptedUpstream, status: int, kind: str
) -> None:
    body, content_type, words = BODIES[kind]
    upstream.play("e2-bare", [answer(status, body, content_type)])
    reply = penstock.stream("e2-bare")
    assert (reply.status, reply.error["code"]) == STATUSES[status]
    assert f"the upstream returned HTTP {status} {words}" in reply.error["message"]
    assert "<" not in reply.error["message"]


@pytest.mark.parametrize("status", [408, 421, 425, 504, 520])
def test_a_server_that_gave_up_is_followed_by_the_next_target(
    penstock: Running, upstream: ScriptedUpstream, status: int
) -> None:
    upstream.play("chain-first", [answer(status, {"error": {"message": "gave up"}})])
    upstream.play("chain-second", body(RICH[ANTHROPIC]()))
    reply = penstock.stream("over-chain", tools=TOOLS)
    assert reply.types[-1] == "response.completed"
    assert [each["code"] for each in reply.last["diagnostics"]] == ["fell_back"]


def test_a_rate_limit_says_how_long_even_where_the_vendor_does_not(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("e2-mute", [answer(429, {"error": {"message": "slow"}})])
    assert int(penstock.stream("e2-mute").headers["retry-after"]) > 0


FIRST_FRAMES: dict[str, tuple[str, bytes, int, str, str | None]] = {
    "an overflow": (
        "e2-first",
        frames({"error": {"message": "Maximum context length is 8192 tokens", "code": 400}}, done=False),
        400,
        "context_length_exceeded",
        None,
    ),
    "a rate limit": ("e2-first", frames(RATE_LIMITED), 429, "rate_limit_exceeded", "20"),
    "after the role": (
        "e2-first",
        frames(scripts.rich_chat()[0], BROKEN_CHUNK),
        503,
        "server_is_overloaded",
        None,
    ),
    "a wrong key for Anthropic": (
        ANTHROPIC,
        typed([{"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}]),
        401,
        "authentication_error",
        None,
    ),
    "a failed response": (
        RESPONSES,
        typed(
            [{"type": "error", "code": "insufficient_quota", "message": "You exceeded your current quota"}]
        ),
        429,
        "insufficient_quota",
        None,
    ),
    "no JSON": ("e2-first", frames("not json", done=False), 502, "upstream_invalid", None),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", FIRST_FRAMES)
def test_an_error_in_the_first_frame_is_an_http_error(
    penstock: Running, upstream: ScriptedUpstream, kind: str, stream: bool
) -> None:
    model, data, status, code, wait = FIRST_FRAMES[kind]
    upstream.play(model, body(data))
    reply = penstock.stream(model) if stream else penstock.whole(model)
    assert (reply.status, reply.error["code"]) == (status, code)
    if wait is not None:
        assert reply.headers["retry-after"] == wait


def test_an_error_document_with_status_200_is_an_http_error(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    data = json.dumps({"error": {"message": "model is overloaded", "type": "overloaded_error"}}).encode()
    upstream.play("e2-document", body(data, "application/json"))
    reply = penstock.stream("e2-document")
    assert (reply.status, reply.error["code"]) == (503, "server_is_overloaded")


def test_an_unreachable_upstream_is_a_502(penstock: Running, upstream: ScriptedUpstream) -> None:
    """It accepts the connection and closes it without an answer."""
    upstream.play("e2-closed", [cut])
    reply = penstock.stream("e2-closed")
    assert (reply.status, reply.error["code"]) == (502, "upstream_truncated")


def test_after_the_patience_a_failure_is_sent_in_the_stream(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """`created` was already sent, so an HTTP status is no longer possible (decision 9)."""
    released = Event()
    refused = answer(429, {"error": {"message": "too many"}}, retry_after="9")
    upstream.play("e2-late", [until(released), refused])
    with penstock.live("e2-late") as live:
        live.until(b"response.in_progress")
        released.set()
        reply = live.rest()
    error = failed(reply, "rate_limit_exceeded")
    assert "try again in 9s" in error["message"]
    assert reply.types.count("response.created") == 1


def test_a_redirect_is_not_followed(penstock: Running, upstream: ScriptedUpstream) -> None:
    upstream.play("e2-moved", [send(head(307, "", location=f"{upstream.url}/elsewhere") + b"\r\n")])
    reply = penstock.stream("e2-moved")
    assert (reply.status, reply.error["code"]) == (502, "upstream_invalid")
    assert len(upstream.asked_for("e2-moved")) == 1
