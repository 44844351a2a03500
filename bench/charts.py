"""Small charts as SVG, written by hand: readable on light and on dark pages, without scripts or fonts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

SITES = ("#2a78d6", "#eb6834")
COLOURS = {"penstock": "#2a78d6", "before": "#8a94a3", "floor": "#1baf7a", "agentic": "#eb6834"}
"""One colour per line, with enough contrast to white and to black; every mark is also labelled."""
STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:13px}"
    ".faint{fill:#59636e}.axis{stroke:#8a94a3;stroke-width:1}.limit{stroke:#d1242f;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}}</style>"
)
WIDTH = 640
LEFT = 190
"""Where the bars begin."""
BAR, GAP, GROUP = 15, 3, 24


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img"'
    named = f' aria-label="{escape(title)}" width="{WIDTH}" height="{height:g}">'
    heading = _text(0, 14, title, "title")
    return "\n".join([head + named, STYLE, heading, *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named} text-anchor="{anchor}">{escape(text)}</text>'


def bars(title: str, groups: Mapping[str, Mapping[str, float]], names: Mapping[str, str]) -> str:
    """Horizontal bars: groups of lines, each group with a scale of its own, because their units differ."""
    parts, y = [], 34.0
    for group, values in groups.items():
        parts.append(_text(0, y + 4, group, "faint"))
        y += 12
        largest = max(values.values(), default=0) or 1
        for line, value in values.items():
            length = max(1.0, (WIDTH - LEFT - 60) * value / largest)
            colour = COLOURS.get(line, COLOURS["before"])
            parts += [
                _text(LEFT - 8, y + BAR - 3, names.get(line, line), anchor="end"),
                f'<rect x="{LEFT}" y="{y:g}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
                _text(LEFT + length + 6, y + BAR - 3, f"{value:.3g}"),
            ]
            y += BAR + GAP
        y += GROUP
    return _svg(y - 10, title, parts)


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    names: Mapping[str, str],
    *,
    limit: float,
    x_label: str,
    y_label: str,
) -> str:
    """Curves over a linear x and a logarithmic y in powers of ten, with a dashed limit."""
    top, bottom, left, right = 44.0, 220.0, 48.0, WIDTH - 130.0
    points = [point for each in series.values() for point in each if point[1] > 0]
    most_x = max((x for x, _ in points), default=1)
    decades = [10.0**power for power in range(-1, 5)]
    most_y = next((step for step in decades if step >= max((y for _, y in points), default=1)), decades[-1])
    least_y = decades[0]

    def at(x: float, y: float) -> tuple[float, float]:
        share = log10(max(y, least_y) / least_y) / log10(most_y / least_y)
        return left + (right - left) * x / most_x, bottom - (bottom - top) * min(1.0, share)

    parts = [_text(0, 34, y_label, "faint"), _text(right, bottom + 32, x_label, "faint", "end")]
    parts.append(f'<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>')
    parts += [_text(left - 6, at(0, y)[1] + 4, f"{y:g}", "faint", "end") for y in decades if y <= most_y]
    parts += [
        _text(at(x, 1)[0], bottom + 16, f"{x:g}", "faint", "middle") for x in sorted({x for x, _ in points})
    ]
    height = at(0, limit)[1]
    parts.append(f'<path class="limit" d="M{left} {height:.1f}H{right}"/>')
    for line, given in series.items():
        colour = COLOURS.get(line, COLOURS["before"])
        places = [at(x, y) for x, y in given]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    parts += _legend(series, names, right + 12, top)
    return _svg(bottom + 44, title, parts)


def panels(
    title: str,
    series: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]],
    *,
    x_label: str,
    from_x: float,
) -> str:
    """Return small charts below each other, one for each name, with a line for each side. Each has a linear
    scale of its own that begins at zero. What is left of `from_x` is shaded."""
    left, right, height, gap = 60.0, WIDTH - 150.0, 56.0, 26.0
    sides = [*dict.fromkeys(side for each in series.values() for side in each)]
    most_x = max((x for each in series.values() for some in each.values() for x, _ in some), default=1) or 1
    parts, top = [], 40.0
    for name, lines_of in series.items():
        bottom = top + height
        most = max((y for some in lines_of.values() for _, y in some), default=1) or 1
        shaded = left + (right - left) * min(1.0, from_x / most_x)
        parts += [
            f'<path fill="#8a94a3" opacity="0.18" d="M{left} {top}H{shaded:.1f}V{bottom}H{left}Z"/>',
            f'<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>',
            _text(left, top - 5, name, "faint"),
            _text(left - 6, top + 10, f"{most:.4g}", "faint", "end"),
            _text(left - 6, bottom, "0", "faint", "end"),
        ]
        for side, points in lines_of.items():
            path = " ".join(
                f"{left + (right - left) * x / most_x:.1f},{bottom - height * y / most:.1f}"
                for x, y in points
            )
            colour = SITES[sides.index(side) % len(SITES)]
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        top = bottom + gap
    parts.append(_text(right, top - gap + 16, x_label, "faint", "end"))
    parts += _key({side: SITES[place % len(SITES)] for place, side in enumerate(sides)}, right + 12, 40.0)
    return _svg(top + 4, title, parts)


def _legend(series: Mapping[str, object], names: Mapping[str, str], x: float, y: float) -> list[str]:
    return _key({names.get(line, line): COLOURS.get(line, COLOURS["before"]) for line in series}, x, y)


def _key(colours: Mapping[str, str], x: float, y: float) -> list[str]:
    """Return which colour stands for what."""
    parts = []
    for place, (name, colour) in enumerate(colours.items()):
        height = y + 18 * place
        parts.append(f'<rect x="{x}" y="{height}" width="10" height="10" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 15, height + 9, name))
    return parts
