"""Records of the ledger for tests."""

from __future__ import annotations

from msgspec.structs import replace

from penstock.store.ledger import TurnRecord

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
