"""The table of clients."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.connect import CLIENTS
from penstock.connect.guides import GUIDES, in_words
from tests.connect.gateways import URL, connected

PARSERS: dict[str, Callable[[str], object]] = {
    "toml": tomllib.loads,
    "json": json.loads,
    "python": lambda text: compile(text, "hello.py", "exec"),
}


def test_the_command_line_offers_every_client() -> None:
    assert tuple(GUIDES) == CLIENTS


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.parametrize("variable", ["", "MY_KEY"])
def test_a_configuration_is_valid_and_has_address_model_and_key(name: str, variable: str) -> None:
    guide = GUIDES[name]
    text = guide.settings(connected('mo"del', key_variable=variable))
    PARSERS.get(guide.language, str)(text)
    assert URL in text
    assert 'mo\\"del' in text
    steps = in_words(guide.next_with_key, connected(key_variable=variable)) if variable else ""
    assert (variable in text + steps) or name == "vscode"
    assert in_words(guide.next, connected())


def test_files_are_where_the_clients_look() -> None:
    environment = {"HOME": "/home/me"}
    files = {name: guide.file(environment) for name, guide in GUIDES.items() if guide.file}
    assert files["codex"] == Path("/home/me/.codex/config.toml")
    assert set(files) == {name for name, guide in GUIDES.items() if guide.edit} == {"codex", "vscode", "llm"}
    moved = {**environment, "CODEX_HOME": "/c", "LLM_USER_PATH": "/l"}
    assert GUIDES["codex"].file
    assert GUIDES["codex"].file(moved) == Path("/c/config.toml")
    assert GUIDES["llm"].file
    assert GUIDES["llm"].file(moved) == Path("/l/extra-openai-models.yaml")
