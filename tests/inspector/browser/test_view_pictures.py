"""Pictures of views for the documentation: `PENSTOCK_PICTURES=1` renews those in docs/images/."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from penstock.sse import encode_frame
from tests.gateway.running import Running, gateway
from tests.inspector.browser.busy_gateway import fill_ledger
from tests.inspector.browser.conftest import Visits

pytestmark = [
    pytest.mark.page,
    pytest.mark.skipif(not os.environ.get("PENSTOCK_PICTURES"), reason="PENSTOCK_PICTURES is not set"),
]

IMAGES = Path(__file__).parents[3] / "docs" / "images"
SIZE = (1280, 800)
MOST_BYTES = 200_000
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather at a place.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}


def keep(page: Page, name: str) -> None:
    file = IMAGES / f"inspector-{name}.png"
    page.mouse.move(0, 0)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=file, animations="disabled", caret="hide")
    assert file.stat().st_size < MOST_BYTES


def test_the_playground(visit: Visits) -> None:
    page = visit(size=SIZE).go("#/playground", view="playground")
    page.get_by_role("button", name="Breaks off without an end").click()
    expect(page.get_by_role("alert")).to_contain_text("upstream_truncated")
    page.get_by_role("option").filter(has_text="failed").click()
    expect(page.locator(".event-detail")).to_contain_text("response.failed")
    keep(page, "playground")


def test_a_checked_file(visit: Visits, site: Running, tmp_path: Path) -> None:
    stream = site.stream(
        "demo", "Think about it, then tell me the weather in Paris for 3 days.", tools=[TOOL]
    )
    file = tmp_path / "answer.sse"
    file.write_bytes(
        b"".join(encode_frame(each["type"], json.dumps(each).encode()) for each in broken(stream.events))
    )
    page = visit(size=SIZE).go("#/check", view="check")
    page.locator("#check-file").set_input_files(file)
    page.locator(".broken-rules li").filter(has_text="call.duplicate").get_by_role("button").click()
    expect(page.locator(".event-detail")).to_contain_text("call.duplicate")
    keep(page, "check")


def broken(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a stream that announces its call twice, loses a word and has no end."""
    found = [each for each in events if each["type"] != "response.completed"]
    call = [each for each in found if each.get("output_index") == 1]
    twice = json.loads(json.dumps(call).replace(call[0]["item"]["id"], "fc_7f3a"))
    lost = next(at for at, each in enumerate(found) if each.get("delta") and at > 12)
    found = [*found[:lost], *found[lost + 1 :], *deepcopy(twice)]
    for number, each in enumerate(found):
        each["sequence_number"] = number
        if number >= len(found) - len(twice):
            each["output_index"] = 2
    return found


def test_the_dashboard(visit: Visits, tmp_path: Path) -> None:
    fill_ledger(tmp_path)
    with gateway(tmp_path) as busy:
        page = visit(size=SIZE, gateway=busy).go("#/dashboard?range=7d", view="dashboard")
        expect(page.locator(".chart-svg")).to_have_count(6)
        keep(page, "dashboard")
