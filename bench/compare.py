"""Is one checkout slower than another? `python -m bench.compare PATH_A PATH_B`.

Both gateways run side by side and take turns, in several rounds and with several starts, because two
processes of the same program differ a little. A verdict needs an interval for the median of the ratios that
lies beyond the margin, so a busy machine leads to no verdict rather than to a wrong one. The exit code is 1
if B is slower.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.figures import as_text, interval, take_turns
from bench.lab import instruments, servers
from bench.lab.instruments import LabError
from bench.lab.servers import Server
from bench.scenarios import Sitting, flood, paced

MARGIN = 0.03
"""A smaller difference is not reported: it can come from the layout of the memory alone."""


def _request(sitting: Sitting, server: Server) -> float:
    run = server.load("fake-c4", "-n", 16, "-T", sitting.seconds, "-X", 30).checked()
    return run.cpu_ms / run.good


MEASURES: dict[str, tuple[str, Callable[[Sitting, Server], float]]] = {
    "flood": ("CPU ms / 1,000 chunks", flood),
    "paced": ("CPU ms / 1,000 chunks", lambda sitting, server: paced(sitting, server, 64)),
    "request": ("CPU ms / short request", _request),
}


def verdict(ratios: list[float]) -> str:
    """Judge the ratios of B to A."""
    low, _, high = interval(ratios)
    if low > 1 + MARGIN:
        return "slower"
    if high < 1 - MARGIN:
        return "faster"
    return "no clear difference"


def measure(
    checkouts: tuple[Path, Path], names: list[str], starts: int, rounds: int
) -> dict[str, list[list[float]]]:
    """Return the samples of A and of B for each measure."""
    found: dict[str, list[list[float]]] = {name: [[], []] for name in names}
    for number in range(starts):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            upstream = stack.enter_context(instruments.upstream())
            order = (0, 1) if number % 2 == 0 else (1, 0)
            sides = {
                side: stack.enter_context(
                    servers.gateway(folder, upstream, checkout=checkouts[side], name="AB"[side])
                )
                for side in order
            }
            sitting = Sitting(folder, upstream, {}, seconds=0.8, paced_chunks=100)
            for server in sides.values():  # warm
                flood(sitting, server)
            for name in names:
                calls = {str(side): partial(MEASURES[name][1], sitting, sides[side]) for side in (0, 1)}
                for side, samples in take_turns(calls, rounds).items():
                    found[name][int(side)] += samples
        print(f"start {number + 1} of {starts}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("a", type=Path, help="a checkout of Penstock")
    parser.add_argument("b", type=Path, help="another one")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--starts", type=int, default=3, help="how often both are started (default: 3)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds per start (default: 4)")
    options = parser.parse_args()
    try:
        instruments.build()
        checkouts = (options.a.resolve(), options.b.resolve())
        found = measure(checkouts, options.only, options.starts, options.rounds)
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    table, is_slower = [], False
    for name, (a, b) in found.items():
        ratios = [other / one for one, other in zip(a, b, strict=True)]
        low, middle, high = interval(ratios)
        judged = verdict(ratios)
        is_slower |= judged == "slower"
        numbers = (f"{min(a):.2f}", f"{min(b):.2f}", f"{middle:.2f}", f"{low:.2f} to {high:.2f}")
        table.append((name, MEASURES[name][0], *numbers, judged))
    print(as_text(("measure", "unit", "A", "B", "B / A", "95 % interval", "B is"), table))
    return int(is_slower)


if __name__ == "__main__":
    sys.exit(main())
