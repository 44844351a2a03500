"""The documentation matches the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import penstock
from penstock.explain.meanings import MEANINGS
from penstock.parts.adapter import HANDLERS
from tests.client.server import served, streamed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATE = runpy.run_path(str(DOCS / "generate.py"))
PARTS = GENERATE["PARTS"]


@pytest.mark.parametrize("name", PARTS)
def test_generated_parts_are_current(name: str) -> None:
    file, make = PARTS[name]
    page = (DOCS / file).read_text()
    assert f"<!-- generated: {name} -->\n{make()}\n<!-- end of generated -->" in page, "run `make docs`"


def test_every_error_code_is_explained() -> None:
    """Those in the source, and those that the page about the gateway lists."""
    errors = (DOCS / "gateway.md").read_text().partition("## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| \d", errors, re.MULTILINE)
    listed = {code for row in rows for code in re.findall(r"`([\w.]+)`", row)}
    refused = GENERATE["refused_statuses"]()
    assert len(refused) > 20
    assert len(listed) > 40
    assert (listed | set(refused)) - set(MEANINGS) == set()


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
    """Return the pages whose examples need only Penstock. tests/clients/test_pages.py runs the others."""
    return [page for page in [ROOT / "README.md", *DOCS.glob("*.md")] if "```python" in page.read_text()]


@pytest.mark.parametrize("page", pages_with_python(), ids=lambda page: page.name)
def test_python_examples_run(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every example prints something. An endpoint answers its requests, and it may write files."""
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


def links(page: Path) -> list[tuple[str, str]]:
    """Return the relative links of a page as path and anchor."""
    found = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text())
    return [(path, anchor) for path, anchor in found if path or anchor]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: explicit ones, and those that are derived from headings."""
    text = page.read_text()
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    derived = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return derived | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *DOCS.rglob("*.md")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for path, anchor in links(page):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), f"{path}#{anchor}"


SECURITY = (DOCS / "security.md").read_text()
PROMISES = re.findall(r"`(tests/[\w/]+\.py)::(\w+)` \|", SECURITY)


def test_every_promise_of_security_names_a_test() -> None:
    table = SECURITY.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and line != "| promise | test |"]
    assert len(rows) == len(PROMISES) > 0


@pytest.mark.parametrize(("file", "name"), PROMISES)
def test_the_test_of_a_promise_exists(file: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
