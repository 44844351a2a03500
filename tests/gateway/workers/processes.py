"""What tests see of the workers of a gateway: their processes, and who answers."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.gateway.running import Running
from tests.gateway.telemetry.prometheus import parse


def workers_of(running: Running) -> list[int]:
    """The ids of the worker processes."""
    return children_of(running.process.pid)


def children_of(pid: int) -> list[int]:
    """Return the workers among the children of a process. The process of a test has others as well."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # threads come and go
            found += map(int, (task / "children").read_text().split())
    return sorted(filter(_is_worker, found))


def _is_worker(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"\0-P\0-m\0penstock\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may still be waited for by its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def end(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def answered_by(running: Running) -> set[int]:
    """The numbers of the workers that have served turns."""
    return {line["worker"] for line in running.log if line.get("event") == "turn"}


def sums(running: Running) -> dict[str, float]:
    """The metrics without labels."""
    text = running.ask(path="/metrics", method="GET").body
    return {name: value for (name, labels), value in parse(text).items() if not labels}


def turns_counted(running: Running) -> float:
    text = running.ask(path="/metrics", method="GET").body
    return sum(value for (name, _), value in parse(text).items() if name == "penstock_turns_total")
