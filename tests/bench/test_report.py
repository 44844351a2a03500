from __future__ import annotations

import platform
from pathlib import Path

import pytest
from bench.figures import Figure, Target

from bench import report

PAGE = """intro
<!-- bench: table -->
old
<!-- end of bench -->
more
<!-- bench: layers -->
<!-- end of bench -->
end
"""


def result(cost: float) -> report.Result:
    samples = {"penstock": [cost], "floor": [4.0]}
    return report.Result(
        date="2026-01-01",
        machine="2 cores",
        rounds=5,
        load_average=(1.5, 0.5),
        figures=[Figure("flood", "flood", "ms", samples, target=Target(2.5, "floor"))],
        lags={"penstock": [(64, 1.0)]},
        layers={"decode": 1.0, "translate, many chunks per read": 2.0, "translate, one chunk per read": 3.0},
        system_share={"flood penstock": 0.5},
        notes=["TLS was not measured"],
    )


def test_only_the_text_between_markers_is_replaced() -> None:
    page = report.with_parts(PAGE, {"table": "new", "layers": "also new"})
    assert page.replace("new", "").replace("also ", "").split() == PAGE.replace("old", "").split()
    assert "<!-- bench: table -->\nnew\n<!-- end of bench -->" in page
    assert report.with_parts(page, {"table": "new", "layers": "also new"}) == page


def test_a_page_without_the_part_is_refused() -> None:
    with pytest.raises(ValueError, match="chart"):
        report.with_parts(PAGE, {"chart": "new"})


def test_the_page_has_every_part() -> None:
    report.with_parts(report.PAGE.read_text(), report.parts(None, None))


def test_before_and_after_are_compared_by_ratio() -> None:
    assert report.comparison(result(32.0), result(8.0)).splitlines()[2] == (
        "| flood | ms | 32 (8 ×) | 8 (2 ×) | ≤ 2.5 × py-raw-translate |"
    )
    assert "| 32 (8 ×) | – |" in report.comparison(result(32.0), None)


def test_a_sitting_shows_its_noise_and_its_gaps() -> None:
    text = report.sitting(result(8.0))
    assert "load average 0.5 to 1.5" in text
    assert "- TLS was not measured" in text


def test_layers_before_and_after() -> None:
    table = report.layer_table(result(32.0), result(8.0))
    assert "| flood: kernel (sockets, wake-ups) | 16 | 4 |" in table


def test_charts_show_before_and_now() -> None:
    pictures = report.pictures(result(32.0), result(8.0))
    assert pictures.keys() == {"cost.svg", "lag.svg"}
    assert all("Penstock, before" in picture for picture in pictures.values())
    assert report.pictures(None, None) == {}


def test_a_result_survives_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    report.save(result(8.0), report.RESULTS / "lab.json")
    assert report.stored("lab") == result(8.0)
    assert report.stored("before") is None


def test_the_machine_is_described_without_its_name() -> None:
    assert "Python" in report.machine()
    assert platform.node() not in report.machine()
