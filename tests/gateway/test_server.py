"""The gateway as a process: how it starts and how it stops."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.gateway.app import GatewayApp
from penstock.gateway.server import SWITCH_INTERVAL, CannotListen, ListeningSockets, listen, run, url_of
from penstock.gateway.settings import Settings
from tests.client.server import chunk, in_a_thread, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.clients import RawClient, TurnThread
from tests.gateway.configs import CONFIG
from tests.gateway.probes import has_logged, refuses, wait_for
from tests.gateway.running import Json, Running, gateway, serve
from tests.gateway.upstream import (
    SSE_HEAD,
    Flood,
    ScriptedUpstream,
    begun,
    frames,
    rest,
    said,
    streamed,
    until,
    until_gone,
)
from tests.net.certificates import certificate_files, server_context, trusting


def test_heavy_threads_let_the_event_loop_run_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", intervals.append)

    async def fail() -> GatewayApp:
        raise CannotListen("not today")

    with listen("127.0.0.1", 0) as listening, pytest.raises(CannotListen):
        run(fail, ListeningSockets(main=listening), ready=print, reload=Settings)
    assert intervals == [SWITCH_INTERVAL]


@pytest.mark.e2e
def test_it_prints_its_url_and_what_to_try(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", "--port", "0", "--store", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        text=True,
    )
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(10)]
    process.terminate()
    process.stdout.close()
    assert process.wait(20) == 0
    assert printed[0].startswith("Penstock is ready at http://127.0.0.1:")
    labels = [line[:12].strip() for line in printed[1:8]]
    assert labels == ["", "page", "models", "store", "settings", "access", ""]
    assert printed[8] == "Try:\n"
    assert printed[9].startswith("  curl -sN http://127.0.0.1:")


@pytest.mark.e2e
def test_it_says_that_an_upstream_cannot_be_reached_and_serves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--upstream", "http://127.0.0.1:1/v1"]
    process = subprocess.Popen(
        [*command, "--store", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        text=True,
        env={**os.environ, "PENSTOCK_PORT": "0"},
    )
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1]
    printed = ""
    while "is the port right?" not in printed:
        line = process.stdout.readline()
        assert line, printed
        printed += line
    assert "targets.upstream cannot be reached: could not connect to 127.0.0.1:1: connection" in printed
    answer = Running(process, url.removesuffix("/v1"), tmp_path).whole("demo", "Hello!")  # type: ignore[arg-type]
    process.terminate()
    process.stdout.close()
    assert process.wait(20) == 0
    assert answer.last["status"] == "completed"


@pytest.mark.e2e
def test_it_goes_on_if_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen(
        [*command, "--store", "none"], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, text=True
    )
    os.close(writing)
    wait_for(lambda: ready.exists() or process.poll() is not None)
    answer = Running(process, ready.read_text().strip(), tmp_path).whole("demo", "Hello!")  # type: ignore[arg-type]
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, answer.last["status"]) == (0, "completed")
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


@pytest.mark.e2e
def test_running_turns_may_end_after_sigterm_and_new_ones_are_refused(tmp_path: Path) -> None:
    opened = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("last", [*begun(chat_chunk({"content": "a"})), until(opened), rest("b")])
        turn = TurnThread(running, "last")
        wait_for(lambda: scripted.asked_for("last"))
        kept = running.connect()
        kept.connect()
        running.signal(signal.SIGTERM)
        wait_for(lambda: refuses(running))
        kept.close()
        assert running.process.poll() is None
        opened.set()
        assert turn.answer().text == "ab"
        assert running.process.wait(20) == 0


@pytest.mark.e2e
def test_a_second_signal_ends_what_runs_and_informs_its_client(tmp_path: Path) -> None:
    gone = threading.Event()
    scripted = ScriptedUpstream()
    with in_a_thread(scripted), gateway(tmp_path, config=CONFIG.format(url=scripted.url)) as running:
        scripted.play("endless", [*begun(chat_chunk({"content": "a"})), until_gone(gone)])
        turn = TurnThread(running, "endless")
        wait_for(lambda: scripted.asked_for("endless"))
        running.signal(signal.SIGTERM)
        wait_for(lambda: refuses(running))
        running.signal(signal.SIGTERM)
        reply = turn.answer()
        assert running.process.wait(20) == 0
    assert reply.last["status"] == "failed"
    assert reply.last["error"]["code"] == "shutting_down"
    assert gone.wait(10)
    verdict = running.verdict(reply.headers["x-request-id"])
    assert (verdict["closer"], verdict["terminal_sent"]) == ("gateway", True)


@pytest.mark.e2e
def test_the_wait_for_running_turns_has_an_end(tmp_path: Path) -> None:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        config = CONFIG.format(url=scripted.url).replace("retries = 0", "drain = 0.3")
        with gateway(tmp_path, config=config) as running:
            scripted.play("endless", [*begun(chat_chunk({"content": "a"})), until_gone(threading.Event())])
            turn = TurnThread(running, "endless")
            wait_for(lambda: scripted.asked_for("endless"))
            running.signal(signal.SIGTERM)
            assert turn.answer().last["error"]["code"] == "shutting_down"
            assert running.process.wait(20) == 0


@pytest.mark.e2e
def test_it_stops_while_an_upstream_with_tls_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    """The reading of the upstream is paused when the connection is closed."""
    authority, gone = trustme.CA(), threading.Event()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    scripted = ScriptedUpstream(server_context(authority))
    flood = Flood(chunk(frames(chat_chunk({"content": "x" * 20_000}), done=False)), 1000)
    scripted.play("flood", [send(SSE_HEAD), flood, until_gone(gone)])
    with in_a_thread(scripted):
        config = CONFIG.format(url=scripted.url).replace("retries = 0", "drain = 0.3")
        with gateway(tmp_path, config=config + 'ca_file = "ca.pem"\n') as running:
            client = RawClient(running, "flood", buffer=8192)
            client.read_until(b"response.output_text.delta")
            wait_for(lambda: has_stopped(flood))
            running.signal(signal.SIGTERM)
            assert running.process.wait(20) == 0
            client.leave()
        assert not gone.is_set(), "the upstream was read to the end"
        assert "unclosed" not in (tmp_path / "log").read_text()


def has_stopped(flood: Flood) -> bool:
    """Return whether nothing is sent any more."""
    before = flood.sent
    time.sleep(0.3)
    return 0 < before == flood.sent


@pytest.mark.e2e
def test_an_address_in_use_is_an_error_with_advice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = serve("--port", str(port), folder=tmp_path)
    assert result.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in result.stderr
    assert "--port 0" in result.stderr


@pytest.mark.e2e
def test_another_host_needs_keys(tmp_path: Path) -> None:
    result = serve("--host", "0.0.0.0", "--port", "0", folder=tmp_path)
    assert result.returncode == 2
    assert "penstock keys create" in result.stderr


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "m"], "--upstream URL or --preset NAME"),
        (["--dialect", "chat"], "add --upstream URL"),
        (["--preset", "nobody"], 'no preset called "nobody"'),
        (["--preset", "azure"], "--upstream https://{resource}.openai.azure.com"),
        (["--upstream", "ftp://x"], "http:// or https://"),
        (["--upstream", "http://x", "--api-key-env", "NOT_SET"], "NOT_SET is unset"),
        (["--config", "nothing.toml"], "cannot be read"),
        (["--upstream", "http://x", "--model", "demo"], "built-in model"),
    ],
)
def test_options_that_cannot_work_say_what_to_do(tmp_path: Path, options: list[str], words: str) -> None:
    result = serve(*options, folder=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.e2e
def test_a_wrong_file_is_reported_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[targets.a]\nbase_url = "x"\ndialekt = "chat"\n')
    result = serve(folder=tmp_path)
    assert result.returncode == 2
    assert "penstock.toml:2" in result.stderr
    assert "penstock.toml:3" in result.stderr


@pytest.mark.e2e
def test_the_options_alone_put_it_before_an_upstream(tmp_path: Path) -> None:
    """Every model's name is passed on as it is; the key comes from the variable that was named."""
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        options = ["--upstream", scripted.url, "--api-key-env", "MY_KEY"]
        with gateway(tmp_path, *options, environment={"MY_KEY": "sk-from-the-environment"}) as running:
            scripted.play("any/model:name", streamed(*said("hello")))
            assert running.stream("any/model:name").text == "hello"
            assert running.stream("demo").last["model"] == "demo"
        [asked] = scripted.asked_for("any/model:name")
        assert asked.target == "/v1/chat/completions"
        assert asked.headers["authorization"] == "Bearer sk-from-the-environment"


