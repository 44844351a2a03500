"""Reading the file with SQL, on a connection of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from penstock.store.packing import ROW_BYTES
from penstock.store.records import LOCAL, StoredConversation
from penstock.store.sqlite import queries, statements
from penstock.store.turn_buffer import UnwrittenPart
from tests.store.builders import closed, done, event, events, item, items, opened, trace

OTHER = "other"


Write = Callable[..., None]


@pytest.fixture
def write(file: sqlite3.Connection) -> Write:
    def write_turn(
        id: str,
        *input: str,
        output: tuple[str, ...] = (),
        previous: str | None = None,
        tenant: str = LOCAL,
        **fields: object,
    ) -> None:
        part = UnwrittenPart(
            turn=opened(id, *input, previous=previous, tenant=tenant),
            token="",
            is_new=True,
            events=[],
            traces=[],
            reasoning_memory={},
            dropped=0,
            end=closed(id, *output),
            ended_at=5.0,
            size=0,
        )
        statements.write_part(file, replace(part, **fields))

    return write_turn


def test_a_response_without_an_end_is_returned_as_it_is(file: sqlite3.Connection, write: Write) -> None:
    write("resp_1", end=None, events=[event(0), done(1, 0, "msg_1")])
    stored = queries.response(file, LOCAL, "resp_1")
    assert stored is not None
    assert (stored.status, stored.response) == ("in_progress", opened("resp_1").response)


def test_the_log_is_read_in_steps_of_a_few_rows(file: sqlite3.Connection, write: Write) -> None:
    log = [event(number, "y" * (ROW_BYTES // 2)) for number in range(20)]
    write("resp_1", events=log)
    steps, after = [], -1
    while step := queries.events(file, LOCAL, "resp_1", after):
        steps.append(step)
        after = step[-1].sequence
    assert [found for step in steps for found in step] == log
    assert all(len(step) <= 4 for step in steps), "a row holds one of these events"
    assert queries.events(file, OTHER, "resp_1", -1) == []


def test_reading_starts_inside_a_row(file: sqlite3.Connection, write: Write) -> None:
    write("resp_1", events=events(0, 50))
    assert file.execute("SELECT count(*) FROM events").fetchone() == (1,)
    assert queries.events(file, LOCAL, "resp_1", 30) == events(31, 50)


def test_a_chain_needs_all_of_its_turns(file: sqlite3.Connection, write: Write) -> None:
    write("resp_1", "in_1", output=("out_1",))
    write("resp_2", "in_2", output=("out_2",), previous="resp_1")
    write("resp_3", previous="resp_missing")
    chain = queries.chain(file, LOCAL, "resp_2")
    assert chain is not None
    assert [(turn.id, turn.input, turn.output) for turn in chain] == [
        ("resp_1", items("in_1"), items("out_1")),
        ("resp_2", items("in_2"), items("out_2")),
    ]
    for tenant, id in ((LOCAL, "resp_3"), (LOCAL, "resp_no"), (OTHER, "resp_2")):
        assert queries.chain(file, tenant, id) is None
    assert not file.in_transaction


def test_ids_that_form_a_cycle_do_not_loop(file: sqlite3.Connection, write: Write) -> None:
    write("resp_1", "in_1", previous="resp_2")
    write("resp_2", "in_2", previous="resp_1")
    assert queries.chain(file, LOCAL, "resp_2") is None
    assert [id for _, id in queries.history(file, LOCAL, "resp_2", False)] == ["in_1", "in_2"]


@pytest.mark.parametrize(
    ("is_before", "expected"),
    [(False, ["in_1", "out_1", "in_2"]), (True, ["in_1", "out_1", "in_2", "out_2"])],
)
def test_the_history_has_the_own_output_only_for_a_later_turn(
    file: sqlite3.Connection, write: Write, is_before: bool, expected: list[str]
) -> None:
    write("resp_1", "in_1", output=("out_1",))
    write("resp_2", "in_2", output=("out_2",), previous="resp_1")
    history = queries.history(file, LOCAL, "resp_2", is_before)
    assert [id for _, id in history] == expected
    found = queries.items(file, [number for number, _ in history] + [999])
    assert [stored.id for stored in found.values()] == expected


def test_output_takes_precedence_over_input_and_both_over_a_conversation(
    file: sqlite3.Connection, write: Write
) -> None:
    """Clients return output in another form, and omit fields."""
    statements.create_conversation(file, LOCAL, StoredConversation("conv_1", 1, b"{}"), 1.0)
    statements.add_items(file, LOCAL, "conv_1", [item(id, "talk") for id in ("a", "b", "c")], 1.0)
    write("resp_1", end=replace(closed("resp_1"), output=(item("a", "model"),)))
    write("resp_2", turn=replace(opened("resp_2"), input=(item("a", "client"), item("b", "client"))))
    assert queries.items_of(file, LOCAL, ["a", "b", "c", "d"]) == {
        "a": (item("a", "model"), True),
        "b": (item("b", "client"), False),
        "c": (item("c", "talk"), False),
    }


def test_traces_and_reasoning_memory_belong_to_a_tenant(file: sqlite3.Connection, write: Write) -> None:
    write("resp_1", traces=[trace(1), trace(2)], reasoning_memory={"call_1": b"one"})
    assert queries.traces(file, LOCAL, "resp_1") == [trace(1), trace(2)]
    assert queries.traces(file, OTHER, "resp_1") == []
    assert queries.reasoning_memory(file, LOCAL, ["call_1", "call_2"]) == {"call_1": b"one"}
    assert queries.reasoning_memory(file, OTHER, ["call_1"]) == {}


def test_stats_count_rows_and_used_bytes(file: sqlite3.Connection, write: Write) -> None:
    empty = queries.stats(file)
    write("resp_1", "in_1", output=("out_1",), events=events(0, 7))
    statements.create_conversation(file, LOCAL, StoredConversation("conv_1", 1, b"{}"), 1.0)
    statements.add_items(file, LOCAL, "conv_1", items("msg_1"), 1.0)
    stats = queries.stats(file)
    assert (stats.responses, stats.items, stats.events, stats.conversations) == (1, 3, 7, 1)
    assert (empty.responses, empty.items, empty.events, empty.conversations) == (0, 0, 0, 0)
    assert stats.bytes == queries.used_bytes(file) > 0
