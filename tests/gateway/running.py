"""A real gateway process, and a client that checks every answer before a test uses it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.protocol.events import TERMINAL
from penstock.sse import Decoder
from penstock.stream.checker import StreamChecker
from tests.gateway.null_fields import holes
from tests.protocol.schema import SPEC, complaints, event_components

SECRET_KEY = "sk-planted-7fQ2x9LmZt4w"
SECRET_PROMPT = "planted-prompt-quetzal"
SECRET_ANSWER = "planted-answer-ocelot"
PLANTED = (SECRET_KEY, SECRET_PROMPT, SECRET_ANSWER)
"""Words that tests put into keys, prompts and answers. None of them may ever stand in a log."""

REFUSED_RELOAD = "the settings were not changed"
"""The one thing that a gateway may call an error here: everything else is a fault of ours."""

RELEASES = ("2026-04-24", "2026-01-15") if SPEC.is_dir() else ()

Json = dict[str, Any]


@dataclass
class Reply:
    """An answer of the gateway."""

    status: int
    headers: dict[str, str]
    body: bytes
    events: list[Json] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Json:
        error: Json = self.json["error"]
        return error

    @property
    def last(self) -> Json:
        """The response in the terminal event, or in the answer."""
        response: Json = self.events[-1]["response"] if self.events else self.json
        return response

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def text(self) -> str:
        return "".join(
            part.get("text", "")
            for item in self.last["output"]
            if item["type"] == "message"
            for part in item["content"]
        )


def judge(status: int, headers: dict[str, str], body: bytes, accent: str = "openresponses") -> Reply:
    """Return the answer if it is valid; otherwise an `AssertionError` names the rule that it breaks."""
    reply = Reply(status, headers, body)
    assert headers.get("x-request-id"), "every answer has a request id"
    if headers.get("content-type") == "text/event-stream":
        reply.events = judge_stream(body, accent)
    elif status >= 400:
        error = reply.error
        assert {"message", "type", "param", "code"} <= error.keys()
        assert error["message"]
        assert error["code"]
    elif headers.get("content-type") != "application/json" or not body:
        pass
    elif reply.json.get("object") == "response":
        assert holes(reply.json) == []
        known = without_extensions(reply.json)
        for release in releases_for(body) if accent == "openresponses" else ():
            assert complaints(release, "ResponseResource", known) == []
    return reply


def releases_for(body: bytes) -> tuple[str, ...]:
    """The releases of the schema that an answer must match: the older one has no compactions."""
    return RELEASES[:1] if b'"type":"compaction"' in body else RELEASES


def judge_stream(body: bytes, accent: str = "openresponses") -> list[Json]:
    """The events of a whole stream: lawful in strict mode, valid by both schemas, ended by [DONE]."""
    assert body.endswith(b"data: [DONE]\n\n")
    decoder = Decoder()
    frames = decoder.feed(body) + decoder.end()
    checker = StreamChecker(accent=accent)
    found = [violation for frame in frames for violation in checker.feed_frame(frame.event, frame.data)]
    violations = [str(each) for each in (*found, *checker.end())]
    assert violations == [], violations
    assert frames[-1].data == "[DONE]"
    assert frames[-1].event is None
    events: list[Json] = [json.loads(frame.data) for frame in frames[:-1]]
    assert [frame.event for frame in frames[:-1]] == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events if event["type"] in TERMINAL] == [events[-1]["type"]]
    assert holes(events) == []
    if accent == "openresponses":
        releases = releases_for(body)
        for event in events:
            component = event_components().get(event["type"]) if RELEASES else None
            known = (
                {**event, "response": without_extensions(event["response"])} if "response" in event else event
            )
            is_known = not is_extension(event.get("item", {}))
            for release in releases if component and is_known else ():
                assert complaints(release, str(component), known) == [], event["type"]
    return events


EXTENSIONS = ("custom_tool_call",)
"""Items that a client gets because it declared their tools, and that the published schemas do not know."""


def is_extension(item: Json) -> bool:
    """Return whether the published schemas do not know the type of an item: it may also be a vendor's."""
    return item.get("type") in EXTENSIONS or ":" in item.get("type", "")


def without_extensions(response: Json) -> Json:
    """What of a response the published schemas know: functions, and what models do with them (spec S9)."""
    return {
        **response,
        "tools": [tool for tool in response["tools"] if tool["type"] == "function"],
        "output": [item for item in response["output"] if not is_extension(item)],
    }


def read_all(answer: http.client.HTTPResponse) -> bytes:
    """The rest of a body. Heartbeats may continue forever, so there is a deadline."""
    deadline = time.monotonic() + 15
    body = b""
    while data := answer.read1(65536):
        body += data
        assert time.monotonic() < deadline, "the answer does not end"
    return body


