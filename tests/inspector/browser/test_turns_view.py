"""The list of turns: what it shows, filters, pages, live updates and the keyboard."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import expect

from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, begun, rest, until
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

AGENT = {"user-agent": "openai-python/3.49.0"}


@pytest.fixture(scope="module", autouse=True)
def turns(site: Running) -> None:
    """Run a few turns with different outcomes."""
    site.stream("demo", "Think about it, then count from 1 to 5.", headers=AGENT)
    site.stream("demo", "Answer with 20 words, and fail in the middle with rate_limit_exceeded.")
    site.stream("demo", "Break off.", headers={"user-agent": "codex_cli_rs/0.72.0 (Debian)"})
    site.whole("demo", "Fail with 429.")
    site.whole("demo", "Answer with 60 words.", max_output_tokens=16, store=False)


def test_the_list_shows_every_turn_with_its_outcome(visit: Visits) -> None:
    page = visit().go("", view="turns")
    rows = page.locator(".turns tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(0)).to_contain_text("incomplete")
    expect(rows.nth(1)).to_contain_text("refused")
    expect(rows.nth(0)).to_contain_text("the output token limit was reached")
    expect(rows.nth(2)).to_contain_text("the upstream stopped without an end")
    expect(rows.nth(2)).to_contain_text("upstream_truncated")
    expect(rows.nth(3)).to_contain_text("the upstream’s rate limit was reached")
    expect(rows.nth(3)).to_contain_text("rate_limit_exceeded")
    expect(rows.nth(4)).to_contain_text("completed")
    expect(rows.nth(4)).to_contain_text("openai-python 3.49.0")


def test_filters_and_the_search_narrow_the_list_and_stand_in_the_address(visit: Visits) -> None:
    page = visit().go("", view="turns")
    rows = page.locator(".turns tbody tr")
    page.get_by_label("Status").select_option("failed")
    expect(rows).to_have_count(2)
    page.get_by_label("Search").fill("codex")
    expect(rows).to_have_count(1)
    assert "outcome=failed" in page.url
    assert "search=codex" in page.url
    page.reload()
    expect(page.locator(".turns tbody tr")).to_have_count(1)
    page.get_by_label("Search").fill("no such thing")
    expect(page.get_by_role("heading", name="No turn matches these filters")).to_be_visible()
    page.get_by_role("button", name="Remove all filters").click()
    expect(rows).to_have_count(5)


def test_the_keyboard_alone_reaches_a_turn(visit: Visits) -> None:
    page = visit().go("", view="turns")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    link = page.locator(".turns tbody tr").nth(1).get_by_role("link")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator('main[data-ready="turn"]')).to_be_attached()
    expect(page.locator("main")).to_be_focused()


def test_turns_appear_and_change_while_they_run(
    visit: Visits, site: Running, upstream: ScriptedUpstream
) -> None:
    go_on = threading.Event()
    model = upstream.play("live-list", [*begun(), until(go_on), rest("Hello!")])
    page = visit().go("#/turns?model=live-list", view="turns")
    expect(page.locator(".feed-state")).to_have_text("live")
    with site.live(model) as answer:
        row = page.locator(".turns tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("running")
        before = row.get_by_role("link").inner_text()
        go_on.set()
        answer.rest()
        expect(row).to_contain_text("completed")
        expect(row.get_by_role("link")).to_have_text(before)


def test_a_new_turn_does_not_move_what_is_being_read(visit: Visits, site: Running) -> None:
    page = visit(size=(1280, 420)).go("", view="turns")
    expect(page.locator(".feed-state")).to_have_text("live")
    first = page.locator(".turns tbody tr a").first
    first.focus()
    site.whole("demo", "Another one.")
    button = page.get_by_role("button", name="Show 1 new turn")
    expect(button).to_be_visible()
    expect(first).to_be_focused()
    button.click()
    expect(page.locator(".turns tbody tr").first).to_contain_text("completed")
    expect(button).to_have_count(0)


def test_pages_lead_to_older_turns_and_back(visit: Visits, site: Running) -> None:
    for _ in range(52):
        site.whole("demo", "Say nothing.", headers={"user-agent": "pager/1"})
    page = visit().go("#/turns?search=pager", view="turns")
    rows = page.locator(".turns tbody tr")
    expect(rows).to_have_count(50)
    newest = rows.first.get_attribute("data-id")
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(2)
    assert "after=" in page.url
    page.get_by_role("button", name="← Newer").click()
    expect(rows).to_have_count(50)
    assert rows.first.get_attribute("data-id") == newest


def test_the_way_back_leads_to_the_same_place_of_the_list(visit: Visits) -> None:
    page = visit(size=(1280, 500)).go("#/turns?search=pager", view="turns")
    expect(page.locator(".feed-state")).to_have_text("live")
    last = page.locator(".turns tbody tr").nth(40).get_by_role("link")
    last.scroll_into_view_if_needed()
    top = page.evaluate("scrollY")
    assert top > 500
    last.click()
    expect(page.locator('main[data-ready="turn"]')).to_be_attached()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(page.locator('main[data-ready="turns"]')).to_be_attached()
    page.wait_for_function(f"Math.abs(scrollY - {top}) < 30")


@pytest.mark.parametrize("theme", THEMES)
def test_the_list_is_accessible_and_fits_a_phone(visit: Visits, theme: Theme) -> None:
    desk = visit(theme=theme)
    desk.go("#/turns", view="turns")
    assert desk.accessibility() == []
    desk.picture(f"turns-{theme}")
    phone = visit(theme=theme, size=PHONE)
    phone.go("#/turns", view="turns")
    assert phone.too_wide() == []
    assert phone.accessibility() == []
    phone.picture(f"turns-phone-{theme}")
