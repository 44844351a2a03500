"""Run the real Codex CLI, non-interactively, in a scratch folder with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.clients.tap import Json

LONGEST = 60
"""Seconds that one run may take."""

CONFIG = """
model = "{model}"
model_provider = "penstock"
model_catalog_json = "{catalog}"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
{top}

[model_providers.penstock]
name = "Penstock"
base_url = "{url}"
env_key = "PENSTOCK_KEY"
wire_api = "responses"
{provider}

[analytics]
enabled = false

{tables}
"""

MCP = """
[mcp_servers.demo]
command = "{python}"
args = ["{script}"]
"""

MCP_SCRIPT = Path(__file__).parent / "drivers" / "mcp_server.py"


@dataclass
class Ran:
    """What one run of Codex printed."""

    code: int
    events: list[Json]
    stderr: str

    @property
    def thread(self) -> str:
        return str(next(each["thread_id"] for each in self.events if each["type"] == "thread.started"))

    def items(self, kind: str) -> list[Json]:
        """The finished items of one type: `agent_message`, `command_execution`, `file_change`, ..."""
        return [
            each["item"]
            for each in self.events
            if each["type"] == "item.completed" and each["item"]["type"] == kind
        ]

    @property
    def texts(self) -> list[str]:
        return [item["text"] for item in self.items("agent_message")]

    @property
    def errors(self) -> list[str]:
        """The messages that the user sees about failures."""
        ends = [each for each in self.events if each["type"] in ("error", "turn.failed")]
        return [each.get("message") or each["error"]["message"] for each in ends]


class Codex:
    """One user of Codex: a home with its settings and its sessions, and a working directory."""

    def __init__(self, binary: Path, folder: Path, base_url: str, key: str = "sk-any") -> None:
        self._binary, self._base_url, self._key = binary, base_url, key
        self._home = folder / "home"
        self.work = folder / "work"
        self._home.mkdir(parents=True)
        self.work.mkdir()

    def configure(
        self,
        model: str,
        *,
        top: str = "",
        provider: str = "",
        mcp: bool = False,
        change: Callable[[Json], None] = lambda _: None,
    ) -> None:
        """Write the settings. The models come from the gateway's own list; `change` adjusts an entry."""
        headers = {"authorization": f"Bearer {self._key}"}
        asked = urllib.request.Request(f"{self._base_url}/models", headers=headers)
        models = json.loads(urllib.request.urlopen(asked, timeout=10).read())["models"]
        for each in models:
            change(each)
        catalog = self._home / "models.json"
        catalog.write_text(json.dumps({"models": models}))
        tables = MCP.format(python=sys.executable, script=MCP_SCRIPT) if mcp else ""
        config = CONFIG.format(
            model=model, catalog=catalog, url=self._base_url, top=top, provider=provider, tables=tables
        )
        (self._home / "config.toml").write_text(config)

    def run(self, prompt: str, *options: str, resume: str = "") -> Ran:
        process = self.start(prompt, *options, resume=resume)
        try:
            stdout, stderr = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            raise AssertionError(f"Codex did not end: {stdout!r} {stderr!r}") from None
        return self.ran(process.returncode, stdout, stderr)

    def interrupt(self, process: subprocess.Popen[str]) -> Ran:
        """Press Ctrl-C."""
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LONGEST)
        return self.ran(process.returncode, stdout, stderr)

    def start(self, prompt: str, *options: str, resume: str = "") -> subprocess.Popen[str]:
        command = [str(self._binary), "exec"]
        command += ["resume", resume] if resume else ["--cd", str(self.work)]
        command += ["--json", "--skip-git-repo-check", *options, prompt]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "CODEX_HOME": str(self._home),
            "PENSTOCK_KEY": self._key,
            "NO_PROXY": "127.0.0.1",
        }
        return subprocess.Popen(
            command,
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def ran(code: int, stdout: str, stderr: str) -> Ran:
        events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        return Ran(code, events, stderr)
