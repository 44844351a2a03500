"""Calls and outputs are matched and sent with valid, unique ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.parts.exchanges import (
    NO_POSITION,
    PREFIX,
    ToolExchanges,
    from_editor,
    to_editor,
    without_repeats,
)
from penstock.parts.parts import (
    DataPart,
)
from penstock.tools.call_ids import NO_OUTPUT, ORPHAN_OUTPUT, fitting
from tests.parts.conversations import (
    IMAGE,
    LONG,
    PNG,
    assistant,
    call,
    call_item,
    codes,
    data_url,
    message_item,
    output_item,
    result,
    translate,
    user,
)

# Call ids


@pytest.mark.parametrize(
    ("editor_id", "wire_id"),
    [
        ("gw-call_1", "call_1"),
        ("gw-gw-1", "gw-1"),
        ("toolu_9", "toolu_9"),
        ("GW-1", "GW-1"),
        ("gw-" + "x" * 64, "x" * 64),
        ("gw-" + LONG, fitting(LONG)),
        ("f" + LONG, fitting("f" + LONG)),
        ("gw-", "call_1"),
        ("", "call_1"),
    ],
)
def test_a_call_and_its_output_share_a_valid_id(editor_id: str, wire_id: str) -> None:
    messages = assistant(call(editor_id)), user(result(editor_id, "ok"))
    assert translate(*messages) == [call_item(wire_id), output_item(wire_id)]
    assert codes(*messages) == (["long_call_id"] if LONG in editor_id else [])


def test_different_calls_never_share_an_id() -> None:
    ids = ["x", "gw-x", "gw-x-2", "x-2", "gw-", "call_1", "gw-" + LONG, LONG]
    items = translate(
        assistant(*(call(each, value=each) for each in ids)), user(*(result(each, each) for each in ids))
    )
    sent = [item["call_id"] for item in items[: len(ids)]]
    assert sent == ["x", "x-2", "x-2-2", "x-2-3", "call_1", "call_1-2", fitting(LONG), fitting(LONG) + "-2"]
    assert items[len(ids) :] == [
        output_item(wire_id, editor_id) for wire_id, editor_id in zip(sent, ids, strict=True)
    ]


def test_calls_without_ids_get_their_outputs_in_order() -> None:
    assert translate(
        assistant(call("", value=1), call("", value=2)), user(result("", "a")), user(result("", "b"))
    ) == [
        call_item("call_1", '{"value":1}'),
        call_item("call_2", '{"value":2}'),
        output_item("call_1", "a"),
        output_item("call_2", "b"),
    ]


# Duplicates and orphans


def test_a_repeated_call_is_sent_once() -> None:
    doubled = [
        assistant(call("1", value="first"), call("1", value="second")),
        user(result("1", "one")),
        user(result("1", "two")),
    ]
    assert translate(*doubled) == [call_item("1", '{"value":"first"}'), output_item("1", "one")]
    assert codes(*doubled) == ["repeated_call", "repeated_output"]


def test_an_id_that_is_reused_after_its_output_is_a_new_call() -> None:
    turns = [
        message
        for number in range(3)
        for message in (assistant(call("gw-call_0", value=number)), user(result("gw-call_0", f"{number}")))
    ]
    assert translate(*turns) == [
        call_item("call_0", '{"value":0}'),
        output_item("call_0", "0"),
        call_item("call_0-2", '{"value":1}'),
        output_item("call_0-2", "1"),
        call_item("call_0-3", '{"value":2}'),
        output_item("call_0-3", "2"),
    ]
    assert codes(*turns) == []


def test_an_output_without_a_call_becomes_a_message() -> None:
    orphans = user(
        "Hi.",
        result("gw-lost", "a", "b"),
        result("", DataPart(PNG, "image/png"), DataPart(b"v", "video/mp4")),
        "So?",
    )
    video = {"type": "input_file", "filename": "attachment.mp4", "file_data": data_url("video/mp4", b"v")}
    assert translate(orphans) == [
        message_item("user", "Hi."),
        message_item("user", ORPHAN_OUTPUT, "a\nb"),
        message_item("user", ORPHAN_OUTPUT, IMAGE, video),
        message_item("user", "So?"),
    ]
    assert codes(orphans) == ["orphan_output"] * 2


def test_a_call_without_output_gets_a_placeholder_after_its_run() -> None:
    conversation = [
        user("Go."),
        assistant("A.", call("1"), call("2"), call("3"), "B.", call("4")),
        user(result("2", "two"), "Never mind."),
    ]
    assert translate(*conversation) == [
        message_item("user", "Go."),
        message_item("assistant", "A."),
        call_item("1"),
        call_item("2"),
        call_item("3"),
        output_item("1", NO_OUTPUT),
        output_item("3", NO_OUTPUT),
        message_item("assistant", "B."),
        call_item("4"),
        output_item("4", NO_OUTPUT),
        output_item("2", "two"),
        message_item("user", "Never mind."),
    ]
    assert codes(*conversation) == ["unanswered_call"] * 3


def test_an_output_before_its_call_is_moved_after_it() -> None:
    early = user("a", result("1", "one"), "b"), assistant(call("0"), call("1")), user(result("0", "nought"))
    assert translate(*early) == [
        message_item("user", "ab"),
        call_item("0"),
        call_item("1"),
        output_item("1", "one"),
        output_item("0", "nought"),
    ]


# Prefixes


@given(st.text())
def test_the_editor_returns_a_call_id_unchanged(call_id: str) -> None:
    editor_id = to_editor(call_id)
    assert from_editor(editor_id) == call_id
    assert len(editor_id) == len(call_id) + len(PREFIX)


@pytest.mark.parametrize("call_id", ["call_1", "toolu_01", "", "gw_1", "GW-1"])
def test_a_call_id_of_another_provider_is_unchanged(call_id: str) -> None:
    assert from_editor(call_id) == call_id


# The exchanges themselves


def test_an_exchange_has_the_positions_of_its_call_and_its_first_output() -> None:
    messages = [assistant("Hm.", call("gw-1")), user(result("gw-1", "a"), result("gw-1", "b"))]
    exchanges = ToolExchanges(messages)
    (exchange,) = exchanges
    assert (exchange.call, exchange.output) == ((0, 1), (1, 0))
    assert exchange.result is messages[1].content[0]
    assert exchanges[1, 0] is exchanges[1, 1] is exchange


@pytest.mark.parametrize(
    ("editor_id", "has_original_id"), [("gw-call_1", True), ("toolu_1", True), (LONG, False), ("", False)]
)
def test_only_an_id_that_fits_stays_the_original_one(editor_id: str, has_original_id: bool) -> None:
    (exchange,) = ToolExchanges([assistant(call(editor_id))])
    assert exchange.has_original_id is has_original_id


def test_an_output_without_a_call_has_no_position_of_a_call_and_is_not_listed() -> None:
    exchanges = ToolExchanges([user(result("gw-lost", "a"))])
    assert [*exchanges] == []
    assert exchanges[0, 0].call == NO_POSITION


def test_messages_without_repeats_keep_the_first_call_and_output_and_every_orphan() -> None:
    once = [assistant("Hm.", call("1", value=1)), user(result("1", "a")), user(result("lost", "x"))]
    repeated = [
        assistant("Hm.", call("1", value=1), call("1", value=2)),
        user(result("1", "a"), result("1", "b")),
        user(result("lost", "x")),
    ]
    assert without_repeats(repeated) == once
    assert [one is other for one, other in zip(without_repeats(once), once, strict=True)] == [True] * 3
