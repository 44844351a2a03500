"""The SQL of several processes that share a file: claims, leases, orphans and held keys."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.store.records import HELD_KEY_SECONDS, LOCAL, HeldKey, Opened
from penstock.store.sqlite import statements, workers
from penstock.store.sqlite.file import BUSY_MS, connect_existing, prepare_for_writing
from penstock.store.sqlite.recent import append
from penstock.store.sqlite.shared import hold_file
from penstock.store.sqlite.workers import TurnClaim, TurnTakenOver
from tests.store.builders import events, opened

LEASE = 60.0


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    lock = hold_file(tmp_path / "store.db")
    connection = connect_existing(tmp_path / "store.db", BUSY_MS)
    prepare_for_writing(connection)
    yield connection
    connection.close()
    lock.release()


def begin(file: sqlite3.Connection, turn: Opened, worker: str = "alice", token: str = "") -> int:
    return statements.begin_turn(file, turn, TurnClaim(worker, token or f"token of {turn.id}"))


def expire(file: sqlite3.Connection, worker: str) -> None:
    workers.renew(file, worker, -1.0)


def tables(file: sqlite3.Connection) -> dict[str, int]:
    names = ("workers", "running", "held_keys")
    return {name: file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def test_leases_are_measured_by_a_clock_that_all_processes_share() -> None:
    assert workers.clock is time.monotonic


# Claims


def test_a_running_turn_has_an_owner(file: sqlite3.Connection) -> None:
    begin(file, opened("resp_1", conversation="conv_1"))
    assert workers.owner(file, LOCAL, "resp_1") == "alice"
    assert workers.owner(file, "another tenant", "resp_1") is None
    assert workers.owner(file, LOCAL, "resp_2") is None
    assert workers.running_in(file, LOCAL, "conv_1") == ["resp_1"]
    assert workers.running_in(file, "another tenant", "conv_1") == []
    assert workers.running_in(file, LOCAL, "conv_2") == []


def test_a_turn_without_a_token_is_not_claimed(file: sqlite3.Connection) -> None:
    statements.begin_turn(file, opened("resp_1"))
    assert workers.owner(file, LOCAL, "resp_1") is None


def test_only_the_claim_token_writes(file: sqlite3.Connection) -> None:
    number = begin(file, opened("resp_1"))
    assert workers.number_claimed(file, "token of resp_1") == number
    with pytest.raises(TurnTakenOver):
        workers.number_claimed(file, "another token")


def test_an_end_releases_the_claim(file: sqlite3.Connection) -> None:
    number = begin(file, opened("resp_1"))
    begin(file, opened("resp_2"))
    workers.release(file, number, "token of resp_1")
    assert workers.owner(file, LOCAL, "resp_1") is None
    assert workers.owner(file, LOCAL, "resp_2") == "alice"
    with pytest.raises(TurnTakenOver):
        workers.number_claimed(file, "token of resp_1")


def test_a_background_turn_starts_once_it_is_marked(file: sqlite3.Connection) -> None:
    begin(file, replace(opened("resp_1"), is_background=True))
    begin(file, opened("resp_2"))
    assert not workers.start(file, "another token")
    found = {each.turn.id: each.is_started for each in workers.claim_orphans(file, "bob", 9)}
    assert found == {"resp_1": False, "resp_2": True}, "a turn with a client has started"
    [claim] = [each for each in workers.claimed(file, "bob") if each.id == "resp_1"]
    assert workers.start(file, claim.token)
    [orphan] = [each for each in workers.claim_orphans(file, "carol", 9) if each.turn.id == "resp_1"]
    assert orphan.is_started


def test_a_response_is_deleted_by_its_own_token_while_it_runs(file: sqlite3.Connection) -> None:
    begin(file, opened("resp_1"))
    assert not statements.delete_response(file, LOCAL, "resp_1")
    assert not statements.delete_response(file, LOCAL, "resp_1", "another token")
    assert not statements.delete_response(file, "another tenant", "resp_1", "token of resp_1")
    assert statements.delete_response(file, LOCAL, "resp_1", "token of resp_1")
    assert tables(file)["running"] == 0


# What other workers ask


def test_a_cancel_reaches_a_turn_of_its_own_tenant_only(file: sqlite3.Connection) -> None:
    begin(file, opened("resp_1"))
    begin(file, opened("resp_1", tenant="other"), "bob", "another token")
    assert workers.request_cancel(file, "another tenant", "resp_1") is None
    assert workers.request_cancel(file, LOCAL, "resp_2") is None
    assert workers.request_cancel(file, LOCAL, "resp_1") == "alice"
    assert [each.is_cancelled for each in workers.claimed(file, "alice")] == [True]
    assert [each.is_cancelled for each in workers.claimed(file, "bob")] == [False]


# Leases


def test_workers_live_until_their_lease_expires(file: sqlite3.Connection) -> None:
    workers.renew(file, "alice", LEASE)
    workers.renew(file, "bob", LEASE)
    assert not workers.has_dead(file)
    expire(file, "bob")
    assert workers.living(file) == ["alice"]
    assert workers.has_dead(file)
    workers.renew(file, "bob", LEASE)
    assert workers.living(file) == ["alice", "bob"]
    workers.leave(file, "bob")
    assert workers.living(file) == ["alice"]


def test_turns_of_living_workers_are_no_orphans(file: sqlite3.Connection) -> None:
    workers.renew(file, "alice", LEASE)
    begin(file, opened("resp_1"))
    assert not workers.has_orphans(file, "bob")
    assert workers.claim_orphans(file, "bob", 9) == []


@pytest.mark.parametrize("end", [expire, workers.leave], ids=["it died", "it left"])
def test_an_orphan_is_claimed_once_with_everything(
    file: sqlite3.Connection, end: Callable[..., None]
) -> None:
    workers.renew(file, "alice", LEASE)
    turn = replace(
        opened("resp_1", "in_1", "in_2", tenant="other", previous="resp_0", conversation="conv_1"),
        is_background=True,
        accent="strict",
    )
    number = begin(file, turn)
    append(file, number, events(0, 3))
    append(file, number, events(3, 5))
    workers.request_cancel(file, "other", "resp_1")
    end(file, "alice")
    assert workers.has_orphans(file, "bob")
    [orphan] = workers.claim_orphans(file, "bob", 9)
    assert orphan.turn == turn
    assert (orphan.last_sequence, orphan.is_started) == (4, False)
    workers.renew(file, "bob", LEASE)
    assert not workers.has_orphans(file, "carol")
    assert workers.claim_orphans(file, "carol", 9) == []
    assert workers.number_claimed(file, orphan.token) == number
    with pytest.raises(TurnTakenOver):
        workers.number_claimed(file, "token of resp_1")
    [claimed] = workers.claimed(file, "bob")
    assert (claimed.tenant, claimed.id, claimed.token) == ("other", "resp_1", orphan.token)
    assert claimed.is_cancelled, "whoever runs it now ends it"
    assert workers.claimed(file, "alice") == []


def test_an_orphan_without_events_begins_its_log(file: sqlite3.Connection) -> None:
    begin(file, opened("resp_1"))
    [orphan] = workers.claim_orphans(file, "bob", 9)
    assert orphan.last_sequence == -1


def test_so_many_orphans_are_claimed_as_wanted(file: sqlite3.Connection) -> None:
    workers.renew(file, "bob", LEASE)
    for number in range(5):
        begin(file, opened(f"resp_{number}"))
    claims = [workers.claim_orphans(file, "bob", 2) for _ in range(4)]
    assert [len(orphans) for orphans in claims] == [2, 2, 1, 0]


def test_a_worker_does_not_take_over_its_own_turns(file: sqlite3.Connection) -> None:
    expire(file, "alice")
    begin(file, opened("resp_1"))
    assert not workers.has_orphans(file, "alice")
    assert workers.claim_orphans(file, "alice", 9) == []


def test_a_disowned_turn_is_an_orphan_that_has_started(file: sqlite3.Connection) -> None:
    workers.renew(file, "alice", LEASE)
    begin(file, replace(opened("resp_1"), is_background=True))
    begin(file, replace(opened("resp_2"), is_background=True))
    workers.disown(file, "token of resp_1")
    [orphan] = workers.claim_orphans(file, "alice", 9)
    assert (orphan.turn.id, orphan.is_started) == ("resp_1", True)


def test_the_dead_are_forgotten_when_their_turns_are_taken_over(file: sqlite3.Connection) -> None:
    workers.renew(file, "bob", LEASE)
    expire(file, "alice")
    begin(file, opened("resp_1"))
    workers.forget_dead(file)
    assert tables(file)["workers"] == 2
    workers.claim_orphans(file, "bob", 9)
    workers.forget_dead(file)
    assert tables(file)["workers"] == 1
    assert workers.living(file) == ["bob"]


def test_no_worker_is_known_when_a_file_is_opened(file: sqlite3.Connection) -> None:
    workers.renew(file, "alice", LEASE)
    hold(file, "key", "alice", b"data")
    begin(file, opened("resp_1"))
    statements.end_unfinished(file, NOW)
    workers.forget_all(file)
    assert tables(file) == {"workers": 0, "running": 0, "held_keys": 1}, "their requests may have run"


def test_turns_that_had_not_started_are_kept_for_workers_that_open_the_file(file: sqlite3.Connection) -> None:
    for id, is_started in (("resp_1", False), ("resp_2", True)):
        begin(file, replace(opened(id), is_background=True))
        assert not is_started or workers.start(file, f"token of {id}")
    begin(file, opened("resp_3"))
    assert statements.end_unfinished(file, NOW, keeps_queued=True) == 2
    workers.forget_all(file)
    workers.renew(file, "bob", LEASE)
    assert not workers.has_orphans(file, "bob", only_started=True)
    assert workers.claim_orphans(file, "bob", 9, only_started=True) == []
    [orphan] = workers.claim_orphans(file, "bob", 9)
    assert (orphan.turn.id, orphan.is_started) == ("resp_1", False)


# Keys

NOW = 1_000.0


def hold(
    file: sqlite3.Connection, key: str, worker: str, data: bytes, *, tenant: str = LOCAL, now: float = NOW
) -> HeldKey | None:
    return workers.hold(file, tenant, key, worker, data, now)


def test_a_key_is_held_by_one_worker(file: sqlite3.Connection) -> None:
    for worker in ("alice", "bob"):
        workers.renew(file, worker, LEASE)
    assert hold(file, "key", "alice", b"alice's") is None
    assert hold(file, "key", "bob", b"bob's") == HeldKey(b"alice's", is_alive=True)
    assert hold(file, "key", "bob", b"bob's", tenant="another tenant") is None
    assert hold(file, "another key", "bob", b"bob's") is None
    assert hold(file, "key", "alice", b"again") is None, "a worker does not wait for itself"
    workers.release_key(file, LOCAL, "key", "bob")
    assert hold(file, "key", "bob", b"bob's") == HeldKey(b"again", is_alive=True)
    workers.release_key(file, LOCAL, "key", "alice")
    assert hold(file, "key", "bob", b"bob's") is None


def test_a_key_stays_held_for_a_day_after_its_worker_has_died(file: sqlite3.Connection) -> None:
    workers.renew(file, "bob", LEASE)
    hold(file, "key", "alice", b"alice's")
    expire(file, "alice")
    workers.forget_dead(file)
    for now in (NOW, NOW + HELD_KEY_SECONDS):
        assert hold(file, "key", "bob", b"bob's", now=now) == HeldKey(b"alice's", is_alive=False)
    assert hold(file, "key", "bob", b"bob's", now=NOW + HELD_KEY_SECONDS + 1) is None
    workers.release_key(file, LOCAL, "key", "alice")
    workers.renew(file, "alice", LEASE)
    assert hold(file, "key", "alice", b"alice's") == HeldKey(b"bob's", is_alive=True)


def test_a_key_of_a_living_worker_never_expires(file: sqlite3.Connection) -> None:
    workers.renew(file, "alice", LEASE)
    hold(file, "key", "alice", b"alice's")
    later = NOW + 2 * HELD_KEY_SECONDS
    assert hold(file, "key", "bob", b"bob's", now=later) == HeldKey(b"alice's", is_alive=True)


def test_a_retired_key_cannot_be_held_for_a_while(file: sqlite3.Connection) -> None:
    workers.renew(file, "alice", LEASE)
    hold(file, "key", "alice", b"alice's")
    workers.retire_key(file, LOCAL, "key", "bob", b"not bob's to retire", NOW)
    workers.retire_key(file, LOCAL, "key", "alice", b"answered", NOW + 60)
    for worker in ("alice", "bob"):
        assert hold(file, "key", worker, b"", now=NOW + 60) == HeldKey(b"answered", is_alive=False)
    assert hold(file, "key", "bob", b"", now=NOW + 61) is None
