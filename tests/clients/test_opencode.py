"""opencode, non-interactively, in a scratch folder with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients import environments
from tests.clients.script import Reply, Say, Think, shell, write
from tests.clients.stage import MODELS, Stage

pytestmark = pytest.mark.clients_all

CLIENT = "opencode"
LONGEST = 90
Json = dict[str, Any]


class Opencode:
    """One user of opencode: a home with settings, and a working directory."""

    def __init__(self, binary: Path, folder: Path, stage: Stage) -> None:
        self._binary, self._stage = binary, stage
        self._home, self.work = folder / "home", folder / "work"
        self._home.mkdir(parents=True)
        self.work.mkdir()
        subprocess.run(["git", "init", "--quiet"], cwd=self.work, check=True)

    def run(self, dialect: str, prompt: str, *replies: Reply) -> list[Json]:
        """Run one prompt, and return the events that opencode prints."""
        model = self._stage.play(dialect, *replies)
        # It names its sessions with a request of its own.
        self._stage.upstreams[dialect].always(
            lambda seen: any("title" in text.lower() for text in seen.texts("system")) and not seen.tools,
            (Say("A cat"),),
        )
        (self._home / "opencode.json").write_text(json.dumps(self._config()))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "XDG_CONFIG_HOME": str(self._home / "config"),
            "XDG_DATA_HOME": str(self._home / "data"),
            "XDG_CACHE_HOME": str(self._home / "cache"),
            "XDG_STATE_HOME": str(self._home / "state"),
            "OPENCODE_CONFIG": str(self._home / "opencode.json"),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "NO_PROXY": "127.0.0.1",
        }
        command = [str(self._binary), "run", "--auto", "--thinking", "--format", "json"]
        done = subprocess.run(
            [*command, "--model", f"penstock/{model}", prompt],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def _config(self) -> Json:
        model = {
            "reasoning": True,
            "tool_call": True,
            "limit": {"context": 100_000, "output": 8_000},
            "options": {"reasoningEffort": "medium", "reasoningSummary": "auto"},
        }
        provider = {
            "npm": "@ai-sdk/openai",
            "name": "Penstock",
            "options": {"baseURL": self._stage.base_url, "apiKey": "sk-any"},
            "models": {name: {"name": name, **model} for name in MODELS.values()},
        }
        return {"provider": {"penstock": provider}, "share": "disabled", "autoupdate": False}


def texts(events: list[Json]) -> list[str]:
    return [event["part"]["text"] for event in events if event["type"] == "text"]


def text(opencode: Opencode, stage: Stage, dialect: str) -> None:
    assert texts(opencode.run(dialect, "Say hello", (Say("Hello to you."),))) == ["Hello to you."]
    assert "Say hello" in stage.seen(dialect)[0].texts("user")[-1]


def tools(opencode: Opencode, stage: Stage, dialect: str) -> None:
    """A shell command, and an edit of a file."""
    run = (Say("Let me see."), shell("echo meow > cat.txt; echo grey"))
    script = run, (write("note.txt", "purr\n"),), (Say("Done."),)
    events = opencode.run(dialect, "Write about the cat", *script)
    assert texts(events)[-1] == "Done."
    assert (opencode.work / "cat.txt").read_text() == "meow\n"
    assert (opencode.work / "note.txt").read_text() == "purr\n"
    assert "grey" in stage.seen(dialect)[1].texts("output")[0]


def reasoning(opencode: Opencode, stage: Stage, dialect: str) -> None:  # noqa: ARG001
    script = (Think("A cat, surely."), shell("echo meow")), (Think("It is."), Say("Done."))
    events = opencode.run(dialect, "Think about the cat", *script)
    assert texts(events) == ["Done."]
    shown = [event["part"]["text"] for event in events if event["type"] == "reasoning"]
    assert [each for each in shown if each] == ["A cat, surely.", "It is."]


CASES: dict[str, Callable[[Opencode, Stage, str], None]] = {
    "text": text,
    "a shell command and an edit": tools,
    "reasoning shown": reasoning,
}


@pytest.fixture
def opencode(scene: Stage, install: Callable[[str], Path], tmp_path: Path) -> Opencode:
    install("opencode")
    return Opencode(environments.opencode(), tmp_path, scene)


@pytest.mark.parametrize("client", [CLIENT])
@pytest.mark.parametrize(("case", "dialect"), [(case, each) for case in CASES for each in MODELS])
def test_opencode(client: str, case: str, dialect: str, opencode: Opencode, scene: Stage) -> None:  # noqa: ARG001
    CASES[case](opencode, scene, dialect)
    scene.check()
