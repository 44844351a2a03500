"""The list of turns and its feed: nothing is missed in between, and a page that stays open stays small."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.gateway.running import Running, gateway
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import Visit

pytestmark = pytest.mark.page

Json = dict[str, Any]
MOST_ROWS = 150
"""As in turns.js."""


@pytest.fixture(scope="module", autouse=True)
def turns(site: Running) -> None:
    for _ in range(3):
        site.whole("demo", "Say nothing.")


def records(site: Running) -> list[Json]:
    found: list[Json] = site.ask(path="/v1/turns", method="GET").json["data"]
    return found


class FakeFeed:
    """A feed that sends these turns once, and cannot be reached after that."""

    def __init__(self, visit: Visit, turns: list[Json]) -> None:
        self._frames = [("hello", {"now": turns[0]["started_at"]}), *(("turn", turn) for turn in turns)]
        self.lists = 0
        """How often the list was loaded."""
        visit.page.route("**/inspector/api/feed", self._feed)
        visit.page.route("**/v1/turns?*", self._list)

    def _feed(self, route: Route) -> None:
        body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in self._frames)
        self._frames = []
        if not body:
            route.abort("connectionrefused")
            return
        route.fulfill(status=200, content_type="text/event-stream", body=body)

    def _list(self, route: Route) -> None:
        self.lists += 1
        route.fulfill(response=route.fetch())


def rows(page: Page) -> Any:
    return page.locator(".turns tbody tr")


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        page.wait_for_timeout(20)
    raise AssertionError("it has never happened")


def like(record: Json, number: int, **changes: Any) -> Json:
    return {**record, "id": f"resp_like_{number}", "started_at": record["started_at"] + number + 1, **changes}


def test_a_turn_that_ends_while_the_list_is_loaded_is_neither_missed_nor_doubled(
    visit: Visits, site: Running
) -> None:
    tab = visit()
    held: list[tuple[Route, Any]] = []
    page = tab.go("#/turns?search=meanwhile", view="turns")
    site.whole("demo", "Say nothing.", headers={"user-agent": "meanwhile/1"})
    expect(rows(page)).to_have_count(1)
    page.route("**/v1/turns?*", lambda route: held.append((route, route.fetch())))
    page.get_by_label("Status").select_option("completed")
    page.wait_for_function("document.querySelector('.turns').hasAttribute('aria-busy')")
    wait_until(page, lambda: bool(held))
    site.whole("demo", "Say nothing.", headers={"user-agent": "meanwhile/2"})
    expect(rows(page)).to_have_count(2)  # by the feed
    for route, response in held:
        route.fulfill(response=response)  # as the list was before
    expect(page.locator(".turns[aria-busy]")).to_have_count(0)
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text("meanwhile 2")


def test_an_older_state_of_a_turn_does_not_replace_a_newer_one(visit: Visits, site: Running) -> None:
    tab = visit()
    newest = records(site)[0]
    FakeFeed(tab, [{**newest, "ended_at": None, "outcome": "running"}, like(newest, 1)])
    page = tab.go("#/turns", view="turns")
    expect(page.locator('tr[data-id="resp_like_1"]')).to_be_visible()
    expect(page.locator(f'tr[data-id="{newest["id"]}"]')).to_contain_text("completed")


def test_a_turn_that_began_long_ago_is_not_put_on_top_when_it_ends(visit: Visits, site: Running) -> None:
    tab = visit()
    newest = records(site)[0]
    FakeFeed(tab, [like(newest, -100), like(newest, 1)])
    page = tab.go("#/turns", view="turns")
    expect(rows(page).first).to_have_attribute("data-id", "resp_like_1")
    expect(rows(page).last).to_have_attribute("data-id", "resp_like_-100")


def test_very_many_new_turns_are_loaded_and_not_inserted_one_by_one(visit: Visits, site: Running) -> None:
    tab = visit()
    feed = FakeFeed(tab, [like(records(site)[0], number) for number in range(3000)])
    page = tab.go("#/turns", view="turns")
    # For the view, for the beginning of the feed, and instead of the turns.
    wait_until(page, lambda: feed.lists >= 3)
    expect(page.locator('tr[data-id^="resp_like"]')).to_have_count(0)
    assert rows(page).count() <= MOST_ROWS


def test_turns_that_wait_for_a_reader_are_bounded(visit: Visits, site: Running) -> None:
    tab = visit()
    tab.page.add_init_script("Object.defineProperty(window, 'scrollY', { get: () => 500 });")
    feed = FakeFeed(tab, [like(records(site)[0], number) for number in range(400)])
    page = tab.go("#/turns", view="turns")
    page.get_by_role("button", name=f"Show more than {MOST_ROWS} new turns").click()
    wait_until(page, lambda: feed.lists >= 3)
    expect(page.get_by_role("button", name="new turns")).to_have_count(0)
    assert rows(page).count() <= MOST_ROWS


def test_a_page_that_nobody_sees_gives_its_connection_back(visit: Visits, site: Running) -> None:
    """Browsers have six connections to one host, which six tabs would occupy."""
    tab = visit()
    page = tab.page
    page.clock.install()
    page.add_init_script(
        "window.isAway = false; Object.defineProperty(document, 'hidden', { get: () => window.isAway });"
    )
    tab.go("#/turns", view="turns")
    state = page.locator(".feed-state")
    expect(state).to_have_text("live")
    leave = "(away) => { window.isAway = away; document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(leave, True)
    page.clock.run_for(5_000)
    expect(state).to_have_text("live")
    page.clock.run_for(60_000)
    expect(state).to_have_text("paused")
    site.whole("demo", "Say nothing.", headers={"user-agent": "unseen/1"})
    page.evaluate(leave, False)
    expect(state).to_have_text("live")
    expect(rows(page).first).to_contain_text("unseen 1")


def test_a_page_goes_on_after_a_restart_of_the_gateway(visit: Visits, tmp_path: Path) -> None:
    with gateway(tmp_path) as first:
        port = first.address.port
        first.whole("demo", "Say nothing.", headers={"user-agent": "before/1"})
        page = visit(gateway=first).go("#/turns", view="turns")
        state = page.locator(".feed-state")
        expect(state).to_have_text("live")
        first.stop()
        expect(state).to_contain_text("connection lost")
        expect(rows(page)).to_have_count(1)  # what was there is still shown
    with gateway(tmp_path, "--port", str(port)) as second:
        second.whole("demo", "Say nothing.", headers={"user-agent": "after/1"})
        expect(state).to_have_text("live")
        expect(rows(page)).to_have_count(2)
        expect(rows(page).first).to_contain_text("after 1")
