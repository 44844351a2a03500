"""The gateway fetches nothing that a request, an upstream's answer or a stored item names (ask K2)."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.server import Asked, Script, answer, in_a_thread
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.scripts import RICH, STOP, body
from tests.gateway.upstream import ScriptedUpstream, frames
from tests.hardening.canary import MARK, Canary, canary
from tests.hardening.url_fields import UrlCase, cases, media_cases

pytestmark = pytest.mark.hardening

DIALECTS = ("chat", "responses", "anthropic", "gemini")
_CONFIG = """
passthrough = "chat"
[server]
record = true
[limits]
retries = 0
patience = 1
"""
_TARGET = """
[targets.{dialect}]
base_url = "{url}/{dialect}/v1"
dialect = "{dialect}"
keys = ["UPSTREAM_KEY"]
[models.over-{dialect}]
target = "{dialect}"
"""
FILE_CONTENT = "canary-file-content"
_CONNECT = re.compile(r"connect\(\d+, \{sa_family=AF_INET6?, sin6?_port=htons\((\d+)\)")
_OUTSIDE = re.compile(r'openat\([^"]*"([^"]*canary[^"]*)"')


class AnyUpstream(ScriptedUpstream):
    """Answers in the dialect that the path names. Its answers are full of URLs of the canary."""

    def __init__(self, canary: Canary) -> None:
        super().__init__()
        self._canary = canary
        self.redirects = 0
        """The status with which every request is redirected to the canary, if it is not 0."""

    def script_for(self, asked: Asked) -> Script:
        url = self._canary.urls()[0]
        if self.redirects:
            return [
                answer(
                    self.redirects,
                    {"error": {"message": f"see {url}"}},
                    location=url,
                    refresh=f"0; url={url}",
                )
            ]
        if asked.method == "GET":
            return [
                answer(
                    200, {"data": [{"id": "m", "url": url}], "next": url, "next_page": url, "object": "list"}
                )
            ]
        return body(self._stream(asked.target, url))

    def _stream(self, target: str, url: str) -> bytes:
        if "/anthropic/" in target:
            return RICH["over-anthropic"]()
        if "/responses/" in target:
            return RICH["over-responses"]()
        if "/gemini/" in target:
            parts = [{"text": "see"}, {"fileData": {"fileUri": url}}]
            grounding = {"groundingChunks": [{"web": {"uri": url, "title": url}}]}
            candidate = {"content": {"parts": parts}, "finishReason": "STOP", "groundingMetadata": grounding}
            return b"data: " + json.dumps({"candidates": [candidate]}).encode() + b"\n\n"
        cited = [{"type": "url_citation", "url_citation": {"url": url, "title": url}}]
        images = [{"type": "image_url", "image_url": {"url": url}}]
        said = chat_chunk({"content": f"![]({url})", "annotations": cited, "images": images})
        return b"retry: 1\n\n" + frames(said, STOP)


class Place:
    """A gateway, its upstream, a canary, and a file that nobody may read."""

    def __init__(self, running: Running, upstream: AnyUpstream, canary: Canary, file: Path) -> None:
        self.running, self.upstream, self.canary, self.file = running, upstream, canary, file

    def urls(self) -> list[str]:
        names = [self.file.as_uri(), f"file://localhost{self.file}", str(self.file), f"file:{self.file}"]
        return [*self.canary.urls(), *names, "http://169.254.169.254/latest/meta-data/"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("ssrf")
    file = folder / "canary-file.png"
    file.write_text(FILE_CONTENT)
    watched = folder / "calls"
    strace = ["strace", "-D", "-f", "-qq", "-s", "200", "-e", "trace=connect,openat", "-o", str(watched)]
    through = tuple(strace) if shutil.which("strace") else ()
    with canary() as nobody:
        upstream = AnyUpstream(nobody)
        with in_a_thread(upstream):
            targets = "".join(_TARGET.format(url=upstream.url, dialect=each) for each in DIALECTS)
            environment = {"UPSTREAM_KEY": SECRET_KEY}
            with gateway(
                folder, config=_CONFIG + targets, environment=environment, through=through
            ) as running:
                yield Place(running, upstream, nobody, file)
                _check_reached(nobody)
            if through:
                _check_calls(watched.read_text(), {upstream.port, running.address.port})


def _check_reached(nobody: Canary) -> None:
    """Nobody has connected; and the addresses are such that this would have been noticed."""
    assert nobody.connections == 0
    for host in nobody.hosts:
        with socket.create_connection((host, nobody.port), timeout=5) as opened:
            opened.settimeout(5)
            assert opened.recv(1) == b""
    assert nobody.connections == len(nobody.hosts)


def _check_calls(calls: str, known: set[int | None]) -> None:
    """By the system calls of the process: it has connected only to its upstream and, for `/v1/parts`, to
    itself, not even to a name server; and it has opened no file that a request names."""
    assert set(map(int, _CONNECT.findall(calls))) == known
    assert _OUTSIDE.findall(calls) == []


def ask(place: Place, case: UrlCase, dialect: str, path: str = "/v1/responses") -> tuple[int, bytes]:
    connection = place.running.connect()
    fields = {"model": f"over-{dialect}", **case.body}
    connection.request("POST", path, json.dumps(fields).encode(), {"content-type": "application/json"})
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply.status, data


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_field_of_a_request_is_fetched(place: Place, dialect: str) -> None:
    urls = place.urls()
    for number, case in enumerate(cases(urls[0])):
        url = urls[number % len(urls)]
        rewritten = UrlCase(case.name, json.loads(json.dumps(case.body).replace(urls[0], url)))
        status, data = ask(place, rewritten, dialect)
        assert status in (200, 400, 404), (case.name, status, data)
        assert status == 200 or json.loads(data)["error"]["code"], case.name
        assert FILE_CONTENT.encode() not in data
    sent = b"".join(asked.body for asked in place.upstream.asked)
    assert FILE_CONTENT.encode() not in sent
    assert place.canary.connections == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_url_of_a_medium_reaches_the_upstream_unopened_or_is_reported(place: Place, dialect: str) -> None:
    for url in place.urls():
        for case in media_cases(url):
            before = len(place.upstream.asked)
            status, data = ask(place, case, dialect)
            if status == 400:
                continue
            assert status == 200, (case.name, url, data)
            sent = [asked.body for asked in place.upstream.asked[before:] if asked.body]
            reported = [each["code"] for each in json.loads(data).get("diagnostics", [])]
            assert len(sent) == 1
            assert json.dumps(url).encode() in sent[0] or "content_left_out" in reported, (case.name, url)
    assert place.canary.connections == 0


ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/v1/responses/input_tokens", {"model": "over-chat", "input": "{parts}"}),
    ("POST", "/v1/responses/compact", {"model": "over-chat", "input": "{parts}"}),
    ("POST", "/v1/conversations", {"items": "{parts}"}),
    (
        "POST",
        "/v1/parts",
        {"method": "respond", "model": "over-chat", "messages": "{url}", "endpoint": "{url}"},
    ),
    ("POST", "/v1/parts", {"method": "configure", "endpoint": "{url}", "base_url": "{url}"}),
    ("POST", "/v1/parts", {"method": "models", "base_url": "{url}", "configuration": {"baseUrl": "{url}"}}),
    ("GET", "/v1/models/{url}", None),
    ("GET", "/v1/responses/{url}", None),
    ("GET", "/inspector/api/connect?base_url={quoted}", None),
    ("POST", "/inspector/api/check", "{frames}"),
    ("POST", "/inspector/api/translate?dialect=chat", "{frames}"),
    ("GET", "/inspector/{url}", None),
    ("GET", "/{url}", None),
    ("GET", "{url}", None),
    ("POST", "{url}", {"model": "over-chat", "input": "x"}),
    ("CONNECT", "{authority}", None),
)
HEADERS = (
    *("host", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-server"),
    *("x-original-url", "x-rewrite-url", "x-real-ip", "x-base-url", "x-api-base", "x-upstream", "origin"),
    *("referer", "destination", "x-target-url", "openai-organization", "traceparent", "x-request-id"),
)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route[0]} {route[1]}")
def test_no_route_fetches_what_it_is_sent(place: Place, route: tuple[str, str, Any]) -> None:
    method, path, content = route
    for url in place.urls():
        part = [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
        text = json.dumps(content).replace('"{parts}"', json.dumps(part)).replace("{url}", url)
        if content == "{frames}":
            text = frames(chat_chunk({"content": url}), STOP).decode()
        quoted = url.replace(":", "%3A").replace("/", "%2F")
        target = path.format(url=url, quoted=quoted, authority=f"127.0.0.1:{place.canary.port}")
        assert place.canary.connections == 0
        connection = place.running.connect()
        connection.putrequest(method, target)
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(len(text)))
        connection.endheaders(text.encode())
        reply = connection.getresponse()
        data = b"" if method == "CONNECT" else reply.read()
        connection.close()
        assert reply.status < 500, (target, data)
        assert FILE_CONTENT.encode() not in data
    assert place.canary.connections == 0


@pytest.mark.parametrize("name", HEADERS)
def test_no_header_redirects_a_request(place: Place, name: str) -> None:
    for value in (f"127.0.0.1:{place.canary.port}", place.canary.urls()[0]):
        for path, content in (("/v1/responses", {"model": "over-chat", "input": "x"}), ("/v1/parts", _PARTS)):
            before = len(place.upstream.asked)
            connection = place.running.connect()
            connection.putrequest("POST", path, skip_host=name == "host")
            data = json.dumps(content).encode()
            connection.putheader(name, value)
            connection.putheader("content-length", str(len(data)))
            connection.endheaders(data)
            reply = connection.getresponse()
            assert reply.status in (200, 400, 403), reply.read()
            reply.read()
            connection.close()
            assert reply.status != 200 or len(place.upstream.asked) > before
    assert place.canary.connections == 0


_PARTS = {
    "method": "respond",
    "model": "over-chat",
    "messages": [{"role": 1, "content": [{"type": "text", "value": "x"}]}],
}


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_redirect_of_an_upstream_is_followed(place: Place, dialect: str, status: int) -> None:
    place.upstream.redirects = status
    try:
        answered, data = ask(place, UrlCase("redirect", {"input": "x"}), dialect)
    finally:
        place.upstream.redirects = 0
    assert answered == 502
    assert b"which is not followed" in data
    assert place.canary.connections == 0


def test_a_replay_fetches_nothing(place: Place) -> None:
    url = place.canary.urls()[0]
    content = [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": url}]
    status, data = ask(place, UrlCase("replay", {"input": [{"role": "user", "content": content}]}), "chat")
    assert status == 200
    before = len(place.upstream.asked)
    path = f"/inspector/api/turns/{json.loads(data)['id']}/replay"
    status, data = ask(place, UrlCase("replay", {}), "chat", path)
    assert status == 200, data
    assert json.loads(data)["same"]
    assert len(place.upstream.asked) == before
    assert place.canary.connections == 0


def test_the_mark_reaches_the_upstream(place: Place) -> None:
    """The other tests would also pass if every URL had been lost on the way."""
    status, _ = ask(place, next(media_cases(place.canary.urls()[0])), "chat")
    assert status == 200
    assert any(MARK.encode() in asked.body for asked in place.upstream.asked)
