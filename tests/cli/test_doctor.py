"""`penstock doctor` as a process."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import COMMAND, Result, environment, penstock
from tests.client.server import Served, Server, answer, in_a_thread
from tests.doctor.model_server import ALL, ModelServer
from tests.gateway.running import gateway

PROXIES = dict.fromkeys(
    ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), ""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is also the user's home."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doctor(folder: Path, *options: str, **changes: str) -> Result:
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "NO_PROXY": ""}
    return penstock("doctor", *options, stdin=b"", **{**PROXIES, **home, "COLUMNS": "", **changes})


def written(folder: Path, served: Served, *lines: str) -> Path:
    path = folder / "penstock.toml"
    target = f'[targets.local]\nbase_url = "{served.url}/v1"\nquirks = {{ effort = "openai" }}'
    path.write_text("\n".join(['passthrough = "local"', "[server]", "port = 0", target, *lines, ""]))
    return path


def checks(result: Result) -> dict[str, Any]:
    document = json.loads(result.stdout)
    return {each["id"]: each for each in document["checks"]}


def test_a_healthy_configuration(folder: Path) -> None:
    with in_a_thread(ModelServer(pace=0.01)) as served:
        written(folder, served)
        result = doctor(folder)
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith("ok       config: ")
    assert "ok       local tools: works: the model called the function and answered with its result" in lines
    assert lines[-1] == "Everything works."
    assert result.stderr == ""
    assert "\033" not in result.stdout
    assert os.listdir(folder) == ["penstock.toml"]  # nothing is created


def test_the_json_document(folder: Path) -> None:
    with in_a_thread(ModelServer(ALL - {"tools"}, pace=0.01)) as served:
        path = written(folder, served)
        result = doctor(folder, "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert [*document] == ["version", "config", "ok", "checks", "first", "recorded"]
    assert (document["config"], document["ok"], document["recorded"]) == (str(path), False, [])
    assert (document["first"]["id"], document["first"]["target"]) == ("tools", "local")
    for each in document["checks"]:
        assert [*each] == ["id", "kind", "status", "sentence", "fix", "target", "details"]
        assert each["status"] in ("ok", "warning", "problem", "skipped")


def test_the_first_thing_to_fix_is_the_last_line(folder: Path) -> None:
    (folder / "penstock.toml").write_text('prot = 1\n[targets.x]\nbase_url = "nonsense"\n')
    result = doctor(folder)
    assert result.returncode == 1
    assert result.stdout.count("problem  config: ") == 2
    assert result.stdout.splitlines()[-1].startswith("Fix this first: ")
    assert "penstock.toml:1: " in result.stdout.splitlines()[-1]


def test_a_dead_proxy_captures_the_gateway(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}"
    options = ("--upstream", "https://llm.example/v1", "--quick", "--json")
    result = doctor(folder, *options, HTTP_PROXY=dead, HTTPS_PROXY=dead)
    found = checks(result)
    assert result.returncode == 1
    assert (found["proxy"]["status"], found["loopback"]["status"]) == ("problem", "warning")
    assert (found["reach"]["status"], found["reach"]["target"]) == ("problem", "upstream")
    assert json.loads(result.stdout)["first"]["id"] == "proxy"


def test_a_refused_key_by_the_name_of_its_variable(folder: Path) -> None:
    with in_a_thread(ModelServer(key="right")) as served:
        options = ("--upstream", served.url, "--api-key-env", "MY_KEY")
        result = doctor(folder, *options, MY_KEY="sk-planted-7fQ2x9LmZt4w")
    assert result.returncode == 1
    assert "fix: check the value of MY_KEY" in result.stdout
    assert "planted" not in result.stdout + result.stderr


def test_an_address_that_is_a_web_page(folder: Path) -> None:
    page = [answer(200, b"<html><title>A\x1b[2Jdmin</title></html>", "text/html")]
    with in_a_thread(Server(page)) as served:
        result = doctor(folder, "--upstream", served.url)
    assert result.returncode == 1
    assert "web page" in result.stdout.splitlines()[-1]
    assert "\x1b" not in result.stdout


def test_write_records_what_was_found_and_the_next_run_is_content(folder: Path) -> None:
    with in_a_thread(ModelServer(ALL - {"tools"}, pace=0.01)) as served:
        path = written(folder, served, "[models.m]", 'target = "local/m-chat"  # ours')
        before = path.read_text()
        first = doctor(folder, "--write")
        assert first.returncode == 1
        assert 'recorded [models.m] limits = "no-tools reasoning"' in first.stdout
        text = path.read_text()
        assert text == before + 'limits = "no-tools reasoning"\n'
        assert (folder / "penstock.toml.bak").read_text() == before
        second = doctor(folder, "--write", "--json")
        third = doctor(folder, "--write")
    assert '         [models.m] limits = "no-tools reasoning" is already recorded' in third.stdout
    assert second.returncode == 0
    assert json.loads(second.stdout)["recorded"] == [
        {"model": "m", "limits": "no-tools reasoning", "is_changed": False}
    ]
    assert path.read_text() == text
    assert penstock("config", "check", str(path)).returncode == 0


WRONG = [
    (["--config", "missing.toml"], "there is no file missing.toml"),
    (["--preset", "nobody"], "--preset: there is no preset"),
    (["--target", "nobody", "--quick"], "--target: there is no target"),
    (["--write"], "--write needs a penstock.toml"),
    (["--write", "--quick"], "leave out --quick"),
    (["--write", "--upstream", "http://127.0.0.1:9"], "only for targets in a configuration file"),
    (["--upstream", "http://127.0.0.1:9", "--api-key-env", "UNSET_KEY"], "UNSET_KEY is unset or empty"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_options_with_which_nothing_can_be_checked(folder: Path, options: list[str], words: str) -> None:
    result = doctor(folder, *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr


@pytest.mark.e2e
def test_a_running_gateway_is_recognised_and_can_be_the_upstream(folder: Path) -> None:
    with gateway(folder) as running:
        (folder / "own.toml").write_text(
            f'default_model = "demo2"\n[server]\nport = {running.address.port}\n'
            f'store = "{folder}/store.sqlite"\n[targets.up]\ndialect = "responses"\n'
            f'base_url = "{running.url}/v1"\n[models.demo2]\ntarget = "up/demo"\n'
        )
        result = doctor(folder, "--config", "own.toml", "--json")
    found = checks(result)
    assert result.returncode == 0, result.stdout
    assert "already running" in found["port"]["sentence"]
    assert found["store"]["details"]["in_use"] is True
    assert [found[id]["details"]["outcome"] for id in ("streaming", "tools", "usage")] == ["works"] * 3


@pytest.mark.e2e
def test_a_terminal_gets_colours_and_lines_that_fit(folder: Path) -> None:
    (folder / "penstock.toml").write_text('[server]\nport = 0\nstore = "none"\n')  # paths are not wrapped
    leader, follower = pty.openpty()
    command = [COMMAND, "doctor", "--quick", "--upstream", "http://127.0.0.1:9/v1"]
    command += ["--config", "penstock.toml"]
    changes = {**PROXIES, "HOME": str(folder), "COLUMNS": "80"}
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env=environment(**changes))
    os.close(follower)
    output = b""
    try:
        while data := os.read(leader, 65536):
            output += data
    except OSError:  # the end, on Linux
        pass
    os.close(leader)
    assert process.wait(30) == 1
    text = output.decode()
    assert "\033[31mproblem" in text
    plain = text.replace("\033[31m", "").replace("\033[32m", "").replace("\033[2m", "").replace("\033[0m", "")
    assert max(map(len, plain.splitlines())) <= 80


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_findings_fit_the_terminal(folder: Path, columns: int) -> None:
    model = "a-model-with-a-name-" + "x" * 60
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (folder / "penstock.toml").write_text(
            f'[targets.local]\nbase_url = "http://127.0.0.1:{free.getsockname()[1]}/v1"\n'
            f'[models.{model}]\ntarget = "local/{model}"\n'
        )
        result = doctor(folder, COLUMNS=str(columns))
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert [line for line in lines if len(line) > columns] == []
    assert "Fix this first: local reach: could not connect" in " ".join(line.strip() for line in lines)
