"""Benchmark of the store: `python -m bench.store`.

Everything is measured in one run. The two sides of a comparison take turns, and a ratio is the median over
the rounds. (`python -m bench` measures what the store adds to a turn.)

- *many*: a store with 100,000 responses compared with one of 1,000: memory, and the time to find something,
  to open the file, and to delete the oldest tenth;
- *chain*: turn 2,000 of a chain compared with turn 20, and the store's share of the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.lab.bodies import body_for
from bench.lab.instruments import build, post, upstream
from bench.lab.servers import gateway
from penstock.store.contract import Store
from penstock.store.records import LOCAL, Closed, LoggedEvent, Opened, StoredItem
from penstock.store.sqlite.store import open_sqlite_store

RESULTS = Path(__file__).parent / "results" / "store.json"

FEW, MANY, PRUNED = 1_000, 100_000, 10_000
AT_ONCE = 1_000
"""Turns that are written together, as under load."""
LOOKUPS, LOOKUP_ROUNDS = 10, 61
OPENINGS = 15
LINKS = 10
"""A chain begins with every tenth response."""

EVENT = b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","delta":"word "}'
LOG = [LoggedEvent(sequence, 1.5, EVENT % sequence) for sequence in range(10)]

SHORT, LONG = 20, 2_000
CHAIN_ROUNDS = 15

Question = Callable[[Store, int], Awaitable[object]]
Times = tuple[list[float], list[float]]
"""The two sides of a comparison, round by round."""


def ratio(times: Times) -> float:
    """The first side as a multiple of the second."""
    return median(one / other for one, other in zip(*times, strict=True))


# Many responses


async def measure_many(folder: Path) -> dict[str, object]:
    small_file, large_file = folder / "small.sqlite", folder / "large.sqlite"
    clock = Counting()
    small = await open_sqlite_store(small_file, clock=clock)
    large = await open_sqlite_store(large_file, clock=clock)
    await fill(small, range(FEW))
    await fill(large, range(FEW))
    resident, began = _resident(), perf_counter()
    await fill(large, range(FEW, MANY))
    writing = (perf_counter() - began) / (MANY - FEW)
    grown = _resident() / resident
    lookups = {name: await lookup(question, large, small, MANY) for name, question in QUESTIONS.items()}
    await asyncio.gather(small.aclose(), large.aclose())
    opening = await _opening(large_file, small_file)
    size = os.path.getsize(large_file)
    deleting = await _pruning(large_file)
    return {
        "responses": MANY,
        "memory_ratio": round(grown, 2),
        "lookup_us": {name: round(1e6 * median(times[0])) for name, times in lookups.items()},
        "lookup_ratio": {name: round(ratio(times), 2) for name, times in lookups.items()},
        "opening_ms": round(1e3 * median(opening[0]), 1),
        "opening_ratio": round(ratio(opening), 2),
        "file_bytes_per_response": round(size / MANY),
        "writing_us_per_response": round(1e6 * writing),
        "pruning_over_writing": round(deleting / writing, 2),
    }


class Counting:
    """A clock that advances by one with each turn."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def fill(store: Store, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, numbers.stop))
        await asyncio.gather(*(_keep(store, "resp", number, number % LINKS) for number in some))


async def _keep(store: Store, name: str, number: int, place: int) -> None:
    """Return a small turn with ten events. Place 0 starts a chain."""
    id = f"{name}_{number}"
    turn = Opened(
        id=id,
        created_at=number,
        previous_id=f"{name}_{number - 1}" if place else None,
        request=b'{"model":"m","stream":true}',
        response=_response(id, "in_progress"),
        input=(_message(f"msg_in_{id}", "user", "input_text"),),
    )
    await store.open(turn, patience=60)
    store.log(id, LOG)
    output = (_message(f"msg_out_{id}", "assistant", "output_text"),)
    end = Closed(status="completed", response=_response(id, "completed"), output=output)
    await store.close(id, end, patience=60)


