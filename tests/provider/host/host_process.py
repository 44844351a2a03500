"""A real `penstock vscode-host` process on pipes, with an editor that checks every line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.gateway.running import PLANTED, SECRET_PROMPT

Json = dict[str, Any]

TIMEOUT = 30
"""Seconds until a test fails; a passing test never waits that long."""

ENDS = ("done", "error")


@dataclass
class Answer:
    """All lines of one request; the last one ends it."""

    lines: list[Json] = field(default_factory=list)

    @property
    def end(self) -> Json:
        return self.lines[-1]

    @property
    def parts(self) -> list[Json]:
        return self.lines[:-1]

    def of(self, type: str) -> list[Json]:
        return [line for line in self.lines if line["type"] == type]

    @property
    def text(self) -> str:
        return "".join(line["value"] for line in self.of("text"))

    def marker(self) -> Json:
        (line,) = self.of("marker")
        return {"type": "data", "mime": line["mime"], "base64": line["base64"]}


def decoded(line: Json) -> str:
    return b64decode(line["base64"]).decode()


def user(text: str) -> Json:
    return {"role": 1, "content": [{"type": "text", "value": text}]}


class HostProcess:
    """Its output is read by a thread; with `reads=False` only after the test calls `read`."""

    def __init__(self, process: subprocess.Popen[bytes], *, reads: bool) -> None:
        self.process = process
        self.lines: list[Json] = []
        self.log = b""
        self._ids = count(1)
        self._changed = threading.Condition()
        self._is_over = False
        self._threads = [threading.Thread(target=self._read_log)]
        self._output = threading.Thread(target=self._read_output)
        for thread in self._threads:
            thread.start()
        if reads:
            self.read()

    def read(self) -> None:
        self._threads.append(self._output)
        self._output.start()

    def send(self, *requests: Json) -> None:
        self.write(b"".join(json.dumps(each).encode() + b"\n" for each in requests))

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def start(self, method: str, **fields: Any) -> int:
        id = next(self._ids)
        self.send({"id": id, "method": method, **fields})
        return id

    def ask(self, method: str, **fields: Any) -> Answer:
        return self.answer(self.start(method, **fields))

    def respond(self, model: str, *messages: Json, group: str = "work", **fields: Any) -> Answer:
        return self.answer(self.start_respond(model, *messages, group=group, **fields))

    def start_respond(self, model: str, *messages: Json, group: str = "work", **fields: Any) -> int:
        sent = list(messages) or [user(SECRET_PROMPT)]
        return self.start("respond", group=group, model=model, messages=sent, **fields)

    def configure(self, group: str, endpoint: str, **fields: Any) -> Json:
        end = self.ask("configure", group=group, endpoint=endpoint, **fields).end
        assert end["type"] == "done", end
        return end

    def answer(self, id: Any) -> Answer:
        """Wait for the end of a request."""
        self.wait(lambda: any(line["type"] in ENDS for line in self.of(id)), f"the end of {id}")
        return Answer(self.of(id))

    def begun(self, id: Any) -> None:
        """Wait for the first line of a request."""
        self.wait(lambda: len(self.of(id)) > 0, f"part of {id}")

    def of(self, id: Any) -> list[Json]:
        return [line for line in self.lines if line.get("id") == id]

    def notifications(self, type: str) -> list[Json]:
        return [line for line in self.lines if "id" not in line and line["type"] == type]

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            found = self._changed.wait_for(lambda: self._is_over or condition(), TIMEOUT)
            assert found, f"timed out waiting for {what}"
            assert condition(), f"the host ended without {what}: {self.log.decode()}"

    def close(self) -> int:
        """Close its input, and wait until it exits."""
        assert self.process.stdin
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(TIMEOUT)
        for thread in self._threads:
            thread.join(TIMEOUT)
        return code

    def check(self) -> None:
        """Check every run: each request ends once, nothing follows its end, and the log has no secret."""
        ended: set[Any] = set()
        for line in self.lines:
            if "id" in line:
                assert line["id"] not in ended, f"{line} follows the end"
                ended |= {line["id"]} if line["type"] in ENDS else set()
        log = self.log.decode()
        assert [secret for secret in PLANTED if secret in log] == []
        assert [line for line in log.splitlines() if json.loads(line)["level"] == "error"] == []

    def _read_output(self) -> None:
        assert self.process.stdout
        for raw in self.process.stdout:
            line = json.loads(raw)
            assert isinstance(line["type"], str)
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _read_log(self) -> None:
        assert self.process.stderr
        self.log = self.process.stderr.read()


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "vscode-host", "--log-level", "debug", *options]


@contextmanager
def host_process(*, reads: bool = True, checked: bool = True) -> Iterator[HostProcess]:
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    process = subprocess.Popen(command(), stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
    running = HostProcess(process, reads=reads)
    try:
        yield running
        if process.poll() is None:
            assert running.close() == 0
        if checked:
            running.check()
    finally:
        if process.poll() is None:
            process.kill()
        running.ended()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream
            stream.close()
