"""The pages of the checker's rules: what must hold, what breaks, and how to mend it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from penstock.stream.checker import RULES
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page


def test_a_rule_has_a_page_with_what_breaks_and_how_to_mend_it(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/rules/call.duplicate", view="rules")
    expect(page.locator("h1")).to_have_text("Rule call.duplicate")
    article = page.get_by_role("article")
    expect(article).to_contain_text(RULES["call.duplicate"].title)
    expect(article).to_contain_text("Codex and the AI SDK run the tool twice")
    expect(article.get_by_role("heading", name="How to mend it")).to_be_visible()
    expect(page.locator("nav a[aria-current]")).to_have_text("Check a file")
    tab.picture("rule")
    page.get_by_role("navigation", name="Tool calls").get_by_role("link", name="call.name").click()
    expect(page.locator("h1")).to_have_text("Rule call.name")
    expect(article).to_contain_text("No client is known to break")


def test_all_rules_are_listed(visit: Visits) -> None:
    page = visit().go("#/rules", view="rules")
    expect(page.locator(".rule-list li")).to_have_count(len(RULES))
    page.get_by_role("link", name="terminal.missing").click()
    expect(page.locator("h1")).to_have_text("Rule terminal.missing")


def test_an_unknown_rule_leads_to_the_list(visit: Visits) -> None:
    page = visit().go("#/rules/%3Cb%3Eno.such", view="rules")
    expect(page.locator(".notice")).to_contain_text("No rule is called <b>no.such")
    expect(page.locator(".rule-list li")).to_have_count(len(RULES))


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_is_accessible_and_fits_a_phone(visit: Visits, theme: Theme) -> None:
    for tab in (visit(theme=theme), visit(theme=theme, size=PHONE)):
        for place in ("#/rules", "#/rules/snapshot.outcome"):
            tab.go(place, view="rules")
            assert tab.too_wide() == []
            assert tab.accessibility() == []
