"""The editor view: the parts that VS Code would receive from a turn."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.gateway.running import Reply, Running
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def called(site: Running) -> Reply:
    return site.stream("demo", "Think about it, then call get_weather twice.", tools=[TOOL])


@pytest.fixture(scope="module")
def failed(site: Running) -> Reply:
    return site.stream("demo", "Fail in the middle with rate_limit_exceeded.")


def test_the_parts_come_in_order_and_a_tool_call_once(visit: Visits, called: Reply) -> None:
    page = visit().go(f"#/turns/{called.last['id']}/editor?thinking=part", view="editor")
    types = page.locator(".part-type").all_inner_texts()
    assert types[0].endswith("thinking")
    assert types.count("tool call") == 1
    expect(page.locator(".part.is-tool_call")).to_contain_text("get_weather()")
    expect(page.get_by_role("heading", name="Result")).to_be_visible()


def test_reasoning_can_be_left_out(visit: Visits, called: Reply) -> None:
    page = visit().go(f"#/turns/{called.last['id']}/editor", view="editor")
    before = page.locator(".part").count()
    page.get_by_label("Reasoning").select_option("none")
    expect(page.locator(".part.is-tool_call")).to_be_visible()
    expect(page.locator(".part")).not_to_have_count(before)
    assert "thinking=none" in page.url


def test_the_error_of_a_failed_turn_is_shown(visit: Visits, failed: Reply) -> None:
    page = visit().go(f"#/turns/{failed.last['id']}/editor", view="editor")
    expect(page.get_by_role("note")).to_contain_text("rate_limit_exceeded")


@pytest.mark.parametrize("theme", THEMES)
def test_the_editor_view_is_accessible_and_fits_a_phone(visit: Visits, called: Reply, theme: Theme) -> None:
    place = f"#/turns/{called.last['id']}/editor?thinking=part"
    desk = visit(theme=theme)
    desk.go(place, view="editor")
    assert desk.accessibility() == []
    desk.picture(f"editor-{theme}")
    phone = visit(theme=theme, size=PHONE)
    phone.go(place, view="editor")
    assert phone.accessibility() == []
    assert phone.too_wide() == []
