"""The playground: answers and events side by side, failures, tools, images, and continuing a turn."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, begun, rest, until
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HOSTILE = (
    "say exactly: <img src=x onerror=alert(1)> [click](javascript:alert(2)) \u202egnp.exe \x1b[31mred\x1b[0m"
)


def sent(page: Page, text: str) -> Any:
    """Send a message with the keyboard; return the request."""
    page.get_by_label("Message").fill(text)
    with page.expect_request("**/v1/responses") as request:
        page.keyboard.press("Enter")
    return json.loads(request.value.post_data or "")


def ended(page: Page, outcome: str, turn: int = 0) -> None:
    expect(page.locator(".conversation .turn").nth(turn).locator(".badge").last).to_contain_text(outcome)


def test_an_answer_and_its_events_arrive_side_by_side(visit: Visits, upstream: ScriptedUpstream) -> None:
    go_on = threading.Event()
    model = upstream.play(
        "live-playground",
        [*begun(chat_chunk({"content": "The first half. "})), until(go_on), rest("The second half.")],
    )
    page = visit().go(f"#/playground?model={model}", view="playground")
    sent(page, "Hello!")
    events = page.get_by_role("listbox", name="Events").get_by_role("option")
    expect(events.filter(has_text="output_item.added")).to_have_count(1)
    expect(page.locator(".conversation")).to_contain_text("The first half.")
    ended(page, "running")
    expect(events.filter(has_text="completed")).to_have_count(0)
    go_on.set()
    expect(page.locator(".conversation")).to_contain_text("The second half.")
    expect(events.filter(has_text="completed")).to_have_count(1)
    ended(page, "completed")


def test_a_turn_that_fails_in_the_middle_leads_to_its_page_with_the_reason(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/playground", view="playground")
    page.get_by_role("button", name="Breaks off without an end").click()
    ended(page, "failed")
    tab.picture("playground-failed")
    expect(page.get_by_role("alert")).to_contain_text("upstream_truncated")
    page.get_by_role("link", name="See who ended this stream, and why").click()
    tab.ready("turn")
    expect(page.locator("h1")).to_contain_text("upstream")


def test_stop_cancels_the_turn_at_the_gateway(visit: Visits, site: Running) -> None:
    page = visit().go("#/playground", view="playground")
    page.get_by_label("Message").fill("Answer with 500 words, slowly.")
    with page.expect_response("**/v1/responses/*/cancel"):
        page.keyboard.press("Enter")
        expect(page.get_by_role("option").filter(has_text="output_text.delta").first).to_be_visible()
        page.get_by_role("button", name="Stop").click()
    ended(page, "cancelled")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    link = page.get_by_role("link", name="Open the turn").get_attribute("href") or ""
    assert (
        site.ask(None, f"/v1/responses/{link.rpartition('/')[2]}", method="GET").json["status"] == "cancelled"
    )


def test_the_result_of_a_tool_continues_the_conversation(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/playground", view="playground")
    page.get_by_role("button", name="Calls a tool").click()
    result = page.get_by_label("Result of get_weather")
    expect(result).to_be_focused()
    result.fill("sunny, 21 degrees")
    tab.picture("playground-tool")
    with page.expect_request("**/v1/responses") as request:
        page.get_by_role("button", name="Return and continue").click()
    body = json.loads(request.value.post_data or "")
    assert body["previous_response_id"].startswith("resp_")
    [item] = body["input"]
    assert (item["type"], item["output"]) == ("function_call_output", "sunny, 21 degrees")
    expect(page.locator(".conversation .turn").nth(1).locator(".answer")).to_contain_text("sunny, 21 degrees")
    ended(page, "completed", turn=1)


def test_an_image_is_shown_and_sent(visit: Visits) -> None:
    page = visit().go("#/playground", view="playground")
    image = {"name": "dot.png", "mimeType": "image/png", "buffer": PNG}
    page.locator("#playground-image").set_input_files(image)  # type: ignore[arg-type]
    expect(page.get_by_role("img", name="dot.png")).to_be_visible()
    body = sent(page, "What is this?")
    assert body["input"][0]["content"][1]["image_url"].startswith("data:image/png;base64,")
    expect(page.locator(".answer")).to_contain_text("I see a PNG image")
    expect(page.locator(".bubble img")).to_be_visible()


def test_settings_become_fields_of_the_request(visit: Visits) -> None:
    page = visit().go("#/playground", view="playground")
    page.get_by_label("Effort").select_option("high")
    page.get_by_label("Format").select_option("json_schema")
    page.get_by_text("Instructions and tools").click()
    page.get_by_label("Instructions", exact=True).fill("Be brief.")
    page.get_by_label("Tools").fill('[{"type": "function", "name": "look", "parameters": {}}]')
    body = sent(page, "Use no tools.")
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"]["format"]["name"] == "city"
    assert body["instructions"] == "Be brief."
    assert body["tools"][0]["name"] == "look"
    assert body["stream"] is True
    ended(page, "completed")


def test_tools_that_are_not_json_are_refused_before_anything_is_sent(visit: Visits) -> None:
    page = visit().go("#/playground", view="playground")
    page.get_by_text("Instructions and tools").click()
    page.get_by_label("Tools").fill("[{")
    page.get_by_label("Message").fill("Hello!")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="this is not a JSON list")).to_be_visible()
    expect(page.get_by_label("Tools")).to_be_focused()
    expect(page.locator(".conversation .turn")).to_have_count(0)
    expect(page.get_by_label("Message")).to_have_value("Hello!")


def test_the_conversation_is_still_there_on_the_way_back(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/playground", view="playground")
    sent(page, "say exactly: the first answer")
    ended(page, "completed")
    page.get_by_label("Message").fill("A draft")
    page.get_by_role("link", name="Open the turn").click()
    tab.ready("turn")
    page.go_back()
    tab.ready("playground")
    expect(page.locator(".conversation")).to_contain_text("the first answer")
    expect(page.get_by_label("Message")).to_have_value("A draft")
    expect(page.get_by_role("option").filter(has_text="created")).to_be_visible()
    expect(page.get_by_role("link", name="Continue from here")).to_be_hidden()
    before = page.url
    assert sent(page, "say exactly: the second answer")["previous_response_id"] in before
    ended(page, "completed", turn=1)
    expect(page.get_by_role("link", name="Continue from here")).to_have_count(1)
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".conversation .turn")).to_have_count(0)
    assert "turn=" not in page.url


def test_a_turn_goes_on_while_another_view_is_shown(visit: Visits, upstream: ScriptedUpstream) -> None:
    go_on = threading.Event()
    model = upstream.play(
        "background",
        [*begun(chat_chunk({"content": "The first half. "})), until(go_on), rest("The second half.")],
    )
    tab = visit()
    page = tab.go(f"#/playground?model={model}", view="playground")
    sent(page, "Hello!")
    expect(page.locator(".conversation")).to_contain_text("The first half.")
    page.get_by_role("link", name="Set up").click()
    tab.ready("setup")
    go_on.set()
    expect(page.locator("#announcements")).to_contain_text("The turn is completed")
    assert "playground" not in page.url
    page.get_by_role("link", name="Playground").click()
    tab.ready("playground")
    ended(page, "completed")
    expect(page.locator(".conversation")).to_contain_text("The second half.")
    assert "turn=resp_" in page.url


def test_the_last_turn_is_continued_after_the_page_is_loaded_again(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/playground", view="playground")
    sent(page, "say exactly: the first answer")
    ended(page, "completed")
    page.reload()
    tab.ready("playground")
    expect(page.locator(".earlier")).to_contain_text("the first answer")
    before = page.url
    assert sent(page, "And now?")["previous_response_id"] in before


def test_a_stored_turn_is_continued(visit: Visits, site: Running) -> None:
    first = site.stream("demo", "say exactly: the first answer").last
    tab = visit()
    page = tab.go(f"#/playground?turn={first['id']}", view="playground")
    expect(page.locator(".earlier")).to_contain_text("the first answer")
    body = sent(page, "say exactly: the second answer")
    assert body["previous_response_id"] == first["id"]
    ended(page, "completed")
    body = sent(page, "say exactly: the third answer")
    assert body["previous_response_id"] != first["id"]
    ended(page, "completed", turn=1)


def test_a_turn_that_was_not_stored_cannot_be_continued_and_the_page_says_why(
    visit: Visits, site: Running
) -> None:
    first = site.stream("demo", "Hello!", store=False).last
    page = visit().go(f"#/playground?turn={first['id']}", view="playground")
    expect(page.locator(".earlier")).to_contain_text('"store": false')
    assert "previous_response_id" not in sent(page, "Hello!")


def test_a_refused_request_says_why_and_can_be_sent_again(visit: Visits) -> None:
    page = visit().go("#/playground", view="playground")
    sent(page, "Fail with 503.")
    expect(page.get_by_role("alert").filter(has_text="server_is_overloaded")).to_be_visible()
    with page.expect_request("**/v1/responses") as request:
        page.get_by_role("button", name="Send again").click()
    assert "previous_response_id" not in (request.value.post_data or "")


def test_what_the_gateway_dropped_and_estimated_is_said(visit: Visits) -> None:
    page = visit(size=(1280, 760)).go("#/playground", view="playground")
    page.get_by_text("Instructions and tools").click()
    page.get_by_label("Tools").fill('[{"type": "nonsense"}]')
    sent(page, "Break off.")
    ended(page, "failed")
    expect(page.get_by_role("list", name="Diagnostics")).to_contain_text("tool_dropped")
    expect(page.locator(".turn-facts")).to_contain_text("~62 out")
    link = page.get_by_role("link", name="See who ended this stream, and why")
    is_on_top = """(link) => {
        const { x, y, width, height } = link.getBoundingClientRect();
        return document.elementFromPoint(x + width / 2, y + height / 2) === link;
    }"""
    assert link.evaluate(is_on_top)  # the form does not cover it
    link.click()
    expect(page.locator('[data-fact="Output"]')).to_contain_text("~62")


def test_a_new_conversation_forgets_the_settings_of_a_suggested_prompt(visit: Visits) -> None:
    page = visit().go("#/playground", view="playground")
    page.get_by_role("button", name="Answers in JSON").click()
    ended(page, "completed")
    page.get_by_role("button", name="New conversation").click()
    assert "text" not in sent(page, "Hello!")
    ended(page, "completed")
    page.get_by_role("button", name="New conversation").click()
    page.get_by_role("button", name="Calls a tool").click()
    expect(page.get_by_role("button", name="Return and continue")).to_be_visible()
    page.get_by_label("Effort").select_option("low")
    page.get_by_role("button", name="New conversation").click()
    assert sent(page, "Hello!")["tools"][0]["name"] == "get_weather"  # the user has changed the settings


def test_hostile_output_is_text(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/playground", view="playground")
    sent(page, HOSTILE)
    ended(page, "completed")
    answer = page.locator(".answer")
    expect(answer).to_contain_text("<img src=x onerror=alert(1)> [click](javascript:alert(2))")
    expect(answer.locator(".mark").first).to_have_text("RLO")
    assert page.locator(".answer a, .answer img, .bubble a, .bubble img").count() == 0
    page.get_by_role("option").filter(has_text="output_text.done").click()
    expect(page.locator(".event-json")).to_contain_text("<img src=x onerror=alert(1)>")


def test_the_keyboard_alone_is_enough(visit: Visits) -> None:
    page = visit().go("#/playground", view="playground")
    expect(page.get_by_label("Message")).to_be_focused()
    page.keyboard.type("Count from 1 to 5")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and no further.")
    page.keyboard.press("Enter")
    ended(page, "completed")
    expect(page.locator(".bubble")).to_contain_text("and no further.")
    events = page.get_by_role("listbox", name="Events")
    for _ in range(40):
        page.keyboard.press("Tab")
        if events.evaluate("(each) => each === document.activeElement"):
            break
    page.keyboard.press("Home")
    expect(page.locator(".event-detail")).to_contain_text("response.created")
    page.keyboard.press("End")
    expect(page.locator(".event-detail")).to_contain_text("response.completed")


@pytest.mark.parametrize("theme", THEMES)
def test_the_playground_is_accessible_and_fits_a_phone(visit: Visits, theme: Theme) -> None:
    for tab in (visit(theme=theme), visit(theme=theme, size=PHONE)):
        page = tab.go("#/playground", view="playground")
        assert tab.accessibility() == []
        tab.picture(f"playground-empty-{theme}-{page.viewport_size['width']}")  # type: ignore[index]
        page.get_by_role("button", name="Fails in the middle").click()
        ended(page, "failed")
        page.get_by_role("option").last.click()
        assert tab.too_wide() == []
        assert tab.accessibility() == []
        tab.picture(f"playground-{theme}-{page.viewport_size['width']}", whole=True)  # type: ignore[index]
