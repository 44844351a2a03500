from __future__ import annotations

from xml.etree import ElementTree

import pytest
from bench.charts import bars, lines, panels

SVG = "{http://www.w3.org/2000/svg}"
NAMES = {"penstock": "Penstock", "floor": "the <floor>"}


def test_bars_are_proportional_and_labelled() -> None:
    drawn = ElementTree.fromstring(bars("Cost", {"flood": {"penstock": 10.0, "floor": 4.0}}, NAMES))
    widths = [float(bar.attrib["width"]) for bar in drawn.iter(f"{SVG}rect")]
    assert widths[1] / widths[0] == pytest.approx(0.4, abs=0.001)
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert texts == ["Cost", "flood", "Penstock", "10", "the <floor>", "4"]


def test_each_group_of_bars_has_its_own_scale() -> None:
    drawn = ElementTree.fromstring(bars("Cost", {"ms": {"penstock": 0.1}, "MB": {"penstock": 50.0}}, NAMES))
    widths = [bar.attrib["width"] for bar in drawn.iter(f"{SVG}rect")]
    assert widths[0] == widths[1]


def test_a_curve_rises_with_its_values_and_stays_inside() -> None:
    series = {"penstock": [(64, 0.5), (256, 5.0), (512, 40_000.0)]}
    picture = lines("Lag", series, NAMES, limit=50, x_label="streams", y_label="ms")
    drawn = ElementTree.fromstring(picture)
    places = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in drawn.iter(f"{SVG}circle")]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert all(0 < y < float(drawn.attrib["height"]) for _, y in places)


def test_charts_follow_the_colours_of_the_page() -> None:
    assert "prefers-color-scheme:dark" in bars("Cost", {}, NAMES)


def test_a_panel_shows_every_line_from_zero_inside_of_its_own_frame() -> None:
    series = {
        "MiB": {"one": [(0.0, 100.0), (60.0, 110.0)], "two": [(0.0, 50.0), (60.0, 50.0)]},
        "files": {"one": [(0.0, 3.0), (60.0, 4.0)]},
    }
    drawn = ElementTree.fromstring(panels("Soak", series, x_label="minutes", from_x=10))
    curves = [
        [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
        for line in drawn.iter(f"{SVG}polyline")
    ]
    assert len(curves) == 3
    grows, flat, files = ([y for _, y in curve] for curve in curves)
    assert grows[0] > grows[1]
    assert flat[0] == flat[1] > grows[0]
    assert max(flat) < min(files) <= max(files) < float(drawn.attrib["height"])
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"one", "two", "MiB", "files", "110", "4", "minutes"} < set(texts)
