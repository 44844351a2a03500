"""Web pages, text, nothing and redirects are explained by the address that was asked, without its secrets."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.net.masking import Secrets
from penstock.net.urls import read_address
from penstock.net.wrong_addresses import (
    RequestLine,
    not_an_answer,
    redirected,
    without_tokens,
)

KEY = "sk-test-0123456789"
BASE = "http://127.0.0.1:3000/v1"


def asked(base_url: str = BASE, path: str = "responses") -> RequestLine:
    address = read_address(base_url)
    return RequestLine("POST", address.under(path), address)


@dataclass
class Received:
    content_type: str
    asked: RequestLine
    secrets: Secrets
    status: int = 200


def message_for(content_type: str, body: bytes, base_url: str = BASE, status: int = 200) -> str:
    received = Received(content_type, asked(base_url), Secrets([KEY]), status)
    return not_an_answer("the upstream", received, body)


PAGE = b"<!doctype html>\n<html><head><title>Open WebUI</title></head>"
FOR = "instead of an API's answer for POST http://127.0.0.1:3000/v1/responses"
CAUSE = ", which may be a web interface, a proxy or a login page: check the base URL"

EXPLAINED: list[tuple[str, bytes, str]] = [
    ("text/html", PAGE, f"a web page (text/html, titled “Open WebUI”) {FOR}{CAUSE}"),
    ("", b"\n <?xml version='1.0'?><html>", f"a web page (no content type) {FOR}{CAUSE}"),
    ("", b"<!-- x -->\n<body>Hello", f"a web page (no content type, titled “Hello”) {FOR}{CAUSE}"),
    ("text/html", b"<div>Hello", f"a web page (text/html, titled “Hello”) {FOR}{CAUSE}"),
    (
        "application/xml",
        b"<?xml version='1.0'?>\n<Error><Code>" + b"A" * 99,
        f"XML (application/xml: “<?xml version='1.0'?> <Error><Code>{'A' * 25}…”) {FOR}: check the base URL",
    ),
    ("", b"<Error/>", f"XML (no content type: “<Error/>”) {FOR}: check the base URL"),
    ("text/plain", b"OK\n", f"text (text/plain: “OK”) {FOR}: check the base URL"),
    ("text/plain", b"x" * 500, f"text (text/plain: “{'x' * 60}…”) {FOR}: check the base URL"),
    ("text/html", b"", f"HTTP 200 and an empty body (text/html) {FOR}: check the base URL"),
    ("", b" \r\n", f"HTTP 200 and an empty body (no content type) {FOR}: check the base URL"),
    (
        "application/json",
        b'{"status":"ok"}',
        f'JSON that is not an answer (application/json: “{{"status":"ok"}}”) {FOR}: check the base URL',
    ),
]


@pytest.mark.parametrize(("content_type", "body", "words"), EXPLAINED)
def test_what_is_not_an_answer_of_an_api_is_named_with_its_content_type_and_the_base_url(
    content_type: str, body: bytes, words: str
) -> None:
    assert message_for(content_type, body) == f"the upstream returned {words}"


def test_the_status_of_an_empty_answer_is_named() -> None:
    assert "returned HTTP 204 and an empty body (no content type)" in message_for("", b"", status=204)


@pytest.mark.parametrize(
    ("base_url", "remedy"),
    [
        ("http://127.0.0.1:3000", "requests were sent to http://127.0.0.1:3000/v1; if that is not the API"),
        ("http://127.0.0.1:3000/api", "perhaps it should be http://127.0.0.1:3000/api/v1"),
        ("http://127.0.0.1:3000/v1/v1", "has /v1 twice; perhaps it should be http://127.0.0.1:3000/v1"),
        ("http://127.0.0.1:3000/v1", ": check the base URL"),
    ],
)
def test_the_likely_mistake_in_the_base_url_is_named(base_url: str, remedy: str) -> None:
    assert remedy in message_for("text/html", PAGE, base_url)


def test_secrets_are_in_no_explanation() -> None:
    page = f"<title>{KEY}</title>".encode()
    message = message_for(KEY, page, f"{BASE}/{KEY}?key={KEY}")
    assert KEY not in message
    assert "?" not in message


@pytest.mark.parametrize("path", ["/{}/v1/v1", "/{}"])
def test_a_secret_in_the_path_is_not_in_the_remedy(path: str) -> None:
    secret = "tok-SECRETPATH"
    received = Received("text/html", asked(f"http://127.0.0.1:3000{path.format(secret)}"), Secrets([secret]))
    message = not_an_answer("the upstream", received, PAGE)
    assert "perhaps it should be http://127.0.0.1:3000/[key]" in message
    assert secret not in message


TOKENS = [
    "0a1b2c3d4e5f60718293a4b5",
    "550e8400-e29b-41d4-a716-446655440000",
    "tok-aBcD3fGh1jKlMn0p",
    "bGV0IG1lIGlu_k3YQzN-x9T",
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("path", ["/{}/v1/v1", "/{}", "/v1/{}"])
def test_a_random_part_of_a_path_is_in_no_message_even_if_it_is_not_a_known_secret(
    token: str, path: str
) -> None:
    base_url = f"http://127.0.0.1:3000{path.format(token)}"
    message = message_for("text/html", PAGE, base_url)
    assert token not in message
    assert f"POST http://127.0.0.1:3000{path.format('…')}/responses" in message
    assert token not in asked(base_url).advice
    location = f"https://127.0.0.1:3000{path.format(token)}/responses"
    redirect = redirected(308, {"location": location}, Secrets(), asked(base_url)).message
    assert token not in redirect
    assert f"requires https: use https://127.0.0.1:3000{path.format('…')} as the base URL" in redirect


@pytest.mark.parametrize(
    "url",
    [
        "https://a1b2c3d4e5f6a7b8c9d0.endpoints.example/v1",
        "https://h/v1beta/models/gemini-2.5-flash-lite-preview-09-2025:streamGenerateContent",
        "https://h/model/anthropic.claude-3-5-sonnet-20241022-v2/converse-stream",
        "https://h/openai/deployments/gpt4omini-production-2024-07-18/chat/completions",
        "https://h/v1/a-folder-with-quite-a-long-name-of-words",
    ],
)
def test_hosts_and_names_of_models_stay_in_messages(url: str) -> None:
    assert without_tokens(url) == url


def test_a_redirect_is_reported_without_its_query() -> None:
    location = f"https://u:p@other/v1?token=1&{KEY}"
    error = redirected(307, {"Location": location}, Secrets([KEY]), asked(), "req_1")
    assert (error.status, error.code, error.request_id) == (307, "redirected", "req_1")
    assert f"redirects POST {BASE}/responses to https://other/v1, which is not" in error.message
    for secret in ("token", "u:p", KEY):
        assert secret not in str(error)


REDIRECTS: list[tuple[dict[str, str], str]] = [
    (
        {"location": "https://127.0.0.1:3000/v1/responses"},
        "https: use https://127.0.0.1:3000/v1 as the",
    ),
    ({"location": "https://api.example/v1/responses"}, "; use https://api.example/v1 as the base URL"),
    ({"location": "/api/v1/responses"}, "; use http://127.0.0.1:3000/api/v1 as the base URL"),
    (
        {"location": "/login?next=%2Fv1"},
        "/login, which is not followed; it may be a web interface",
    ),
    ({"location": "/v1/responses/"}, "check the base URL"),
    ({"location": "http://[x"}, "/v1/responses, which is not followed; HTTP 302 without an address: check"),
    ({}, "/v1/responses, which is not followed; HTTP 302 without an address: check the base URL"),
]


@pytest.mark.parametrize(("headers", "advice"), REDIRECTS)
def test_a_redirect_says_where_to_and_what_to_set_as_the_base_url(
    headers: dict[str, str], advice: str
) -> None:
    assert advice in redirected(302, headers, Secrets(), asked()).message
