"""`penstock health`, against servers with the answers of a gateway."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme

from penstock.cli import OK, PROBLEM, UsageError, build_parser, health


class Answers(BaseHTTPRequestHandler):
    """A gateway that drains: it runs, and accepts nothing."""

    def do_GET(self) -> None:
        status, body = (200, b"{}") if self.path == "/healthz" else (503, b'{"status":"draining"}')
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def draining(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "PENSTOCK_CONFIG", "PENSTOCK_HOST", "PENSTOCK_PORT"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str) -> int:
    return health.run(build_parser("health").parse_args(["health", *arguments]))


def test_a_gateway_that_drains_runs_but_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    with draining() as port:
        url = f"http://127.0.0.1:{port}"
        assert run("--url", url) == PROBLEM
        assert capsys.readouterr().err == f'penstock: {url}: HTTP 503 {{"status":"draining"}}\n'
        assert run("--url", f"{url}/v1", "--live") == OK
        assert capsys.readouterr().out == f"{url}/v1 runs\n"


def test_the_address_comes_from_the_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with draining() as port:
        file = tmp_path / "penstock.toml"
        file.write_text(f'[server]\nhost = "0.0.0.0"\nport = {port}\nwrong = 1\n[targets.also-wrong]\n')
        assert run("--live") == OK
        file.write_text("[server]\nport = 1\n")
        monkeypatch.setenv("PENSTOCK_PORT", str(port))
        monkeypatch.setenv("PENSTOCK_STORE_FILE", str(tmp_path / "missing"))
        assert run("--live") == OK
    assert run("--live") == PROBLEM
    assert capsys.readouterr().err == f"penstock: http://127.0.0.1:{port}: no gateway is running there\n"


def test_the_certificate_of_the_own_gateway_may_have_another_name(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("gateway.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    with draining(context) as port:
        (tmp_path / "penstock.toml").write_text(f'[server]\nport = {port}\ntls_cert = "x"\ntls_key = "y"\n')
        assert run("--live") == OK
        assert run("--live", "--url", f"https://127.0.0.1:{port}") == PROBLEM, "other names are checked"


def test_a_gateway_that_does_not_answer_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert run("--url", url, "--timeout", "0.05") == PROBLEM
    assert "no answer within 0.05 seconds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "arguments", "message"),
    [
        ("[server]\nport = 0\n", [], "port is 0"),
        ("[server]\nport = 'x'\n", [], r"penstock.toml:2: server.port"),
        ("", ["--url", "ftp://x"], "--url: "),
        ("", ["--url", "http://x", "--config", "y"], "not both"),
        ("", ["--config", "missing.toml"], "cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_an_error_of_use(
    tmp_path: Path, file: str, arguments: list[str], message: str
) -> None:
    (tmp_path / "penstock.toml").write_text(file)
    with pytest.raises(UsageError, match=message):
        run(*arguments)
