"""The pages in docs/clients/: the commands and the example of each are run with the real client and a real
gateway with the demo model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.connect.guides import GUIDES
from tests.clients import environments
from tests.connect.pages import commands, configuration, example
from tests.connect.programs import script
from tests.gateway.running import Running, gateway

pytestmark = pytest.mark.clients

LONGEST = 120
"""Seconds that one page may take."""
ENVIRONMENTS = {
    "codex": "codex",
    "vscode": "",
    "openai": "main",
    "openai-node": "node",
    "ai-sdk": "node",
    "langchain": "main",
    "agents": "main",
    "pydantic-ai": "main",
    "llm": "frameworks",
}
"""The environment in which each client is installed. VS Code itself is in tests/vscode/e2e/."""
FILES = {
    "codex": ".codex/config.toml",
    "vscode": ".config/Code/User/chatLanguageModels.json",
    "llm": ".config/io.datasette.llm/extra-openai-models.yaml",
}
"""The files that `penstock connect --write` creates in an empty home."""
REFUSED = {"codex": "approval_policy = 5\n", "llm": "- model_name: without-an-id\n"}
"""Files that only the client itself knows to be wrong."""
NOT_INTERACTIVE = {"codex": 'codex exec --skip-git-repo-check "Hello!"'}
"""The commands that the test runs instead of those that need a terminal."""
RUNNERS = {".py": "python", ".mjs": "node", ".sh": "sh"}
CODE = 'test "$1" = --user-data-dir && cat "$2/User/chatLanguageModels.json"'
"""Takes the place of VS Code: prints the file that VS Code would read."""


@pytest.fixture(scope="module")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


class User:
    """Somebody with an empty home who has installed Penstock and one client, and follows its page."""

    def __init__(self, client: str, home: Path, installed: Path | None) -> None:
        self.home = home
        folders = [home / "bin", Path(sys.executable).parent]
        if client == "codex":
            folders.append(environments.codex().parent)
        elif installed and (installed / "node_modules").exists():
            (home / "node_modules").symlink_to(installed / "node_modules")
        elif installed:
            folders.insert(0, installed / "venv" / "bin")
        self._path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])

    def run(self, *command: str, **variables: str) -> str:
        """Run a command in the home to its end, and return what it printed."""
        environment = {"PATH": self._path, "HOME": str(self.home), "NO_PROXY": "127.0.0.1", **variables}
        if shutil.which(command[0], path=self._path) is None:
            pytest.skip(f"there is no {command[0]}")
        ran = subprocess.run(
            command,
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def user(client: str, install: Callable[[str], Path], tmp_path: Path) -> User:
    environment = ENVIRONMENTS[client]
    return User(client, tmp_path, install(environment) if environment else None)


def test_every_page_is_run() -> None:
    assert set(ENVIRONMENTS) == set(GUIDES)


@pytest.mark.parametrize("client", ENVIRONMENTS)
def test_the_commands_of_a_page_lead_to_an_answer(client: str, user: User, penstock: Running) -> None:
    port = str(penstock.address.port)
    _, connect, *tries = [""] * (not GUIDES[client].install) + commands(client)
    user.run("sh", "-c", connect, PENSTOCK_PORT=port)
    written = (user.home / (FILES.get(client) or GUIDES[client].saved_as)).read_text()
    shown = configuration(client).replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    assert written.replace("  reasoning: true\n", "") == shown
    for command in tries:
        answer = user.run("sh", "-c", NOT_INTERACTIVE.get(client, command))
        assert "I am the **demo model**" in answer
    if client == "codex":  # it has requested the list of models
        assert '"slug":"demo"' in (user.home / ".codex" / "models_cache.json").read_text().replace(" ", "")


@pytest.mark.parametrize("client", REFUSED)
def test_a_file_that_the_client_refuses_is_not_written(client: str, user: User) -> None:
    file = user.home / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_text(REFUSED[client])
    printed = user.run("sh", "-c", f"penstock connect {client} --write 2>&1 || true")
    assert f"{client} does not accept the configuration" in printed
    assert list(file.parent.iterdir()) == [file]
    assert file.read_text() == REFUSED[client]


@pytest.mark.parametrize("client", [each for each in ENVIRONMENTS if each != "vscode"])
def test_the_example_of_a_page_streams_and_calls_a_tool(client: str, user: User, penstock: Running) -> None:
    copy = Path(shutil.copy(example(client), user.home))  # Node looks for packages next to the program
    printed = user.run(RUNNERS[copy.suffix], copy.name, PENSTOCK_URL=f"{penstock.url}/v1")
    assert "1, 2, 3, 4, 5." in printed
    assert "> 18 degrees and sunny in Rome" in printed


@pytest.mark.parametrize("client", ["vscode"])
def test_the_example_for_vs_code_starts_it_with_the_models_of_the_gateway(
    client: str, user: User, penstock: Running
) -> None:
    script(user.home / "bin" / "code", CODE)
    printed = user.run("sh", str(example(client)), PENSTOCK_URL=f"{penstock.url}/v1")
    shown = json.loads(configuration(client))
    shown[0]["models"][0]["url"] = f"{penstock.url}/v1/responses"
    assert json.loads(printed) == shown
