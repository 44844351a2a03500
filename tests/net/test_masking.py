"""Masking: no secret that was sent remains in what a server returns."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import AuthenticationError, OpenResponsesError
from penstock.net.masking import Secrets, secrets_in, secrets_in_query, secrets_of
from penstock.net.urls import read_address
from tests.client.asking import KEY, REQUEST, asking, read_until_failure, texts_of_exception
from tests.client.server import HELLO, Script, Server, answer, chunk, cut, head, run, send, sse
from tests.net.refused_requests import refused


@pytest.mark.parametrize("key", ["a/b+c=d/e", 'quo"te-and\\more', "with%percent", 'a "na\u00efve" key'])
def test_a_key_is_masked_in_every_spelling(key: str) -> None:
    secrets = Secrets([key])
    escaped = json.dumps(key)[1:-1].replace("/", "\\/")
    assert secrets.mask(f"{key} {json.dumps(key)} {escaped}") == '[key] "[key]" [key]'
    assert secrets.mask(json.dumps(key, ensure_ascii=False)) == '"[key]"'
    assert refused(401, f"<a href='?k={escaped}'>".encode(), secrets=secrets).message == "<a href='?k=[key]'>"


def test_a_key_is_masked_in_bytes_but_a_placeholder_is_not() -> None:
    """They are recorded for replay, and may be cut in the middle of a character."""
    secrets = Secrets(["sk-0123456789", "error"])
    assert secrets.mask_bytes(b'\xff{"error": "sk-0123456789"}\xf0') == b'\xff{"error": "[key]"}\xf0'


@pytest.mark.parametrize("size", range(1, 20))
def test_a_key_that_is_split_between_reads_is_masked(size: int) -> None:
    key = "sk-0123456789"
    secrets, masked_text, data, before = Secrets([key]), b"", f"the key {key} is wrong".encode(), b""
    for start in range(0, len(data), size):
        read = data[start : start + size]
        masked = secrets.mask_bytes(read, before)
        assert masked, "an empty read means the end of the body"
        masked_text, before = masked_text + masked, before + read
    assert key[:-1].encode() not in masked_text
    assert key[9:].encode() not in masked_text
    assert masked_text.startswith(b"the key ")
    assert masked_text.endswith(b" is wrong")


def test_headers_with_secret_names_are_masked() -> None:
    headers = {"Authorization": "Bearer abc", "api-key": "def", "x-trace": "ghi", "Cookie": "a=b"}
    assert set(secrets_in(headers)) == {"Bearer abc", "abc", "def", "a=b", ""}
    assert Secrets(secrets_in(headers)).mask("abc def ghi") == "[key] [key] ghi"


def test_headers_with_likely_secret_names_are_masked_if_long() -> None:
    long = {"x-auth": "0123456789", "X-Session-Id": "abcdefghij", "x-credentials": "klmnopqrst"}
    assert set(secrets_in(long)) == {*long.values(), ""}
    assert set(secrets_in({"x-auth-mode": "api", "x-author": "me", "session": "1"})) == set()


ECHO = {"error": {"message": f"Bearer {KEY} is not a key", "code": f"bad {KEY}", "param": KEY}}

STARTED = head(transfer_encoding="chunked") + chunk(sse(HELLO[:2]))


@pytest.mark.parametrize(
    "script",
    [
        [answer(401, ECHO)],
        [answer(404, f"<p>{KEY}".encode(), "text/html")],
        [answer(503, ECHO, **{"x-request-id": KEY})],
        [answer(200, ECHO)],
        [answer(302, location=f"https://other/{KEY}?{KEY}")],
        [answer(200, KEY.encode(), KEY)],
        [send(head() + f"data: {KEY}\n\n".encode())],
        [send(head() + b'event: error\ndata: {"error": {"message": "%s"}}\n\n' % KEY.encode())],
        [send(head(x_request_id=KEY) + sse(HELLO[:2]))],
        [send(f"{KEY} 200 {KEY}\r\n\r\n".encode())],
        [send(STARTED), cut],
        [send(STARTED + f"{KEY}\r\n".encode())],
        [cut],
    ],
)
def test_a_repeated_key_is_in_no_log_and_no_exception(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        scripts = [script] * 3
        async with asking(*scripts, key=lambda: KEY) as (client, _):
            _, error = await read_until_failure(client.stream(REQUEST))
            assert isinstance(error, OpenResponsesError)
            assert all(KEY not in text for text in texts_of_exception(error))
            assert KEY not in repr(client)

    caplog.set_level(logging.DEBUG)
    run(main())
    assert "ERROR" in caplog.text
    assert KEY not in caplog.text


KEY_MESSAGE = f"Bearer {KEY} is not a key"


def test_output_in_the_last_event_is_not_masked() -> None:
    event = {"type": "response.incomplete", "response": {"output": [{"text": KEY}], "user": KEY}}
    masked = Secrets([KEY]).mask_event(event)
    assert masked["response"] == {"output": [{"text": KEY}], "user": "[key]"}


@pytest.mark.parametrize("query", [f"api-key={KEY}", f"a=b&{KEY}", "code=" + KEY.replace("-", "%2d")])
def test_a_key_in_the_query_of_the_base_url_is_masked(query: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        body = {"error": {"message": f"{KEY_MESSAGE}: /v1/responses?{query}"}}
        async with Server([answer(401, body)]) as server:
            config = ClientConfig(f"{server.url}/v1?{query}")
            async with OpenResponsesClient(config) as client:
                _, error = await read_until_failure(client.stream(REQUEST))
                written = query.rpartition("=")[2]
                assert isinstance(error, AuthenticationError)
                assert all(KEY not in text and written not in text for text in texts_of_exception(error))
            assert written not in repr(read_address(config.base_url))

    run(main())
    assert KEY not in caplog.text


def test_a_version_in_the_query_is_not_a_secret() -> None:
    assert list(secrets_in_query("api-version=2026-01-01&mode=preview")) == []


LONG_KEY = "sk-planted/7fQ2x9LmZt4w"


@pytest.mark.parametrize("length", range(len(LONG_KEY) // 2 + 1, len(LONG_KEY)))
def test_a_truncated_secret_is_masked(length: int) -> None:
    assert Secrets([LONG_KEY]).mask(f"no '{LONG_KEY[:length]}' here") == "no '[key]' here"


def test_short_values_are_not_secrets() -> None:
    assert list(secrets_of(["eu", "Bearer abc", "long-enough", "Basic dXNlcjpwYXNz"])) == [
        "Bearer abc",
        "long-enough",
        "Basic dXNlcjpwYXNz",
        "dXNlcjpwYXNz",
    ]


@given(st.text("key[]ab/ ", max_size=30), st.text("key[]ab/ ", min_size=1, max_size=20))
def test_masking_ends_and_leaves_no_secret(text: str, secret: str) -> None:
    shown = Secrets([secret]).mask(f"{text}{secret}{text}")
    # A secret with a bracket may be formed again by the mask and the text around it.
    if not set(secret) & set("[]") and secret not in "key":
        assert secret not in shown
