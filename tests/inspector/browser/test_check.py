"""Check a file: recorded streams are drawn and checked, and those of other APIs translated."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import Running, judge_stream
from tests.gateway.upstream import frames
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme, Visit

pytestmark = pytest.mark.page

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe \x1b[31m"
CHAT = frames(chat_chunk({"content": "Hello"}), chat_chunk({"content": " there"}), chat_chunk(finish="stop"))


@pytest.fixture(scope="module")
def lawful(site: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the recording of a lawful stream."""
    file = tmp_path_factory.mktemp("files") / "lawful.sse"
    file.write_bytes(site.stream("demo", "Think about it, then count from 1 to 9.").body)
    return file


@pytest.fixture(scope="module")
def broken(lawful: Path) -> Path:
    """Return a recording with a missing event, an event that is not JSON, a wrong index and no end."""
    parts = lawful.read_text().split("\n\n")
    del parts[10]
    parts[14] = parts[14].replace('"output_index":0', '"output_index":7')
    parts[20] = f'data: {{"type": "response.output_text.delta", {HOSTILE}'
    file = lawful.with_name("broken.sse")
    file.write_text("\n\n".join(parts[:-3]) + "\n\n")
    return file


def choose(tab: Visit, file: Path) -> Page:
    page = tab.go("#/check", view="check")
    page.locator("#check-file").set_input_files(file)
    return page


def test_a_lawful_file_is_drawn_and_called_lawful(visit: Visits, lawful: Path) -> None:
    page = choose(visit(), lawful)
    expect(page.locator(".check-head")).to_contain_text("no rule is broken")
    expect(page.locator(".check-side")).to_contain_text("1, 2, 3, 4, 5, 6, 7, 8, 9")
    assert page.locator(".broken-rules").count() == 0
    events = lawful.read_text().count("\n\n") - 1
    expect(page.locator(".timeline-bar")).to_contain_text(f"{events} events")


def test_a_dropped_file_shows_its_broken_rules_and_their_events(visit: Visits, broken: Path) -> None:
    tab = visit()
    page = tab.go("#/check", view="check")
    expect(page.locator(".drop")).to_contain_text("sent to this gateway only")
    transfer = page.evaluate_handle(
        """(text) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], "broken.sse"));
            return transfer;
        }""",
        broken.read_text(),
    )
    page.locator("header.top").dispatch_event("drop", {"dataTransfer": transfer})  # anywhere on the page
    rules = page.locator(".broken-rules li")
    expect(rules.filter(has_text="sequence.step").first).to_be_visible()
    wrong = rules.filter(has_text="item.index-changed")
    wrong.get_by_role("button").click()
    detail = page.locator(".event-detail")
    expect(detail).to_contain_text("item.index-changed")
    expect(detail).to_contain_text("output_index: 7")
    tab.picture("check-broken")


def test_an_event_that_is_not_json_is_shown_as_text(visit: Visits, broken: Path) -> None:
    page = choose(visit(), broken)
    page.locator(".broken-rules li").filter(has_text="transport.json").get_by_role("button").click()
    detail = page.locator(".event-detail")
    expect(detail).to_contain_text("<img src=x onerror=alert(1)>")
    expect(detail.locator(".mark").first).to_have_text("RLO")
    assert page.locator("main img").count() == 0


def test_a_recording_of_another_api_is_recognised_and_translated(visit: Visits, tmp_path: Path) -> None:
    file = tmp_path / "chat.sse"
    file.write_bytes(CHAT)
    tab = visit()
    page = choose(tab, file)
    expect(page.locator(".check-head")).to_contain_text("Chat Completions")
    page.get_by_role("button", name="Translate and check").click()
    expect(page.locator(".check-head")).to_contain_text("no rule is broken")
    expect(page.locator(".check-side")).to_contain_text("Hello there")
    tab.picture("check-translated")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the translation").click()
    assert download.value.suggested_filename == "chat.openresponses.sse"
    events = judge_stream(download.value.path().read_bytes())
    assert events[-1]["type"] == "response.completed"


def test_a_broken_stream_is_repaired_and_downloaded(visit: Visits, broken: Path) -> None:
    tab = visit()
    page = choose(tab, broken)
    with page.expect_download() as download:
        page.get_by_role("button", name="Repair and download").click()
    assert download.value.suggested_filename == "broken.repaired.sse"
    judge_stream(download.value.path().read_bytes())
    expect(page.locator(".translated")).to_contain_text("Repaired")
    expect(page.locator(".translated")).to_contain_text("It ends as failed")
    expect(page.locator(".check-head")).to_contain_text("no rule is broken")
    tab.picture("check-repaired")
    page.get_by_role("button", name="Back to the broken rules").click()
    expect(page.locator(".check-head")).to_contain_text("broken.sse")
    expect(page.locator(".broken-rules")).to_contain_text("item.index-changed")


