"""The cost of keeping things: `python -m bench.store`.

All is taken in one run. What is compared takes turns, round by round, and a ratio is the median of those of
the rounds:

- *turns*: CPU time of the gateway per chunk, and how long a client waits for the first event behind a model
  that thinks for a tenth of a second, of turns that are stored as a multiple of those that are not;
- *many*: a store with 100,000 responses against one with 1,000: what it holds in memory, and how long it
  takes to find something, to open the file, and to delete the oldest tenth;
- *chain*: turn 2,000 of a chain against turn 20, and how much of it is the store's part.
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

import aiohttp

from bench.servers import CHUNKS, PACES, ask, client, cpu_of, gateway, upstream
from penstock.store.contract import LOCAL, Closed, LoggedEvent, Opened, StoredItem
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store

RESULTS = Path(__file__).parent / "results" / "store.json"
STREAMS, TURNS = 32, 30
ROUNDS = {"paced": 4, "flood": 19}
KEPT = {"stored": True, "not stored": False}

FEW, MANY, PRUNED = 1_000, 100_000, 10_000
AT_ONCE = 1_000
"""So many turns are written together, as under load."""
LOOKUPS, LOOKUP_ROUNDS = 10, 61
OPENINGS = 15
LINKS = 10
"""Every tenth response begins a chain."""

EVENT = b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_1","delta":"word "}'
LOG = [LoggedEvent(sequence, 1.5, EVENT % sequence) for sequence in range(10)]

SHORT, LONG = 20, 2_000
CHAIN_ROUNDS = 15

Question = Callable[[SqliteStore, int], Awaitable[object]]
Times = tuple[list[float], list[float]]
"""Of the two that are compared, round by round."""


def ratio(times: Times) -> float:
    """Of the first to the second."""
    return median(one / other for one, other in zip(*times, strict=True))


# Turns that are stored, and turns that are not


async def measure_turns(folder: Path, address: str) -> dict[str, object]:
    store = folder / "turns.sqlite"
    with gateway(folder, address, str(store)) as (url, pid):
        async with client() as session:
            cpu = {pace: await _cpu(session, url, pid, pace) for pace in PACES}
            first = await _first(session, url)
    return {
        "cpu_us_per_chunk": {pace: _told(each, 1e6) for pace, each in cpu.items()},
        "cpu_ratio": {pace: round(ratio(each), 2) for pace, each in cpu.items()},
        "first_event_ms": _told(first, 1e3),
        "first_event_ratio": round(ratio(first), 3),
    }


async def _cpu(session: aiohttp.ClientSession, url: str, pid: int, pace: str) -> Times:
    """Seconds for each chunk."""
    found: Times = ([], [])
    for number in range(1 + ROUNDS[pace]):
        for is_stored, times in zip(KEPT.values(), found, strict=True):
            before = cpu_of(pid)
            await asyncio.gather(*(ask(session, url, pace, store=is_stored) for _ in range(STREAMS)))
            if number:  # the first round warms it
                times.append((cpu_of(pid) - before) / (STREAMS * CHUNKS))
    return found


async def _first(session: aiohttp.ClientSession, url: str) -> Times:
    found: Times = ([], [])
    for _ in range(TURNS):
        for is_stored, times in zip(KEPT.values(), found, strict=True):
            times.append(await ask(session, url, "thinking", store=is_stored))
    return found


def _told(times: Times, scale: float) -> dict[str, float]:
    return {kind: round(scale * median(each), 1) for kind, each in zip(KEPT, times, strict=True)}


# Many responses


async def measure_many(folder: Path) -> dict[str, object]:
    small_file, large_file = folder / "small.sqlite", folder / "large.sqlite"
    clock = Counting()
    small = await open_sqlite_store(small_file, clock=clock)
    large = await open_sqlite_store(large_file, clock=clock)
    await _fill(small, range(FEW))
    await _fill(large, range(FEW))
    resident, began = _resident(), perf_counter()
    await _fill(large, range(FEW, MANY))
    writing = (perf_counter() - began) / (MANY - FEW)
    grown = _resident() / resident
    lookups = {name: await _lookup(question, large, small) for name, question in QUESTIONS.items()}
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
    """A clock that goes on by one for each turn that ends."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def _fill(store: SqliteStore, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, numbers.stop))
        await asyncio.gather(*(_keep(store, "resp", number, number % LINKS) for number in some))


async def _keep(store: SqliteStore, name: str, number: int, place: int) -> None:
    """A small turn: a question, an answer, and a log of ten events. At place 0 a chain begins."""
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
    told = b'{"id":"%s","object":"response","status":"%s","model":"m","output":[],"padding":"%s"}'
    return told % (id.encode(), status.encode(), 600 * b"x")


def _message(id: str, role: str, part: str) -> StoredItem:
    content = [{"type": part, "text": "a few words that somebody said"}]
    told = {"type": "message", "id": id, "status": "completed", "role": role, "content": content}
    return StoredItem(id, json.dumps(told).encode())


async def _log(store: SqliteStore, number: int) -> object:
    return [event async for event in store.events(LOCAL, f"resp_{number}")]


QUESTIONS: dict[str, Question] = {
    "get": lambda store, number: store.get(LOCAL, f"resp_{number}"),
    "chain of 3": lambda store, number: store.chain(LOCAL, f"resp_{number - number % LINKS + 2}"),
    "item": lambda store, number: store.items(LOCAL, [f"msg_out_resp_{number}"]),
    "events": _log,
}


async def _lookup(question: Question, large: SqliteStore, small: SqliteStore) -> Times:
    """Seconds for one answer."""
    dice = random.Random(1)
    found: Times = ([], [])
    for _ in range(LOOKUP_ROUNDS):
        for times, store, size in zip(found, (large, small), (MANY, FEW), strict=True):
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
    """Seconds for each response that is deleted; the file shrinks by what it had."""
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
    with gateway(folder, address, str(file)) as (url, _):
        turns = await _continuing(url)
    return {
        "turns": LONG,
        "turn_ms": round(1e3 * median(turns[0]), 1),
        "turn_ratio": round(ratio(turns), 2),
        "store_ms": round(1e3 * read, 1),
        "store_share": round(read / median(turns[0]), 2),
    }


async def _reading(store: SqliteStore) -> float:
    """Seconds that the store takes to give the whole chain."""
    times = []
    for _ in range(CHAIN_ROUNDS):
        began = perf_counter()
        if not await store.chain(LOCAL, f"link_{LONG - 1}"):
            raise RuntimeError("the chain is not there")
        times.append(perf_counter() - began)
    return median(times)


async def _continuing(url: str) -> Times:
    """Seconds for a turn that is the last, and for one that is the twentieth: each branches off the chain."""
    found: Times = ([], [])
    async with client() as session:
        for number in range(1 + CHAIN_ROUNDS):
            for place, times in zip((LONG, SHORT), found, strict=True):
                began = perf_counter()
                await ask(session, url, "at once", previous_response_id=f"link_{place - 1}")
                if number:  # the first round warms it
                    times.append(perf_counter() - began)
    return found


async def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with upstream() as address:
            result = {
                "many": await measure_many(folder),  # first: others leave memory behind
                "turns": await measure_turns(folder, address),
                "chain": await measure_chain(folder, address),
            }
    print(json.dumps(result, indent=2))
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
