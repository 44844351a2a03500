"""A worker that shares a file, in a process of its own. Run it with `python -m`.

It prints whether it may hold the file itself, and then either writes some turns, printing each reported end,
or runs turns that do not end until it is killed, printing what is stored of them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.peers import PeerTimes
from penstock.store.shared import SharedStore
from penstock.store.sqlite.shared import hold_file, open_shared_sqlite_store
from tests.store.builders import closed, event, events, opened

TIMES = PeerTimes(lease=2.0, tick=0.1)
EVENTS = 12


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def write_turn(store: SharedStore, id: str) -> None:
    await store.open(opened(id, f"in_{id}"), patience=30)
    for sequence in range(0, EVENTS, 3):
        store.log(id, events(sequence, sequence + 3), soon=True)
        await asyncio.sleep(0.001)
    if await store.close(id, closed(id, f"out_{id}"), patience=30):
        say(f"closed {id}")


async def run_turns(store: SharedStore) -> None:
    """Run turns until the process is killed: one that logs, one that is silent, and one that waits."""
    await store.open(replace(opened("resp_waiting", status="queued"), is_background=True), patience=30)
    await store.open(opened("resp_silent"), patience=30)
    await store.open(opened("resp_busy"), patience=30)
    for sequence in count():
        store.log("resp_busy", [event(sequence)])
        await store.settle("resp_busy")
        say(f"stored {sequence}")
        await asyncio.sleep(0.005)


async def main(path: str, name: str, turns: int) -> None:
    try:
        hold_file(path, busy_ms=0)
    except StoreError as error:
        say(f"refused {error.code}")
    store = await open_shared_sqlite_store(Path(path), times=TIMES)
    say("ready")
    if turns:
        sys.stdin.readline()  # all begin together
        await asyncio.gather(*(write_turn(store, f"resp_{name}_{number}") for number in range(turns)))
    else:
        await run_turns(store)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