@pytest.mark.e2e
def test_without_a_key_of_its_own_the_clients_key_is_passed_on(tmp_path: Path) -> None:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        with gateway(tmp_path, "--upstream", f"{scripted.url}/v1/", "--model", "m") as running:
            scripted.play("m", streamed(*said("hello")))
            assert running.stream("m", headers={"authorization": "Bearer sk-the-clients-own"}).text == "hello"
            body = json.dumps({"input": "no model: the one that was named"}).encode()
            assert running.ask(body).text == "hello"
            assert running.stream("other").error["code"] == "model_not_found"
        first, second = scripted.asked_for("m")
        assert first.headers["authorization"] == "Bearer sk-the-clients-own"
        assert "authorization" not in second.headers


@pytest.mark.e2e
def test_an_upstream_that_speaks_tls_after_an_http_address_is_named(tmp_path: Path) -> None:
    tls = server_context(trustme.CA())
    with in_a_thread(ScriptedUpstream(tls=tls)) as upstream:
        place = upstream.url.removeprefix("https://")
        with gateway(tmp_path, config=CONFIG.format(url=f"http://{place}")) as running:
            reply = running.stream("any")
    assert (reply.status, reply.error["code"]) == (502, "tls_error")
    assert f"the server at {place} requires TLS: use https://" in reply.error["message"]


