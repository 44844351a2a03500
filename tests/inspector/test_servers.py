"""The page on real servers: our own, and any ASGI server under a path prefix."""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.application import Application
from penstock.gateway.http.asgi import Message, Receive, Send
from penstock.gateway.settings import Settings
from penstock.inspector.page_files import CONTENT_SECURITY_POLICY
from tests.asgi_server import PATIENCE, asgi_server
from tests.gateway.running import Running, gateway
from tests.inspector.sites import BROWSER

pytestmark = pytest.mark.e2e


def test_our_own_server_sends_the_page(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        connection = running.connect()
        status, headers, body = ask(connection, "GET", "/", accept=BROWSER)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert b"<!doctype html>" in body
        tag = headers["etag"]
        for method in ("GET", "HEAD"):  # on the same connection: nothing of a body is left over
            status, headers, body = ask(connection, method, "/", accept=BROWSER, **{"if-none-match": tag})
            assert (status, body) == (304, b"")
        status, headers, body = ask(connection, "HEAD", "/", accept=BROWSER)
        assert (status, body) == (200, b"")
        status, _, body = ask(connection, "GET", "/", accept="*/*")
        assert json.loads(body)["name"] == "penstock"
        for path in ("/inspector/../pyproject.toml", "/inspector/%2e%2e/routes.py", "/inspector//etc/passwd"):
            assert ask(connection, "GET", path)[0] == 404
        assert ask(connection, "PUT", "/inspector/api/session")[0] == 405
        connection.close()


def test_the_feed_does_not_hold_up_a_shutdown(tmp_path: Path) -> None:
    with gateway(tmp_path) as running, feed_of(running):
        running.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert running.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < 10


def test_two_workers_share_one_feed(tmp_path: Path) -> None:
    with gateway(tmp_path, "--workers", "2") as running, feed_of(running) as one, feed_of(running) as other:
        ids = {running.ask({"model": "demo", "input": "Hi"}).json["id"] for _ in range(6)}
        for feed in (one, other):
            assert ids == completed(feed, len(ids))


def completed(feed: http.client.HTTPResponse, count: int) -> set[str]:
    """Return the ids of the next turns that have ended."""
    found: set[str] = set()
    while len(found) < count:
        line = feed.readline()
        assert line, "the feed has ended"
        if line.startswith(b'data: {"id"'):
            record = json.loads(line[6:])
            found |= {record["id"]} if record["outcome"] == "completed" else set()
    return found


@contextmanager
def feed_of(running: Running) -> Iterator[http.client.HTTPResponse]:
    with closing(running.connect()) as connection:
        connection.request("GET", "/inspector/api/feed")
        with closing(connection.getresponse()) as feed:
            assert feed.readline() == b"event: hello\n"
            yield feed


class Prefixed:
    """A proxy in front of the gateway, which removes a prefix from the path."""

    def __init__(self, penstock: Application) -> None:
        self._penstock = penstock

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            scope = {**scope, "path": scope["path"].removeprefix("/penstock")}
        await self._penstock(scope, receive, send)


def prefixed(port: int) -> Prefixed:
    return Prefixed(Application(Settings(port=port, store="none"), environment={}))


def test_the_page_works_under_a_prefix() -> None:
    with asgi_server(prefixed) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        status, headers, body = ask(connection, "GET", "/penstock/", accept=BROWSER)
        assert (status, headers["content-security-policy"]) == (200, CONTENT_SECURITY_POLICY)
        assert b'="/' not in body, "every URL of the page is relative to it"
        tag = headers["etag"]
        status, _, body = ask(connection, "GET", "/penstock/inspector/api/session")
        assert (status, json.loads(body)["tenant"]) == (200, "local")
        known = {"if-none-match": tag}
        status, _, body = ask(connection, "GET", "/penstock/", accept=BROWSER, **known)
        assert (status, body) == (304, b"")
        connection.close()


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
