"""A month of turns in the ledger of a gateway that is about to start."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.store.ledger import TurnRecord
from penstock.store.sqlite.store import open_sqlite_store


def fill_ledger(folder: Path) -> None:
    """Write the turns into the store of the gateway that will be started in this folder."""

    async def fill() -> None:
        store = await open_sqlite_store(folder / "store.sqlite")
        for record in month_of_turns():
            store.settle_turn(record)
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
