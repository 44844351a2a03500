"""Records of the ledger for tests."""

from __future__ import annotations

import random

from msgspec.structs import replace

from penstock.store.ledger import HOUR, Dimension, TurnRecord, time_name

NOON = 1_795_003_200.0
"""2026-11-18T12:00Z"""


def started(
    id: str, at: float = NOON, *, tenant: str = "alice", tokens: int = 0, cost: float = 0.0
) -> TurnRecord:
    return TurnRecord(
        id=id,
        tenant=tenant,
        started_at=at,
        model="demo",
        request_id=f"req_{id}",
        reserved_tokens=tokens,
        reserved_cost=cost,
    )


def ended(record: TurnRecord, *, tokens: int = 0, cost: float | None = None) -> TurnRecord:
    return replace(
        record,
        ended_at=record.started_at + 1,
        outcome="completed",
        input_tokens=tokens - tokens // 2,
        output_tokens=tokens // 2,
        cost=cost,
    )


def value_of(record: TurnRecord, dimension: Dimension) -> str:
    """Return the value of a dimension that sums are grouped by."""
    names = {"key": "tenant", "model": "model", "target": "target", "outcome": "outcome"}
    if dimension in names:
        return str(getattr(record, names[dimension]))
    return time_name(dimension, int(record.started_at // HOUR))


def varied(count: int, seed: int = 1) -> list[TurnRecord]:
    """Return settled records of some weeks, with different times, outcomes and codes; many of one hour."""
    chance = random.Random(seed)
    records = []
    for number in range(count):
        at = NOON - (number % 40) * 20 * HOUR if number % 3 else NOON + number / count
        record = ended(started(f"resp_{number}", at, tenant=chance.choice(["alice", "bob"])))
        outcome = chance.choice(["completed", "completed", "failed", "refused"])
        records.append(
            replace(
                record,
                model=chance.choice(["large", "small"]),
                outcome=outcome,
                code="" if outcome == "completed" else chance.choice(["timeout", "overloaded"]),
                first_output_ms=chance.choice([-1, 0, chance.randrange(5_000)]),
                duration_ms=chance.choice([0, chance.randrange(100_000), 2**40]),
            )
        )
    return records
