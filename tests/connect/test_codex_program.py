"""The options with which Codex runs; tests/clients runs the real one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.connect.codex_program import codex_model_in, codex_model_of, codex_options, overrides
from tests.connect.gateways import URL, connected


def test_overrides_name_the_gateway_and_no_address_of_a_catalog() -> None:
    words = overrides(connected("fast"), Path("/t/models.json"))
    assert words[::2] == ["-c"] * (len(words) // 2)
    assert f'model_providers.penstock.base_url="{URL}"' in words
    assert 'model_catalog_json="/t/models.json"' in words
    assert not any("model_catalog_url" in word for word in words)


def test_the_list_of_models_is_a_file_in_the_private_folder(tmp_path: Path) -> None:
    words = codex_options(connected("fast", "fast", "slow", key_variable="K"), tmp_path)
    assert f'model_catalog_json="{tmp_path / "models.json"}"' in words
    assert 'model_providers.penstock.env_key="K"' in words
    listed = json.loads((tmp_path / "models.json").read_text())["models"]
    assert [(each["slug"], each["priority"]) for each in listed] == [("fast", 0), ("slow", 1)]


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ("", ""),
        ("exec hello", ""),
        ("-m a", "a"),
        ("exec --model a hello", "a"),
        ("--model=a", "a"),
        ("-ma", "a"),
        ("-m=a", "a"),
        ("-m", ""),
        ("-m a resume -m b", "b"),
        ("-c model=a", "a"),
        ('-c model="a"', "a"),
        ("--config=model='a'", "a"),
        ("-cmodel=a", "a"),
        ("-c model_provider=openai", ""),
        ("-m a -c model=b", "a"),
        ("-c model=a -c sandbox_mode=x", "a"),
        ("exec -- -m a", ""),
    ],
)
def test_the_model_of_the_users_own_arguments_is_found(arguments: str, model: str) -> None:
    assert codex_model_of(arguments.split()) == model


@pytest.mark.parametrize(
    ("data", "model"),
    [
        (b'# mine\nmodel = "a"\n', "a"),
        (b'\xef\xbb\xbfmodel = "a"', "a"),
        (b"", ""),
        (b"model = 5", ""),
        (b'[profiles.x]\nmodel = "a"', ""),
        (b"model = ", ""),
        (b"\xff", ""),
    ],
)
def test_the_model_in_the_users_file_is_found(data: bytes, model: str) -> None:
    assert codex_model_in(data) == model
