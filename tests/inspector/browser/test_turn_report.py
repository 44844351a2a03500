"""What the page says about a turn apart from its timeline: attempts, times, broken items, verdicts."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.running import Reply, Running
from tests.inspector.browser.conftest import Visits

pytestmark = pytest.mark.page

_RUN = """async ([file, values]) => {
    const module = await import(new URL(`inspector/${file}`, document.baseURI).href);
    return (FUNCTION)(module, ...values);
}"""
ATTEMPT = {
    "target": "demo",
    "model": "demo",
    "dialect": "demo",
    "sent_ms": 0,
    "status": 429,
    "answered_ms": 5,
}


@pytest.fixture(scope="module")
def failed(site: Running) -> Reply:
    return site.stream("demo", "Answer with 40 words, and fail in the middle with rate_limit_exceeded.")


@pytest.fixture
def page(visit: Visits) -> Page:
    return visit().go("#/setup", view="setup")


def run(page: Page, file: str, function: str, *values: Any) -> Any:
    return page.evaluate(_RUN.replace("FUNCTION", function), [file, list(values)])


@pytest.mark.parametrize(
    "item",
    [
        None,
        5,
        "text",
        [],
        {"type": "reasoning", "summary": 5},
        {"type": "message", "role": 7, "content": [None]},
        {"type": "message", "content": None, "phase": {}},
        {"type": "function_call", "name": {}, "arguments": 5},
        {"type": "message", "content": [{"type": "output_text", "text": 5, "annotations": 5}]},
    ],
    ids=repr,
)
def test_an_item_that_cannot_be_drawn_does_not_hide_the_others(page: Page, item: Any) -> None:
    items = [item, {"type": "message", "role": "assistant", "content": "The others."}]
    text = run(page, "turn/output.js", "({itemList}, items) => itemList(items).textContent", items)
    assert "The others." in text


@pytest.mark.parametrize(
    ("code", "quoted"), [("rate_limit_exceeded", 1), ("upstream_truncated", 0)], ids=["upstream", "gateway"]
)
def test_the_words_of_the_upstream_stand_under_the_verdict(page: Page, code: str, quoted: int) -> None:
    attempt = {**ATTEMPT, "code": code, "message": "Slow down, please."}
    turn = {"status": "failed", "sentence": "It failed.", "attempts": [attempt]}
    read = "({verdict}, turn) => Array.from(verdict(turn).querySelectorAll('blockquote'), (q) => q.innerText)"
    assert run(page, "turn/report.js", read, turn) == ["Slow down, please."] * quoted


def test_attempts_that_only_the_verdict_knows_are_listed(page: Page) -> None:
    turn = {
        "status": "refused",
        "sentences": [],
        "diagnostics": [],
        "record": None,
        "usage": None,
        "attempts": [ATTEMPT],
        "tried": ["busy: server_is_overloaded", "slow: upstream_timeout"],
    }
    read = "({aside}, turn) => aside(turn).flat().map((each) => each?.textContent ?? '').join()"
    text = run(page, "turn/report.js", read, turn)
    assert "busy: server_is_overloaded" in text
    assert text.index("slow: upstream_timeout") < text.index("HTTP 429")


def test_times_count_from_the_request(page: Page) -> None:
    turn = {
        "begin": 100.5,
        "request_at": 100.0,
        "attempts": [ATTEMPT],
        "reads": {"at_ms": [1], "size": [9]},
        "lanes": [{"added_ms": 3, "done_ms": None}],
        "events": {"at_ms": [2], "sequence": [0]},
        "heartbeats": {"at_ms": [4]},
        "steps": [{"at": 0.25, "what": "created"}],
    }
    shown = run(page, "turn/clock.js", "({fromRequest}, turn) => fromRequest(turn)", turn)
    assert shown["begin"] == 100.0
    assert shown["attempts"][0]["sent_ms"] == 500
    assert [shown[name]["at_ms"] for name in ("reads", "events", "heartbeats")] == [[501], [502], [504]]
    assert shown["lanes"] == [{"added_ms": 503, "done_ms": None}]
    assert shown["steps"][0]["at"] == 0.75


def test_the_events_of_a_failed_turn_begin_at_its_failure(visit: Visits, failed: Reply) -> None:
    page = visit().go(f"#/turns/{failed.last['id']}", view="turn")
    events = page.get_by_role("listbox", name="Events")
    expect(events.get_by_role("option").last).to_contain_text("failed")
    expect(events.get_by_role("option").last).to_contain_text("rate_limit_exceeded")
    texts = events.locator(".event-text")
    expect(texts.first).not_to_be_empty()


def test_why_there_is_no_replay_can_be_read_with_the_keyboard(visit: Visits, site: Running) -> None:
    reply = site.stream("demo", "Hello!", store=False)
    page = visit().go(f"#/turns/{reply.last['id']}", view="turn")
    button = page.get_by_role("button", name="Replay")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".action-note")).to_contain_text("Replay: this turn is not stored")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"outcome": "completed", "diagnostics": []}, ["", ""]),
        ({"outcome": "completed", "diagnostics": ["usage_estimated"]}, ["", ""]),
        ({"outcome": "completed", "diagnostics": ["field_dropped"]}, ["completed, 1 field dropped", ""]),
        (
            {"outcome": "completed", "diagnostics": ["field_dropped", "field_dropped", "odd_arguments"]},
            ["completed, 2 fields dropped, odd arguments", ""],
        ),
        (
            {"outcome": "failed", "code": "upstream_truncated"},
            ["the upstream stopped without an end", "upstream_truncated"],
        ),
        (
            {"outcome": "refused", "code": "rate_limit_exceeded", "closer": "gateway"},
            ["the gateway’s rate limit was reached", "rate_limit_exceeded"],
        ),
        (
            {"outcome": "incomplete", "code": "max_output_tokens"},
            ["the output token limit was reached", "max_output_tokens"],
        ),
        ({"outcome": "failed", "code": "teapot"}, ["ended by the upstream", "teapot"]),
    ],
)
def test_the_verdict_of_a_row_is_half_a_sentence(
    page: Page, record: dict[str, Any], words: list[str]
) -> None:
    whole = {"ended_at": 1, "closer": "upstream", "code": "", "diagnostics": [], **record}
    assert run(page, "verdict_words.js", "({verdictWords}, record) => verdictWords(record)", whole) == words


def test_estimates_are_marked_in_the_list(page: Page) -> None:
    record = {"ended_at": 1, "input_tokens": 10, "output_tokens": 2, "cost": 0.5, "usage_estimated": True}
    read = "({tokens, costText}, record) => [tokens(record, 'input_tokens'), costText(record)]"
    assert run(page, "records.js", read, record) == ["~10", "~$0.5000"]
