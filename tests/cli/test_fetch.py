"""`penstock check URL`: against a real server on this machine."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import trustme

from penstock.cli import UsageError
from penstock.cli.fetch import endpoint
from penstock.gateway.http.client_accent import HEADER
from tests.cli import streams
from tests.cli.running import Result, penstock
from tests.client.server import Server as ScriptedServer
from tests.client.server import in_a_thread
from tests.dialects.format_samples import sse as other_format

KEY = "sk-test-0123456789"
LAWFUL = streams.as_sse(streams.hello())


class Handler(BaseHTTPRequestHandler):
    """Answers by the first word of the path, and records the requests."""

    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, dict(self.headers.items()), json.loads(body)))
        getattr(self, "answer_" + self.path.split("/")[1].replace("-", "_"))()

    def do_GET(self) -> None:
        self.answer_v1()

    def answer(self, status: int, content_type: str | None, body: bytes, **headers: str) -> None:
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer_v1(self) -> None:
        self.answer(200, "text/event-stream; charset=utf-8", LAWFUL)

    def answer_chat(self) -> None:
        self.answer(200, "text/event-stream", other_format("chat", done=True))

    def answer_unauthorised(self) -> None:
        error = {"message": f"{self.headers['Authorization']} is not a key", "type": "invalid_request_error"}
        self.answer(401, "application/json", json.dumps({"error": error}).encode())

    def answer_broken(self) -> None:
        self.answer(502, "text/html", b"<h1>Bad\n Gateway</h1>" + b"x" * 10_000)

    def answer_silent_failure(self) -> None:
        self.answer(500, None, b"")

    def answer_moved(self) -> None:
        self.answer(302, None, b"", Location="/v1/responses")

    def answer_whole(self) -> None:
        self.answer(200, "application/json", json.dumps(streams.snapshot("completed", [])).encode())

    def answer_untyped(self) -> None:
        self.answer(200, None, LAWFUL)

    def answer_lines(self) -> None:
        self.answer(200, "application/x-ndjson", streams.as_lines(streams.hello()))

    def answer_cut(self) -> None:
        self.answer(200, "text/event-stream", LAWFUL[:2500], **{"Content-Length": str(len(LAWFUL))})

    def answer_cut_chunk(self) -> None:
        self.protocol_version = "HTTP/1.1"
        self.close_connection = True
        chunk = b"%x\r\n" % len(LAWFUL) + LAWFUL[:2500]
        self.answer(200, "text/event-stream", chunk, **{"Transfer-Encoding": "chunked"})

    def answer_stalled(self) -> None:
        self.answer(200, "text/event-stream", LAWFUL[:2500])
        self.server.released.wait()

    def answer_echo(self) -> None:
        event = {"type": f"leak.{self.headers['Authorization']}", "sequence_number": 0}
        self.answer(200, "text/event-stream", streams.as_sse([event]))

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """On a free port of this machine."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.released = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def check(url: str, *arguments: str, **changes: Any) -> Result:
    """Check a URL with a key in the environment, which must not be printed."""
    arguments = ("--model", "test-model", "--api-key-env", "TEST_KEY", *arguments)
    result = penstock("check", url, *arguments, TEST_KEY=KEY, **changes)
    assert KEY not in result.stdout + result.stderr
    return result


def test_a_lawful_endpoint_passes(server: Server) -> None:
    result = check(server.url)
    assert (result.returncode, result.stdout, result.stderr) == (0, "lawful: 11 events\n", "")


def test_the_request_is_small_streamed_and_carries_the_key(server: Server) -> None:
    check(server.url, "--prompt", "水?")
    ((path, headers, body),) = server.requests
    assert path == "/v1/responses"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Accept"] == "text/event-stream"
    assert headers["Content-Type"] == "application/json"
    assert body == {"model": "test-model", "input": "水?", "stream": True}


