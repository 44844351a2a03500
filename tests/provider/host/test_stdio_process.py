"""The host as a process: invalid input, a slow or disconnected editor, signals, and its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from penstock.provider.host.lines import MAX_LENGTH
from tests.cli import streams
from tests.client.server import Connection, Script, answer, chunk, in_a_thread, send, stall
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_ANSWER, SECRET_KEY, Running
from tests.gateway.upstream import (
    SSE_HEAD,
    ScriptedUpstream,
    begun,
    said,
    streamed,
    until_gone,
)
from tests.provider.host.host_process import HostProcess, command, host_process, user

pytestmark = pytest.mark.e2e

TIMES = 8192
"""Deltas of a flood: 64 MiB, more than all buffers in between."""

LISTED: Script = [answer(200, {"data": [{"id": "one"}]})]


class Flood:
    """Sends deltas of 8 KiB as long as they are read; `sent` counts their bytes."""

    def __init__(self, delta: streams.Event) -> None:
        self._delta = delta
        self.sent = 0

    async def __call__(self, connection: Connection) -> None:
        for number in range(TIMES):
            numbered = {**self._delta, "sequence_number": self._delta["sequence_number"] + number}
            connection.writer.write(chunk(streams.as_sse([numbered], done=False)))
            await connection.writer.drain()
            self.sent += len(self._delta["delta"])


def flooding() -> tuple[ScriptedUpstream, Flood]:
    """Return an endpoint that sends as long as it is read."""
    events, _ = streams.message("msg_1", 0, ["x" * 8192])
    lawful = streams.response(events, [])
    begin, flood = lawful[:4], Flood(lawful[4])
    scripted = ScriptedUpstream()
    scripted.play("", LISTED)
    scripted.play("one", [send(SSE_HEAD + chunk(streams.as_sse(begin, done=False))), flood, stall])
    return scripted, flood


def settled(flood: Flood) -> int:
    """Wait until nothing more is sent, and return the number of bytes."""
    last, same = -1, 0
    while same < 20:
        time.sleep(0.05)
        same, last = (same + 1, last) if flood.sent == last else (0, flood.sent)
    return last


def test_an_editor_that_does_not_read_pauses_the_upstream() -> None:
    scripted, flood = flooding()
    with in_a_thread(scripted) as served, host_process(reads=False) as host:
        host.send({"id": "c", "method": "configure", "endpoint": served.url})
        host.send({"id": "r", "method": "respond", "model": "one", "messages": [user("Hello")]})
        while not flood.sent:
            time.sleep(0.01)
        stopped = settled(flood)
        assert 0 < stopped < 24 * 1024 * 1024
        host.read()
        host.wait(lambda: len(host.of("r")) == TIMES, "all parts")
        assert flood.sent == TIMES * 8192
        host.send({"id": "x", "method": "cancel", "request": "r"})
        assert host.answer("r").end["result"]["finish"] == "cancelled"


def test_cancel_works_while_the_editor_does_not_read() -> None:
    scripted, flood = flooding()
    with in_a_thread(scripted) as served, host_process(reads=False) as host:
        host.send({"id": "c", "method": "configure", "endpoint": served.url})
        host.send({"id": "r", "method": "respond", "model": "one", "messages": [user("Hello")]})
        while not flood.sent:
            time.sleep(0.01)
        stopped = settled(flood)
        host.send({"id": "x", "method": "cancel", "request": "r"})
        while scripted._tasks:  # wait until the connection is closed
            time.sleep(0.01)
        assert flood.sent < stopped + 1024 * 1024
        host.read()
        end = host.answer("r").end
        assert (end["type"], end["result"]["finish"]) == ("done", "cancelled")
        place = host.lines.index(host.of("x")[-1])
        assert [line["type"] for line in host.lines[place:] if line.get("id") == "r"] == ["done"]


def test_closed_input_cancels_running_requests(upstream: ScriptedUpstream, penstock: Running) -> None:
    gone = threading.Event()
    upstream.play("pipe-closed", [*begun(chat_chunk({"content": "begun"})), until_gone(gone)])
    with host_process() as host:
        host.configure("work", penstock.url, key=SECRET_KEY)
        id = host.start_respond("pipe-closed")
        host.begun(id)
        assert host.close() == 0
        assert gone.wait(20), "the upstream is still read"
        assert host.of(id)[-1]["result"]["finish"] == "cancelled"


def test_closed_input_ends_a_host_whose_output_is_not_read() -> None:
    scripted, flood = flooding()
    with in_a_thread(scripted) as served, host_process(reads=False, checked=False) as host:
        host.send({"id": "c", "method": "configure", "endpoint": served.url})
        host.send({"id": "r", "method": "respond", "model": "one", "messages": [user("Hello")]})
        while not flood.sent:
            time.sleep(0.01)
        settled(flood)
        assert host.close() == 0


def test_closed_input_does_not_wait_for_a_name_lookup() -> None:
    """The lookup thread cannot be stopped and would delay the exit."""
    script = (
        "import socket, sys, threading\n"
        "def look_up(*_, **__):\n"
        "    print('looking up', file=sys.stderr, flush=True)\n"
        "    threading.Event().wait()\n"
        "socket.getaddrinfo = look_up\n"
        "from penstock.cli import main\n"
        "main(['vscode-host'])\n"
    )
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin
    assert process.stderr
    try:
        asked = b'{"id": 1, "method": "configure", "endpoint": "http://far.example"}\n'
        process.stdin.write(asked + b'{"id": 2, "method": "models"}\n')
        process.stdin.flush()
        assert any(line == b"looking up\n" for line in process.stderr)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["type"] for line in lines if line.get("id") == 1] == ["done"]
    assert process.returncode == 0


def test_a_byte_order_mark_before_the_first_line_is_ignored() -> None:
    asked = b'\xef\xbb\xbf{"id": 1, "method": "count_tokens", "text": "Hello"}\r\n'
    run = subprocess.run(command(), input=asked, capture_output=True, timeout=60)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert lines[1:] == [{"id": 1, "type": "done", "tokens": 1}]


def test_a_disconnected_editor_ends_the_host() -> None:
    with host_process(reads=False, checked=False) as host:
        assert host.process.stdout
        assert host.process.stdout.readline().startswith(b'{"type":"ready"')
        host.process.stdout.close()
        host.send({"id": 1, "method": "usage"})
        assert host.ended() == 141
        assert b"Traceback" not in host.log


def test_requests_before_the_end_of_the_input_are_answered() -> None:
    asked = b'{"id": 1, "method": "count_tokens", "text": "Hello"}\n{"id": 2, "method": "models"}'
    run = subprocess.run(command(), input=asked, capture_output=True, timeout=60)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0
    assert lines[0]["type"] == "ready"
    assert lines[1:] == [{"id": 1, "type": "done", "tokens": 1}, {"id": 2, "type": "done", "models": []}]


INVALID_LINES = [
    (b"junk", "invalid_line"),
    (b"\xff\xfe\x00", "invalid_line"),
    (b"[]", "invalid_line"),
    (b'{"id": [], "method": "usage"}', "invalid_line"),
    (b'{"id": 1, "method": "usage"', "invalid_line"),
    (b"[" * 5000, "invalid_line"),
    (b'{"method": "usage"}', "missing_id"),
]


def test_invalid_lines_are_reported_and_ignored(host: HostProcess) -> None:
    before = len(host.notifications("error"))
    host.write(b"".join(line + b"\n" for line, _ in INVALID_LINES) + b"\n \r\n")
    assert host.ask("usage").end["type"] == "done"
    host.wait(lambda: len(host.notifications("error")) == before + len(INVALID_LINES), "the errors")
    assert [line["code"] for line in host.notifications("error")[before:]] == [
        code for _, code in INVALID_LINES
    ]


def test_a_duplicate_id_is_reported_without_an_id(host: HostProcess, upstream: ScriptedUpstream) -> None:
    gone = threading.Event()
    upstream.play("pipe-twice", [*begun(chat_chunk({"content": "begun"})), until_gone(gone)])
    asked = {
        "id": "twice",
        "method": "respond",
        "group": "work",
        "model": "pipe-twice",
        "messages": [user("a")],
    }
    host.send(asked)
    host.begun("twice")
    host.send(asked)
    host.wait(lambda: any(line["code"] == "duplicate_id" for line in host.notifications("error")), "refusal")
    host.ask("cancel", request="twice")
    assert host.answer("twice").end["result"]["finish"] == "cancelled"
    assert len(upstream.asked_for("pipe-twice")) == 1


def test_a_line_over_the_limit_is_skipped_and_not_kept_in_memory(host: HostProcess) -> None:
    before = peak_memory(host.process.pid)
    piece = b"x" * (1024 * 1024)
    for _ in range(MAX_LENGTH // len(piece) + 64):
        host.write(piece)
    host.write(b'"}\n')
    assert host.ask("usage").end["type"] == "done"
    assert [line["code"] for line in host.notifications("error")].count("line_too_long") == 1
    if before:
        assert peak_memory(host.process.pid) - before < 2 * MAX_LENGTH / 1024


def peak_memory(pid: int) -> int:
    """Return the peak memory in KiB; 0 if the system does not report it."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        return 0


