"""`penstock config`: all errors of a file, its summary, all settings, and never a secret; and the schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from penstock.gateway.config.schema import config_schema
from tests.cli.running import Result, penstock

SECRET = "sk-planted-0123456789"
GOOD = """\
default_model = "fast"
[server]
port = 9000
[targets.groq]
preset = "groq"
[targets.mine]
base_url = "http://127.0.0.1:8000/v1?token=planted"
dialect = "anthropic"
keys = ["ONE", "TWO"]
[targets.mine.headers]
x-secret = "$ONE"
[targets.theirs]
preset = "openai"
pass_key = true
keys = []
[models.fast]
targets = ["groq/llama", "mine"]
[models.wide]
targets = [[{ target = "groq/llama", weight = 3 }, "mine"], "theirs"]
[aliases]
"gpt-5" = "fast"
"*" = "demo"
[accents]
"my-agent/" = "openai"
[[keys]]
name = "laptop"
hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
accent = "copilot"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments: str, folder: Path, action: str = "check", **changes: str) -> Result:
    variables = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": "",
        "GROQ_API_KEY": "",
        "ONE": SECRET,
        "TWO": SECRET + "2",
    }
    result = penstock("config", action, *arguments, stdin=b"", **{**variables, **changes})
    assert "planted" not in result.stdout + result.stderr
    assert "9f86d081" not in result.stdout + result.stderr
    return result


def test_a_valid_file_is_summarized(folder: Path) -> None:
    (folder / "penstock.toml").write_text(GOOD)
    result = check(folder=folder)
    assert result.returncode == 0
    assert result.stderr == "penstock: penstock.toml is valid\n"
    assert (
        result.stdout
        == """\
server   http://127.0.0.1:9000
targets  groq    chat, https://api.groq.com/openai/v1, no key (set GROQ_API_KEY)
         mine    anthropic, http://127.0.0.1:8000/v1, 2 keys
         theirs  responses, https://api.openai.com/v1, the client's key
models   demo  built in
         fast  groq as llama, then mine
         wide  groq as llama (75%) or mine (25%), then theirs
aliases  gpt-5  -> fast
         *      -> demo
default  fast
accents  my-agent/  openai
keys     laptop  copilot
"""
    )


def test_keys_are_counted_and_not_shown(folder: Path) -> None:
    (folder / "penstock.toml").write_text('passthrough = "groq"\n[targets.groq]\npreset = "groq"\n')
    result = check(folder=folder, GROQ_API_KEY=SECRET)
    assert "https://api.groq.com/openai/v1, 1 key\n" in result.stdout
    assert "any other  groq\n" in result.stdout


def test_every_error_is_reported_with_its_line(folder: Path) -> None:
    (folder / "other.toml").write_text(f'[server]\nprot = 1\n[targets.x]\nkeys = ["{SECRET}"]\n')
    result = check("other.toml", folder=folder)
    assert (result.returncode, result.stderr) == (1, "")
    first, second, third = result.stdout.splitlines()
    assert first == "other.toml:2: server.prot: there is no such setting; did you mean port?"
    assert second.startswith("other.toml:3: targets.x: needs a base_url")
    assert third.startswith("other.toml:4: targets.x.keys[0]: must be the name of an environment variable")


def test_a_gateway_for_others_needs_keys(folder: Path) -> None:
    (folder / "penstock.toml").write_text('[server]\nhost = "0.0.0.0"\n')
    result = check(folder=folder)
    assert result.returncode == 1
    assert "0.0.0.0 is reachable from other machines, but there are no keys" in result.stdout


def test_the_file_of_the_user_is_found(folder: Path) -> None:
    (folder / "penstock").mkdir()
    (folder / "penstock" / "penstock.toml").write_text("")
    result = check(folder=folder, XDG_CONFIG_HOME=str(folder))
    assert (result.returncode, result.stdout) == (
        0,
        "server   http://127.0.0.1:8080\nmodels   demo  built in\n",
    )


def test_names_are_safe_to_show(folder: Path) -> None:
    (folder / "penstock.toml").write_text('[aliases]\n"evil\\u001b[31m" = "demo"\n"\\u001b" = "x"\n')
    assert "\x1b" not in check(folder=folder).stdout


