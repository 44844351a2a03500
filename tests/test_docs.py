"""The documentation says what is true now."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import penstock
from penstock.parts.adapter import HANDLERS
from tests.client.server import served, streamed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PARTS = runpy.run_path(str(DOCS / "generate.py"))["PARTS"]


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_current(name: str) -> None:
    file, make = PARTS[name]
    page = (DOCS / file).read_text()
    assert f"<!-- generated: {name} -->\n{make()}\n<!-- end of generated -->" in page, "run `make docs`"


def test_the_public_names_are_the_documented_ones() -> None:
    documented = re.findall(r"^\| (`.*?) \|", (DOCS / "library.md").read_text(), re.MULTILINE)
    names = {name for cell in documented for name in re.findall(r"`(\w+)`", cell)}
    assert names == set(penstock.__all__)


@pytest.mark.parametrize("name", penstock.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(penstock, name) is not None
    assert name in dir(penstock)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(penstock, "nonsense")  # noqa: B009 - the attribute is the test


def pages_with_python() -> list[Path]:
    return [page for page in [ROOT / "README.md", *DOCS.glob("*.md")] if "```python" in page.read_text()]


@pytest.mark.parametrize("page", pages_with_python(), ids=lambda page: page.name)
def test_python_examples_run(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each shows something. Where one asks an endpoint, there is one; where one writes a file, it may."""
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        with served(*[streamed()] * 3) as endpoint:
            code = example.replace("http://127.0.0.1:8080", endpoint.url)
            exec(compile(code, page.name, "exec"), {"__name__": "example"})
        assert capsys.readouterr().out.strip()


def test_every_event_that_the_adapter_reads_is_in_the_table() -> None:
    documented = re.findall(r"^\| (`.*?) \|", (DOCS / "parts.md").read_text(), re.MULTILINE)
    names = {name for cell in documented for name in re.findall(r"`((?:response\.|error)[\w.]*)`", cell)}
    assert names == {*HANDLERS}


def links(page: Path) -> list[str]:
    return re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        assert (page.parent / link).exists(), link
