"""Benchmark of the dialects: `python -m bench.dialects`.

CPU time per chunk and dialect, as a multiple of only decoding the same chunk with msgspec. Both are measured
in one run over the same chunks, because absolute times depend on the machine.
`reading` is the reader alone; `translating` adds the state machine and the encoding of its events.

The chunks come from the recorded streams next to the repository, or else from the small ones of the tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import msgspec
from tests.cli.dialect_streams import STREAMS
from tests.dialects import recordings

from penstock.dialects.plan import Plan, ReadDialect, Target
from penstock.dialects.registry import DIALECTS, dialect
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import encode
from penstock.sse import Frame, encode_frame

RESULTS = Path(__file__).parent / "results" / "dialects.json"
ROUNDS = 5
REPEATS = 100
"""How often the small streams are read in one round; there are enough recordings to read each once."""

Stream = list[Frame]


def streams(name: str) -> list[Stream]:
    """Return complete streams, without the few frames that are not JSON and have nothing to compare with."""
    files = recordings.files(recordings.FOLDERS[name]) if recordings.ROOT.is_dir() else []
    found = [recordings.frames(file) for file in files]
    if not found:
        suffix = ".jsonl" if STREAMS[name].startswith(b"{") else ".sse"
        found = [recordings.frames(f"{name}{suffix}", STREAMS[name])] * REPEATS
    return [[frame for frame in stream if is_json(frame)] for stream in found]


def is_json(frame: Frame) -> bool:
    try:
        msgspec.json.decode(frame.data)
    except msgspec.DecodeError:
        return False
    return True


def decode(stream: Stream) -> None:
    for frame in stream:
        msgspec.json.decode(frame.data)


def reading(source_dialect: ReadDialect, plan: Plan) -> Callable[[Stream], None]:
    def read(stream: Stream) -> None:
        reader = source_dialect.reader(plan)
        for frame in stream:
            reader.feed(frame)
        reader.end()

    return read


def translating(source_dialect: ReadDialect, plan: Plan) -> Callable[[Stream], None]:
    def translate(stream: Stream) -> None:
        pipeline = recordings.FrameStream(source_dialect, plan)
        events = pipeline.start()
        for frame in stream:
            events += pipeline.feed(frame)
        for event in events + pipeline.end():
            encode_frame(event.type, encode(event))

    return translate


def microseconds(work: Callable[[Stream], None], given: list[Stream]) -> float:
    """Return the CPU time of all streams, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = process_time()
        for stream in given:
            work(stream)
        best = min(best, process_time() - begin)
    return best * 1e6


def measure(name: str) -> dict[str, float]:
    source_dialect, given = dialect(name), streams(name)
    plan = Plan(request=CreateResponse(), target=Target(model="m", dialect=name))
    chunks = sum(map(len, given))
    base = microseconds(decode, given)
    read = microseconds(reading(source_dialect, plan), given)
    translated = microseconds(translating(source_dialect, plan), given)
    return {
        "streams": len(given),
        "chunks": chunks,
        "decode_us": round(base / chunks, 2),
        "reading": round(read / base, 2),
        "translating": round(translated / base, 2),
    }


def main() -> int:
    results = {name: measure(name) for name in DIALECTS}
    source = "recordings" if recordings.ROOT.is_dir() else "built in"
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"streams": source, "dialects": results}, indent=2) + "\n")
    print(f"CPU per chunk, as a multiple of decoding it ({source} streams)")
    for name, row in results.items():
        print(
            f"{name:10} {row['chunks']:7} chunks  decoding {row['decode_us']:6.2f} us  "
            f"reading {row['reading']:6.2f} x  translating {row['translating']:6.2f} x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
