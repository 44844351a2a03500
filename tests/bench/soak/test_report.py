"""The page about the soak says what the stored result says."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bench.report import with_parts
from bench.soak.report import SITES, Soak, page_parts
from bench.soak.run import Result, schedule_of
from bench.soak.trend import trend

from bench.soak import report


def soak(*problems: str) -> Soak:
    samples = [(float(at), 100.0 + at / 1000) for at in range(0, 3600, 10)]
    sites = [
        Result(
            name=name,
            seconds=3600,
            counts={"turns": 1200},
            faults={"disk full": 3},
            totals={"turns in the ledger": 1234},
            trends={"rss_mib": trend(samples)},
            types={},
            before=dict.fromkeys(report.TITLES, 4.0),
            after=dict.fromkeys(report.TITLES, 5.0),
            samples={"rss_mib": samples},
            problems=[*problems],
        )
        for name in SITES
    ]
    return Soak(
        date="2026-01-01",
        commit="0123456789abcdef",
        version="1.0",
        machine="2 cores",
        load_average=1.0,
        plan=schedule_of(60, "7"),
        clients=10,
        sites=sites,
    )


def test_the_page_has_levels_growth_and_counts() -> None:
    page = page_parts(soak())["soak"]
    assert "2,468 turns" in page
    assert "seed 7" in page
    assert "Nothing grew" in page
    assert "| memory, MiB (resident) | SQLite, one process | 102 | +3.6 (+3.5%) | +5.1 |" in page
    assert "| open files and connections | SQLite, one process | 4 | 5 |" in page
    assert "| disk full | 3 | 3 |" in page


def test_problems_and_notes_are_shown() -> None:
    found = soak("it leaks")
    found.notes.append("A worker was slow.")
    page = page_parts(found)["soak"]
    assert "\n\nA worker was slow.\n\n" in page
    assert "The run found problems." in page
    assert "- sqlite: it leaks" in page


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    report.save(soak("it leaks"), tmp_path / "soak.json")
    assert report.stored(tmp_path / "soak.json") == soak("it leaks")
    assert report.stored(tmp_path / "none.json") is None


def test_the_chart_is_a_picture_with_a_panel_for_each_series() -> None:
    drawn = ElementTree.fromstring(report.chart(soak()))
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert set(SITES.values()) < set(texts)
    assert {report.TITLES[name] for name in report.CHARTED} < set(texts)


def test_the_page_and_the_chart_are_those_of_the_stored_result() -> None:
    stored = report.stored()
    assert stored is not None
    page = report.PAGE.read_text()
    assert page == with_parts(page, page_parts(stored)), "run: python -m bench.soak --publish"
    assert report.CHART.read_text() == report.chart(stored)
