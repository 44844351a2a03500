"""A long run under mixed load and random faults: `python -m bench.soak`, or `make soak`.

A gateway on SQLite, and two workers on PostgreSQL with Redis, get turns of every kind for an hour while
upstreams, clients and stores fail. At the end nothing may have grown, and every count must be right. The
result is in `bench/results/soak.json` and docs/soak.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
from pathlib import Path

from bench.soak.report import RESULT, publish, save, soak_of
from bench.soak.run import PAUSE, Result, run_all, schedule_of
from bench.soak.sites import SITES

WHOLE = 60
"""Minutes of a run whose result is kept."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="only write the page, from the stored result")
    parser.add_argument("--minutes", type=float, default=60, help="how long the load lasts (default: 60)")
    parser.add_argument("--seed", default=f"{random.randrange(10**6)}", help="of all that is random")
    parser.add_argument("--sites", nargs="+", choices=SITES, default=[*SITES], help="default: all")
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds between two actions of a client")
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="where the result is written (default: the page, if it is an hour)",
    )
    parser.add_argument("--folder", type=Path, help="where logs and stores are kept (default: nowhere)")
    return parser.parse_args()


def show(results: list[Result]) -> None:
    for result in results:
        print(f"\n{result.name}: {result.seconds:.0f} seconds")
        for title in ("counts", "faults", "totals", "types", "before", "after"):
            found = ", ".join(f"{value} {name}" for name, value in getattr(result, title).items())
            print(f"  {title}: {found}")
        for name, each in result.trends.items():
            print(
                f"  {name}: level {each.level:.1f}, {each.per_hour:+.2f} per hour, growth {each.growth:+.2f}"
            )
        for problem in result.problems:
            print(f"  problem: {problem}")
        print(f"  {'passed' if result.is_passed else 'FAILED'}")


def main() -> int:
    options = arguments()
    if options.publish:
        publish()
        return 0
    plan = schedule_of(options.minutes, options.seed, options.pause)
    print(
        f"seed {options.seed}, {options.minutes:g} minutes, load average {os.getloadavg()[0]:.1f}", flush=True
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        results = asyncio.run(run_all(folder, options.sites, plan))
    soak = soak_of(plan, results)
    if options.save is not None:
        save(soak, options.save)
    elif options.minutes >= WHOLE:
        save(soak, RESULT)
        publish()
    show(results)
    return 0 if soak.is_passed else 1


if __name__ == "__main__":
    sys.exit(main())