def test_a_long_line_is_accepted(host: HostProcess) -> None:
    text = "water " * (4 * 1024 * 1024 // 6)
    assert host.ask("count_tokens", model="gpt-4o", text=text).end["tokens"] > 100_000


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_sigint_is_ignored_and_sigterm_ends_the_host(upstream: ScriptedUpstream, penstock: Running) -> None:
    gone = threading.Event()
    upstream.play("pipe-signal", [*begun(chat_chunk({"content": "begun"})), until_gone(gone)])
    with host_process() as host:
        host.configure("work", penstock.url, key=SECRET_KEY)
        id = host.start_respond("pipe-signal")
        host.begun(id)
        host.process.send_signal(signal.SIGINT)
        assert host.ask("usage").end["type"] == "done"
        assert host.of(id)[-1]["type"] == "text"
        host.process.send_signal(signal.SIGTERM)
        assert host.ended() == 0
        assert gone.wait(20)
        assert host.of(id)[-1]["result"]["finish"] == "cancelled"


def test_output_of_libraries_goes_to_standard_error() -> None:
    """Including output that C code writes to the descriptor."""
    script = (
        "import os, sys, penstock.tokens.counter as counter\n"
        "def count(self, model, text):\n"
        "    print('printed'); sys.stdout.flush(); os.write(1, b'written'); return 7\n"
        "counter.TokenCounter.count_text = count\n"
        "from penstock.cli import main\n"
        "sys.exit(main(['vscode-host']))\n"
    )
    asked = b'{"id": 1, "method": "count_tokens", "text": "Hello"}\n'
    run = subprocess.run([sys.executable, "-c", script], input=asked, capture_output=True, timeout=60)
    assert run.returncode == 0
    assert [json.loads(line)["type"] for line in run.stdout.splitlines()] == ["ready", "done"]
    assert b"printed" in run.stderr
    assert b"written" in run.stderr


def test_it_imports_no_server(penstock: Running) -> None:
    """Checked after a turn: the host must run without uvloop, and start quickly."""
    script = (
        "import os, sys\n"
        "from penstock.cli import main\n"
        "names = ('uvicorn', 'uvloop', 'penstock.gateway', 'penstock.store', 'penstock.upstream')\n"
        "leave = os._exit\n"
        "def report(code):\n"
        "    imported = sorted(name for name in sys.modules if name.startswith(names))\n"
        "    print(imported, code, file=sys.stderr, flush=True)\n"
        "    leave(code)\n"
        "os._exit = report\n"
        "main(['vscode-host'])\n"
    )
    asked = [
        {"id": 1, "method": "configure", "endpoint": penstock.url, "key": SECRET_KEY},
        {"id": 2, "method": "respond", "model": "demo", "messages": [user("count from 1 to 3")]},
    ]
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe)
    running = HostProcess(process, reads=True)
    running.send(asked[0])
    running.answer(1)
    running.send(asked[1])
    assert running.answer(2).end["result"]["finish"] == "stop"
    assert running.close() == 0
    assert running.log.decode().splitlines()[-1] == "[] 0"
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream
        stream.close()


