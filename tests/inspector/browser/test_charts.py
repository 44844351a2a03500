"""Charts: round numbers at the axes, and names that somebody else chose."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.gateway.running import Running
from tests.gateway.upstream import ScriptedUpstream, said, streamed
from tests.inspector.browser.conftest import Visits

pytestmark = pytest.mark.page

HOSTILE = "<img src=x onerror=alert(1)>"


def ticks(page: Page, call: str) -> Any:
    """Return what a function of `axis.js` returns."""
    return page.evaluate(
        f"import(new URL('inspector/axis.js', document.baseURI).href).then((axis) => axis.{call})"
    )


TICKS: dict[str, Any] = {
    "valueTicks(7, 4)": [0, 2, 4, 6, 8],
    "valueTicks(1, 4, { isWhole: true })": [0, 1],
    "valueTicks(0, 4)": [0, 1],
    "valueTicks(205, 4)": [0, 100, 200, 300],
    "valueTicks(0.013, 4)": [0, 0.005, 0.01, 0.015],
    "valueTicks(50000, 4, { isDuration: true })": [0, 15_000, 30_000, 45_000, 60_000],
    "logarithmicTicks(300, 40000, 4, { isDuration: true })": [100, 1000, 10_000, 60_000],
    "logarithmicTicks(200, 200, 4, { isDuration: true })": [100, 200, 500],
    "logarithmicTicks(3, 40, 4)": [2, 5, 10, 20, 50],
    "timeTicks(1_795_003_200, 1_795_003_200 + 86400, 8).length": 9,
    "dayTicks([1, 2, 3, 4, 5], 3)": [1, 3, 5],
    "dayLabel(1_795_003_200)": "18 Nov",
}


def test_ticks_are_at_round_numbers(visit: Visits) -> None:
    page = visit().go("#/setup", view="setup")
    assert {call: ticks(page, call) for call in TICKS} == TICKS


def test_the_name_of_a_model_is_text(visit: Visits, site: Running, upstream: ScriptedUpstream) -> None:
    site.stream(upstream.play(HOSTILE, streamed(*said("Hello!"))))
    page = visit().go("#/dashboard", view="dashboard")
    expect(page.locator(".chart-key").first).to_contain_text(HOSTILE)
    expect(page.locator(".group-table tbody th")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
