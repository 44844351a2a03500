"""What the probes found, recorded in the configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.doctor.findings import Finding
from penstock.doctor.recording import RecordedModel, abilities_of, record_abilities
from penstock.errors import ConfigError
from penstock.gateway.config.file import load_settings
from penstock.gateway.settings import Settings

TEXT = """\
passthrough = "local"
[targets.local]
base_url = "http://127.0.0.1:9/v1"
[targets.spare]
base_url = "http://127.0.0.1:10/v1"

[models.fast]
targets = ["local/f-1", "spare"]  # in this order
"""


def probed(id: str, outcome: str, name: str = "fast", target: str = "local") -> Finding:
    details = {"outcome": outcome, "name": name, "model": "f-1"}
    return Finding(id=id, kind="capability", status="ok", sentence="", target=target, details=details)


def file(folder: Path) -> tuple[Path, Settings]:
    path = folder / "penstock.toml"
    path.write_text(TEXT)
    return path, load_settings(path, {})


def test_clear_outcomes_of_the_first_target_are_recorded(tmp_path: Path) -> None:
    _, settings = file(tmp_path)
    found = [
        probed("tools", "does not work"),
        probed("reasoning", "works"),
        probed("streaming", "works"),
        probed("tools", "unclear", name="other"),
        probed("tools", "works", target="spare"),
        probed("tools", "works", name=""),
        probed("tools", "works", name="demo", target="demo"),
    ]
    assert abilities_of(found, settings) == {("fast", "local"): {"tools": False, "reasoning": True}}


def test_the_round_trip_and_the_second_time(tmp_path: Path) -> None:
    path, settings = file(tmp_path)
    path.chmod(0o640)
    found = [probed("tools", "does not work"), probed("reasoning", "works", name="org/m", target="local")]
    recording = record_abilities(path, found, settings, {})
    assert recording.models == (
        RecordedModel("fast", "no-tools", is_changed=True),
        RecordedModel("org/m", "reasoning", is_changed=True),
    )
    overrides = {each.id: each.facts for each in load_settings(path, {}).overrides}
    assert overrides["fast"].tool_calling is False
    assert overrides["org/m"].reasoning is True
    assert "# in this order" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    assert recording.backup == tmp_path / "penstock.toml.bak"
    assert recording.backup.read_text() == TEXT

    text = path.read_text()
    again = record_abilities(path, found, load_settings(path, {}), {})
    assert {each.is_changed for each in again.models} == {False}
    assert again.backup is None
    assert path.read_text() == text
    assert recording.backup.read_text() == TEXT
    assert sorted(os.listdir(tmp_path)) == ["penstock.toml", "penstock.toml.bak"]


def test_an_older_backup_is_kept(tmp_path: Path) -> None:
    path, settings = file(tmp_path)
    older = tmp_path / "penstock.toml.bak"
    older.write_text("older")
    assert record_abilities(path, [probed("tools", "works")], settings, {}).backup == tmp_path / (
        "penstock.toml.bak2"
    )
    assert older.read_text() == "older"


def test_a_file_that_changed_in_the_meantime_and_is_invalid_stays_as_it_is(tmp_path: Path) -> None:
    path, settings = file(tmp_path)
    invalid = TEXT + 'nonsense = "x"\n'
    path.write_text(invalid)
    with pytest.raises(ConfigError, match="nonsense"):
        record_abilities(path, [probed("tools", "works")], settings, {})
    assert path.read_text() == invalid
    assert os.listdir(tmp_path) == ["penstock.toml"]


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path, settings = file(tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        record_abilities(path, [probed("tools", "works")], settings, {})