def test_keys_and_messages_are_never_logged(upstream: ScriptedUpstream, penstock: Running) -> None:
    """At level debug, with successful and failed turns, and an endpoint that echoes the key."""
    upstream.play("pipe-said", streamed(*said(SECRET_ANSWER)))
    echo = {"error": {"message": f"{SECRET_KEY} {SECRET_ANSWER}", "type": "x", "code": SECRET_ANSWER}}
    scripted = ScriptedUpstream()
    scripted.play("", LISTED)
    scripted.play("one", [answer(400, echo)])
    with in_a_thread(scripted) as served, host_process() as host:
        host.configure("work", penstock.url, key=SECRET_KEY, headers={"x-secret": SECRET_KEY})
        assert host.respond("pipe-said").text == SECRET_ANSWER
        host.configure("bad", served.url, key=SECRET_KEY)
        assert host.respond("one", group="bad").end["type"] == "error"
        host.ask("configure", group="x", endpoint=f"ftp://{SECRET_KEY}", key=SECRET_KEY)
        host.write(SECRET_KEY.encode() + b"\n")
        assert SECRET_KEY not in json.dumps(host.lines)


def test_the_http_parser_is_not_imported_before_the_first_request() -> None:
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    run = subprocess.run(command(), input=b"", capture_output=True, timeout=60, env=environment)
    imported = [line.rpartition("|")[2].strip() for line in run.stderr.decode().splitlines() if "|" in line]
    assert "penstock.provider.host.stdio" in imported
    assert "httptools" not in imported
