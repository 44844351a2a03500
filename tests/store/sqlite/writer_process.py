"""A process that writes turns until it is killed, and prints each reported end. Run it with `python -m`."""

from __future__ import annotations

import asyncio
import os
import sys

from penstock.store.records import Closed, Opened
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.builders import done, event, item, items


def response_of(id: str, number: int) -> bytes:
    return b'{"id":"%s","number":%d}' % (id.encode(), number)


async def turns(store: SqliteStore, name: str, begin: int) -> None:
    """Write one turn after the other, each continuing the last."""
    previous = None
    number = begin
    while True:
        id = f"resp_{name}_{number}"
        await store.open(
            Opened(
                id=id,
                created_at=1,
                previous_id=previous,
                response=response_of(id, number),
                input=(item(f"in_{id}"),),
            )
        )
        say(f"opened {id}")
        for sequence in range(0, 30, 3):
            finished = done(sequence + 2, sequence // 3, f"{id}_{sequence}")
            store.log(id, [event(sequence), event(sequence + 1), finished])
            say("logged")
            await asyncio.sleep(0.002)
        end = Closed(status="completed", response=response_of(id, number), output=items(f"out_{id}"))
        if await store.close(id, end, patience=30):
            say(f"closed {id}")
        previous = id
        number += 1


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def main(path: str, begin: int) -> None:
    store = await open_sqlite_store(path)
    say("ready")
    await asyncio.gather(*(turns(store, name, begin) for name in "abcdefgh"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
