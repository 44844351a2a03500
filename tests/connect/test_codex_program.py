"""The `codex` program: a script plays it here; tests/clients runs the real one."""

from __future__ import annotations

from pathlib import Path

from penstock.connect.codex_config import codex_settings
from penstock.connect.codex_program import find_codex, overrides, problem_in_config
from tests.connect.gateways import URL, connected


def script(folder: Path, *lines: str) -> str:
    """Write an executable `codex` and return its path."""
    path = folder / "codex"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


def test_the_program_is_found_on_the_path(tmp_path: Path) -> None:
    assert find_codex({"PATH": str(tmp_path)}) is None
    program = script(tmp_path, "exit 0")
    assert find_codex({"PATH": str(tmp_path)}) == program


def test_a_configuration_is_read_in_a_home_of_its_own(tmp_path: Path) -> None:
    kept = tmp_path / "seen"
    program = script(tmp_path, f'cp "$CODEX_HOME/config.toml" {kept}', '[ "$HOME" = "$CODEX_HOME" ]')
    assert problem_in_config(program, codex_settings(connected()).encode()) == ""
    assert kept.read_text() == codex_settings(connected())


def test_a_complaint_is_returned_without_the_temporary_path(tmp_path: Path) -> None:
    program = script(tmp_path, "echo WARNING: x >&2", 'echo "$CODEX_HOME/config.toml:1: bad" >&2', "exit 1")
    assert problem_in_config(program, b"") == "~/.codex/config.toml:1: bad"
    assert problem_in_config(script(tmp_path, "exit 3"), b"") == "exit code 3"


def test_a_program_that_cannot_be_run_says_nothing(tmp_path: Path) -> None:
    assert problem_in_config(str(tmp_path / "missing"), b"") is None


def test_overrides_name_the_gateway_and_no_address_of_a_catalog() -> None:
    words = overrides(connected("fast"), Path("/t/models.json"))
    assert words[::2] == ["-c"] * (len(words) // 2)
    assert f'model_providers.penstock.base_url="{URL}"' in words
    assert 'model_catalog_json="/t/models.json"' in words
    assert not any("model_catalog_url" in word for word in words)