def test_a_broken_rule_leads_to_its_page_and_back(visit: Visits, broken: Path) -> None:
    tab = visit()
    page = choose(tab, broken)
    rule = page.locator(".broken-rules li").filter(has_text="item.index-changed").first
    rule.get_by_role("link", name="About this rule").click()
    tab.ready("rules")
    expect(page.locator("h1")).to_have_text("Rule item.index-changed")
    page.go_back()
    tab.ready("check")
    expect(rule).to_be_visible()
    with page.expect_download():
        page.get_by_role("button", name="Repair and download").click()


def test_what_the_tested_clients_tolerate_is_counted_and_hidden(visit: Visits, lawful: Path) -> None:
    file = lawful.with_name("tolerated.sse")
    file.write_text(lawful.read_text().replace("data: [DONE]\n\n", ""))
    page = choose(visit(), file)
    expect(page.locator(".check-head")).to_contain_text("1 violation, all tolerated by the tested clients")
    switch = page.get_by_label("with 1 violation that the tested clients tolerate")
    switch.uncheck()
    expect(page.locator(".broken-rules")).to_contain_text("No other rule is broken.")
    expect(page.locator(".broken-rules li")).to_have_count(0)
    expect(switch).to_be_focused()
    switch.check()
    expect(page.locator(".broken-rules li")).to_contain_text("transport.done-missing")


def test_tools_that_no_file_declares_are_mentioned_once(visit: Visits, site: Running, tmp_path: Path) -> None:
    tool = {"type": "function", "name": "get_weather", "parameters": {}}
    stream = site.stream("demo", "Call get_weather, and call it twice.", tools=[tool]).body
    file = tmp_path / "called.sse"
    file.write_bytes(stream.replace(b"data: [DONE]\n\n", b""))
    page = choose(visit(), file)
    page.get_by_role("button", name="Repair and download").click()
    repaired = page.locator(".translated")
    expect(repaired).to_contain_text("does not say which tools the request offered")
    expect(repaired).not_to_contain_text("undeclared_tool")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The file is empty."),
        (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe", "Nothing to draw"),
        (HOSTILE.encode() * 1000, "Nothing to draw"),
        (b'{"hello": "world"}', "the event has no type"),
    ],
)
def test_a_file_that_is_no_stream_gets_a_sentence(
    visit: Visits, tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / f"{'x' * 60}<b>.bin"
    file.write_bytes(content)
    tab = visit()
    page = choose(tab, file)
    expect(page.locator(".check-result")).to_contain_text(sentence)
    assert page.locator("main b").count() == 0
    assert tab.too_wide() == []


def test_a_file_that_is_too_large_is_not_sent(visit: Visits, tmp_path: Path) -> None:
    file = tmp_path / "large.sse"
    with file.open("wb") as opened:
        opened.truncate(33 * 1024 * 1024)
    tab = visit()
    requests: list[str] = []
    tab.page.on("request", lambda request: requests.append(request.url))
    page = choose(tab, file)
    expect(page.locator(".check-result")).to_contain_text("Cut it to at most 32 MB")
    assert not [url for url in requests if "api/check" in url]


def test_the_keyboard_alone_is_enough(visit: Visits, broken: Path) -> None:
    tab = visit()
    tab.page.on("filechooser", lambda chooser: chooser.set_files(broken))
    page = tab.go("#/check", view="check")
    page.locator("main").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Choose a file")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator(".broken-rules")).to_be_visible()
    first = page.locator(".broken-rules").get_by_role("button").nth(1)
    first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".event-detail .hint")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_is_accessible_and_fits_a_phone(visit: Visits, broken: Path, theme: Theme) -> None:
    for tab in (visit(theme=theme), visit(theme=theme, size=PHONE)):
        tab.go("#/check", view="check")
        assert tab.accessibility() == []
        page = choose(tab, broken)
        expect(page.locator(".event-detail .hint")).to_be_visible()
        assert tab.too_wide() == []
        assert tab.accessibility() == []
        tab.picture(f"check-{theme}-{page.viewport_size['width']}", whole=True)  # type: ignore[index]
