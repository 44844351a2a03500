"""The list of a gateway with 100,000 turns: pages, filters, search and live turns; the page stays small."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.running import Running, gateway
from tests.inspector.browser.busy_gateway import fill_ledger, many_turns
from tests.inspector.browser.conftest import Visits

pytestmark = pytest.mark.page

TURNS = 100_000
PAGE = 50
MOST_ELEMENTS = 4000
"""Of the whole page: a row has about 30."""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("crowded")
    fill_ledger(folder, partial(many_turns, TURNS))
    with gateway(folder) as running:
        yield running


def rows(page: Page) -> Any:
    return page.locator(".turns tbody tr")


def elements(page: Page) -> int:
    count: int = page.evaluate("document.querySelectorAll('*').length")
    return count


def test_pages_go_on_far_below_the_first_one_and_replace_each_other(visit: Visits, crowded: Running) -> None:
    page = visit(gateway=crowded).go("", view="turns")
    expect(rows(page)).to_have_count(PAGE)
    expect(rows(page).first).to_have_attribute("data-id", f"resp_{TURNS - 1:06}")
    for number in range(1, 5):
        page.get_by_role("button", name="Older").click()
        expect(rows(page).first).to_have_attribute("data-id", f"resp_{TURNS - 1 - number * PAGE:06}")
    assert rows(page).count() == PAGE
    assert elements(page) < MOST_ELEMENTS
    middle = crowded.ask(path=f"/v1/turns?search=req_{TURNS // 2:06}&limit=1", method="GET").json["data"][0]
    page.goto(f"{page.url.partition('#')[0]}#/turns?after={middle['started_at']!r}_{middle['id']}")
    expect(rows(page).first).to_have_attribute("data-id", f"resp_{TURNS // 2 - 1:06}")
    page.get_by_role("button", name="Newest").click()
    expect(rows(page).first).to_have_attribute("data-id", f"resp_{TURNS - 1:06}")


def test_filters_and_the_search_find_the_few_among_the_many(visit: Visits, crowded: Running) -> None:
    page = visit(gateway=crowded).go("", view="turns")
    page.get_by_label("Model", exact=True).fill("rare")
    expect(rows(page).first).to_have_attribute("data-id", f"resp_{TURNS - 1000:06}")
    page.get_by_role("button", name="Older").click()
    expect(rows(page).last).to_have_attribute("data-id", "resp_000000")
    page.get_by_label("Status").select_option("completed")
    expect(page.get_by_role("heading", name="No turn matches these filters")).to_be_visible()
    page.get_by_role("button", name="Remove all filters").click()
    page.get_by_label("Search").fill("req_000123")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).first).to_have_attribute("data-id", "resp_000123")


def test_live_turns_arrive_on_top_and_the_page_stays_small(visit: Visits, crowded: Running) -> None:
    page = visit(gateway=crowded).go("", view="turns")
    expect(page.locator(".feed-state")).to_have_text("live")
    before = rows(page).count()
    for number in range(3):
        crowded.whole("demo", "Say nothing.", headers={"user-agent": f"arrival-{number}/1"})
        expect(rows(page).first).to_contain_text(f"arrival-{number}")
    assert before <= rows(page).count() <= before + 3
    assert elements(page) < MOST_ELEMENTS
