"""Untrusted text: escaped on a terminal, unchanged in a pipe."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import streams
from tests.cli.running import COMMAND, environment, fresh
from tests.client.server import answer, in_a_thread
from tests.gateway.running import gateway
from tests.gateway.upstream import ScriptedUpstream, said

pytestmark = pytest.mark.e2e

CONTROLS = "\x9b31m \u202e txt.exe \u2066 \x85 \x7f \U000e0041"
"""As it is in JSON, where control characters below a space are escaped already."""
DANGEROUS = "\x1b\x07\x9b\u202e\u2066\x85\x7f\U000e0041"


def on_a_terminal(*arguments: str) -> str:
    """Return everything that a terminal receives on both outputs."""
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(NO_COLOR="1", TERM="xterm"),
    )
    os.close(theirs)
    shown = bytearray()
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # on Linux the end of a terminal is an error
        pass
    finally:
        os.close(ours)
        command.wait(30)
    return shown.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("terminal")


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    scripted.play("", [answer(200, {"data": [{"id": f"model {CONTROLS}"}]})])
    with in_a_thread(scripted):
        yield scripted


@pytest.fixture(scope="module")
def stored(folder: Path) -> str:
    """The id of a response that a gateway has recorded."""
    with gateway(folder, "--record") as running:
        response: str = running.whole("demo", f"say exactly: {CONTROLS}").json["id"]
        return response


@pytest.fixture(scope="module")
def commands(folder: Path, upstream: ScriptedUpstream, stored: str) -> dict[str, list[str]]:
    chat, lawful, request = folder / "chat.sse", folder / "lawful.sse", folder / "request.json"
    chat.write_text("".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in said(CONTROLS)))
    events = streams.as_sse(streams.hello()).decode()
    lawful.write_text(events.replace("response.output_text.delta", f"response.{CONTROLS}", 1))
    request.write_text(json.dumps({"model": CONTROLS, "input": CONTROLS}, ensure_ascii=False))
    store = ["--store", str(folder / "store.sqlite")]
    return {
        "translate": ["translate", "--dialect", "chat", "--explain", str(chat)],
        "render": ["render", "--dialect", "chat", "--headers", str(request)],
        "check": ["check", str(lawful)],
        "check as JSON": ["check", "--json", str(lawful)],
        "check with a timeline": ["check", "--timeline", str(lawful)],
        "parts": ["parts", "--trace", str(chat.with_name("translated.sse"))],
        "models": ["models", "--base-url", upstream.url],
        "models as JSON": ["models", "--base-url", upstream.url, "--json"],
        "explain": ["explain", "--content", *store, stored],
        "explain as JSON": ["explain", "--content", "--json", *store, stored],
        "replay": ["replay", *store, stored],
        "replay with events": ["replay", "--events", *store, stored],
        "replay as JSON": ["replay", "--json", *store, stored],
        "export": ["store", "export", *store, stored],
        "a file that is not there": ["check", f"/nowhere/{CONTROLS}"],
        "an id that is not there": ["explain", *store, f"resp_{CONTROLS}"],
    }


NAMES = (
    *("translate", "render", "check", "check as JSON", "check with a timeline", "parts", "models"),
    *("models as JSON", "explain", "explain as JSON", "replay", "replay with events", "replay as JSON"),
    *("export", "a file that is not there", "an id that is not there"),
)
EXACT = ("translate", "render", "parts", "models as JSON", "explain as JSON", "replay with events", "export")
"""Commands whose output is also for programs."""


@pytest.fixture(scope="module")
def translated(commands: dict[str, list[str]], folder: Path) -> None:
    (folder / "translated.sse").write_text(fresh(*commands["translate"]).stdout)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("translated")
def test_control_characters_are_escaped_on_a_terminal(commands: dict[str, list[str]], name: str) -> None:
    shown = on_a_terminal(*commands[name])
    assert shown.strip()
    assert "Traceback" not in shown
    assert [each for each in DANGEROUS if each in shown] == []


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.usefixtures("translated")
def test_a_pipe_gets_the_exact_text(commands: dict[str, list[str]], name: str) -> None:
    assert "\x9b31m \u202e " in fresh(*commands[name]).stdout


@pytest.mark.parametrize("name", ["models as JSON", "explain as JSON", "export"])
@pytest.mark.usefixtures("translated")
def test_a_terminal_shows_equivalent_json(commands: dict[str, list[str]], name: str) -> None:
    lines = [line for line in on_a_terminal(*commands[name]).splitlines() if line.startswith("{")]
    piped = fresh(*commands[name]).stdout.strip().split("\n")
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in piped]
