"""No control sequence of a model, an upstream, a client or a file reaches a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from penstock.cli import COMMANDS
from tests.cli import streams
from tests.cli.running import fresh
from tests.client.server import Asked, Script, answer, chunk, in_a_thread, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.scripts import STOP, TOOL_CALLS, body, call, calls, text
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, frames
from tests.hardening.hostile_texts import ALL, INJECTED, TEXTS, foreign, injected
from tests.hardening.terminals import on_a_terminal, terminal, typed_on_a_terminal

pytestmark = pytest.mark.hardening

_CONFIG = """
passthrough = "chat"
[server]
record = true
[limits]
retries = 0
patience = 1
[targets.chat]
base_url = "{url}/v1"
keys = ["UPSTREAM_KEY"]
"""
NAMED = f"{{folder}}/named {INJECTED}\n{INJECTED}\x1b]0;t\x07.sse"
TOOLS = '''
def look(text: str = "") -> str:
    """Look."""
    print({0!r})
    return {0!r}
'''


class HostileUpstream(ScriptedUpstream):
    """Both a vendor with Chat Completions and a Responses endpoint; everything that it says is hostile."""

    def script_for(self, asked: Asked) -> Script:
        if asked.method == "GET":
            return self._listed(asked.target)
        model = asked.json.get("model", "")
        if asked.target.endswith("/responses"):
            return self._response(model)
        if model in _FAILURES:
            return _FAILURES[model]
        if (
            model == "call"
            and "look" in str(asked.json.get("tools"))
            and "tool_call_id" not in str(asked.json)
        ):
            arguments = json.dumps({"text": ALL})
            return body(frames(*text(ALL), calls(call(0, f"call {ALL}", "look", arguments)), TOOL_CALLS))
        cited = [{"type": "url_citation", "url_citation": {"url": f"http://a/{ALL}", "title": ALL}}]
        said = [
            chat_chunk({"role": "assistant", "reasoning_content": ALL}, id=ALL, model=ALL),
            *(chat_chunk({"content": f"{each} "}) for each in TEXTS.values()),
            *(chat_chunk({"content": each}) for each in ALL),
            chat_chunk(
                {"content": f"\n\n| a | {ALL} |\n|--|--|\n| `{ALL}` | **{ALL}** |\n", "annotations": cited}
            ),
            *([calls(call(0, f"call {ALL}", f"undeclared {ALL}", "{}"))] if model == "undeclared" else []),
            chat_chunk({}, finish=ALL) if model == "reason" else STOP,
        ]
        return body(frames(*said))

    def _listed(self, target: str) -> Script:
        if "models" not in target:
            return [answer(404, {"error": {"message": ALL}})]
        names = ["text", "call", *(f"{name} {each}" for name, each in TEXTS.items())]
        facts = {"owned_by": ALL, "name": ALL, "description": ALL, "created": 1}
        return [answer(200, {"object": "list", "data": [{"id": name, **facts} for name in names]})]

    def _response(self, model: str) -> Script:
        if model in _FAILURES:
            return _FAILURES[model]
        events, item = streams.message("msg_1", 0, [ALL, f"\n{ALL}"])
        response = streams.response([*events, {"type": f"response.{ALL}", "sequence_number": 3}], [item])
        return body(streams.as_sse(response, done=True))


def _failure(status: int, content: bytes, type: str = "application/json", reason: bytes = b"Said") -> Script:
    head = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\n" % (status, reason, type.encode())
    named = f"x-request-id: req {ALL}\r\nlocation: http://a/{ALL}\r\n".replace("\n", "").replace("\0", "")
    length = b"content-length: %d\r\nconnection: close\r\n\r\n" % len(content)
    return [send(head + (named.encode() + b"\r\n" if status == 307 else b"") + length + content)]


_ERROR = {"error": {"message": ALL, "type": ALL, "code": ALL, "param": ALL}}
_FAILURES: dict[str, Script] = {
    "refused": _failure(400, json.dumps(_ERROR).encode()),
    "raw": _failure(500, json.dumps(_ERROR, ensure_ascii=False).encode()),
    "unauthorized": _failure(401, json.dumps(_ERROR).encode()),
    "limited": _failure(429, json.dumps(_ERROR).encode()),
    "missing": _failure(404, json.dumps(_ERROR).encode()),
    "page": _failure(200, f"<html><title>{ALL}</title>{ALL}".encode(), "text/html"),
    "plain": _failure(502, ALL.encode(), "text/plain"),
    "reason phrase": _failure(503, b"", reason="\x1b]0;owned\x07\x9b31m".encode()),
    "redirect": _failure(307, b""),
    "broken": [send(SSE_HEAD + chunk(frames(chat_chunk({"content": "a"}), _ERROR, done=False)) + LAST_CHUNK)],
    "garbage": body(f"data: {ALL}\n\n".encode()),
}


class Place:
    """A gateway that has seen everything hostile, and the files that it and others have left."""

    def __init__(self, folder: Path, running: Running, upstream: HostileUpstream) -> None:
        self.folder, self.running, self.url = folder, running, upstream.url
        self.store = ("--store", str(folder / "store.sqlite"))
        self.base = ("--base-url", f"{running.url}/v1")
        self.hostile = ("--base-url", f"{upstream.url}/v1")
        self.ids: dict[str, str] = {}

    def fill(self) -> None:
        """Let turns end in every way, with hostile names of everything that has a name."""
        for model in ("text", "call", "undeclared", "reason", *_FAILURES, f"evil {ALL}"):
            headers = {
                "x-request-id": f"req-{len(self.ids)}",
                "user-agent": "\x9b31m",
                "idempotency-key": model,
            }
            fields = {"model": model, "metadata": {"a": ALL}, "user": ALL, "instructions": ALL, "input": ALL}
            connection = self.running.connect()
            shown = {
                name: each.encode("latin-1", "replace") for name, each in headers.items() if each.isascii()
            }
            connection.request("POST", "/v1/responses", json.dumps(fields).encode(), shown)
            reply = connection.getresponse()
            found = json.loads(reply.read())
            self.ids[model] = found.get("id") or f"req-{len(self.ids)}"
            connection.close()

    def write(self) -> None:
        """Write files as somebody else may have prepared them."""
        said = [chat_chunk({"content": ALL}), STOP]
        (self.folder / "chat.sse").write_text(frames(*said).decode())
        raw = "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in said)
        (self.folder / "raw.sse").write_text(raw, errors="surrogatepass")
        events, item = streams.message("msg_1", 0, [ALL])
        lawful = streams.as_sse(streams.response(events, [item]), done=True).decode()
        (self.folder / "lawful.sse").write_text(lawful)
        broken = lawful.replace("response.output_text.delta", f"response.{json.dumps(ALL)[1:-1]}", 1)
        (self.folder / "broken.sse").write_text(broken.replace("msg_1", json.dumps(ALL)[1:-1], 1))
        Path(NAMED.replace("{folder}", str(self.folder))).write_text(broken)
        request = {"model": ALL, "input": ALL, "tools": [{"type": ALL, "name": ALL}], ALL: ALL}
        (self.folder / "request.json").write_text(json.dumps(request))
        (self.folder / "bad.json").write_text(json.dumps({"input": [{"type": "message", ALL: ALL}]}))
        quoted = json.dumps(ALL).replace("\\ud", "\\\\ud")
        (self.folder / "bad.toml").write_text(
            f"[targets.{quoted}]\nbase_url = {quoted}\n{quoted} = {quoted}\n"
        )
        models = f'default_model = {quoted}\n[targets.chat]\nbase_url = "{self.url}/v1"\n'
        (self.folder / "good.toml").write_text(f'{models}[models.{quoted}]\ntarget = "chat"\n')
        (self.folder / "tools.py").write_text(TOOLS.format(ALL))
        loaded = [{"role": 1, "content": [{"type": "text", "value": ALL}]}]
        (self.folder / "chat.jsonl").write_text("".join(json.dumps(each) + "\n" for each in loaded))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("escapes")
    upstream = HostileUpstream()
    with in_a_thread(upstream):
        key = {"UPSTREAM_KEY": SECRET_KEY}
        with gateway(folder, config=_CONFIG.format(url=upstream.url), environment=key) as running:
            found = Place(folder, running, upstream)
            found.fill()
            found.write()
            (folder / "export.jsonl").write_text(
                fresh("store", "export", *found.store, found.ids["text"], found.ids["call"]).stdout
            )
            yield found


def commands() -> Iterator[tuple[str, ...]]:
    """Yield command lines. `{...}` is replaced by what the place has."""
    yield from (
        ("translate", "--dialect", each, "--explain", "{folder}/raw.sse") for each in ("chat", "responses")
    )
    yield ("translate", "--dialect", "chat", "--explain", "{folder}/chat.sse")
    yield ("translate", "--dialect", ALL, "{folder}/chat.sse")
    yield ("render", "--dialect", "chat", "--headers", "{folder}/request.json")
    yield ("render", "--dialect", "anthropic", "{folder}/bad.json")
    yield ("parts", "--trace", "{folder}/lawful.sse")
    yield ("parts", "{folder}/broken.sse")
    for format in ("text", "json", "github", "junit"):
        yield ("check", "--format", format, "{folder}/broken.sse", NAMED)
        yield ("check", "--format", format, f"{NAMED} missing")
    yield ("check", "--timeline", "{folder}/broken.sse")
    yield ("check", f"/dev/null/{ALL}")
    for model in ("text", *_FAILURES):
        yield ("check", "{hostile}/responses", "--model", model)
    yield ("models", "--base-url", "{hostile}")
    yield ("models", "--base-url", "{hostile}", "--json")
    yield ("models", "--base-url", "{base}", ALL)
    yield ("models", "--base-url", f"http://127.0.0.1:1/{ALL}")
    for model in ("text", "call", "undeclared", "reason", *_FAILURES):
        yield ("chat", "--base-url", "{base}", "--model", model, f"say {ALL}")
    for model in ("text", *_FAILURES):
        yield ("chat", "--base-url", "{hostile}", "--model", model, "hello")
    yield (
        "chat",
        "--base-url",
        "{base}",
        "--model",
        "call",
        "--tools",
        "{folder}/tools.py",
        "--yes",
        "hello",
    )
    yield ("chat", "--base-url", "{base}", "--model", "call", "--tools", "{folder}/tools.py", "hello")
    yield ("chat", "--base-url", "{base}", "--model", ALL, "hello")
    yield ("chat", "--base-url", "{base}", "hello")
    yield ("turns", "{store}")
    yield ("turns", "{store}", "--json")
    yield ("turns", "--base-url", "{base}")
    yield ("turns", "--base-url", "{hostile}")
    yield ("turns", "{store}", "--model", ALL)
    yield ("usage", "{store}", "--by", "key,model,outcome")
    yield ("usage", "{store}", "--by", ALL)
    yield ("usage", "--base-url", "{hostile}")
    for model in ("text", "call", "undeclared", "reason", *_FAILURES, f"evil {ALL}"):
        yield ("explain", "{store}", "--content", f"{{id:{model}}}")
    yield ("explain", "{store}", "--last", "--json", "--content")
    yield ("explain", "{store}", f"resp {ALL}")
    for model in ("text", "call", "broken"):
        yield ("replay", "{store}", f"{{id:{model}}}")
    yield ("replay", "{store}", "--events", "{id:text}")
    yield ("replay", "{store}", "--json", "{id:text}")
    yield ("replay", "{folder}/export.jsonl")
    yield ("replay", "{folder}/broken.sse")
    yield ("health", "--url", "{hostile}")
    yield ("health", "--url", f"http://127.0.0.1:1/{ALL}")
    yield ("health", "--config", NAMED)
    yield ("store", "stats", "{store}")
    yield ("store", "export", "{store}", "{id:text}")
    yield ("store", "export", "{store}", f"resp {ALL}")
    yield ("store", "prune", "--store", f"/dev/null/{ALL}", "--older-than", "1d")
    yield ("keys", "list", "--config", "{folder}/good.toml")
    yield ("keys", "list", "--config", "{folder}/bad.toml")
    yield ("keys", "create", "--print", ALL)
    yield ("keys", "create", "--print", "name", "--models", ALL)
    yield ("keys", "revoke", "--config", "{folder}/good.toml", ALL)
    yield ("config", "check", "{folder}/good.toml")
    yield ("config", "check", "{folder}/bad.toml")
    yield ("config", "show", "{folder}/good.toml")
    yield ("config", "check", f"/dev/null/{ALL}")
    for model in ("text", "refused", "page"):
        yield ("doctor", "--upstream", "{hostile}", "--model", model)
    yield ("doctor", "--upstream", "{hostile}", "--quick", "--json")
    yield ("doctor", "--config", "{folder}/good.toml", "--quick")
    yield ("doctor", "--config", "{folder}/bad.toml", "--quick")
    for client in ("codex", "vscode", "openai", "llm"):
        yield ("connect", client, "--base-url", "{hostile}")
    yield ("connect", "openai", "--base-url", "{base}", "--model", ALL)
    yield ("connect", "openai", "--base-url", f"http://{ALL}/v1")
    yield ("run", "codex", "--upstream", f"http://127.0.0.1:1/{ALL}", "--model", ALL)
    yield ("init", "--yes", "--no-test", "--output", f"/dev/null/{ALL}/penstock.toml")
    yield ("serve", "--config", f"/dev/null/{ALL}")
    yield ("serve", "--config", "{folder}/bad.toml")
    yield ("serve", "--store", f"/dev/null/{ALL}", "--port", "0")
    yield ("serve", "--host", f"nowhere {ALL}")
    yield ("completions", ALL)
    yield ("vscode-host", ALL)
    yield (ALL,)
    yield ("chat", f"--{ALL}")


def filled(place: Place, line: tuple[str, ...]) -> list[str]:
    words: list[str] = []
    for word in line:
        if word == "{store}":
            words += place.store
            continue
        made = word.replace("{folder}", str(place.folder)).replace("{base}", place.base[1])
        made = made.replace("{hostile}", place.hostile[1])
        found = re.fullmatch(r"\{id:(.*)\}", made, re.DOTALL)
        words.append((place.ids[found[1]] if found else made).replace("\0", ""))
    return words


LINES = list(dict.fromkeys(commands()))


def test_every_command_is_attacked() -> None:
    assert {line[0] for line in LINES} >= set(COMMANDS)


@pytest.mark.parametrize("line", LINES, ids=lambda line: ascii(" ".join(line))[:60])
def test_a_terminal_gets_no_foreign_sequence(place: Place, line: tuple[str, ...], tmp_path: Path) -> None:
    words = filled(place, line)
    shown = on_a_terminal(*words, folder=tmp_path)
    assert shown.strip() or line[0] == "vscode-host"
    assert foreign(shown) == []
    if line[0] not in MULTILINE and not any(ALL in word for word in line):
        assert injected(shown) == []


MULTILINE = ("chat", "translate", "parts", "render", "connect")
"""Commands whose output is a text, or JSON of several lines. Errors also keep the line breaks of what the
user has typed."""


def test_a_conversation_gets_no_foreign_sequence(place: Place) -> None:
    """Everything at the prompt: completion, models, thinking, tools, saving, loading."""
    line = ["chat", *place.base, "--model", "text", "--tools", "tools.py", "--load", "chat.jsonl"]
    steps = [
        (b"> ", b"/thinking\n"),
        (b"in full", b"hello\n"),
        (b"context", b"/model\n"),
        (b"null", b"/model cl\t\n"),
        (b"clear screen", b"/model call\n"),
        (b"model is now call", b"use the tool\n"),
        (b"always allow this tool) ", b"a\n"),
        (b"context", b"/usage\n/undo\n/save saved.jsonl\n/image /dev/null\n/nothing\n/quit\n"),
    ]
    shown = typed_on_a_terminal(*line, typed=steps, folder=place.folder)
    assert b"INJECTED" in shown
    assert foreign(shown) == []


def test_the_log_on_a_terminal_gets_no_foreign_sequence(place: Place) -> None:
    folder = place.folder / "logged"
    folder.mkdir()
    ready = folder / "ready"
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--ready-file", str(ready)]
    options = ["--upstream", place.url, "--store", "none", "--log-level", "debug"]
    with terminal() as (theirs, shown):
        process = subprocess.Popen(
            [*command, *options], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder
        )
        try:
            for _ in range(1500):
                if ready.exists() and ready.read_text():
                    break
                time.sleep(0.02)
            attack(Running(process, ready.read_text().strip(), folder / "log"))
        finally:
            process.terminate()
            process.wait(20)
    assert b"owned" in shown.bytes
    assert foreign(bytes(shown.bytes)) == []
    assert injected(bytes(shown.bytes)) == []


def test_the_log_in_a_file_gets_no_foreign_sequence(place: Place) -> None:
    """JSON may contain all but the ASCII ones as they are; but people read logs on terminals."""
    attack(place.running)
    logged = (place.folder / "log").read_bytes()
    assert b"owned" in logged
    assert foreign(logged) == []
    assert place.running.log


def attack(running: Running) -> None:
    """Send what a log could repeat."""
    for each in (*TEXTS.values(), ALL):
        fields: list[tuple[str, str, Any]] = [
            ("GET", f"/nothing/{quote(each)}", None),
            ("POST", "/v1/responses", {"model": each, "input": each}),
        ]
        for method, path, content in fields:
            connection = running.connect()
            connection.putrequest(method, path)
            data = b"" if content is None else json.dumps(content).encode()
            connection.putheader("content-length", str(len(data)))
            connection.putheader("x-request-id", b"evil\x9b31m")
            connection.endheaders(data)
            connection.getresponse().read()
            connection.close()
