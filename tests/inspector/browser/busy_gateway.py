"""A month of turns in the ledger of a gateway that is about to start."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.store.ledger import TurnFilter, TurnRecord
from penstock.store.sqlite.store import open_sqlite_store


def fill_ledger(folder: Path, records: Callable[[], Iterable[TurnRecord]] | None = None) -> None:
    """Write turns into the store of the gateway that will be started in this folder."""

    async def fill() -> None:
        store = await open_sqlite_store(folder / "store.sqlite")
        for number, record in enumerate((records or month_of_turns)()):
            store.settle_turn(record)
            if number % 1000 == 0:
                await store.turns(TurnFilter(), limit=1)  # now they are in the file
        await store.aclose()

    with ThreadPoolExecutor() as pool:  # this thread runs Playwright's event loop
        pool.submit(lambda: asyncio.run(fill())).result()


MODELS = (
    ("sonnet", "anthropic", 3.0, 900),
    ("gpt-5.5", "openai", 2.0, 600),
    ("qwen", "local", None, 250),
    ("demo", "demo", 0.0, 40),
)
CODES = ("upstream_timeout", "rate_limit_exceeded", "upstream_truncated", "context_length_exceeded")


def month_of_turns() -> Iterator[TurnRecord]:
    """Yield turns of four models, more of them by day than by night."""
    chance = random.Random(22)
    now = time.time()
    for hour in range(30 * 24):
        at = now - 3600 * hour
        for index in range(int(4 + 9 * (1 + math.sin((at / 3600 - 8) / 24 * 2 * math.pi)))):
            name, target, price, slowness = MODELS[int(len(MODELS) * chance.random() ** 2)]
            failed = chance.random() < 0.05
            tokens, output = chance.randint(2_000, 20_000), chance.randint(50, 1_500)
            duration = int(slowness * chance.lognormvariate(1.6, 0.7))
            first_output = int(min(duration, slowness * chance.lognormvariate(0.0, 0.6)))
            yield TurnRecord(
                id=f"resp_{hour}_{index}",
                tenant=chance.choice(["alice", "bob", "ci"]),
                started_at=at - chance.random() * 3600,
                ended_at=at,
                model=name,
                target=target,
                outcome="failed" if failed else "completed",
                code=CODES[int(len(CODES) * chance.random() ** 2)] if failed else "",
                duration_ms=duration,
                first_output_ms=-1 if failed else first_output,
                input_tokens=tokens,
                cached_tokens=tokens * chance.randint(0, 9) // 10,
                output_tokens=output,
                reasoning_tokens=output * chance.randint(0, 6) // 10,
                cost=None if price is None else price * (tokens + 5 * output) / 1e6,
            )


def many_turns(count: int) -> Iterator[TurnRecord]:
    """Yield turns of the last days, oldest first. One of a thousand is of the model `rare`."""
    now = time.time()
    for number in range(count):
        yield TurnRecord(
            id=f"resp_{number:06}",
            tenant="local",
            started_at=now - 10.0 * (count - number),
            ended_at=now - 10.0 * (count - number) + 1,
            user_agent="openai-python/3.49.0",
            request_id=f"req_{number:06}",
            model="rare" if number % 1000 == 0 else f"model-{number % 7}",
            target="chat",
            outcome="failed" if number % 50 == 0 else "completed",
            code="upstream_timeout" if number % 50 == 0 else "",
            duration_ms=1000,
            first_output_ms=100,
            input_tokens=10,
            output_tokens=20,
            cost=0.001,
        )
