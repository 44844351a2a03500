"""The optional parts of an installation."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires
from pathlib import Path

from penstock.extras import EXTRAS, OPTIONAL_PARTS

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def declared() -> dict[str, list[str]]:
    extras: dict[str, list[str]] = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    return extras


def test_the_table_has_the_extras_of_the_package() -> None:
    assert set(EXTRAS) == set(declared()) - {"all", "dev", "site"}  # those two are for contributors
    assert declared()["all"] == [f"penstock[{','.join(sorted(EXTRAS))}]"]
    assert "penstock[all]" in declared()["dev"]


def test_an_extra_is_not_a_dependency_of_the_package() -> None:
    running = [each for each in requires("penstock") or () if "extra ==" not in each]
    names = {each.replace("-", "_") for each in running}
    for extra in EXTRAS.values():
        assert not any(name.startswith(extra.module) for name in names)


def test_a_missing_part_says_what_it_adds_and_how_to_install_it() -> None:
    brotli = EXTRAS["brotli"]
    assert brotli.command == "pip install 'penstock[brotli]'"
    assert brotli.missing == f"penstock[brotli] is not installed; it would add {brotli.adds}"
    assert OPTIONAL_PARTS[-1].command == "pip install uvloop"
