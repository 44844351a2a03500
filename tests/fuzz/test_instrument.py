"""Instrumented code does the same as before, and says which branches it took."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz.instrument import HITS, NAME, Coverage

SOURCE = '''"""A module."""
from __future__ import annotations

FIRST: str = "first"


def classify(number, *, otherwise=None):
    """Return a word."""
    if number < 0:
        return "negative"
    elif number == 0:
        return otherwise or "zero"
    words = [str(each) for each in range(number) if each % 2] or ["none"]
    try:
        word = {1: "one", 2: "two"}[number]
    except KeyError:
        word = words[-1] if number < 9 else FIRST
    while number and words:
        number -= 1
    match word:
        case "one":
            return word
        case _:
            return (lambda text: text and text.upper())(word)
'''


def compiled(source: str) -> dict[str, Any]:
    found: dict[str, Any] = {NAME: HITS.append}
    exec(Coverage().compile("module", source.encode(), "module.py"), found)
    return found


@pytest.fixture(autouse=True)
def _no_hits() -> Iterator[None]:
    HITS.clear()
    yield
    HITS.clear()


@pytest.mark.parametrize("number", range(-1, 11))
def test_instrumented_code_returns_the_same(number: int) -> None:
    plain: dict[str, Any] = {}
    exec(SOURCE, plain)
    assert compiled(SOURCE)["classify"](number) == plain["classify"](number)
    assert compiled(SOURCE)["classify"].__doc__ == "Return a word."


def test_every_branch_has_a_number_of_its_own() -> None:
    classify, ways = compiled(SOURCE)["classify"], {}
    for number in (-1, 0, 1, 2, 3, 9):
        HITS.clear()
        classify(number)
        ways[number] = frozenset(HITS)
    assert len(set(ways.values())) == 6
    HITS.clear()
    classify(0, otherwise="given")
    assert frozenset(HITS) < ways[0]


def test_every_repetition_is_counted() -> None:
    classify = compiled(SOURCE)["classify"]
    classify(4)
    few = len(HITS)
    HITS.clear()
    classify(400)
    assert len(HITS) > 50 * few


def test_modules_are_instrumented_when_they_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "fuzzed_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    coverage = Coverage("fuzzed_package")
    coverage.install()
    try:
        from fuzzed_package import module  # type: ignore[import-not-found]
    finally:
        coverage.uninstall()
    module.classify(0)
    assert HITS
    assert coverage.branches > max(HITS)
    assert {"FIRST", "first", "negative", "one"} <= set(coverage.words(["module"]))
    assert coverage.words(["another"]) == []
    assert not list(package.rglob("*.pyc"))
    with pytest.raises(RuntimeError, match="imported before"):
        coverage.install()
    for name in [name for name in sys.modules if name.startswith("fuzzed_package")]:
        monkeypatch.delitem(sys.modules, name)


def test_prose_is_not_a_word() -> None:
    coverage = Coverage("package")
    coverage.compile(
        "package.module", b'"""A long docstring of a module."""\nA = "a.b"\nB = b"bytes"', "m.py"
    )
    assert coverage.words(["module"]) == ["a.b", "bytes"]


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "src/penstock/stream").glob("*.py")))
def test_our_own_modules_can_be_instrumented(path: Path) -> None:
    Coverage().compile("module", path.read_bytes(), str(path))
    ast.parse(path.read_bytes())
