"""A turn of 20,000 events: only what is visible is drawn, and exists."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.running import Running
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.large_turns import run_large

pytestmark = pytest.mark.page

WORDS = 20_000


@pytest.fixture(scope="module")
def long(site: Running) -> str:
    id, events = run_large(site, "demo", f"Think, and answer fast with {WORDS} words.")
    assert events > WORDS
    return id


@pytest.fixture
def page(visit: Visits, long: str) -> Page:
    page = visit().go(f"#/turns/{long}", view="turn")
    expect(page.locator(".timeline canvas")).to_have_attribute("data-rows", "4")
    return page


def drawn(page: Page, name: str) -> int:
    return int(page.locator(".timeline canvas").get_attribute(f"data-{name}") or 0)


def test_a_frame_draws_at_most_one_tick_per_pixel_and_row(page: Page) -> None:
    width = page.locator(".timeline-box").evaluate("(box) => box.clientWidth")
    assert 0 < drawn(page, "ticks") <= 4 * width


def test_a_part_of_the_turn_draws_less_than_all_of_it(page: Page) -> None:
    summary = page.locator('[data-part="summary"]')
    page.locator(".timeline-box").focus()
    page.keyboard.press("End")
    for _ in range(8):
        before = summary.inner_text()
        page.keyboard.press("+")
        expect(summary).not_to_have_text(before)
    assert 0 < drawn(page, "ticks") < 1000


def test_the_list_of_events_has_only_the_rows_that_are_visible(page: Page) -> None:
    events = page.get_by_role("listbox", name="Events")
    assert events.get_by_role("option").count() < 40
    events.focus()
    page.keyboard.press("End")
    expect(events.get_by_role("option").last).to_contain_text("completed")
    expect(page.locator(".event-detail h3")).to_contain_text("response.completed")
    assert events.get_by_role("option").count() < 40


def test_moving_the_view_keeps_its_size(page: Page) -> None:
    box = page.locator(".timeline canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + 90
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    summary = page.locator('[data-part="summary"]')
    expect(summary).to_contain_text(" to ")
    zoomed = summary.inner_text()
    page.mouse.down()
    page.mouse.move(x - 120, y, steps=4)
    page.mouse.up()
    expect(summary).not_to_have_text(zoomed)
    expect(summary).to_contain_text(" to ")
    page.get_by_role("button", name="Show the whole turn").click()
    expect(summary).not_to_contain_text(" to ")
