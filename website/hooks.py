"""Connects pages.py with MkDocs: navigation, pages from outside of docs/, links, and llms.txt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent.parent))

from website import pages

REPOSITORY = pages.Repository(Path(__file__).parent.parent)
FOLDER = Path(__file__).parent
BY_SOURCE = {pages.on_site(path): path for path in REPOSITORY.pages}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [{"Home": "index.md"}, *map(_nav_of, REPOSITORY.sections)]
    config.mdx_configs["toc"]["slugify"] = pages.slug
    return config


def _nav_of(section: pages.Section) -> dict[str, list[Any]]:
    return {section.title: [_entry_of(row.path) for row in section.rows]}


def _entry_of(path: str) -> object:
    """Return a page, or for the first page of a folder all its pages."""
    folder, _, name = path.rpartition("/")
    inside = [each for each in REPOSITORY.pages if each.startswith(f"{folder}/") and each != path]
    if name != "README.md" or not path.startswith(pages.DOCS):
        return {REPOSITORY.title(path): pages.on_site(path)}
    return {REPOSITORY.title(path): [pages.on_site(each) for each in [path, *inside]]}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    style = (FOLDER / "site.css").read_text()
    files.append(File.generated(config, "website/site.css", content=style))
    for source, path in BY_SOURCE.items():
        if not path.startswith(f"{pages.DOCS}/"):
            files.append(_generated(config, source, path))
    return files


def _generated(config: MkDocsConfig, source: str, path: str) -> File:
    if source.endswith(".md"):
        return File.generated(config, source, content=REPOSITORY.read(path))
    return File.generated(config, source, abs_src_path=str(REPOSITORY.root / path))


def on_page_markdown(_: str, page: Page, **__: object) -> str:
    return REPOSITORY.markdown(BY_SOURCE[page.file.src_uri])


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(pages.llms_txt(REPOSITORY, config.site_description or ""))
    (site / "llms-full.txt").write_text(pages.llms_full_txt(REPOSITORY))
    for source, path in BY_SOURCE.items():
        if source.endswith(".md"):
            file = site / source
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(REPOSITORY.markdown(path))