def test_without_a_variable_no_key_is_sent(server: Server) -> None:
    assert penstock("check", server.url, "--model", "m", OPENAI_API_KEY=KEY).returncode == 0
    ((_, headers, _),) = server.requests
    assert "Authorization" not in headers


def test_a_proxy_is_not_used_for_this_machine(server: Server) -> None:
    result = check(server.url, http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1", no_proxy="")
    assert result.returncode == 0


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://host", "http://host/v1/responses"),
        ("http://host/", "http://host/v1/responses"),
        ("http://host:8080/v1", "http://host:8080/v1/responses"),
        ("http://host/v1/", "http://host/v1/responses"),
        ("https://host/api/openai/v1", "https://host/api/openai/v1/responses"),
        ("https://host/v1/responses", "https://host/v1/responses"),
        ("https://host/v1/responses/?api-version=1#x", "https://host/v1/responses?api-version=1"),
        ("http://[::1]:8080", "http://[::1]:8080/v1/responses"),
    ],
)
def test_the_request_goes_to_the_responses_path(url: str, target: str) -> None:
    assert endpoint(url) == target


@pytest.mark.parametrize("url", ["http://", "http://host:port", "http://[::1", "https://me:secret@host/v1"])
def test_a_url_that_cannot_be_called_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        endpoint(url)
    assert "secret" not in str(caught.value)


def test_an_error_answer_is_shown_with_its_status_and_message(server: Server) -> None:
    result = check(server.url + "/unauthorised")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "http.status  the answer: HTTP 401 Unauthorized: Bearer [key] is not a key",
        "1 violation in 0 events",
    ]


def test_an_answer_in_another_api_format_is_one_violation(server: Server) -> None:
    result = check(server.url + "/chat")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        (
            "http.format  the answer: it looks like Chat Completions: run `penstock serve --upstream URL "
            "--dialect chat` in front of it and use that endpoint"
        ),
        "1 violation in 0 events",
    ]


@pytest.mark.parametrize("accent", ["openresponses", "openai", "copilot"])
def test_the_endpoint_is_asked_for_the_accent_in_a_header(server: Server, accent: str) -> None:
    check(server.url + "/v1", "--accent", accent)
    ((path, headers, body),) = server.requests
    assert {name.lower(): value for name, value in headers.items()}[HEADER] == accent
    assert "accent" not in path
    assert "accent" not in body


def test_an_error_answer_in_json_keeps_the_shape(server: Server) -> None:
    result = check(server.url + "/unauthorised", "--json")
    assert result.returncode == 1
    assert json.loads(result.stdout) == {
        "lawful": False,
        "events": 0,
        "violations": [
            {
                "rule": "http.status",
                "sequence": 0,
                "message": "HTTP 401 Unauthorized: Bearer [key] is not a key",
            }
        ],
    }


def test_an_error_page_is_cut_short(server: Server) -> None:
    result = check(server.url + "/broken")
    assert result.returncode == 1
    assert "HTTP 502 Bad Gateway: <h1>Bad Gateway</h1>xxx" in result.stdout
    assert len(result.stdout) < 500


def test_an_error_without_a_body_is_shown_by_its_status(server: Server) -> None:
    result = check(server.url + "/silent-failure")
    assert "http.status  the answer: HTTP 500 Internal Server Error\n" in result.stdout


def test_a_redirect_is_shown_and_not_followed(server: Server) -> None:
    result = check(server.url + "/moved")
    assert result.returncode == 1
    assert "HTTP 302 Found: redirected to /v1/responses" in result.stdout
    assert len(server.requests) == 1


def test_an_answer_that_is_not_streamed_is_reported(server: Server) -> None:
    result = check(server.url + "/whole")
    assert result.returncode == 1
    assert "http.content-type  the answer: Content-Type is application/json" in result.stdout
    assert "does not stream" in result.stderr


def test_a_stream_without_a_content_type_is_reported_and_still_checked(server: Server) -> None:
    result = check(server.url + "/untyped")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "http.content-type  the answer: Content-Type is missing, not text/event-stream",
        "1 violation in 11 events",
    ]


