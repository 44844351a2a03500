"""What a timeline says: silences, heartbeats, broken rules, the legend and what is under the pointer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.running import Reply, Running
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE

pytestmark = pytest.mark.page

_MODEL = """async ([turn, now, question]) => {
    const { TimelineModel } = await import(new URL("inspector/timeline_model.js", document.baseURI).href);
    const model = new TimelineModel(turn);
    model.now = now;
    if (question === "silences") return model.silences().map(({ begin, end }) => [begin, end]);
    return model.rows.filter((row) => row.marks.length).map((row) => row.kind);
}"""
TYPES = ["response.created", "response.in_progress", "response.output_text.delta"]


@pytest.fixture(scope="module")
def broken(site: Running) -> Reply:
    return site.stream("demo", "Break off.")


@pytest.fixture
def page(visit: Visits) -> Page:
    return visit().go("#/setup", view="setup")


def running_turn(
    reads: list[float], events: list[tuple[float, int]], *, is_running: bool = True, **more: Any
) -> dict[str, Any]:
    """Return a turn with one attempt. `events`: times and types."""
    return {
        "is_running": is_running,
        "attempts": [{"target": "demo", "model": "demo", "sent_ms": 0, "answered_ms": 5, "ended_ms": None}],
        "reads": {"at_ms": reads, "size": [10] * len(reads)},
        "lanes": [
            {"output_index": 0, "item_id": "", "type": "message", "name": "", "added_ms": 0, "done_ms": None}
        ],
        "events": {
            "types": TYPES,
            "sequence": list(range(len(events))),
            "at_ms": [at for at, _ in events],
            "type": [type for _, type in events],
            "lane": [0 if type == 2 else -1 for _, type in events],
            "size": [10] * len(events),
        },
        **more,
    }


@pytest.mark.parametrize(
    ("reads", "events", "silences"),
    [
        pytest.param([], [(5, 0), (6, 1)], [], id="nothing is known of the upstream yet"),
        pytest.param([], [(5, 0), (900, 2), (1900, 2)], [[1900, 4000]], id="its reads are not known yet"),
        pytest.param([1], [(5, 0), (900, 2), (3900, 2)], [], id="events are newer than the last known read"),
        pytest.param([1, 900], [(5, 0), (901, 2), (2000, 1)], [[1, 900], [901, 4000]], id="only heartbeats"),
        pytest.param([1, 900, 3800], [(5, 0), (901, 2)], [[1, 900], [900, 3800]], id="reads, no events"),
    ],
)
def test_the_silence_of_a_running_turn_begins_after_the_newest_sign_of_life(
    page: Page, reads: list[float], events: list[tuple[float, int]], silences: list[list[float]]
) -> None:
    assert page.evaluate(_MODEL, [running_turn(reads, events), 4000, "silences"]) == silences


def test_a_missing_end_is_a_mark_of_the_response(page: Page) -> None:
    missing = {"rule": "terminal.missing", "sequence": None}
    turn = running_turn([1], [(5, 0), (9, 2)], is_running=False, violations=[missing])
    assert page.evaluate(_MODEL, [turn, 0, "marks"]) == ["response"]


def test_what_is_under_the_pointer_is_readable_in_every_lane(visit: Visits, broken: Reply) -> None:
    page = visit().go(f"#/turns/{broken.last['id']}", view="turn")
    box = page.locator(".timeline canvas").bounding_box()
    assert box is not None
    tip = page.locator(".timeline-tip")
    for lane in range(round((box["height"] - 24) / 28)):
        page.mouse.move(box["x"] + 30, box["y"] + 24 + 28 * lane + 14)
        expect(tip).to_be_in_viewport(ratio=1)


def test_the_legend_has_only_what_is_drawn(visit: Visits, site: Running, broken: Reply) -> None:
    tab = visit()
    page = tab.go(f"#/turns/{broken.last['id']}", view="turn")
    legend = page.locator(".timeline-legend")
    expect(legend.get_by_text("failure")).to_be_visible()
    expect(legend.get_by_text("broken rule")).to_be_hidden()
    fine = site.stream("demo", "Hello!")
    page = tab.go(f"#/turns/{fine.last['id']}", view="turn")
    expect(legend.get_by_text("event", exact=True)).to_be_visible()
    expect(legend.get_by_text("failure")).to_be_hidden()
    expect(legend.get_by_text("heartbeat")).to_be_hidden()


def test_a_phone_gets_no_hint_about_keys_and_wheels(visit: Visits, broken: Reply) -> None:
    page = visit(size=PHONE).go(f"#/turns/{broken.last['id']}", view="turn")
    expect(page.locator(".timeline-legend")).to_be_visible()
    expect(page.get_by_text("Ctrl and wheel")).to_be_hidden()


def test_symbols_that_would_hide_each_other_are_drawn_once(visit: Visits, tmp_path: Path) -> None:
    """Thousands of heartbeats, failures and kinds of events, as no real stream has."""
    count = 20_000
    lines = [json.dumps({"type": "response.in_progress", "sequence_number": at}) for at in range(count)]
    lines += [json.dumps({"type": "response.failed", "sequence_number": count + at}) for at in range(count)]
    lines += [json.dumps({"type": f"response.kind_{at}"}) for at in range(count)]
    file = tmp_path / "many.ndjson"
    file.write_text("\n".join(lines))
    page = visit().go("#/check", view="check")
    page.locator("#check-file").set_input_files(file)
    expect(page.locator(".timeline-bar")).to_contain_text("events by position")
    canvas = page.locator(".timeline canvas")
    expect(canvas).to_have_attribute("data-symbols", re.compile("[1-9]"))
    width = page.locator(".timeline-box").evaluate("(box) => box.clientWidth")
    assert int(canvas.get_attribute("data-symbols") or 0) <= width


def test_events_of_a_phone_have_one_line_each(visit: Visits, broken: Reply) -> None:
    page = visit(size=PHONE).go(f"#/turns/{broken.last['id']}", view="turn")
    rows = page.get_by_role("listbox", name="Events").get_by_role("option")
    expect(rows.filter(has_text="upstream_truncated").first).to_be_attached()
    heights = rows.evaluate_all(
        """(rows) => rows.map((row) => [...row.children].filter((cell) => cell.getClientRects().length)
            .map((cell) => cell.getBoundingClientRect().top))
            .map((tops) => Math.max(...tops) - Math.min(...tops))"""
    )
    assert max(heights) < 4
