"""The `codex` program: a script plays it here; tests/clients runs the real one."""

from __future__ import annotations

from pathlib import Path

from penstock.connect.codex_program import find_codex, overrides
from tests.connect.gateways import URL, connected
from tests.connect.programs import script


def test_the_program_is_found_on_the_path(tmp_path: Path) -> None:
    assert find_codex({"PATH": str(tmp_path)}) is None
    program = script(tmp_path / "codex", "exit 0")
    assert find_codex({"PATH": str(tmp_path)}) == program


def test_overrides_name_the_gateway_and_no_address_of_a_catalog() -> None:
    words = overrides(connected("fast"), Path("/t/models.json"))
    assert words[::2] == ["-c"] * (len(words) // 2)
    assert f'model_providers.penstock.base_url="{URL}"' in words
    assert 'model_catalog_json="/t/models.json"' in words
    assert not any("model_catalog_url" in word for word in words)
