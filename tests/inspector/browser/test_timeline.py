"""A turn of more than 50,000 events: only what is visible is drawn, and exists."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.client.server import chunk as http_chunk
from tests.client.server import send
from tests.dialects.chat_streams import chunk
from tests.gateway.running import Running
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, ScriptedUpstream, frames
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.large_turns import run_large

pytestmark = pytest.mark.page

WORDS = 52_000
"""More events than one answer of the API has."""
AT_ONCE = 100


@pytest.fixture(scope="module")
def long(site: Running, upstream: ScriptedUpstream) -> str:
    words = http_chunk(frames(*[chunk({"content": "word "})] * AT_ONCE, done=False))
    script: list[Any] = [
        send(SSE_HEAD),
        send(http_chunk(frames(chunk({"reasoning_content": "Think."}), done=False))),
        *[send(words)] * (WORDS // AT_ONCE),
        send(http_chunk(frames(chunk(finish="stop"), USAGE)) + LAST_CHUNK),
    ]
    id, events = run_large(site, upstream.play("long", script), "Write much.")
    assert events > WORDS
    return id


@pytest.fixture
def page(visit: Visits, long: str) -> Page:
    page = visit().go(f"#/turns/{long}", view="turn")
    expect(page.locator(".timeline canvas")).to_have_attribute("data-rows", "4")
    expect(page.locator('[data-part="summary"]')).to_contain_text(f"{WORDS:,}"[:4])  # the second answer, too
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


def test_the_keyboard_goes_to_the_end_and_back_in_a_part_that_is_drawn(page: Page) -> None:
    page.locator(".timeline-box").focus()
    for _ in range(6):
        page.keyboard.press("+")
    title = page.locator(".event-detail h3")
    page.keyboard.press("End")
    expect(title).to_contain_text("response.completed")
    last = title.inner_text()
    page.keyboard.press("ArrowLeft")
    expect(title).to_contain_text("output_item.done")
    page.keyboard.press("PageUp")
    expect(title).to_contain_text("output_text.delta")
    page.keyboard.press("Home")
    expect(title).to_contain_text("#0 response.created")
    page.keyboard.press("End")
    expect(title).to_have_text(last)
    assert 0 < drawn(page, "ticks") <= 4 * 1280
    assert page.get_by_role("listbox", name="Events").get_by_role("option").count() < 40


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
