"""The dashboard: its numbers are those of `penstock usage`, and its charts can be read in every way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.cli.running import penstock
from tests.gateway.running import Running, gateway
from tests.inspector.browser.busy_gateway import fill_ledger
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

FIELDS = ("turns", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
Json = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def turns(site: Running) -> None:
    """Run turns that end in different ways."""
    for _ in range(3):
        site.stream("demo", "Think about it, then answer with 30 words.")
    site.stream("demo", "Answer with 20 words, and fail in the middle with rate_limit_exceeded.")
    site.stream("demo", "Break off.")
    site.whole("demo", "Fail with 429.")
    site.whole("demo", "Answer with 60 words.", max_output_tokens=16, store=False)


def usage(site: Running, by: str, since: str = "24h") -> list[Json]:
    """Return what `penstock usage` says."""
    result = penstock("usage", "--base-url", f"{site.url}/v1", "--json", "--by", by, "--since", since)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def table(page: Page) -> dict[str, dict[str, int]]:
    """Return the sums in the dashboard's table, by the names of its rows."""
    rows = page.locator(".group-table tbody tr, .group-table tfoot tr").all()
    cells = {
        row.locator("th").inner_text(): {
            field: row.locator(f"[data-field={field}]").inner_text() for field in FIELDS
        }
        for row in rows
    }
    return {
        name: {field: int(text.split()[0].replace(",", "")) for field, text in row.items()}
        for name, row in cells.items()
    }


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a gateway with a month of turns in its ledger."""
    folder = tmp_path_factory.mktemp("busy")

    fill_ledger(folder)
    with gateway(folder) as running:
        yield running


@pytest.mark.parametrize("by", ["model", "key", "target"])
def test_the_numbers_are_those_of_penstock_usage(visit: Visits, site: Running, by: str) -> None:
    page = visit().go(f"#/dashboard?by={by}", view="dashboard")
    shown = table(page)
    expected = usage(site, by)
    assert {name: row for name, row in shown.items() if name != "all"} == {
        each["group"][by]: {field: each[field] for field in FIELDS} for each in expected
    }
    assert shown["all"] == {field: sum(each[field] for each in expected) for field in FIELDS}
    times = page.locator(".group-table tfoot td").all_inner_texts()[-4:]
    assert "–" not in times
    tiles = page.locator(".tile")
    expect(tiles.nth(0).locator(".tile-value")).to_have_text(str(shown["all"]["turns"]))
    expect(tiles.nth(0)).to_contain_text(f"{shown['all']['failed']} failed")


def test_causes_of_errors_lead_to_their_turns(visit: Visits) -> None:
    tab = visit()
    page = tab.go("#/dashboard", view="dashboard")
    causes = page.locator(".ranked li")
    expect(causes.filter(has_text="rate_limit_exceeded")).to_contain_text("2")
    expect(causes.filter(has_text="upstream_truncated")).to_contain_text("1")
    tab.picture("dashboard-small")
    causes.get_by_role("link", name="upstream_truncated").click()
    tab.ready("turns")
    expect(page.locator(".turns tbody tr")).to_have_count(1)


@pytest.mark.parametrize("period", ["the last hour", "the last 7 days", "the last 30 days"])
def test_every_range_shows_the_same_turns(visit: Visits, period: str) -> None:
    page = visit().go("#/dashboard?range=24h", view="dashboard")
    before = table(page)
    page.get_by_role("radio", name=period).check(force=True)
    expect(page.locator(".as-of")).to_be_visible()
    expect(page.locator("#announcements")).to_contain_text(period)
    assert table(page) == before
    assert "range=" in page.url


def test_a_chart_is_read_by_keyboard_pointer_and_as_a_table(visit: Visits) -> None:
    page = visit().go("#/dashboard?range=1h", view="dashboard")
    chart = page.get_by_role("slider", name="Requests: move through time", exact=True)
    chart.focus()
    for _ in range(60):
        if "demo 0" not in (chart.get_attribute("aria-valuetext") or ""):
            break
        page.keyboard.press("ArrowLeft")
    count = (chart.get_attribute("aria-valuetext") or "").rpartition("demo ")[2]
    assert int(count) > 0
    expect(page.locator(".chart-readout").first).to_contain_text(count)
    page.keyboard.press("Escape")
    expect(page.locator(".chart-readout").first).to_be_hidden()
    box = chart.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    expect(page.locator(".chart-readout").first).to_be_visible()
    page.get_by_text("Numbers as a table").first.click()
    expect(page.locator(".chart table").first).to_contain_text(count)


def test_failed_requests_have_bars_of_their_own(visit: Visits, site: Running) -> None:
    page = visit().go("#/dashboard", view="dashboard")
    chart = page.get_by_role("figure", name="Requests", exact=True)
    failed = chart.get_by_role("button", name="failed")
    [row] = usage(site, "model")
    expect(failed).to_have_text(f"failed{row['failed']}")
    expect(chart.get_by_role("button", name="demo")).to_have_text(f"demo{row['turns'] - row['failed']}")
    expect(failed.locator(".series-mark")).to_have_count(1)  # a pattern, not only a colour


def test_the_marks_of_the_legend_are_those_of_the_lines(visit: Visits) -> None:
    page = visit().go("#/dashboard?range=1h", view="dashboard")
    chart = page.get_by_role("figure", name="Duration", exact=True)
    for series in range(3):
        mark = f".chart-marker.series-{series}"
        assert chart.locator(f".chart-legend {mark}").count() == 1
        assert chart.locator(f".chart-svg {mark}").count() >= 1


def test_a_series_is_hidden_and_shown(visit: Visits) -> None:
    page = visit().go("#/dashboard", view="dashboard")
    key = page.get_by_role("button", name="reasoning")
    key.click()
    expect(key).to_have_attribute("aria-pressed", "false")
    key.click()
    expect(key).to_have_attribute("aria-pressed", "true")


def test_a_new_gateway_gets_a_sentence(visit: Visits, tmp_path: Path) -> None:
    with gateway(tmp_path) as fresh:
        tab = visit(gateway=fresh)
        page = tab.go("#/dashboard", view="dashboard")
        expect(page.locator(".notice")).to_contain_text("No turn has ended in the last 24 hours")
        assert tab.accessibility() == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("period", ["24h", "7d", "30d"])
def test_a_month_of_turns_is_shown_at_a_glance(
    visit: Visits, busy: Running, theme: Theme, period: str
) -> None:
    tab = visit(gateway=busy, theme=theme)
    page = tab.go(f"#/dashboard?range={period}", view="dashboard")
    expect(page.locator(".chart-svg")).to_have_count(6)
    shown = table(page)
    assert set(shown) == {"all", "sonnet", "gpt-5.5", "qwen", "demo"}
    if period == "30d":
        month = sum(each["turns"] for each in usage(busy, "model", since="31d"))
        assert 0.9 * month < shown["all"]["turns"] <= month
    assert tab.accessibility() == []
    tab.picture(f"dashboard-{period}-{theme}", whole=True)


@pytest.mark.parametrize("theme", THEMES)
def test_the_dashboard_is_accessible_and_fits_a_phone(visit: Visits, theme: Theme) -> None:
    for tab in (visit(theme=theme), visit(theme=theme, size=PHONE)):
        page = tab.go("#/dashboard", view="dashboard")
        expect(page.locator(".chart-svg").first).to_be_visible()
        assert tab.too_wide() == []
        assert tab.accessibility() == []
        tab.picture(f"dashboard-{theme}-{page.viewport_size['width']}", whole=True)  # type: ignore[index]