def _response(id: str, status: str) -> bytes:
    response = b'{"id":"%s","object":"response","status":"%s","model":"m","output":[],"padding":"%s"}'
    return response % (id.encode(), status.encode(), 600 * b"x")


def _message(id: str, role: str, part: str) -> StoredItem:
    content = [{"type": part, "text": "a few words that somebody said"}]
    item = {"type": "message", "id": id, "status": "completed", "role": role, "content": content}
    return StoredItem(id, json.dumps(item).encode())


async def _log(store: Store, number: int) -> object:
    return [event async for event in store.events(LOCAL, f"resp_{number}")]


QUESTIONS: dict[str, Question] = {
    "get": lambda store, number: store.get(LOCAL, f"resp_{number}"),
    "chain of 3": lambda store, number: store.chain(LOCAL, f"resp_{number - number % LINKS + 2}"),
    "item": lambda store, number: store.items(LOCAL, [f"msg_out_resp_{number}"]),
    "events": _log,
}


async def lookup(question: Question, large: Store, small: Store, many: int) -> Times:
    """Return the seconds for one lookup."""
    dice = random.Random(1)
    found: Times = ([], [])
    for _ in range(LOOKUP_ROUNDS):
        for times, store, size in zip(found, (large, small), (many, FEW), strict=True):
            numbers = [dice.randrange(size) for _ in range(LOOKUPS)]
            began = perf_counter()
            for number in numbers:
                if not await question(store, number):
                    raise RuntimeError(f"response {number} is not there")
            times.append((perf_counter() - began) / LOOKUPS)
    return found


async def _opening(large: Path, small: Path) -> Times:
    found: Times = ([], [])
    for _ in range(OPENINGS):
        for times, file in zip(found, (large, small), strict=True):
            began = perf_counter()
            store = await open_sqlite_store(file)
            times.append(perf_counter() - began)
            await store.aclose()
    return found


async def _pruning(file: Path) -> float:
    """Return the seconds per deleted response."""
    store = await open_sqlite_store(file)
    try:
        began = perf_counter()
        count = await store.prune(older_than=FEW + PRUNED + 1)
        return (perf_counter() - began) / count
    finally:
        await store.aclose()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


# A long chain


async def measure_chain(folder: Path, address: str) -> dict[str, object]:
    file = folder / "chain.sqlite"
    store = await open_sqlite_store(file)
    for number in range(1, LONG):
        await _keep(store, "link", number, number - 1)
    read = await _reading(store)
    await store.aclose()
    with gateway(folder, address, store=str(file)) as server:
        turns = _continuing(server.port)
    return {
        "turns": LONG,
        "turn_ms": round(1e3 * median(turns[0]), 1),
        "turn_ratio": round(ratio(turns), 2),
        "store_ms": round(1e3 * read, 1),
        "store_share": round(read / median(turns[0]), 2),
    }


async def _reading(store: Store) -> float:
    """Return the seconds to load the whole chain from the store."""
    times = []
    for _ in range(CHAIN_ROUNDS):
        began = perf_counter()
        if not await store.chain(LOCAL, f"link_{LONG - 1}"):
            raise RuntimeError("the chain is not there")
        times.append(perf_counter() - began)
    return median(times)


def _continuing(port: int) -> Times:
    """Return the seconds for the last and for the twentieth turn; each branches off the chain."""
    found: Times = ([], [])
    for number in range(1 + CHAIN_ROUNDS):
        for place, times in zip((LONG, SHORT), found, strict=True):
            began = perf_counter()
            post(port, body_for("fake-c1", previous_response_id=f"link_{place - 1}"))
            if number:  # the first round warms up
                times.append(perf_counter() - began)
    return found


async def main() -> int:
    build()
    with tempfile.TemporaryDirectory() as name, upstream() as address:
        folder = Path(name)
        result = {
            "many": await measure_many(folder),  # first, because the other leaves memory allocated
            "chain": await measure_chain(folder, address),
        }
    print(json.dumps(result, indent=2))
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