def test_without_a_file_nothing_is_checked(folder: Path) -> None:
    result = check(folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no penstock.toml in this folder" in result.stderr
    result = check("nowhere.toml", folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "nowhere.toml: cannot be read: No such file" in result.stderr


@pytest.mark.parametrize(
    "command", ["serve", "config check", "config show", "doctor", "keys list", "connect codex"]
)
def test_an_error_about_a_file_that_a_variable_names_has_its_name(folder: Path, command: str) -> None:
    assert not (folder / "nowhere.toml").exists()
    result = penstock(*command.split(), PENSTOCK_CONFIG="nowhere.toml")
    assert (result.returncode, result.stdout) == (2, "")
    assert "nowhere.toml" in result.stderr
    assert result.stderr.endswith("; the environment variable PENSTOCK_CONFIG names this file\n")


def show(*arguments: str, folder: Path, **changes: str) -> Result:
    return check(*arguments, folder=folder, action="show", **changes)


def test_every_setting_is_shown_with_its_origin(folder: Path) -> None:
    (folder / "penstock.toml").write_text(GOOD)
    result = show("--record", folder=folder, PENSTOCK_HOST="127.0.0.2")
    assert (result.returncode, result.stderr) == (0, "penstock: the file is penstock.toml\n")
    settings = tomllib.loads(result.stdout)
    assert settings["server"]["port"] == 9000
    assert settings["targets"]["mine"]["headers"] == {"x-secret": "$ONE"}
    for line in (
        'default_model = "fast"  # penstock.toml:1',
        'host = "127.0.0.2"  # PENSTOCK_HOST',
        "port = 9000         # penstock.toml:3",
        "record = true       # --record",
        "body_bytes = 67108864      # default",
        'keys = ["GROQ_API_KEY"]     # preset groq; GROQ_API_KEY is not set',
        'base_url = "http://127.0.0.1:8000/v1"  # penstock.toml:7',
        'keys = ["ONE", "TWO"]                  # penstock.toml:9',
        'hash = "set"        # penstock.toml:27',
    ):
        assert line in result.stdout.splitlines()


def test_the_settings_can_be_shown_as_json(folder: Path) -> None:
    (folder / "penstock.toml").write_text(GOOD)
    result = show("--json", "--preset", "openai", folder=folder, OPENAI_API_KEY=SECRET)
    shown = json.loads(result.stdout)
    assert shown["file"] == "penstock.toml"
    settings = {each.pop("setting"): each for each in shown["settings"]}
    assert settings["passthrough"] == {"value": "openai", "origin": "option", "where": "--preset"}
    assert settings["targets.openai.keys"] == {
        "value": ["OPENAI_API_KEY"],
        "origin": "preset",
        "where": "openai",
    }
    assert settings["server.port"] == {"value": 9000, "origin": "file", "where": "penstock.toml:3"}
    assert settings["limits.retries"] == {"value": 2, "origin": "default", "where": None}
    assert settings["targets.groq.keys"]["unset"] == ["GROQ_API_KEY"]


def test_the_example_in_the_docs_is_current(folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    example = page.partition("$ PENSTOCK_PORT=9000 penstock config show ")[2].partition("```")[0]
    command, _, expected = example.partition("\n")
    shown = show(*command.split(), folder=folder, PENSTOCK_PORT="9000").stdout
    for part in expected.split("...\n"):
        assert part in shown


def test_settings_with_errors_are_not_shown(folder: Path) -> None:
    (folder / "penstock.toml").write_text("[server]\nprot = 1\nhots = 1\n")
    result = show(folder=folder)
    assert (result.returncode, result.stderr) == (1, "")
    assert [line.partition(":")[2][:2] for line in result.stdout.splitlines()] == ["2:", "3:"]
    (folder / "penstock.toml").unlink()
    result = show("--model", "m", folder=folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--model needs an upstream" in result.stderr


def test_without_a_file_the_defaults_are_shown(folder: Path) -> None:
    result = show(folder=folder)
    assert (result.returncode, result.stderr) == (0, "penstock: there is no file\n")
    assert set(tomllib.loads(result.stdout)) == {"server", "limits", "routing", "telemetry"}


def test_the_schema_is_printed() -> None:
    result = penstock("config", "schema")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == config_schema()
    result = penstock("config", "schema", "penstock.toml")
    assert (result.returncode, result.stdout) == (2, "")
    assert "unrecognized arguments: penstock.toml" in result.stderr
