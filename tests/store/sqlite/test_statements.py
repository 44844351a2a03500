"""Writing the file with SQL, on a connection of its own."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest
from msgspec.structs import replace

from penstock.errors import StoreError
from penstock.store.packing import ROW_BYTES
from penstock.store.records import LOCAL, StoredConversation
from penstock.store.sqlite import queries, statements
from penstock.store.turn_buffer import UnwrittenPart
from tests.store.builders import closed, done, event, events, items, opened, trace

OTHER = "other"
CONVERSATION = StoredConversation("conv_1", 1, b"{}")


def part(id: str = "resp_1", *input: str, **fields: object) -> UnwrittenPart:
    previous, conversation = (fields.pop(name, None) for name in ("previous", "conversation"))
    assert isinstance(previous, str | None)
    assert isinstance(conversation, str | None)
    empty = UnwrittenPart(
        turn=opened(id, *input, previous=previous, conversation=conversation),
        token="",
        is_new=True,
        events=[],
        traces=[],
        reasoning_memory={},
        dropped=0,
        end=None,
        ended_at=5.0,
        size=0,
    )
    return replace(empty, **fields)


def count(file: sqlite3.Connection, table: str) -> int:
    return int(file.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def ids_of(file: sqlite3.Connection) -> list[str]:
    return [id for (id,) in file.execute("SELECT id FROM responses ORDER BY number")]


def test_a_turn_is_written_in_parts(file: sqlite3.Connection) -> None:
    statements.write_part(file, part("resp_1", "in_1", events=events(0, 3)))
    later = part(is_new=False, events=events(3, 5), traces=[trace(1)], reasoning_memory={"call_1": b"a"})
    statements.write_part(file, later)
    end = part(is_new=False, reasoning_memory={"call_1": b"b"}, dropped=2, end=closed("resp_1", "out_1"))
    statements.write_part(file, end)
    stored = queries.response(file, LOCAL, "resp_1")
    assert stored is not None
    assert (stored.status, stored.dropped, stored.verdict) == ("completed", 2, b'{"ok":true}')
    assert queries.events(file, LOCAL, "resp_1", -1) == events(0, 5)
    assert queries.reasoning_memory(file, LOCAL, ["call_1"]) == {"call_1": b"b"}
    assert (count(file, "items"), count(file, "traces")) == (2, 1)


def test_many_items_are_written_in_order(file: sqlite3.Connection) -> None:
    ids = [f"in_{number}" for number in range(250)]
    statements.write_part(file, part("resp_1", *ids, end=closed("resp_1", *ids[:100])))
    (turn,) = queries.chain(file, LOCAL, "resp_1") or []
    assert turn.input == items(*ids)
    assert turn.output == items(*ids[:100])


def test_many_keys_are_looked_up(file: sqlite3.Connection) -> None:
    memory = {f"call_{number}": b"%d" % number for number in range(250)}
    statements.write_part(file, part(reasoning_memory=memory))
    assert queries.reasoning_memory(file, LOCAL, [*memory, "unknown"]) == memory
    assert queries.reasoning_memory(file, OTHER, [*memory]) == {}


def test_a_part_of_a_turn_whose_row_was_deleted_raises(file: sqlite3.Connection) -> None:
    with pytest.raises(StoreError) as raised:
        statements.write_part(file, part(is_new=False, events=events(0, 1)))
    assert raised.value.code == StoreError.IO
    assert count(file, "events") == 0


def test_a_second_row_with_the_same_id_is_refused_per_tenant(file: sqlite3.Connection) -> None:
    statements.begin_turn(file, opened("resp_1"))
    statements.begin_turn(file, opened("resp_1", tenant=OTHER))
    with pytest.raises(sqlite3.IntegrityError):
        statements.begin_turn(file, opened("resp_1"))


def test_large_events_get_rows_of_their_own(file: sqlite3.Connection) -> None:
    log = [event(number, "y" * ROW_BYTES) for number in range(3)]
    statements.write_part(file, part(events=[*events(0, 3), *log]))
    assert file.execute("SELECT count FROM events ORDER BY number").fetchall() == [(3,), (1,), (1,), (1,)]


def test_the_end_of_a_turn_adds_its_items_to_its_conversation(file: sqlite3.Connection) -> None:
    statements.create_conversation(file, LOCAL, CONVERSATION, 1.0)
    statements.write_part(file, part("resp_1", "in_1", conversation="conv_1"))
    assert count(file, "conversation_items") == 0
    end = part("resp_1", "in_1", conversation="conv_1", is_new=False, end=closed("resp_1", "out_1"))
    statements.write_part(file, end)
    page = queries.conversation_items(file, LOCAL, "conv_1", None, 20, False)
    assert page is not None
    assert page.items == items("in_1", "out_1")
    assert file.execute("SELECT changed_at FROM conversations").fetchone() == (5.0,)


def test_unfinished_turns_are_ended_as_failed_and_others_are_unchanged(file: sqlite3.Connection) -> None:
    """Ask G8."""
    statements.create_conversation(file, LOCAL, CONVERSATION, 1.0)
    statements.write_part(file, part("resp_done", end=closed("resp_done")))
    log = [event(0), done(1, 0, "msg_1")]
    statements.write_part(file, part("resp_cut", "in_1", conversation="conv_1", events=log))
    assert statements.end_unfinished(file, 9.0) == 1
    assert statements.end_unfinished(file, 10.0) == 0
    rows = file.execute("SELECT id, status, ended_at FROM responses ORDER BY number").fetchall()
    assert rows == [("resp_done", "completed", 5.0), ("resp_cut", "failed", 9.0)]
    last = queries.events(file, LOCAL, "resp_cut", 1)[-1]
    assert msgspec.json.decode(last.data)["type"] == "response.failed"
    page = queries.conversation_items(file, LOCAL, "conv_1", None, 20, False)
    assert page is not None
    assert page.items == items("in_1", "msg_1")


def test_deleting_a_response_deletes_its_rows_everywhere(file: sqlite3.Connection) -> None:
    full = part("resp_1", "in_1", events=events(0, 2), traces=[trace(1)], reasoning_memory={"call_1": b"a"})
    statements.write_part(file, replace(full, end=closed("resp_1", "out_1")))
    assert not statements.delete_response(file, OTHER, "resp_1")
    assert statements.delete_response(file, LOCAL, "resp_1")
    tables = ("responses", "items", "events", "traces", "memories")
    assert [count(file, table) for table in tables] == [0] * 5


def test_reasoning_is_remembered_only_for_a_response_of_the_tenant(file: sqlite3.Connection) -> None:
    statements.begin_turn(file, opened("resp_1"))
    statements.remember(file, OTHER, "resp_1", "call_1", b"planted")
    statements.remember(file, LOCAL, "resp_no", "call_1", b"planted")
    assert count(file, "memories") == 0
    statements.remember(file, LOCAL, "resp_1", "call_1", b"a")
    assert queries.reasoning_memory(file, LOCAL, ["call_1"]) == {"call_1": b"a"}


def test_a_conversation_is_changed_only_by_its_tenant(file: sqlite3.Connection) -> None:
    statements.create_conversation(file, LOCAL, CONVERSATION, 1.0)
    assert not statements.update_conversation(file, OTHER, "conv_1", b"[]", 2.0)
    assert not statements.add_items(file, OTHER, "conv_1", items("msg_1"), 2.0)
    assert not statements.delete_conversation(file, OTHER, "conv_1")
    assert statements.update_conversation(file, LOCAL, "conv_1", b'{"a":"b"}', 2.0)
    assert statements.add_items(file, LOCAL, "conv_1", items("msg_1", "msg_2"), 3.0)
    assert not statements.delete_item(file, OTHER, "conv_1", "msg_1")
    assert statements.delete_item(file, LOCAL, "conv_1", "msg_1")
    assert queries.conversation(file, LOCAL, "conv_1") == StoredConversation("conv_1", 1, b'{"a":"b"}')
    assert file.execute("SELECT id FROM conversation_items").fetchall() == [("msg_2",)]
    assert statements.delete_conversation(file, LOCAL, "conv_1")
    assert count(file, "conversation_items") == 0


def test_a_chain_is_deleted_from_its_end(file: sqlite3.Connection) -> None:
    """A turn that a newer turn continues stays, or the newer could not be continued."""
    for number, ended_at in ((1, 1.0), (2, 2.0), (3, 30.0)):
        previous = f"resp_{number - 1}" if number > 1 else None
        id = f"resp_{number}"
        statements.write_part(file, part(id, previous=previous, end=closed(id), ended_at=ended_at))
    assert statements.delete_ended(file, 10.0, 100) == 0
    assert [statements.delete_ended(file, 100.0, 100) for _ in range(4)] == [1, 1, 1, 0]


def test_the_oldest_are_deleted_first_and_running_turns_never(file: sqlite3.Connection) -> None:
    statements.write_part(file, part("resp_running"))
    for number, ended_at in ((1, 3.0), (2, 1.0), (3, 2.0)):
        statements.write_part(file, part(f"resp_{number}", end=closed("x"), ended_at=ended_at))
    assert statements.delete_ended(file, 100.0, 2) == 2
    assert ids_of(file) == ["resp_running", "resp_1"]


def test_unused_pages_are_released_in_steps(file: sqlite3.Connection) -> None:
    for number in range(5):
        turn = replace(opened(f"resp_{number}"), request=bytes(50_000))
        statements.write_part(file, part(turn=turn, end=closed("x")))
    pages = queries.used_bytes(file)
    statements.delete_ended(file, 100.0, 100)
    free = file.execute("PRAGMA freelist_count").fetchone()[0]
    assert free > 20
    assert statements.release_pages(file, 20), "there are more"
    assert file.execute("PRAGMA freelist_count").fetchone() == (free - 20,)
    assert not statements.release_pages(file, 1_000)
    assert file.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert queries.used_bytes(file) < pages
