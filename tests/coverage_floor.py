"""Fails when the tests reach too little of the core. `make unit` runs it after `pytest --cov`."""

from __future__ import annotations

import sys
from pathlib import Path

import coverage

FLOOR = 95.0
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "penstock"
ROOMS = (
    *("protocol", "sse.py", "stream", "tools", "dialects", "parts"),
    *("client", "models", "tokens", "provider", "store", "upstream", "gateway"),
)


def measure(data: coverage.Coverage, room: Path) -> tuple[int, int]:
    """Statements in a room, and how many of them ran. A file that no test imported counts as not reached."""
    statements = missed = 0
    for file in [room] if room.suffix == ".py" else sorted(room.rglob("*.py")):
        _, lines, _, missing, _ = data.analysis2(str(file))
        statements += len(lines)
        missed += len(missing)
    return statements, statements - missed


def main() -> int:
    data = coverage.Coverage()
    data.load()
    if not data.get_data().measured_files():
        print("no coverage data: run pytest --cov first", file=sys.stderr)
        return 2
    low = False
    print(f"{'room':<10} {'lines':>6} {'run':>6} {'percent':>8}   floor {FLOOR:g}")
    for name in ROOMS:
        statements, reached = measure(data, PACKAGE / name)
        percent = 100.0 * reached / statements if statements else 100.0
        below = percent < FLOOR
        low = low or below
        print(
            f"{name:<10} {statements:>6} {reached:>6} {percent:>8.2f}{'   below the floor' if below else ''}"
        )
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
