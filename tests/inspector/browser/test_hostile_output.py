"""What a model writes is text, whatever it looks like: it never becomes an element, a link or a request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.client.server import chunk as http_chunk
from tests.client.server import send
from tests.dialects.chat_streams import chunk
from tests.gateway.running import Json, Reply, Running
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, USAGE, ScriptedUpstream, frames, streamed
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.large_turns import run_large

pytestmark = pytest.mark.page

HTML = (
    '<img src="https://evil.example/x" onerror="alert(1)"><script>alert(2)</script>'
    '<svg onload=alert(3)></svg><iframe src="https://evil.example"></iframe>'
    '<a href="javascript:alert(4)">here</a><style>body{display:none}</style></div></main>'
)
MARKDOWN = (
    "[a link](javascript:alert(5)) ![an image](https://evil.example/pixel.png) <https://evil.example> "
    "https://evil.example/plain"
)
CONTROLS = (
    "\x1b[31mred\x1b[0m \x07bell \x00nul \u202eright to left\u202c zero\u200bwidth \u2066isolated\u2069"
)
HOSTILE = f"{HTML}\n{MARKDOWN}\n{CONTROLS}"
TOOL: Json = {"type": "function", "name": "run", "parameters": {"type": "object"}}
MEGABYTES = 10


def hostile_call() -> Json:
    call = {"index": 0, "id": "call_<b>1", "type": "function"}
    function = {"name": "run", "arguments": json.dumps({HTML: HOSTILE, "__proto__": {"x": MARKDOWN}})}
    return chunk({"tool_calls": [{**call, "function": function}]})


@pytest.fixture(scope="module")
def hostile(site: Running, upstream: ScriptedUpstream) -> Reply:
    """Return a turn with hostile text, reasoning, arguments, names and input."""
    script = streamed(
        chunk({"reasoning_content": HOSTILE}),
        chunk({"content": HOSTILE}),
        hostile_call(),
        chunk(finish="tool_calls"),
        USAGE,
    )
    model = upstream.play("<img src=x onerror=alert(6)>\u202e", script)
    return site.stream(model, HOSTILE, tools=[TOOL], headers={"user-agent": "<b>agent</b>/1"})


@pytest.fixture(scope="module")
def large(site: Running, upstream: ScriptedUpstream) -> str:
    """Return a turn of 10 MB in one line, of which every character is wide markup."""
    piece = "<b>javascript:\u202e" * 4096
    count = MEGABYTES * 1_000_000 // len(piece)
    script: list[Any] = [
        send(SSE_HEAD),
        *(send(http_chunk(frames(chunk({"content": piece}), done=False))) for _ in range(count)),
        send(http_chunk(frames(chunk(finish="stop"), USAGE)) + LAST_CHUNK),
    ]
    return run_large(site, upstream.play("large", script), "Write 10 MB.")[0]


def elements(page: Page) -> list[str]:
    """Return the elements that only hostile text could have made."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("img, iframe, script, style, object, embed, svg, a, b")]
            .filter((each) => !each.closest("header.top") && !each.closest("head") && each.id !== "skip")
            .filter((each) => each.tagName !== "A" || !/^#\\//.test(each.getAttribute("href")))
            .map((each) => each.outerHTML)"""
    )
    return found


def test_a_hostile_turn_is_shown_as_text(visit: Visits, hostile: Reply) -> None:
    page = visit().go(f"#/turns/{hostile.last['id']}", view="turn")
    expect(page.locator(".sides")).to_be_attached()
    message = page.locator(".item.is-message .prose")
    expect(message).to_contain_text(HTML)
    expect(message).to_contain_text(MARKDOWN)
    for summary in page.locator(".turn-main details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
    assert elements(page) == []


def test_controls_are_visible_marks(visit: Visits, hostile: Reply) -> None:
    page = visit().go(f"#/turns/{hostile.last['id']}", view="turn")
    marks = page.locator(".item.is-message .mark")
    expect(marks).to_have_text(["ESC", "ESC", "U+0007", "U+0000", "RLO", "PDF", "ZWSP", "LRI", "PDI"])
    shown = page.locator("body").inner_text()
    assert [each for each in "\x1b\x00\x07\u202e\u200b\u2066" if each in shown] == []
    assert page.title().startswith(hostile.last["id"])


def test_every_event_of_a_hostile_turn_is_text(visit: Visits, hostile: Reply) -> None:
    page = visit().go(f"#/turns/{hostile.last['id']}", view="turn")
    timeline = page.locator(".timeline-box")
    timeline.focus()
    page.keyboard.press("Home")
    for number in range(len(hostile.events)):
        page.keyboard.press("Enter")
        expect(page.locator(".event-detail h3")).to_contain_text(f"#{number} ")
        expect(page.locator(".event-json .json")).to_contain_text(f"sequence_number: {number}")
        page.keyboard.press("ArrowRight")
    assert elements(page) == []


def test_the_list_and_the_editor_view_show_hostile_names_as_text(visit: Visits, hostile: Reply) -> None:
    page = visit().go("#/turns", view="turns")
    row = page.locator(f'tr[data-id="{hostile.last["id"]}"]')
    expect(row).to_contain_text("<img src=x onerror=alert(6)>?")
    expect(row).to_contain_text("<b>agent<")
    assert elements(page) == []
    for thinking in ("text", "part", "none"):
        page = visit().go(f"#/turns/{hostile.last['id']}/editor?thinking={thinking}", view="editor")
        expect(page.locator(".parts")).to_contain_text("run()")
        assert elements(page) == []


def test_ten_megabytes_are_cut_and_shown_in_pieces(visit: Visits, large: str) -> None:
    page = visit().go(f"#/turns/{large}", view="turn")
    message = page.locator(".item.is-message .prose")
    expect(message).to_contain_text("<b>javascript:")
    assert message.evaluate("(each) => each.textContent.length") < 30_000
    button = message.get_by_role("button", name="Show all (10 MB)")
    button.click()
    expect(message.locator(".piece").nth(20)).to_be_attached()
    page.get_by_role("link", name="← Turns").click()
    expect(page.locator('main[data-ready="turns"]')).to_be_attached()


def test_an_event_of_ten_megabytes_opens(visit: Visits, large: str) -> None:
    page = visit().go(f"#/turns/{large}", view="turn")
    page.locator(".timeline-box").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.locator(".event-json .json")).to_contain_text("response.completed", timeout=20_000)
    assert elements(page) == []


@pytest.fixture(scope="module")
def delta(site: Running, upstream: ScriptedUpstream) -> str:
    """Return a turn of which one delta has 10 MB."""
    text = "<b>\u202e wide" * (MEGABYTES * 1_000_000 // 11)
    script = streamed(chunk({"content": text}), chunk(finish="stop"), USAGE)
    return run_large(site, upstream.play("one delta", script), "Write 10 MB at once.")[0]


def test_a_delta_of_ten_megabytes_opens(visit: Visits, delta: str) -> None:
    page = visit().go(f"#/turns/{delta}", view="turn")
    page.get_by_role("option").filter(has_text="output_text.delta").click()
    expect(page.locator(".event-json .json")).to_contain_text("delta: ")
    assert page.locator(".event-json").evaluate("(each) => each.textContent.length") < 30_000
    expect(page.locator(".item.is-message .prose")).to_contain_text("<b>")
    assert elements(page) == []


VIEWS = {
    "#/turns?search=%3Cimg": "turns",
    "#/threads": "threads",
    "#/dashboard?range=1h": "dashboard",
    "#/dashboard?range=24h&by=target": "dashboard",
    "#/setup": "setup",
    "#/turns/%3Cimg%20src=x%3E": "turn",
    "#/threads/%3Cscript%3E": "threads",
    "#/rules/%3Cscript%3Ealert(1)%3C%2Fscript%3E": "rules",
    "#/%3Cimg%20src=x%20onerror=alert(1)%3E": "",
}


@pytest.fixture(scope="module")
def failed(site: Running, upstream: ScriptedUpstream, hostile: Reply) -> tuple[str, str]:
    """Return a turn whose upstream fails with a hostile message and code, and one that continues a turn."""
    error: Json = {"error": {"message": f"{HTML} {CONTROLS} {MARKDOWN}", "code": HTML, "type": CONTROLS}}
    script = streamed(chunk({"content": HOSTILE}), error)
    broken = site.stream(upstream.play("<script>alert(8)</script>", script), HOSTILE)
    more = streamed(chunk({"content": HOSTILE}), chunk(finish="stop"), USAGE)
    model = upstream.play("<svg onload=alert(9)>", more)
    output = {"type": "function_call_output", "call_id": "call_<b>1", "output": HOSTILE}
    body = {"model": model, "input": [output], "previous_response_id": hostile.last["id"], "store": True}
    return broken.last["id"], site.ask(body).json["id"]


def clean(page: Page) -> None:
    shown = page.locator("body").inner_text() + page.title()
    assert [each for each in "\x1b\x00\x07\u202e\u200b\u2066" if each in shown] == []
    names = page.evaluate(
        "[...document.querySelectorAll('[title], [aria-label], option')]"
        ".map((each) => `${each.title} ${each.ariaLabel} ${each.text}`).join()"
    )
    assert [each for each in "\x1b\x00\x07\u202e\u2066" if each in names] == []


@pytest.mark.usefixtures("failed")
@pytest.mark.parametrize("place", VIEWS)
def test_names_and_addresses_are_text_in_every_view(visit: Visits, place: str) -> None:
    tab = visit()
    page = tab.go(place)
    expect(page.locator("main[data-ready]")).to_be_attached()
    markup = [each for each in elements(page) if not each.startswith("<svg")]  # charts
    assert markup == []
    clean(page)


def test_a_hostile_failure_and_a_hostile_thread_are_text(visit: Visits, failed: tuple[str, str]) -> None:
    broken, continued = failed
    tab = visit()
    page = tab.go(f"#/turns/{broken}", view="turn")
    expect(page.locator(".upstream-words")).to_contain_text("<img src=")
    assert elements(page) == []
    clean(page)
    page = tab.go(f"#/threads/{continued}", view="threads")
    expect(page.locator(".thread-turn")).to_have_count(2)
    expect(page.locator(".thread")).to_contain_text("tool result: <img src=")
    assert [each for each in elements(page) if not each.startswith('<svg class="rail"')] == []
    clean(page)
