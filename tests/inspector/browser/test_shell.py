"""The shell: navigation, themes, what is shown when something is missing, and the page under a prefix."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page


def test_the_first_visit_says_how_to_make_a_turn(visit: Visits) -> None:
    opened = visit()
    page = opened.go("", view="turns")
    expect(page.get_by_role("heading", name="No turns yet")).to_be_visible()
    expect(page.locator(".code pre")).to_contain_text(f"{opened.base}v1/responses")
    demo = page.get_by_role("link", name="Run a demo prompt")
    expect(demo).to_have_attribute("href", "#/playground")


@pytest.mark.parametrize("theme", THEMES)
def test_the_first_visit_is_accessible(visit: Visits, theme: Theme) -> None:
    for name, size in (("desk", (1280, 900)), ("phone", PHONE)):
        opened = visit(theme=theme, size=size)
        opened.go("", view="turns")
        assert opened.accessibility() == []
        assert opened.too_wide() == []
        opened.picture(f"empty-{name}-{theme}")


def test_the_theme_is_switched_and_remembered(visit: Visits) -> None:
    page = visit(theme="dark").go("", view="turns")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Theme: system").click()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(ground) == dark


def test_an_unknown_view_says_so(visit: Visits) -> None:
    page = visit().go("#/nonsense", view="nonsense")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    page.get_by_role("link", name="All turns").click()
    expect(page.get_by_role("heading", name="Turns", exact=True)).to_be_visible()


def test_a_gateway_that_does_not_answer_is_said_and_can_be_tried_again(visit: Visits) -> None:
    page = visit().page
    page.route("**/api/feed", lambda route: route.abort("connectionrefused"))  # else it recovers on its own
    page.route("**/v1/turns*", lambda route: route.abort("connectionrefused"))
    page.goto(f"{visit().base}#/turns")
    expect(page.get_by_role("alert")).to_contain_text("The gateway did not answer")
    page.unroute("**/v1/turns*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="No turns yet")).to_be_visible()


def test_the_page_works_under_a_prefix(visit: Visits) -> None:
    opened = visit()
    seen = []

    def without_prefix(route: Route) -> None:
        path = route.request.url.removeprefix(opened.base)
        seen.append(path)
        assert path.startswith("penstock/"), path
        if path.endswith("/feed"):
            route.abort()  # it has no end, which a fulfilled route needs
            return
        route.fulfill(response=route.fetch(url=opened.base + path.removeprefix("penstock/")))

    opened.page.route("**/*", without_prefix)
    opened.page.goto(f"{opened.base}penstock/#/turns")
    expect(opened.page.get_by_role("heading", name="No turns yet")).to_be_visible()
    assert any(path.startswith("penstock/v1/turns") for path in seen)


def test_leaving_a_view_stops_what_it_follows(visit: Visits) -> None:
    page = visit().go("", view="turns")
    expect(page.locator(".feed-state")).to_have_text("live")
    with page.expect_event("requestfailed", lambda request: "/feed" in request.url):
        page.evaluate("location.hash = '#/nonsense'")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_the_links_of_the_navigation_do_not_move(visit: Visits) -> None:
    page = visit().go("#/turns", view="turns")
    places = "[...document.querySelectorAll('header nav a')].map((link) => link.getBoundingClientRect().left)"
    before = page.evaluate(places)
    page.get_by_role("link", name="Conversations").click()
    expect(page.locator('main[data-ready="threads"]')).to_be_attached()
    assert page.evaluate(places) == before


def test_an_address_cannot_write_into_the_title(visit: Visits) -> None:
    page = visit().go("#/turns/%E2%80%AEevil", view="turn")
    assert "\u202e" not in page.title()
    assert "\u202e" not in page.locator("main").inner_text()
