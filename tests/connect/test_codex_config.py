"""Codex's config.toml: only our settings change."""

from __future__ import annotations

import tomllib

import pytest

from penstock.connect.codex_config import codex_settings, with_codex_settings
from penstock.errors import ConfigError
from tests.connect.gateways import URL, connected

OURS = {
    "name": "Penstock",
    "base_url": URL,
    "model_catalog_url": f"{URL}/models",
    "experimental_bearer_token": "unused",
    "wire_api": "responses",
}

MINE = """\
# my settings
model = "gpt-5" # the best
approval_policy = "never"

[model_providers.other] # at work
name = "Other"

[mcp_servers.docs]
command = "docs"
args = ["a", # first
  "b"]
"""


def test_an_empty_file_gets_the_printed_lines() -> None:
    assert with_codex_settings(b"", connected(), "f").decode().split() == codex_settings(connected()).split()


def test_everything_else_is_kept_with_its_comments() -> None:
    changed = with_codex_settings(MINE.encode(), connected(), "f").decode()
    assert tomllib.loads(changed) == {
        **tomllib.loads(MINE),
        "model": "fast",
        "model_provider": "penstock",
        "model_providers": {"other": {"name": "Other"}, "penstock": OURS},
    }
    assert 'model = "fast" # the best\n' in changed
    for line in MINE.splitlines():
        assert line in changed or line.startswith("model =")


@pytest.mark.parametrize("before", ["", MINE, MINE.replace("\n", "\r\n"), MINE.rstrip("\n"), "\ufeff" + MINE])
def test_a_second_run_changes_nothing(before: str) -> None:
    once = with_codex_settings(before.encode(), connected(), "f")
    assert with_codex_settings(once, connected(), "f") == once


def test_line_ends_stay_those_of_the_file() -> None:
    changed = with_codex_settings(MINE.replace("\n", "\r\n").encode(), connected(), "f")
    assert changed.count(b"\n") == changed.count(b"\r\n")


def test_a_gateway_with_keys_replaces_the_unused_key_and_back() -> None:
    without = with_codex_settings(MINE.encode(), connected(), "f")
    with_key = with_codex_settings(without, connected(key_variable="PENSTOCK_KEY"), "f")
    provider = tomllib.loads(with_key.decode())["model_providers"]["penstock"]
    assert provider["env_key"] == "PENSTOCK_KEY"
    assert "experimental_bearer_token" not in provider
    again = tomllib.loads(with_codex_settings(with_key, connected(), "f").decode())
    assert again["model_providers"]["penstock"] == OURS


def test_the_users_own_settings_of_the_provider_are_kept() -> None:
    before = '[model_providers.penstock]\nbase_url = "http://old/v1" # home\nsupports_websockets = true\n'
    changed = with_codex_settings(before.encode(), connected(), "f").decode()
    assert f'base_url = "{URL}" # home\n' in changed
    assert tomllib.loads(changed)["model_providers"]["penstock"] == {**OURS, "supports_websockets": True}


@pytest.mark.parametrize(
    "before",
    [
        'model_providers = { penstock = { name = "x" } }\n',
        'model = """\nlong\n"""\n',
        "model_providers = 3\n",
        "model = \n",
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_refused(before: str) -> None:
    with pytest.raises(ConfigError):
        with_codex_settings(before.encode(), connected(), "f")


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConfigError, match="UTF-8"):
        with_codex_settings(b"\xff", connected(), "f")
