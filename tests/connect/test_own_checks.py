"""Checks by a client's own program: a script plays it here; tests/clients runs the real ones."""

from __future__ import annotations

from pathlib import Path

from penstock.connect.codex_config import codex_settings
from penstock.connect.codex_program import CHECK
from penstock.connect.llm_models import CHECK as LLM_CHECK
from penstock.connect.own_checks import complaint
from tests.connect.gateways import connected
from tests.connect.programs import script


def test_a_configuration_is_read_in_a_home_of_its_own(tmp_path: Path) -> None:
    kept = tmp_path / "seen"
    program = script(tmp_path / "c", f'cp "$CODEX_HOME/config.toml" {kept}', '[ "$HOME" = "$CODEX_HOME" ]')
    assert complaint(CHECK, program, codex_settings(connected()).encode()) == ""
    assert kept.read_text() == codex_settings(connected())


def test_a_complaint_is_returned_without_the_temporary_path(tmp_path: Path) -> None:
    lines = ("echo WARNING: x >&2", 'echo "$CODEX_HOME/config.toml:1: bad" >&2', "exit 1")
    assert complaint(CHECK, script(tmp_path / "c", *lines), b"") == "config.toml:1: bad"
    assert complaint(CHECK, script(tmp_path / "c", "exit 3"), b"") == "exit code 3"


def test_the_message_of_a_traceback_is_at_its_end(tmp_path: Path) -> None:
    lines = ("Traceback (most recent call last):", "  File x", "    code", "  File y", "KeyError: model_id")
    program = script(tmp_path / "llm", *(f"echo '{line}' >&2" for line in lines), "exit 1")
    assert complaint(LLM_CHECK, program, b"") == "code File y KeyError: model_id"


def test_a_program_that_cannot_be_run_says_nothing(tmp_path: Path) -> None:
    assert complaint(CHECK, str(tmp_path / "missing"), b"") is None
