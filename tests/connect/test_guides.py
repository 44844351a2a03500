"""The table of clients."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli.connect import CLIENTS
from penstock.connect.guides import GUIDES, next_steps
from tests.connect.gateways import URL, connected
from tests.connect.pages import EXAMPLES, OTHERS, PAGES, ROOT, commands, configuration, example

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
    steps = next_steps(guide, connected(key_variable=variable))
    assert variable in text + "".join(steps) or name == "vscode"
    assert len(steps) > len(next_steps(guide, connected())) or not variable


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


def test_every_client_has_a_page_and_every_page_a_client() -> None:
    assert {page.name for page in PAGES.iterdir()} == {*OTHERS, *(f"{name}.md" for name in GUIDES)}


def test_every_page_has_an_example_and_every_example_a_page() -> None:
    assert {example(name) for name in GUIDES} == set(EXAMPLES.iterdir())
    assert len({example(name) for name in GUIDES}) == len(GUIDES)


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.parametrize("index", ["docs/clients/README.md", "examples/README.md"])
def test_both_indexes_have_the_page_and_the_example(name: str, index: str) -> None:
    text = (ROOT / index).read_text()
    assert f"{name}.md)" in text
    assert f"clients/{example(name).name})" in text


@pytest.mark.parametrize("name", GUIDES)
def test_a_page_shows_the_steps_of_the_guide(name: str) -> None:
    guide = GUIDES[name]
    assert configuration(name) == guide.settings(connected("demo"))
    shown = commands(name)
    assert f"penstock connect {name}" in " ".join(shown)
    assert not guide.install or shown[0] == guide.install
    assert len(shown) == 1 + bool(guide.install) + bool(guide.run)


@pytest.mark.parametrize("name", GUIDES)
def test_an_example_says_how_to_run_it(name: str) -> None:
    source = example(name).read_text()
    assert "`penstock serve`" in source
    assert GUIDES[name].install in source.replace(" zod", "")
    assert example(name).name in source
    assert "PENSTOCK_URL" in source
