"""Every command of the README, against a gateway that `make serve` started."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.server import in_a_thread
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, said, streamed

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HERE, OLLAMA = "http://127.0.0.1:8080", "http://127.0.0.1:11434"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("curl"), reason="the README asks with curl"),
]


def commands() -> list[str]:
    """Return the commands after a `$`, with the lines of a here-document."""
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    return [
        command
        for block in blocks
        for command in re.findall(r"^\$ (.*<<'END'\n(?s:.*?)^END$|.*)$", block, re.MULTILINE)
    ]


@contextmanager
def started(command: str, folder: Path) -> Iterator[str]:
    """Start a serving command and yield its URL; end it like Ctrl-C."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=ROOT if command.startswith("make") else folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "ANTHROPIC_API_KEY": "sk-ant-unused", "XDG_DATA_HOME": str(folder / "data")},
    )
    try:
        for _ in range(1500):
            if ready.exists():
                break
            assert process.poll() is None, command
            time.sleep(0.02)
        yield ready.read_text().strip()
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(20)


class Newcomer:
    """Runs the commands. `url` is the gateway of the first one."""

    def __init__(self, folder: Path, url: str, ollama: ScriptedUpstream) -> None:
        self._folder, self._url, self._ollama = folder, url, ollama
        self.outputs: dict[str, str] = {}
        self._named = ""
        """Return the value of a shell variable."""
        (folder / ".venv").symlink_to(ROOT / ".venv")

    def type(self, command: str) -> None:
        if re.match(r"\.venv/bin/penstock serve", command):
            self._serve(command)
        elif command.startswith("make "):
            assert command.split()[1] in ("serve", "test", "help")  # the first two are already running
        else:
            self._run(command)

    def _serve(self, command: str) -> None:
        options = f" --port 0 --ready-file {self._folder}/ready"
        with started(command.replace(OLLAMA, self._ollama.url) + options, self._folder) as url:
            running = Running(None, url, self._folder / "log")  # type: ignore[arg-type]  # ended elsewhere
            if "--upstream" in command:
                self._ollama.play("my-model", streamed(*said("from Ollama")))
                assert running.whole("my-model").text == "from Ollama"
            assert running.whole("demo").last["status"] == "completed"

    def _run(self, command: str) -> None:
        typed = command.replace(HERE, self._url).replace("--model my-model", "--model demo")
        typed = typed.replace("penstock chat", f"penstock chat --base-url {self._url}/v1")
        typed = typed.replace("penstock init", "penstock init --yes --no-test")  # there is no terminal
        if "openai" in command:
            typed = f"export OPENAI_BASE_URL={self._url}/v1 OPENAI_API_KEY=unused; {typed}"
        if re.match(r"[A-Z]+=", command):
            self._named += f"{typed}; "
        result = subprocess.run(
            ["bash", "-c", self._named + typed],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "XDG_DATA_HOME": str(self._folder / "data")},
        )
        assert result.returncode in (0, 1 if "translate" in command or "--tolerant" in command else 0), result
        self.outputs[command] = result.stdout


def test_every_command_of_the_readme_does_what_it_says(tmp_path: Path) -> None:
    ollama = ScriptedUpstream()
    serving = f"make serve ARGS='--port 0 --ready-file {tmp_path}/ready'"
    with in_a_thread(ollama), started(serving, tmp_path) as url:
        newcomer = Newcomer(tmp_path, url, ollama)
        for command in commands():
            newcomer.type(command)
    outputs = newcomer.outputs
    curls = [output for command, output in outputs.items() if command.startswith("curl")]
    [hello, failed, _, resumed, continued] = curls
    assert '"sequence_number":6,' in resumed
    assert '"sequence_number":5,' not in resumed
    assert '"previous_response_id":"resp_' in continued
    [explained] = [output for command, output in outputs.items() if "penstock explain" in command]
    assert "completed" in explained
    assert hello.endswith("data: [DONE]\n\n")
    assert "response.completed" in hello
    assert "response.failed" in failed
    [counted] = [output for command, output in outputs.items() if "Count from" in command]
    assert "5" in counted
    [asked] = [output for command, output in outputs.items() if "openai" in command and "python" in command]
    assert "Hello" in asked
    [looked] = [output for command, output in outputs.items() if "--tools" in command]
    assert "3 degrees" in looked
