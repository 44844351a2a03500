"""VS Code as a local server, with its own folder; it is stopped with all its child processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from tests.vscode.e2e.install import Installed

LONGEST = 60.0
"""Seconds until waiting for the server fails. It is a limit, not a pause."""

SETTINGS: dict[str, Any] = {
    "chat.disableAIFeatures": False,
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": False,
    "extensions.ignoreRecommendations": True,
    "github.gitAuthentication": False,
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "update.mode": "none",
    "window.commandCenter": True,
    "workbench.enableExperiments": False,
    "workbench.secondarySideBar.defaultVisibility": "visible",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "workbench.welcomePage.walkthroughs.openOnInstall": False,
}
"""Features that use the network or cover what a test checks are off."""

LISTENING = re.compile(r"HTTP server listening on (http://\S+?)/?\s")


class Setup(msgspec.Struct, frozen=True):
    """The configuration of a VS Code."""

    extensions: Sequence[Path] = ()
    settings: Mapping[str, Any] = {}
    groups: Sequence[Mapping[str, Any]] = ()
    """The named groups of models, the content of `User/chatLanguageModels.json`."""
    environment: Mapping[str, str] = {}


class CodeServer:
    """A running VS Code. `folder` has all of its files, and `workspace` is the folder to open."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, folder: Path) -> None:
        self.process, self.url, self.folder = process, url, folder
        self.workspace = folder / "workspace"

    @property
    def page(self) -> str:
        return f"{self.url}/?folder={self.workspace}"


@contextmanager
def code_server(installed: Installed, folder: Path, setup: Setup) -> Iterator[CodeServer]:
    _lay_out(folder, setup)
    command = [
        str(installed.node),
        str(installed.code_server / "out" / "node" / "entry.js"),
        *("--bind-addr", "127.0.0.1:0", "--auth", "none", "--disable-telemetry", "--disable-update-check"),
        *("--config", str(folder / "config.yaml"), "--user-data-dir", str(folder / "data")),
        *("--extensions-dir", str(folder / "extensions"), "--log", "debug"),
    ]
    log = folder / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=_environment(folder, setup),
            start_new_session=True,  # its group is how the extension host and all that it started are ended
        )
    try:
        yield CodeServer(process, _when_listening(process, log), folder)
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _lay_out(folder: Path, setup: Setup) -> None:
    user = folder / "data" / "User"
    for each in (user, folder / "extensions", folder / "workspace", folder / "home"):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("cert: false\n")
    (user / "settings.json").write_text(json.dumps({**SETTINGS, **setup.settings}, indent=2))
    (user / "chatLanguageModels.json").write_text(json.dumps(list(setup.groups), indent=2))
    (folder / "workspace" / "notes.txt").write_text("The valve opens at seven.\n")
    for extension in setup.extensions:
        about = json.loads((extension / "package.json").read_text())
        name = "{publisher}.{name}-{version}".format(**about)
        shutil.copytree(
            extension, folder / "extensions" / name, ignore=shutil.ignore_patterns("node_modules", "*.vsix")
        )


def _environment(folder: Path, setup: Setup) -> dict[str, str]:
    """The extension host inherits the server's environment, which is how a test configures an extension."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("VSCODE_", "XDG_"))}
    return {**own, "HOME": str(folder / "home"), **setup.environment}


def path_without_penstock() -> str:
    """Remove `penstock` from the PATH: it would be found before the private environment."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not (Path(each) / "penstock").exists())


def _when_listening(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + LONGEST
    while not (found := LISTENING.search(log.read_text(errors="replace"))):
        assert process.poll() is None, f"code-server ended: {log.read_text(errors='replace')}"
        assert time.monotonic() < deadline, f"code-server does not listen: {log.read_text(errors='replace')}"
        time.sleep(0.05)  # polling interval
    return found[1]