def test_an_endpoint_may_answer_with_ndjson(server: Server) -> None:
    assert check(server.url + "/lines", "--transport", "ndjson").returncode == 0
    result = check(server.url + "/lines")
    assert result.returncode == 1
    assert result.stdout.endswith("1 violation in 11 events\n")


@pytest.mark.parametrize("way", ["cut", "cut-chunk"])
def test_a_truncated_stream_lacks_its_end(server: Server, way: str) -> None:
    result = check(f"{server.url}/{way}")
    assert result.returncode == 1
    assert "terminal.missing  at the end" in result.stdout


def test_a_stalled_stream_ends_after_the_timeout(server: Server) -> None:
    result = check(server.url + "/stalled", "--timeout", "0.5")
    assert result.returncode == 1
    assert "the stream stalled" in result.stderr
    assert "terminal.missing" in result.stdout


def test_a_key_that_the_stream_echoes_is_not_shown(server: Server) -> None:
    assert "leak.Bearer [key]" in check(server.url + "/echo").stdout
    assert "leak.Bearer [key]" in check(server.url + "/echo", "--json").stdout
    check(server.url + "/echo", "--timeline")


def test_an_endpoint_that_cannot_be_reached_is_exit_code_2() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        result = check(f"http://127.0.0.1:{unused.getsockname()[1]}/v1?token={KEY}")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "connection refused. Is the server running" in result.stderr


@pytest.mark.parametrize("greeting", [b"", b"220 mail.example.com ready\r\n"])
def test_a_server_without_http_is_exit_code_2(greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        result = check(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert result.returncode == 2
    assert "no answer from http://127.0.0.1" in result.stderr


def test_http_to_a_tls_server_is_reported() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    with in_a_thread(ScriptedServer(tls=tls)) as server:
        place = server.url.removeprefix("https://")
        result = check(f"http://{place}/v1")
    assert result.returncode == 2
    assert f"the server at {place} requires TLS: use https://" in result.stderr


def test_https_to_a_server_without_tls_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        result = check(f"https://{place}/v1")
        thread.join()
    assert result.returncode == 2
    assert f"the server at {place} does not support TLS: use http://" in result.stderr


def test_a_server_that_does_not_answer_is_an_error_in_every_format() -> None:
    result = check("http://127.0.0.1:1", "--format", "junit")
    assert result.returncode == 2
    [[[error]]] = Xml.fromstring(result.stdout)
    assert (error.tag, error.get("type")) == ("error", "not checked")
    result = check("http://127.0.0.1:1", "--format", "github")
    assert (result.returncode, result.stderr) == (2, "")
    assert result.stdout.startswith("::error title=not checked::http://127.0.0.1:1/v1/responses: ")


def test_a_url_needs_a_model() -> None:
    result = penstock("check", "http://127.0.0.1:1")
    assert result.returncode == 2
    assert "add --model NAME" in result.stderr


def test_a_url_is_not_a_websocket() -> None:
    result = penstock("check", "http://127.0.0.1:1", "--model", "m", "--transport", "websocket")
    assert result.returncode == 2
    assert "one per line" in result.stderr


@pytest.mark.parametrize(
    ("value", "advice"), [("", "is unset or empty; set it to"), ("a\nb", "is not a valid key")]
)
def test_a_variable_without_a_valid_key_is_named(value: str, advice: str) -> None:
    result = penstock(
        "check", "http://127.0.0.1:1", "--model", "m", "--api-key-env", "TEST_KEY", TEST_KEY=value
    )
    assert result.returncode == 2
    assert "TEST_KEY" in result.stderr
    assert advice in result.stderr


def test_a_url_with_a_space_is_refused_without_its_query() -> None:
    result = check(f"http://127.0.0.1:1/v1?token={KEY} x")
    assert result.returncode == 2
    assert "percent-encoded" in result.stderr
