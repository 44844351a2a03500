"""All benchmarks, with one table at the end: `python -m bench`, or `make bench`.

`--quick` takes less than two minutes: fewer rounds, no agentic-api, no benchmarks of single parts, and no
change to docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from bench import layers, report
from bench.figures import HEADINGS, Figure, as_text, rows
from bench.lab import instruments, servers
from bench.lab.instruments import LabError
from bench.scenarios import SCENARIOS, Sitting

PARTS = (
    "core",
    "chunks",
    "dialects",
    "request_cost",
    "consumer",
    "tokens",
    "startup",
    "first_answer",
    "store",
)
"""Benchmarks of single parts, which run in processes of their own and write their own results."""
SLOW = {"dropped", "flat"}
"""Scenarios that `--quick` leaves out: with few streams they show nothing."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="take less than two minutes")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--save", default="lab", metavar="NAME", help="the name of the result (default: lab)")
    return parser.parse_args()


def open_sitting(stack: ExitStack, quick: bool) -> Sitting:
    """Start the upstream and the servers."""
    instruments.build()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    upstream = stack.enter_context(instruments.upstream())
    ours = stack.enter_context(servers.gateway(folder, upstream))
    lines = {"penstock": ours, "floor": stack.enter_context(servers.floor(folder, upstream))}
    sitting = Sitting(folder, upstream, lines)
    if quick:
        sitting = replace(
            sitting, quick=True, rounds=2, paced_rounds=1, seconds=0.5, paced_chunks=100, lag_steps=(320,)
        )
    else:
        try:
            lines["agentic"] = stack.enter_context(servers.agentic(folder, upstream))
        except LabError as error:
            sitting.notes.append(str(error))
    if not instruments.has_priorities():
        sitting.notes.append("without real-time priorities: other programs delay the paced streams")
    return sitting


def run(sitting: Sitting, names: list[str]) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        began = monotonic()
        try:
            figures += SCENARIOS[name](sitting)
        except (LabError, RuntimeError) as error:
            sitting.notes.append(f"{name} failed: {error}")
        print(f"{name}: {monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return figures


def run_parts(notes: list[str]) -> None:
    for name in PARTS:
        if find_spec(f"bench.{name}") is None:
            continue
        print(f"\n{name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode:
            notes.append(f"bench.{name} reports that a limit was exceeded")


def main() -> int:
    options = arguments()
    load = os.getloadavg()[0]
    names = options.only or [name for name in SCENARIOS if not (options.quick and name in SLOW)]
    try:
        with ExitStack() as stack:
            sitting = open_sitting(stack, options.quick)
            figures = run(sitting, names)
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    is_complete = not options.quick and not options.only
    if is_complete:
        run_parts(sitting.notes)
    result = report.Result(
        date=datetime.now(UTC).date().isoformat(),
        machine=report.machine(),
        rounds=sitting.rounds,
        load_average=(load, os.getloadavg()[0]),
        figures=figures,
        lags=sitting.lags,
        layers=layers.measured(),
        system_share=sitting.system_share,
        notes=sitting.notes,
    )
    report.save(result, (report.RESULTS if is_complete else instruments.BUILD) / f"{options.save}.json")
    if is_complete:
        report.publish()
    print("\n" + as_text(HEADINGS, rows(figures)))
    print("\n" + as_text(layers.HEADINGS, layers.rows(result.layers, result.by_key, result.system_share)))
    print("".join(f"\nnote: {note}" for note in sitting.notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