class Live:
    """An answer that is still on its way."""

    def __init__(self, answer: http.client.HTTPResponse, accent: str) -> None:
        self._answer, self._accent = answer, accent
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = b""

    def until(self, words: bytes, times: int = 1) -> None:
        """Read until these words have appeared so often; comments may continue forever, so there is a
        deadline."""
        deadline = time.monotonic() + 10
        while self.body.count(words) < times:
            assert time.monotonic() < deadline, f"there is no {words!r} in {self.body!r}"
            data = self._answer.read1(65536)
            assert data, f"the answer ended without {words!r}"
            self.body += data

    def rest(self) -> Reply:
        """Read to the end, and check all of it."""
        self.body += read_all(self._answer)
        return judge(self.status, self.headers, self.body, self._accent)


class Running:
    """A gateway process. `log` is what it wrote to standard error."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process, self.url, self._log = process, url, log
        self.address = urlsplit(url)

    @property
    def log(self) -> list[Json]:
        whole, _, _ = self._log.read_text().rpartition("\n")  # the last line may still be on its way
        return [json.loads(line) for line in whole.splitlines()]

    def verdict(self, request_id: str) -> Json:
        """The one verdict of a request. It is written when the turn is over, which may be a moment later."""
        for _ in range(200):
            found = [
                line for line in self.log if line.get("event") == "turn" and line["request_id"] == request_id
            ]
            if found:
                assert len(found) == 1
                return found[0]
            time.sleep(0.02)
        raise AssertionError("there is no verdict")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.hostname or "", self.address.port, timeout=30)

    def ask(
        self,
        body: Json | bytes | None = None,
        path: str = "/v1/responses",
        *,
        method: str = "POST",
        accent: str = "openresponses",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request, and its answer, checked."""
        connection = self.connect()
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            sent = {"content-type": "application/json", **(headers or {})}
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            named = {name.lower(): value for name, value in answer.getheaders()}
            return judge(answer.status, named, read_all(answer), accent)
        finally:
            connection.close()

    def stream(self, model: str, prompt: str = SECRET_PROMPT, **fields: Any) -> Reply:
        """A streamed turn."""
        accent = fields.pop("accent", "openresponses")
        headers = {"x-penstock-accent": accent, **fields.pop("headers", {})}
        body = {"model": model, "input": prompt, "stream": True, **fields}
        return self.ask(body, headers=headers, accent=accent)

    @contextmanager
    def live(self, model: str, prompt: str = SECRET_PROMPT, **fields: Any) -> Iterator[Live]:
        """A streamed turn, read step by step. Leaving the block early disconnects the client."""
        connection = self.connect()
        try:
            accent = fields.pop("accent", "openresponses")
            headers = {"content-type": "application/json", "x-penstock-accent": accent}
            headers |= fields.pop("headers", {})
            body = {"model": model, "input": prompt, "stream": True, **fields}
            connection.request("POST", "/v1/responses", json.dumps(body).encode(), headers)
            yield Live(connection.getresponse(), accent)
        finally:
            connection.close()

    def whole(self, model: str, prompt: str = SECRET_PROMPT, **fields: Any) -> Reply:
        """A turn that is not streamed."""
        headers = fields.pop("headers", {})
        return self.ask({"model": model, "input": prompt, **fields}, headers=headers)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(30)


@contextmanager
def gateway(
    folder: Path,
    *options: str,
    config: str = "",
    environment: dict[str, str] | None = None,
    faults: tuple[str, ...] = (),
    through: tuple[str, ...] = (),
) -> Iterator[Running]:
    """Start a gateway. When it has ended, its log is searched for what must never be there; `faults` are
    words of the errors that a test causes. `through` is a command that starts it."""
    ready, log = folder / "ready", folder / "log"
    ready.unlink(missing_ok=True)
    command = [*through, sys.executable, "-m", "penstock", "serve", "--port", "0", "--ready-file", str(ready)]
    if config:
        (folder / "penstock.toml").write_text(config)
        command += ["--config", str(folder / "penstock.toml")]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, "--log-level", "debug", "--store", str(folder / "store.sqlite"), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=written,
            cwd=folder,
            env={**os.environ, "PYTHONWARNINGS": "default", **(environment or {})},
        )
    try:
        yield Running(process, _when_ready(process, ready, log), log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        logged = log.read_text()
        assert [secret for secret in PLANTED if secret in logged] == []
        errors = [line for line in logged.splitlines() if '"level": "error"' in line]
        known = (REFUSED_RELOAD, *faults)
        assert [line for line in errors if not any(words in line for words in known)] == []


def serve(*options: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a gateway that is expected to fail."""
    command = [sys.executable, "-m", "penstock", "serve", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, env=environment)


def _when_ready(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    for _ in range(1500):
        if ready.exists() and (url := ready.read_text().strip()):
            return url
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    raise AssertionError(f"the gateway is not ready: {log.read_text()}")