# TLS

TLS = '[server]\ntls_cert = "own.pem"\ntls_key = "own.key"\n'


def write_certificate(folder: Path, authority: trustme.CA, name: str) -> None:
    certificate, key = certificate_files(authority, folder, name)
    Path(certificate).rename(folder / "own.pem")
    Path(key).rename(folder / "own.key")


def own_name(connection: http.client.HTTPSConnection) -> str:
    """The name in the certificate of the gateway."""
    assert isinstance(connection.sock, ssl.SSLSocket)
    subject: Any = (connection.sock.getpeercert() or {})["subject"]
    return str(dict(pair for pairs in subject for pair in pairs)["commonName"])


@pytest.mark.e2e
@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_it_serves_https_and_loads_a_renewed_certificate(tmp_path: Path, options: tuple[str, ...]) -> None:
    authority = trustme.CA()
    write_certificate(tmp_path, authority, "first")
    with gateway(tmp_path, *options, config=TLS) as running:
        assert running.url.startswith("https://127.0.0.1:")

        def ask(path: str, body: Json) -> tuple[str, bytes]:
            port = running.address.port
            connection = http.client.HTTPSConnection(
                "127.0.0.1", port, context=trusting(authority), timeout=30
            )
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answered = connection.getresponse().read()
            name = own_name(connection)
            connection.close()
            return name, answered

        name, answered = ask("/v1/responses", {"model": "demo", "input": "hi", "stream": True})
        assert (name, b"response.completed" in answered) == ("first", True)
        _, models = ask("/v1/parts", {"id": 1, "method": "models"})  # which asks the gateway itself
        assert b'"demo"' in models
        write_certificate(tmp_path, authority, "second")
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "the settings were reloaded"))
        wait_for(lambda: all(ask("/healthz", {})[0] == "second" for _ in range(8)))  # all workers
        assert ask("/v1/responses", {"model": "demo", "input": "hi"})[0] == "second"
        (tmp_path / "own.pem").write_text("no certificate")
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "the settings were not changed"))
        assert ask("/v1/responses", {"model": "demo", "input": "hi"})[0] == "second"
        key = (tmp_path / "own.key").read_bytes()
        write_certificate(tmp_path, authority, "third")
        (tmp_path / "own.key").write_bytes(key)
        running.signal(signal.SIGHUP)
        wait_for(lambda: has_logged(running, "key values mismatch"))
        assert ask("/v1/responses", {"model": "demo", "input": "hi"})[0] == "second"


@pytest.mark.e2e
def test_a_certificate_that_cannot_be_used_is_an_error_at_the_start(tmp_path: Path) -> None:
    write_certificate(tmp_path, trustme.CA(), "own")
    (tmp_path / "own.key").write_text("no key")
    (tmp_path / "penstock.toml").write_text(TLS)
    result = serve(folder=tmp_path)
    assert result.returncode == 2
    assert "penstock.toml:2: server.tls_cert: cannot be used with its key" in result.stderr


# In this process


def test_an_address_in_use_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1 port {port}: "):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("no such host", 0)])
def test_an_address_that_cannot_be_used_is_an_error_with_its_name(host: str, port: int) -> None:
    with pytest.raises(CannotListen, match=f"{host} port {port}"):
        listen(host, port)


def test_the_url_has_the_port_that_the_system_chose() -> None:
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert port
        assert url_of(listening) == f"http://127.0.0.1:{port}"


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_an_address_of_ipv6_is_in_brackets() -> None:
    try:
        listening = listen("::1", 0)
    except CannotListen:
        pytest.skip("IPv6 is off")
    with listening:
        assert url_of(listening).startswith("http://[::1]:")
