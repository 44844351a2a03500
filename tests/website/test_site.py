"""The documentation site as `make site` builds it: complete, searchable, and the same as on GitHub."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import expect, sync_playwright
from website.pages import Repository, on_site

pytestmark = pytest.mark.site

ROOT = Path(__file__).parent.parent.parent
BLOCKS = ("table", "tr", "li", "ol", "ul", "pre", "blockquote", "img", "h1", "h2", "h3", "h4")


class Html(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags[tag] += 1
        self.ids.add(values.get("id") or "")
        if tag == "a":
            self.links.append(values.get("href") or "")
        elif tag in ("img", "script", "iframe"):
            self.loaded.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed: run `make site`")
    folder = tmp_path_factory.mktemp("site")
    config = ["--config-file", str(ROOT / "website" / "mkdocs.yml"), "--site-dir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", *config],
        capture_output=True,
        text=True,
        env={"NO_MKDOCS_2_WARNING": "1"},
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Html]:
    """All pages, by their addresses."""
    files = {file.relative_to(site).as_posix(): file for file in site.rglob("index.html")}
    return {f"/{name.removesuffix('index.html')}": Html(file.read_text()) for name, file in files.items()}


def address(path: str) -> str:
    """Return the address of a page, from its path in the repository."""
    source = re.sub(r"(^|/)(index|README)\.md$", r"\1", on_site(path))
    return "/" + (f"{source.removesuffix('.md')}/" if source and not source.endswith("/") else source)


def test_every_link_leads_to_a_page_and_a_heading(site: Path, pages: dict[str, Html]) -> None:
    broken = []
    for here, page in pages.items():
        for link in page.links:
            target = urlsplit(urljoin(f"http://site{here}", link))
            if target.netloc != "site":
                continue
            path = unquote(target.path)
            found = pages.get(path)
            missing = found is None and not (site / path.lstrip("/")).is_file()
            if missing or (target.fragment and found and unquote(target.fragment) not in found.ids):
                broken.append((here, link))
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[str, Html]) -> None:
    assert {
        each for page in pages.values() for each in page.loaded if re.match("(https?:)?//", each)
    } == set()
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text()), style.name


def test_pages_have_the_same_blocks_as_on_github(site: Path) -> None:
    """MkDocs reads lists in lists and tables after text in its own way."""
    repository, markdown = Repository(ROOT), MarkdownIt("commonmark").enable("table")
    for path in (each for each in repository.pages if each.endswith(".md")):
        expected = Html(markdown.render(repository.markdown(path))).tags
        whole = (site / address(path).lstrip("/") / "index.html").read_text()
        article = whole[whole.index("<article") : whole.index("</article>")]
        found = Html(article).tags
        assert {tag: found[tag] for tag in BLOCKS} == {tag: expected[tag] for tag in BLOCKS}, path


def test_it_has_a_text_for_language_models(site: Path) -> None:
    links = re.findall(r"^- \[.+?\]\((\S+?)\): ", (site / "llms.txt").read_text(), re.MULTILINE)
    assert len(links) > 40
    for link in links:
        assert (site / link).read_text().startswith("# "), link
    whole = (site / "llms-full.txt").read_text()
    assert "# Configuration\n" in whole
    assert "penstock doctor" in whole


def test_everything_is_in_the_index_of_the_search(site: Path, pages: dict[str, Html]) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {"/" + entry["location"].partition("#")[0] for entry in index["docs"]}
    assert found >= set(pages)


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_search_finds_a_page(served: str) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: `apt-get install chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        foreign: list[str] = []
        page.on("request", lambda request: foreign.append(request.url))
        page.goto(served)
        page.get_by_role("textbox", name="Search").click()
        page.keyboard.type("disconnect_grace")
        result = page.locator(".md-search-result__item a").first
        expect(result).to_be_visible(timeout=60_000)
        result.click()
        expect(page.locator("article")).to_contain_text("disconnect_grace")
        assert [url for url in foreign if not url.startswith(served)] == []
        browser.close()
