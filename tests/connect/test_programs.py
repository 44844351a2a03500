"""The table of programs, and the environment in which they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.run import CLIENTS
from penstock.connect.guides import GUIDES
from penstock.connect.programs import KEY_VARIABLE, PROGRAMS, client_environment
from tests.connect.programs import script


def test_every_program_is_a_client_with_an_installation_and_a_file() -> None:
    assert set(PROGRAMS) == set(CLIENTS) <= set(GUIDES)
    for program in PROGRAMS.values():
        assert program.title
        assert program.install
        assert program.file({"HOME": "/home/me"}).is_relative_to("/home/me")


def test_the_program_is_found_on_the_path(tmp_path: Path) -> None:
    codex = PROGRAMS["codex"]
    assert codex.find({"PATH": str(tmp_path)}) is None
    program = script(tmp_path / "codex", "exit 0")
    assert codex.find({"PATH": str(tmp_path)}) == program


def test_the_model_that_a_client_saved_is_read_from_its_file(tmp_path: Path) -> None:
    codex, environment = PROGRAMS["codex"], {"CODEX_HOME": str(tmp_path)}
    assert codex.saved_model(environment) == ""
    (tmp_path / "config.toml").write_text('model = "a"')
    assert codex.saved_model(environment) == "a"


def test_without_proxies_the_environment_only_gets_the_key() -> None:
    environment = {"HOME": "/me", "ANTHROPIC_API_KEY": "sk", "NO_PROXY": "corp"}
    assert client_environment(environment, "pk") == {**environment, KEY_VARIABLE: "pk"}


@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    ("listed", "upper", "lower"),
    [
        ({}, "127.0.0.1,localhost", "127.0.0.1,localhost"),
        ({"NO_PROXY": "corp,"}, "corp,127.0.0.1,localhost", "corp,127.0.0.1,localhost"),
        ({"no_proxy": "corp"}, "corp,127.0.0.1,localhost", "corp,127.0.0.1,localhost"),
        ({"NO_PROXY": "a", "no_proxy": "b"}, "a,127.0.0.1,localhost", "b,127.0.0.1,localhost"),
        ({"NO_PROXY": "localhost, 127.0.0.1"}, "localhost, 127.0.0.1", "localhost, 127.0.0.1"),
        ({"NO_PROXY": "*"}, "*", "*"),
    ],
)
def test_with_a_proxy_the_gateway_is_excepted_from_it(
    proxy: str, listed: dict[str, str], upper: str, lower: str
) -> None:
    changed = client_environment({proxy: "http://proxy:3128", **listed}, "pk")
    assert (changed["NO_PROXY"], changed["no_proxy"]) == (upper, lower)
    assert changed[proxy] == "http://proxy:3128"
