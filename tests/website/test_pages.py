"""The pages of the documentation site: which there are, where their links lead, and llms.txt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from website.pages import Repository, llms_full_txt, llms_txt, on_site, slug

ROOT = Path(__file__).parent.parent.parent
LIST = """# Documentation

## Use it

| page | content |
|---|---|
| [guide](guide.md) | how to `start` |
| [clients](clients/README.md), also for others | each client |
| [example](../examples/run.py) | a program |
"""
GUIDE = """# The `guide`

See [clients](clients/README.md#set-up), [home](../README.md), [all](README.md), [it](../examples/run.py),
[folder](clients) and ![a picture](../bench/cost.svg),
but not [elsewhere](https://example.org/a.md) or [here](#the-guide).

    `[code](../README.md)`

```text
[code](../README.md)
```

[licence](../LICENSE)
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    files = {
        "README.md": "# Penstock\n\n[guide](docs/guide.md)\n",
        "LICENSE": "Use it.\n",
        "bench/cost.svg": "<svg/>",
        "docs/README.md": LIST,
        "docs/guide.md": GUIDE,
        "docs/clients/README.md": "# Clients\n\n[one](one.md)\n",
        "docs/clients/one.md": "# One\n\n[more](../../examples/more.md)\n",
        "examples/more.md": "# More\n\n[run](run.py)\n",
        "examples/run.py": 'print("```")\n',
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Repository(tmp_path)


def test_the_site_has_every_page_that_is_listed_or_linked_to(repository: Repository) -> None:
    assert set(repository.pages) == {
        *("README.md", "LICENSE", "bench/cost.svg", "docs/guide.md", "docs/clients/README.md"),
        *("docs/clients/one.md", "examples/more.md", "examples/run.py"),
    }


def test_the_navigation_comes_from_the_list_of_pages(repository: Repository) -> None:
    [section] = repository.sections
    assert section.title == "Use it"
    rows = [(row.path, row.description) for row in section.rows]
    assert rows[0] == ("docs/guide.md", "how to `start`")
    assert rows[1:] == [("docs/clients/README.md", "each client"), ("examples/run.py", "a program")]
    assert [repository.title(path) for path, _ in rows] == ["The guide", "Clients", "examples/run.py"]


def test_links_lead_to_pages_of_the_site_but_code_stays_as_it_is(repository: Repository) -> None:
    text = repository.markdown("docs/guide.md")
    assert "[clients](clients/README.md#set-up), [home](index.md), [all](index.md)" in text
    assert "[it](repository/examples/run.py.md)" in text
    assert "[folder](clients/README.md) and ![a picture](repository/bench/cost.svg)" in text
    assert "but not [elsewhere](https://example.org/a.md) or [here](#the-guide)" in text
    assert text.count("[code](../README.md)") == 2
    assert "[licence](repository/LICENSE.md)" in text
    assert repository.markdown("README.md") == "# Penstock\n\n[guide](guide.md)\n"
    assert "[more](../repository/examples/more.md)" in repository.markdown("docs/clients/one.md")


def test_a_program_is_shown_as_code(repository: Repository) -> None:
    expected = '# examples/run.py\n\n````python\nprint("```")\n````\n'
    assert repository.markdown("examples/run.py") == expected


def test_language_models_get_a_list_of_pages_and_all_of_them_in_one_text(repository: Repository) -> None:
    assert llms_txt(repository, "In one sentence.").splitlines() == [
        "# Penstock",
        "",
        "> In one sentence.",
        "",
        "- [Penstock](index.md): what it is, and a quick start",
        "",
        "## Use it",
        "",
        "- [The guide](guide.md): how to `start`",
        "- [Clients](clients/README.md): each client",
        "- [examples/run.py](repository/examples/run.py.md): a program",
    ]
    assert llms_full_txt(repository).startswith("# Penstock\n\n[guide](docs/guide.md)\n\n# The `guide`")


def test_anchors_are_those_of_github() -> None:
    assert slug("`[targets.NAME]` – or not: A & B", "-") == "targetsname--or-not-a--b"


def test_every_page_in_docs_is_listed() -> None:
    """Pages of a folder are listed by its first page."""
    repository = Repository(ROOT)
    listed = {row.path for section in repository.sections for row in section.rows}
    folders = {path.removesuffix("README.md") for path in listed if path.endswith("/README.md")}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")} - {"docs/README.md"}
    assert {page for page in pages - listed if not page.startswith(tuple(folders))} == set()
    assert {path for path in listed if not (ROOT / path).is_file()} == set()


def test_no_two_files_share_a_page() -> None:
    pages = Repository(ROOT).pages
    assert len({on_site(path).lower() for path in pages}) == len(pages)
    assert not any(re.search(r"\s", path) for path in pages)
