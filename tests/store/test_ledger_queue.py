"""Records that wait to be written: their order, and their bound."""

from __future__ import annotations

import logging

import pytest

from penstock.store.ledger_queue import LedgerQueue
from tests.store.ledger_records import ended, started


def test_the_end_of_a_turn_replaces_its_start() -> None:
    queue = LedgerQueue()
    queue.put(started("resp_1"))
    queue.put(ended(started("resp_1")))
    assert queue.take() == {"resp_1": ended(started("resp_1"))}
    assert not queue


def test_records_that_were_not_written_come_first_and_never_replace_newer_ones() -> None:
    queue = LedgerQueue()
    queue.put(started("resp_1"))
    queue.put(started("resp_2"))
    taken = queue.take()
    queue.put(started("resp_3"))
    queue.put(ended(started("resp_1")))
    queue.put_back(taken)
    records = queue.take()
    assert list(records) == ["resp_1", "resp_2", "resp_3"]
    assert records["resp_1"].outcome == "completed"


def test_the_oldest_records_are_dropped_and_their_number_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    queue = LedgerQueue(most=2)
    with caplog.at_level(logging.ERROR, "penstock.store"):
        for number in range(5):
            queue.put(started(f"resp_{number}"))
        queue.put_back({"old": started("old")})
    assert list(queue.take()) == ["resp_3", "resp_4"]
    counts = [getattr(record, "fields", {})["count"] for record in caplog.records]
    assert counts == [1, 2, 4]
