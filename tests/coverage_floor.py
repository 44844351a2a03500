"""Fail if a package has too little test coverage. `make covered` runs this after `pytest --cov`."""

from __future__ import annotations

import sys
from pathlib import Path

import coverage

FLOOR = 95.0
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "penstock"
EXEMPT = ("__init__.py", "__main__.py", "cli")
"""The command line is tested in separate processes."""
WITH_SERVERS = (PACKAGE / "store" / "postgres", PACKAGE / "store" / "redis_bus.py")
"""Tested with real servers (`make e2e-store`): rows of their own, without a floor where those are not
installed, so that their tests were skipped."""
LEAST_RUN = 80.0
"""Percent of a part that at least runs if its tests were not skipped."""


def measure(data: coverage.Coverage, package: Path) -> tuple[int, int]:
    """Return the number of statements in a package and how many ran. A file that no test imported counts."""
    statements = missed = 0
    for file in [package] if package.suffix == ".py" else sorted(package.rglob("*.py")):
        if package not in WITH_SERVERS and any(file.is_relative_to(each) for each in WITH_SERVERS):
            continue
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
    print(f"{'package':<16} {'lines':>6} {'run':>6} {'percent':>8}   floor {FLOOR:g}")
    for path in sorted((*PACKAGE.iterdir(), *WITH_SERVERS)):
        if path.name in EXEMPT or not (path.suffix == ".py" or (path / "__init__.py").is_file()):
            continue
        statements, reached = measure(data, path)
        percent = 100.0 * reached / statements if statements else 100.0
        is_skipped = path in WITH_SERVERS and percent < LEAST_RUN
        below = percent < FLOOR and not is_skipped
        low = low or below
        note = "   below the floor" if below else ""
        if is_skipped:
            note = "   not measured: its server is missing"
        print(f"{path.name:<16} {statements:>6} {reached:>6} {percent:>8.2f}{note}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
