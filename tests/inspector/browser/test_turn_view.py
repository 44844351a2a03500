"""One turn: who ended it and why, its timeline, its content, and what one can do with it."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.client.server import chunk as http_chunk
from tests.client.server import send
from tests.dialects.chat_streams import chunk
from tests.gateway.running import Json, Reply, Running
from tests.gateway.upstream import ScriptedUpstream, begun, frames, rest, until
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

WEATHER: Json = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 14}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def broken(site: Running) -> Reply:
    """Return a turn whose upstream closes the connection after a pause."""
    return site.stream("demo", "Think, pause 1 second in the middle, and break off.")


@pytest.fixture(scope="module")
def called(site: Running) -> Reply:
    return site.stream(
        "demo", "Think, how is the weather in Paris for 3 days?", tools=[WEATHER], top_p=0.5, temperature=0.2
    )


def place(reply: Reply) -> str:
    return f"#/turns/{reply.last['id']}"


def open_turn(visit: Visits, reply: Reply, **options: Any) -> Page:
    return visit(**options).go(place(reply), view="turn")


def test_the_first_sentence_says_who_broke_the_stream_and_why(visit: Visits, broken: Reply) -> None:
    page = open_turn(visit, broken)
    sentence = page.get_by_role("heading", level=1)
    expect(sentence).to_contain_text("ended its answer without a finish reason")
    expect(sentence).to_contain_text("of silence")
    expect(page.locator(".verdict-head")).to_contain_text("failed")


def test_the_timeline_has_a_lane_for_each_item_and_the_events_as_a_list(visit: Visits, broken: Reply) -> None:
    page = open_turn(visit, broken)
    canvas = page.locator(".timeline canvas")
    expect(canvas).to_have_attribute("data-rows", "4")  # upstream, response, reasoning, message
    expect(page.locator(".timeline-bar")).to_contain_text(f"{len(broken.events)} events")
    page.get_by_label("with deltas").uncheck()
    expect(page.get_by_role("listbox", name="Events").get_by_role("option").first).to_contain_text("created")
    expect(page.get_by_role("option").filter(has_text="delta")).to_have_count(0)


def test_a_click_opens_the_json_of_an_event(visit: Visits, broken: Reply) -> None:
    page = open_turn(visit, broken)
    canvas = page.locator(".timeline canvas")
    box = canvas.bounding_box()
    assert box is not None
    # The row of the response is the second one, and its last event is at the right end.
    x = _x_of_end(page)
    page.mouse.move(box["x"] + x, box["y"] + 24 + 28 + 14)
    expect(page.locator(".timeline-tip")).to_contain_text("response.failed")
    page.mouse.click(box["x"] + x, box["y"] + 24 + 28 + 14)
    expect(page.locator(".event-detail h3")).to_contain_text("response.failed")
    expect(page.locator(".event-json")).to_contain_text("upstream_truncated")


def _x_of_end(page: Page) -> float:
    """Return where the end of the turn is drawn: see `Scale` in timeline_drawing.js."""
    width = page.locator(".timeline-box").evaluate("(box) => box.clientWidth")
    left = 156
    return float(left + (width - 14 - left) / 1.01)


def test_the_keyboard_walks_through_the_events_and_zooms(visit: Visits, broken: Reply) -> None:
    page = open_turn(visit, broken)
    timeline = page.locator(".timeline-box")
    timeline.focus()
    page.keyboard.press("Home")
    expect(page.locator(".event-detail h3")).to_contain_text("#0 response.created")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#announcements")).to_contain_text("#1 response.in_progress")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#announcements")).to_contain_text("reasoning")
    page.keyboard.press("End")
    expect(page.locator(".event-detail h3")).to_contain_text("response.failed")
    summary = page.locator('[data-part="summary"]')
    whole = summary.inner_text()
    page.keyboard.press("+")
    expect(summary).not_to_have_text(whole)
    page.keyboard.press("0")
    expect(summary).to_have_text(whole)
    page.keyboard.press("Tab")
    page.get_by_role("listbox", name="Events").focus()
    page.keyboard.press("Home")
    expect(page.locator(".event-detail h3")).to_contain_text("#0 response.created")


def test_the_content_shows_text_folded_reasoning_and_formatted_arguments(
    visit: Visits, called: Reply
) -> None:
    page = open_turn(visit, called)
    output = page.locator(".turn-main .panel").first
    expect(output).to_contain_text("Think, how is the weather in Paris for 3 days?")
    reasoning = output.locator(".item.is-reasoning details")
    expect(reasoning).not_to_have_attribute("open", "")
    reasoning.locator("summary").click()
    expect(reasoning.locator(".prose")).to_contain_text("weather")
    call = output.locator(".item.is-tool")
    expect(call).to_contain_text("get_weather()")
    expect(call.locator(".json")).to_contain_text('city: "Paris"')


def test_both_requests_stand_side_by_side_with_their_differences(visit: Visits, called: Reply) -> None:
    page = open_turn(visit, called)
    differences = page.locator(".differences")
    expect(differences).to_contain_text("dropped")
    expect(differences.get_by_role("row").filter(has_text="top_p")).to_contain_text("0.5")
    client = page.get_by_role("region", name="The request of the client")
    expect(client.locator(".row.is-dropped").filter(has_text="top_p")).to_contain_text("− dropped")
    expect(page.get_by_role("region", name="The request to the upstream")).to_contain_text('model: "demo"')
    expect(differences.get_by_role("row").filter(has_text="input → turns")).to_contain_text("translated")
    expect(differences.get_by_role("row").filter(has_text="handled")).to_contain_text("stream")


def test_the_request_can_be_copied_as_a_command_and_the_stream_downloaded(
    visit: Visits, called: Reply, site: Running
) -> None:
    page = open_turn(visit, called)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith(f"curl -sN '{site.url}/v1/responses'")
    body = json.loads(command.split("-d '", 1)[1].removesuffix("'"))
    assert body["tools"][0]["name"] == "get_weather"
    assert body["top_p"] == 0.5
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as SSE").click()
    assert download.value.suggested_filename == f"{called.last['id']}.sse"
    assert b"event: response.completed" in download.value.path().read_bytes()


def test_a_recorded_turn_is_replayed(visit: Visits, called: Reply) -> None:
    page = open_turn(visit, called)
    page.get_by_role("button", name="Replay").click()
    expect(page.locator(".action-note .badge")).to_contain_text("same")
    expect(page.locator(".action-note")).to_contain_text("Compared: ")


def test_a_turn_is_followed_while_it_runs(visit: Visits, site: Running, upstream: ScriptedUpstream) -> None:
    go_on, end = threading.Event(), threading.Event()
    model = upstream.play(
        "live-turn",
        [
            *begun(chunk({"content": "First words. "})),
            until(go_on),
            send(http_chunk(frames(chunk({"content": "Second words. "}), done=False))),
            until(end),
            rest("Last words."),
        ],
    )
    with site.live(model) as answer:
        answer.until(b"First words")
        id = json.loads(answer.body.split(b"data: ", 1)[1].split(b"\n", 1)[0])["response"]["id"]
        page = visit().go(f"#/turns/{id}", view="turn")
        expect(page.locator(".verdict-head")).to_contain_text("running")
        output = page.locator(".turn-main .panel").first
        expect(output).to_contain_text("First words.")
        events = page.locator(".events-panel header")
        before = events.inner_text()
        go_on.set()
        expect(output).to_contain_text("Second words.")
        expect(events).not_to_have_text(before)
        end.set()
        answer.rest()
        expect(page.locator(".verdict-head")).to_contain_text("completed")
        expect(output).to_contain_text("Last words.")
        expect(page.locator('[data-fact="Input"]')).to_contain_text("11")


def test_what_was_not_kept_is_said(visit: Visits, site: Running) -> None:
    reply = site.stream("demo", "Hello!", store=False)
    page = open_turn(visit, reply)
    expect(page.get_by_role("region", name="What was not kept")).to_contain_text('"store": false')
    expect(page.locator(".timeline")).to_have_count(0)
    expect(page.get_by_role("button", name="Copy as curl")).to_be_disabled()
    expect(page.get_by_role("heading", name="Usage")).to_be_visible()


def test_an_unknown_turn_is_not_there(visit: Visits) -> None:
    page = visit().go("#/turns/resp_nobody", view="turn")
    expect(page.get_by_role("heading", name="There is no such turn")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_a_turn_is_accessible_and_fits_a_phone(
    visit: Visits, broken: Reply, called: Reply, theme: Theme
) -> None:
    for name, reply in (("turn-failed", broken), ("turn-tool-call", called)):
        desk = visit(theme=theme)
        page = desk.go(place(reply), view="turn")
        expect(page.locator(".sides")).to_be_attached()
        page.locator(".timeline-box").focus()
        page.keyboard.press("End")
        expect(page.locator(".event-json .json")).to_be_attached()
        assert desk.accessibility() == []
        page.mouse.move(0, 0)
        desk.picture(f"{name}-{theme}")
        desk.picture(f"{name}-whole-{theme}", whole=True)
    phone = visit(theme=theme, size=PHONE)
    page = phone.go(place(called), view="turn")
    expect(page.locator(".sides")).to_be_attached()
    assert phone.too_wide() == []
    assert phone.accessibility() == []
    phone.picture(f"turn-phone-{theme}")
