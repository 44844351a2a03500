"""The checks of the configuration and the installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.doctor.configuration import check_configuration, check_extras, check_python
from penstock.extras import EXTRAS
from penstock.gateway.config.options import OptionError, ServeOptions

TARGET = '[targets.local]\nbase_url = "http://127.0.0.1:9/v1"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "penstock.toml"
    path.write_text(text)
    return path


def test_every_error_is_a_finding_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, f'prot = 1\n{TARGET}dialekt = "chat"\nkeys = ["UNSET_KEY"]\n')
    found, settings = check_configuration(ServeOptions(), path, {})
    assert settings is None
    assert {each.status for each in found} == {"problem"}
    assert [each.details["line"] for each in found] == [1, 4, 5]
    assert found[0].fix == f"correct line 1 of {path}"
    assert "UNSET_KEY" in found[2].sentence


def test_a_valid_file_is_summarised(tmp_path: Path) -> None:
    found, settings = check_configuration(ServeOptions(), written(tmp_path, TARGET), {})
    assert settings is not None
    assert found[0].status == "ok"
    assert found[0].sentence.endswith("is valid; 1 target and 0 models are configured")


def test_the_options_of_serve_apply(tmp_path: Path) -> None:
    options = ServeOptions(upstream="http://127.0.0.1:10/v1")
    found, settings = check_configuration(options, written(tmp_path, TARGET), {})
    assert settings is not None
    assert found[0].details["targets"] == ["local", "upstream"]
    with pytest.raises(OptionError, match="no preset"):
        check_configuration(ServeOptions(preset="nobody"), None, {})


def test_without_a_target_only_the_demo_is_served() -> None:
    found, settings = check_configuration(ServeOptions(), None, {})
    assert settings is not None
    assert (found[0].status, "demo" in found[0].sentence) == ("warning", True)


def test_an_open_gateway_without_keys_is_a_problem_and_the_rest_is_still_checked(tmp_path: Path) -> None:
    path = written(tmp_path, f'[server]\nhost = "0.0.0.0"\n{TARGET}')
    found, settings = check_configuration(ServeOptions(), path, {})
    assert (found[0].status, found[0].fix) == ("problem", "create a key: penstock keys create NAME")
    assert settings is not None
    assert settings.host == "0.0.0.0"
    assert len(settings.targets) == 1


def test_the_version_of_python() -> None:
    assert check_python().status == "ok"
    old = check_python((3, 10, 4))
    assert old.status == "problem"
    assert "3.10.4" in old.sentence
    assert "3.11" in old.fix


def test_missing_parts_are_named_with_what_they_add() -> None:
    assert check_extras(lambda _: True).sentence == "all optional parts are installed"
    found = check_extras(lambda module: module != "rs_bpe")
    assert found.status == "ok"
    assert found.details["missing"] == ["penstock[tokens]"]
    assert EXTRAS["tokens"].adds in found.sentence
