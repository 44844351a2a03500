"""The page and its files: who gets them, and what they may load."""

from __future__ import annotations

import pytest

from penstock.inspector.page_files import CONTENT_SECURITY_POLICY, START, page_files, prefers_html
from tests.inspector.sites import BROWSER, Site, with_site


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("TEXT/HTML; charset=utf-8", True),
        ("text/html;q=0.5, application/json;q=0.4", True),
        ("text/html;q=0.4, application/json;q=0.5", False),
        ("text/html;q=0", False),
        ("text/html;q=x", False),
        ("application/json", False),
        ("*/*", False),
        ("text/*", False),
        ("", False),
    ],
)
def test_only_clients_that_ask_for_html_get_the_page(accept: str, expected: bool) -> None:
    assert prefers_html(accept) is expected


def test_the_page_is_at_the_root_and_json_stays_there_for_programs() -> None:
    async def scenario(site: Site) -> None:
        page = await site.call("/", headers={"accept": BROWSER})
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.body == page_files()[START].content
        assert page.headers["vary"] == "accept"
        for headers in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
            root = await site.call("/", headers=headers)
            assert root.json["name"] == "penstock"
            assert root.headers["vary"] == "accept, origin"
        head = await site.call("/", method="HEAD", headers={"accept": BROWSER})
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == page.headers["content-length"]

    with_site(scenario)


def test_every_file_is_sent_with_a_policy_that_lets_it_load_nothing_else() -> None:
    async def scenario(site: Site) -> None:
        answers = [await site.call("/", headers={"accept": BROWSER})]
        answers += [await site.call(f"/inspector/{name}") for name in page_files() if name != START]
        for sent in answers:
            assert sent.status == 200
            assert sent.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            assert sent.headers["x-content-type-options"] == "nosniff"
            assert sent.headers["referrer-policy"] == "no-referrer"
            assert sent.headers["cross-origin-opener-policy"] == "same-origin"
            assert sent.headers["cross-origin-resource-policy"] == "same-origin"
            assert sent.headers["cache-control"] == "no-cache"
        assert "unsafe" not in CONTENT_SECURITY_POLICY
        assert "http" not in CONTENT_SECURITY_POLICY

    with_site(scenario)


def test_a_browser_that_has_a_file_does_not_get_it_again() -> None:
    async def scenario(site: Site) -> None:
        tag = (await site.call("/", headers={"accept": BROWSER})).headers["etag"]
        for known in (tag, f'"other", W/{tag}'):
            again = await site.call("/", headers={"accept": BROWSER, "if-none-match": known})
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == tag
        other = await site.call("/", headers={"accept": BROWSER, "if-none-match": '"other"'})
        assert other.status == 200

    with_site(scenario)


@pytest.mark.parametrize(
    "path",
    [
        "index.html",
        "nothing.js",
        "../routes.py",
        "..%2froutes.py",
        "views/../../routes.py",
        "/etc/passwd",
        "page/index.html",
        "__init__.py",
        "api/nothing",
    ],
)
def test_nothing_else_is_sent(path: str) -> None:
    async def scenario(site: Site) -> None:
        caller = await site.call(f"/inspector/{path}")
        assert caller.status == 404
        assert caller.error["message"]

    with_site(scenario)


def test_files_need_no_key_and_the_api_does() -> None:
    async def scenario(site: Site) -> None:
        assert (await site.call("/", headers={"accept": BROWSER})).status == 200
        assert (await site.call("/inspector/api/session")).status == 401

    with_site(scenario, keys=True)
