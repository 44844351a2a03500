"""CPU time of `penstock --help`, compared with an empty Python program: `python -m bench.startup`.

The fastest of many runs counts, because a busy machine only makes a run slower. The commands take turns, so
that a busy moment affects all of them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

RUNS = 20
BUDGET_MS = 150
RESULT = Path(__file__).parent / "results" / "startup.json"
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
BARE = [sys.executable, "-c", "pass"]
COMMANDS = {
    "penstock --help": [PENSTOCK, "--help"],
    "penstock check --help": [PENSTOCK, "check", "--help"],
}


def cpu_ms(command: list[str]) -> float:
    """Return user and system time of one run in milliseconds."""
    # Use compiled files like any installation, even if this shell disables writing them.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> int:
    bare = float("inf")
    best = dict.fromkeys(COMMANDS, float("inf"))
    for _ in range(RUNS):
        bare = min(bare, cpu_ms(BARE))
        for name, command in COMMANDS.items():
            best[name] = min(best[name], cpu_ms(command))
    result = {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "runs": RUNS,
        "budget_ms_over_bare": BUDGET_MS,
        "commands": {
            name: {"ms_over_bare": round(cost - bare, 1), "times_bare": round(cost / bare, 2)}
            for name, cost in best.items()
        },
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    print(f"CPU time over a bare interpreter ({bare:.1f} ms), smallest of {RUNS} runs; budget {BUDGET_MS} ms")
    for name, cost in best.items():
        print(f"  {name:<24} {cost - bare:6.1f} ms")
    return 0 if max(best.values()) - bare < BUDGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
