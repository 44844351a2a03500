"""Conversations: the list, and one thread with its branches."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.gateway.running import Running
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

HOSTILE = "say exactly: <img src=x onerror=alert(1)> \u202egnp.exe"

Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def chain(site: Running) -> dict[str, str]:
    """Run turns that branch: 1, 2, and after 2 both 3 and 4; 5 after 3. Return the ids by number."""
    ids = {"": ""}
    for name, previous, text in (
        ("1", "", "say exactly: the first answer"),
        ("2", "1", "How is the weather in Paris for 3 days?"),
        ("3", "2", "Answer with 20 words, and fail in the middle."),
        ("4", "2", HOSTILE),
        ("5", "3", "say exactly: the fifth answer"),
    ):
        more = {"previous_response_id": ids[previous]} if previous else {}
        ids[name] = site.stream("demo", text, **more).last["id"]
    return ids


@pytest.fixture(scope="module", autouse=True)
def conversation(site: Running) -> str:
    """Return the id of a conversation of two turns; a turn that nothing continues is run as well."""
    id: str = site.ask({}, "/v1/conversations").json["id"]
    for text in ("say exactly: one", "say exactly: two"):
        site.stream("demo", text, conversation=id)
    site.stream("demo", "say exactly: alone")
    return id


def test_the_list_has_chains_and_conversations_and_leads_to_them(
    visit: Visits, chain: dict[str, str]
) -> None:
    tab = visit()
    page = tab.go("#/threads", view="threads")
    rows = page.locator(".threads tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("conversation")
    expect(rows.nth(1)).to_contain_text("the first answer")
    expect(rows.nth(1).locator("td.number").first).to_have_text("5")
    tab.picture("threads")
    rows.nth(1).get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Chain of turns")
    assert chain["1"] in page.url


def test_a_thread_shows_its_branches_and_leads_to_turns(visit: Visits, chain: dict[str, str]) -> None:
    tab = visit()
    page = tab.go(f"#/threads/{chain['5']}", view="threads")
    expect(page.locator(".page-head")).to_contain_text("5 turns in 2 branches")
    turns = page.locator(".thread-turn")
    assert [each.split()[1] for each in page.locator(".thread-link").all_inner_texts()] == list("12354")
    expect(turns.nth(2)).to_contain_text("failed")
    expect(turns.nth(4)).to_contain_text("branch after turn 2")
    expect(turns.nth(4)).to_contain_text("<img src=x onerror=alert(1)> ")
    expect(turns.nth(3)).to_have_attribute("aria-current", "true")
    assert page.locator("main img").count() == 0
    tab.picture("thread")
    turns.nth(2).get_by_role("link", name="Turn 3").click()
    tab.ready("turn")
    assert chain["3"] in page.url


def test_a_conversation_is_one_line_of_turns(visit: Visits, conversation: str) -> None:
    page = visit().go(f"#/threads/{conversation}", view="threads")
    expect(page.locator("h1")).to_have_text("Conversation")
    turns = page.locator(".thread-turn")
    expect(turns).to_have_count(2)
    expect(turns.nth(1)).to_contain_text("two")
    assert "branch" not in page.locator("main").inner_text()


def test_a_branch_is_begun_from_a_turn(visit: Visits, chain: dict[str, str]) -> None:
    tab = visit()
    page = tab.go(f"#/threads/{chain['1']}", view="threads")
    page.locator(".thread-turn").nth(0).get_by_role("link", name="Continue").click()
    tab.ready("playground")
    expect(page.locator(".earlier")).to_contain_text("the first answer")


def test_an_unknown_thread_gets_a_sentence(visit: Visits) -> None:
    page = visit().go("#/threads/resp_unknown")
    expect(page.get_by_role("alert")).to_contain_text("resp_unknown")


def test_branches_get_columns_of_their_own_until_they_end(visit: Visits) -> None:
    page = visit().go("#/threads", view="threads")
    turns = [
        {"id": str(number), "previous_id": previous}
        for number, previous in ((1, None), (2, "1"), (3, "2"), (4, "2"), (5, "1"), (6, "5"), (7, "5"))
    ]
    rows: list[Json] = page.evaluate(
        """async (turns) => {
            const url = new URL("inspector/views/thread.js", document.baseURI).href;
            const { arrange } = await import(url);
            return arrange(turns).map(({ turn, ...row }) => row);
        }""",
        turns,
    )
    assert [(row["number"], row["column"]) for row in rows] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 2),
        (5, 1),
        (6, 1),
        (7, 0),
    ]
    assert [row["branches"] for row in rows] == [[1], [2], [], [], [0], [], []]
    assert rows[1]["passing"] == [1]
    assert sorted(rows[2]["passing"]) == [1, 2]


@pytest.mark.parametrize("theme", THEMES)
def test_the_views_are_accessible_and_fit_a_phone(visit: Visits, chain: dict[str, str], theme: Theme) -> None:
    for tab in (visit(theme=theme), visit(theme=theme, size=PHONE)):
        for place in ("#/threads", f"#/threads/{chain['1']}"):
            page = tab.go(place, view="threads")
            expect(page.locator(".threads, .thread")).to_be_visible()
            assert tab.too_wide() == []
            assert tab.accessibility() == []
            width = page.viewport_size["width"]  # type: ignore[index]
            tab.picture(f"{'thread' if '_' in place else 'threads'}-{theme}-{width}")
