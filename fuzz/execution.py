"""Run a target with one input, and say what happened: the code it reached, its work, its failure."""

from __future__ import annotations

import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from fuzz.instrument import HITS
from fuzz.target import Target

TICK = 1.0
"""Seconds between two looks at how long an execution takes."""
TIMEOUT = 20
"""Ticks. Only what is not counted as work takes as long."""
MOST_WORK = 20_000_000
"""Branches after which an execution is stopped: something does not end."""

_ROOT = Path(__file__).parent.parent
_OURS = (str(_ROOT / "src"), str(_ROOT / "fuzz" / "targets"))
BUCKETS = 6
"""Orders of magnitude of how often a branch is reached."""


class TooSlow(KeyboardInterrupt):
    """An execution took too long."""


class Failure(Struct, frozen=True):
    """`signature` is the same for failures that probably have the same cause."""

    signature: str
    report: str


class Outcome(Struct, frozen=True):
    """`features` are the branches that were reached, each with how often, as an order of magnitude."""

    features: frozenset[int]
    work: int
    failure: Failure | None


def execute(target: Target, data: bytes) -> Outcome:
    HITS.clear()
    failure = None
    with _limited():
        try:
            target.run(data)
        except (Exception, TooSlow) as error:
            failure = failure_of(error)
    counts, work = Counter(HITS), len(HITS)
    HITS.clear()
    if failure is None and work > target.base_work + target.work_per_byte * len(data):
        message = f"{work:,} branches for {len(data):,} bytes; most often: {_most_frequent(counts)}"
        failure = Failure("TooMuchWork", f"TooMuchWork: {message}")
    features = frozenset(
        branch * BUCKETS + min(count.bit_length() // 2, BUCKETS - 1) for branch, count in counts.items()
    )
    return Outcome(features, work, failure)


def _most_frequent(counts: Counter[int]) -> str:
    return ", ".join(f"branch {branch} {count:,} times" for branch, count in counts.most_common(3))


@contextmanager
def _limited() -> Iterator[None]:
    """Raise `TooSlow` in what runs for too long, or does too much."""
    ticks = 0

    def tick(*_: object) -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= TIMEOUT or len(HITS) > MOST_WORK:
            HITS.clear()
            raise TooSlow(f"stopped after {ticks * TICK:.0f} seconds")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def failure_of(error: BaseException) -> Failure:
    """Name a failure after its type and the last place in our code, but not in helpers of the standard
    library that were called from there."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_OURS)]
    name = type(error).__name__
    if not ours or isinstance(error, TooSlow | RecursionError):
        # Where such a failure is raised is a matter of chance.
        places = [f"{Path(frame.filename).name}:{frame.name}" for frame in ours[:3]]
    else:
        places = [f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"]
    report = "".join(traceback.format_exception(error, limit=-12))
    return Failure(" ".join([name, *places]), report[-6000:])
