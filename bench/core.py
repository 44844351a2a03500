"""Benchmark of the core: `python -m bench.core`.

Two ratios, each measured in one run, because absolute times depend on the machine:

- flatness: the cost of a delta in a stream of 100,000 against one of 1,000 (at most 1.3);
- overhead: machine plus encoding of a text delta against msgspec's encoding of that event alone (at most 5).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import msgspec

from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.sse import encode_frame
from penstock.stream.checker import StreamChecker
from penstock.stream.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta
from penstock.stream.machine import ResponseStreamStateMachine

RESULTS = Path(__file__).parent / "results" / "core.json"
SHORT, LONG = 1_000, 100_000
FLATNESS_LIMIT, OVERHEAD_LIMIT = 1.3, 5.0

DELTAS: dict[str, Delta] = {
    "text": TextDelta(" word"),
    "keyed text": TextDelta(" word", block=1),
    "reasoning": ReasoningDelta(" thought"),
    "tool arguments": ToolCallDelta(key=0, arguments=" word"),
}


def started() -> ResponseStreamStateMachine:
    machine = ResponseStreamStateMachine(Response(id="resp_bench", model="m"), clock=lambda: 0)
    machine.start()
    return machine


def nanoseconds(work: Callable[[int], object], count: int, rounds: int) -> float:
    """Return the CPU time of one of `count` steps, the best of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        begin = process_time()
        work(count)
        best = min(best, process_time() - begin)
    return best / count * 1e9


def stream_of(delta: Delta) -> Callable[[int], object]:
    def work(count: int) -> None:
        machine = started()
        machine.apply(ToolCallDelta(key=0, id="call_0", name="f", arguments='{"q":"'))
        for _ in range(count):
            for event in machine.apply(delta):
                encode(event)

    return work


def checked(count: int) -> None:
    """Run the checker over a stream of `count` text deltas."""
    machine, checker = started(), StreamChecker()
    for _ in range(count):
        for event in machine.text(" word"):
            checker.feed_frame(event.type, encode(event).decode())


def flatness(work: Callable[[int], object]) -> dict[str, float]:
    short = nanoseconds(work, SHORT, rounds=40)
    long = nanoseconds(work, LONG, rounds=4)
    return {"ns_per_delta": round(long), "long_over_short": round(long / short, 2)}


def overhead() -> dict[str, float]:
    machine = started()
    machine.text("first")
    (event,) = machine.text(" word")

    def alone(count: int) -> None:
        write = msgspec.json.encode
        for _ in range(count):
            write(event)

    def ours(count: int) -> None:
        say = machine.text
        for _ in range(count):
            encode(say(" word")[0])

    def framed(count: int) -> None:
        say = machine.text
        for _ in range(count):
            event = say(" word")[0]
            encode_frame(event.type, encode(event))

    base = nanoseconds(alone, 20_000, rounds=15)
    return {
        "encode_alone_ns": round(base),
        "machine_and_encode": round(nanoseconds(ours, 20_000, rounds=15) / base, 2),
        "machine_encode_and_frame": round(nanoseconds(framed, 20_000, rounds=15) / base, 2),
    }


def main() -> int:
    flat = {name: flatness(stream_of(delta)) for name, delta in DELTAS.items()}
    flat["checker"] = flatness(checked)
    over = overhead()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"flatness": flat, "overhead": over}, indent=2) + "\n")
    for name, row in flat.items():
        print(f"{name:16} {row['ns_per_delta']:6} ns per delta, long over short {row['long_over_short']}")
    print(f"machine and encoding of a text delta: {over['machine_and_encode']} x encoding alone")
    print(f"the same with its SSE frame: {over['machine_encode_and_frame']} x")
    too_slow = over["machine_and_encode"] > OVERHEAD_LIMIT
    return int(too_slow or any(row["long_over_short"] > FLATNESS_LIMIT for row in flat.values()))


if __name__ == "__main__":
    sys.exit(main())
