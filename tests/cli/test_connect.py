"""`penstock connect` as a process, with a real gateway and without one."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

import pytest

from penstock.cli.connect import CLIENTS
from penstock.gateway.settings import ClientKey, Settings
from tests.cli.running import Result, penstock
from tests.connect.pages import configuration
from tests.connect.programs import script
from tests.gateway.threaded import threaded_gateway

NOWHERE = "http://127.0.0.1:1/v1"
KEY = "pk-secret-of-the-test"
KEYS = (ClientKey(name="laptop", digest=hashlib.sha256(KEY.encode()).digest()),)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, which is also the current folder. No real codex is found."""
    monkeypatch.chdir(tmp_path)
    for name in ("CODEX_HOME", "LLM_USER_PATH", "XDG_CONFIG_HOME", "PENSTOCK_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def connect(home: Path, *arguments: str, **changes: str) -> Result:
    environment = {"HOME": str(home), "PATH": str(home / "bin"), **changes}
    return penstock("connect", *arguments, stdin=b"", **environment)


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_gateway_the_configuration_is_shown_all_the_same(client: str, home: Path) -> None:
    result = connect(home, client, "--base-url", NOWHERE, "--model", "fast")
    assert result.returncode == 0
    assert NOWHERE in result.stdout
    assert "fast" in result.stdout
    assert f"no gateway is running at {NOWHERE}: start it with `penstock serve`" in result.stderr
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_the_page_of_a_client_shows_what_the_command_prints(client: str, home: Path) -> None:
    shown = configuration(client).replace("127.0.0.1:8080", "127.0.0.1:1")
    assert connect(home, client, PENSTOCK_PORT="1").stdout == shown


def test_a_running_gateway_is_asked_for_its_models(home: Path) -> None:
    with threaded_gateway(Settings()) as running:
        result = connect(home, "codex", "--base-url", f"{running.address.geturl()}/v1")
        unknown = connect(home, "codex", "--base-url", f"{running.address.geturl()}/v1", "--model", "nope")
        near = connect(home, "codex", "--base-url", f"{running.address.geturl()}/v1", "--model", "dmeo")
    assert "has these models: demo\n" in result.stderr
    assert tomllib.loads(result.stdout)["model"] == "demo"
    assert "It does not list nope: check the name" in unknown.stderr
    assert "It does not list dmeo: did you mean demo?" in near.stderr


def test_the_environment_determines_the_address(home: Path) -> None:
    shown = tomllib.loads(connect(home, "codex", PENSTOCK_PORT="1").stdout)
    assert shown["model_providers"]["penstock"]["base_url"] == NOWHERE
    assert connect(home, "codex", PENSTOCK_PORT="0").returncode == 2
    assert connect(home, "codex", PENSTOCK_CONFIG="missing.toml").returncode == 2


def test_the_configured_model_is_used_if_the_gateway_is_not_running(home: Path) -> None:
    file = home / "mine.toml"
    file.write_text(
        '[server]\nport = 1\n[targets.t]\nbase_url = "http://127.0.0.1:1/v1"\n[models.fast]\ntarget = "t"\n'
    )
    result = connect(home, "codex", PENSTOCK_CONFIG=str(file))
    assert tomllib.loads(result.stdout)["model"] == "fast"
    assert "The configuration has the model fast" in result.stderr


def test_a_base_url_with_a_query_is_refused(home: Path) -> None:
    result = connect(home, "codex", "--base-url", f"{NOWHERE}?key=1", "--write")
    assert result.returncode == 2
    assert "leave out what follows the path" in result.stderr
    assert not (home / ".codex").exists()


def test_a_gateway_with_keys_needs_a_variable(home: Path) -> None:
    with threaded_gateway(Settings(keys=KEYS)) as running:
        url = f"{running.address.geturl()}/v1"
        refused = connect(home, "codex", "--base-url", url)
        wrong = connect(home, "codex", "--base-url", url, "--api-key-env", "MINE", MINE="pk-wrong")
        right = connect(home, "codex", "--base-url", url, "--api-key-env", "MINE", MINE=KEY)
    assert 'env_key = "PENSTOCK_KEY"' in refused.stdout
    assert "needs a key: put one into PENSTOCK_KEY" in refused.stderr
    assert "rejected the key in MINE" in wrong.stderr
    assert 'env_key = "MINE"' in right.stdout
    assert "has these models: demo" in right.stderr
    assert KEY not in right.stdout + right.stderr


@pytest.mark.parametrize(
    ("client", "file", "before"),
    [
        ("codex", ".codex/config.toml", '# mine\nmodel = "x" # kept\n'),
        ("vscode", ".config/Code/User/chatLanguageModels.json", '[ // mine\n  {"vendor": "kept"}\n]\n'),
        ("llm", ".config/io.datasette.llm/extra-openai-models.yaml", "# mine\n- model_id: kept\n"),
    ],
)
def test_write_keeps_the_rest_makes_a_backup_and_changes_nothing_twice(
    client: str, file: str, before: str, home: Path
) -> None:
    path = home / file
    path.parent.mkdir(parents=True)
    path.write_text(before)
    path.chmod(0o640)
    arguments = (client, "--base-url", NOWHERE, "--model", "fast", "--write")
    first = connect(home, *arguments)
    after = path.read_text()
    assert (first.returncode, first.stdout) == (0, "")
    assert "mine" in after
    assert "kept" in after
    assert NOWHERE in after
    assert path.stat().st_mode & 0o777 == 0o640
    backup = path.with_name(path.name + ".bak")
    assert backup.read_text() == before
    second = connect(home, *arguments)
    assert "nothing was changed" in second.stderr
    assert path.read_text() == after
    assert sorted(path.parent.iterdir()) == sorted([path, backup])


def test_write_creates_a_missing_file_for_its_owner_only(home: Path) -> None:
    result = connect(home, "vscode", "--base-url", NOWHERE, "--write")
    path = home / ".config/Code/User/chatLanguageModels.json"
    assert "wrote ~/.config/Code/User/chatLanguageModels.json\n" in result.stderr
    assert json.loads(path.read_text())[0]["models"][0]["id"] == "demo"
    assert path.stat().st_mode & 0o777 == 0o600


def test_write_for_a_library_prints_the_program(home: Path) -> None:
    result = connect(home, "openai", "--base-url", NOWHERE, "--write")
    assert "OpenAI(base_url=" in result.stdout
    assert "has no file of its own" in result.stderr
    assert list(home.iterdir()) == []


def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("model = [\n")
    result = connect(home, "codex", "--base-url", NOWHERE, "--write")
    assert result.returncode == 2
    assert "not valid TOML" in result.stderr
    assert path.read_text() == "model = [\n"


@pytest.mark.parametrize("client", ["codex", "llm"])
def test_a_configuration_that_the_client_refuses_is_not_written(client: str, home: Path) -> None:
    script(home / "bin" / client, "echo unknown setting >&2", "exit 1")
    result = connect(home, client, "--base-url", NOWHERE, "--write")
    assert result.returncode == 2
    assert f"{client} does not accept the configuration: unknown setting" in result.stderr
    assert [each.name for each in home.iterdir()] == ["bin"]


@pytest.mark.parametrize(
    "arguments", [["nope"], [], ["codex", "--base-url", "nonsense"], ["codex", "--api-key-env", "a b"]]
)
def test_wrong_options_are_refused(arguments: list[str], home: Path) -> None:
    assert connect(home, *arguments).returncode == 2
