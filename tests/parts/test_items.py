"""Events find their item, whatever the server does to ids and indexes."""

from __future__ import annotations

import json

import pytest

from penstock.parts.items import CALL, MESSAGE, TEXT, OutputItem, OutputItems
from tests.cli import streams
from tests.parts.adapted import adapt
from tests.parts.events import (
    JSON,
    arguments_delta,
    arguments_done,
    call,
    completed,
    event,
    item_added,
    item_done,
    message,
    reasoning,
    reasoning_delta,
    text_delta,
)
from tests.parts.expected import ADD, MULTIPLY, Expected
from tests.parts.stream_changes import (
    Change,
    Events,
    change_events,
    in_items,
    in_response,
    rotate_item_ids,
    twice,
    without,
    without_fields,
)


def parallel_calls(first_ends_first: bool) -> Events:
    """Return two calls with interleaved events."""
    add, first = streams.call("fc_1", 0, "add", ['{"a":2,', '"b":3}'])
    multiply, second = streams.call("fc_2", 1, "multiply", ['{"c":', "4}"])
    turns = zip(*((add, multiply) if first_ends_first else (multiply, add)), strict=True)
    events = [add[0], multiply[0], *[each for pair in turns for each in pair][2:]]
    return streams.response(events, [first, second])


def without_ids(events: Events) -> Events:
    """Remove everything that identifies the item of an event."""
    events = without_fields("output_index", "item_id")(events)
    return in_items(lambda item: [item.pop(name, None) for name in ("id", "call_id")])(events)


ARGUED = ("function_call_arguments.delta", "function_call_arguments.done")

PARALLEL: dict[str, Change] = {
    "nothing": lambda events: events,
    "another item id in every event": rotate_item_ids,
    "every item at index 0": change_events(
        lambda event: "output_index" in event and event.update(output_index=0)
    ),
    "another item id in every event, every item at index 0": lambda events: rotate_item_ids(
        change_events(lambda event: "output_index" in event and event.update(output_index=0))(events)
    ),
    "the same item id for all": lambda events: json.loads(
        json.dumps(events).replace('"fc_1"', '"x"').replace('"fc_2"', '"x"')
    ),
    "the same item id for all, and only arguments.done": lambda events: PARALLEL["the same item id for all"](
        PARALLEL["only arguments.done"](events)
    ),
    "only arguments.done": lambda events: in_response(lambda response: response.update(output=[]))(
        without("output_item.done")(events)
    ),
    "the call id instead of the item id, at index 0, and only arguments.done": lambda events: change_events(
        lambda event: event.update(item_id=f"call_{event['item_id']}", output_index=0), *ARGUED
    )(PARALLEL["only arguments.done"](events)),
    "nothing announced": without("output_item.added"),
    "no item is done": without("output_item.done"),
    "announced twice": twice("output_item.added", numbered=True),
    "done twice": twice("output_item.done", "function_call_arguments.done", numbered=True),
    "an empty response": in_response(lambda response: response.update(output=[])),
    "other ids for all in the response": in_response(
        lambda response: [
            item.update(id=f"x{n}", call_id=f"y{n}") for n, item in enumerate(response["output"])
        ]
    ),
    "the response in another order, with other ids": in_response(
        lambda response: [
            response["output"].reverse(),
            *(item.update(id=f"x{n}", call_id=f"y{n}") for n, item in enumerate(response["output"])),
        ]
    ),
}


@pytest.mark.parametrize("first_ends_first", [True, False], ids=["the first ends first", "the second does"])
@pytest.mark.parametrize("change", PARALLEL.values(), ids=PARALLEL.keys())
def test_parallel_calls_are_kept_apart(change: Change, first_ends_first: bool) -> None:
    found = adapt(change(parallel_calls(first_ends_first)))
    assert sorted((call.call_id, call.name, call.input) for call in found.calls) == [ADD, MULTIPLY]
    assert set(found.diagnostics) <= {"repeated_call"}


@pytest.mark.parametrize("first_ends_first", [True, False], ids=["the first ends first", "the second does"])
def test_calls_without_ids_keep_their_names_and_arguments(first_ends_first: bool) -> None:
    found = adapt(without_ids(parallel_calls(first_ends_first)))
    assert sorted((call.name, call.input) for call in found.calls) == [
        ("add", {"a": 2, "b": 3}),
        ("multiply", {"c": 4}),
    ]


def test_a_call_without_ids_does_not_get_the_arguments_of_another() -> None:
    events = [
        item_added(call("", "add")),
        arguments_delta("", '{"a":2,"b":3}'),
        item_done(call("", "rest", "")),
        item_done(call("", "add", "")),
        completed(),
    ]
    found = adapt(without_ids(events))
    assert [(call.name, call.input) for call in found.calls] == [("rest", {}), ADD[1:]]


def test_two_calls_without_ids_to_one_tool_are_two() -> None:
    first, one = streams.call("fc_1", 0, "add", ['{"a":1}'])
    second, two = streams.call("fc_2", 1, "add", ['{"a":2}'])
    for events in ([*first, *second], [first[0], second[0], *first[1:], *second[1:]]):
        found = adapt(without_ids(streams.response(events, [one, two])))
        assert [call.input for call in found.calls] == [{"a": 1}, {"a": 2}]


def test_two_consecutive_calls_with_the_same_item_id() -> None:
    add, multiply = (
        call("x", "add", '{"a":2,"b":3}', call_id="call_fc_1"),
        call("x", "multiply", "", call_id="call_fc_2"),
    )
    for announced in (True, False):
        opened = [
            [item_added(item, index)] if announced else [] for index, item in enumerate((add, multiply))
        ]
        found = adapt(
            [
                *opened[0],
                item_done(add, 0),
                *opened[1],
                arguments_delta("x", '{"c":4}', 1),
                arguments_done("x", '{"c":4}', 1),
                item_done({**multiply, "arguments": '{"c":4}'}, 1),
                completed(),
            ]
        )
        assert found.summary == [ADD, MULTIPLY]


def test_two_calls_with_the_same_item_id_the_second_only_in_the_response() -> None:
    add, multiply = (
        call("x", "add", '{"a":2,"b":3}', call_id="call_fc_1"),
        call("x", "multiply", '{"c":4}', call_id="call_fc_2"),
    )
    assert adapt([item_done(add), completed(add, multiply)]).summary == [ADD, MULTIPLY]


def test_calls_at_one_index_with_different_ids_in_their_events() -> None:
    """The ids differ from the announced ones but are the same in every event."""
    events = [
        item_added(call("fc_1", "add")),
        arguments_delta("event_1", '{"a":2,'),
        item_added(call("fc_2", "multiply")),
        arguments_done("event_1", '{"a":2,"b":3}'),
        arguments_done("event_2", '{"c":4}'),
        completed(),
    ]
    assert adapt(events).summary == [ADD, MULTIPLY]


REGENERATED: dict[str, tuple[Events, list[JSON]]] = {
    "has a call more to the same tool": (
        [item_done(call("fc_1", "add", '{"a":2,"b":3}'))],
        [call("x", "add", '{"a":9}'), call("y", "add", '{"a":2,"b":3}')],
    ),
    "has a call more to another tool": (
        [item_done(call("fc_1", "add", '{"a":2,"b":3}'))],
        [call("x", "multiply", '{"a":9}'), call("y", "add", '{"a":2,"b":3}')],
    ),
}


@pytest.mark.parametrize(("events", "output"), REGENERATED.values(), ids=REGENERATED.keys())
def test_only_new_calls_of_a_response_with_other_ids_are_delivered(
    events: Events, output: list[JSON]
) -> None:
    found = adapt([*events, completed(*output)])
    assert [(call.call_id, call.input) for call in found.calls] == [
        ("gw-call_fc_1", {"a": 2, "b": 3}),
        ("gw-call_x", {"a": 9}),
    ]


def test_an_announced_call_is_found_in_a_response_with_other_ids() -> None:
    events = [item_added(call("fc_1", "add")), completed(call("x", "add", '{"a":2,"b":3}'))]
    Expected(calls=[ADD], finish="tool_calls").check(events)


def test_a_response_with_other_ids_does_not_repeat_thinking() -> None:
    """The first item matches both streamed items; its index decides."""
    first, second = reasoning("a", "0", "00"), reasoning("b", "", "00")
    streamed = [
        item_done({**second, "id": "rs_2"}, 1),
        reasoning_delta("rs_1", "0"),
        item_done({**first, "id": "rs_1"}),
    ]
    assert adapt([*streamed, text_delta("m", "Yes.", 2), completed(first, second)]).thinking == "000"


def test_a_text_part_of_a_reasoning_item_is_not_an_answer() -> None:
    """Some servers use parts of type `text` in reasoning: its item decides, even with other ids."""
    for id, before in (("rs", []), ("other", []), ("rs", [item_added(message("m"))])):
        part = event("content_part.done", item_id=id, part={"type": "text", "text": "Hm"})
        events = [
            item_added(reasoning("rs")),
            reasoning_delta("rs", "Hm"),
            *before,
            part,
            text_delta("m", "Yes.", 1),
            completed(),
        ]
        found = adapt(events)
        assert (found.text, found.thinking) == ("Yes.", "Hm")


@pytest.mark.parametrize("place", [1, 0], ids=["one after the other", "all at index 0"])
def test_equal_calls_with_different_ids_are_two_calls(place: int) -> None:
    alike = [call("fc_1", "add", '{"a":2}'), call("fc_2", "add", '{"a":2}')]
    found = adapt([item_done(alike[0], 0), item_done(alike[1], place), completed()])
    assert [each.call_id for each in found.calls] == ["gw-call_fc_1", "gw-call_fc_2"]


# The items themselves


def never(_: OutputItem, __: JSON) -> bool:
    return False


def test_an_item_is_found_by_every_id_that_it_had() -> None:
    items = OutputItems()
    item = items.find_added(MESSAGE, "a", 0, message("a"))
    assert items.find(MESSAGE, "b", 0) == (item, True)
    assert items.find_done(MESSAGE, "c", 0, message("c"), never) is item
    assert [items.find(MESSAGE, id, 7)[0] for id in ("a", "b", "c")] == [item] * 3
    assert item.id == "a"


def test_an_event_for_one_of_two_open_items_at_an_index_is_not_certain() -> None:
    items = OutputItems()
    items.find_added(CALL, "a", 0, call("a", "add"))
    newest = items.find_added(CALL, "b", 0, call("b", "add"))
    assert items.find(CALL, "", 0) == (newest, False)
    assert items.find(CALL, "a", 0)[1]


def test_an_id_that_two_calls_share_identifies_neither() -> None:
    items = OutputItems()
    first = items.find_added(CALL, "x", 0, call("x", "add", call_id="call_1"))
    items.name_call(first, "call_1")
    second = items.find_added(CALL, "x", 1, call("x", "add", call_id="call_2"))
    assert second is not first
    assert items.find(CALL, "x", 0)[0] is first
    assert items.find(CALL, "x", 1)[0] is second


def test_the_first_call_id_is_final() -> None:
    items = OutputItems()
    item = items.find_added(CALL, "a", 0, call("a", "add"))
    items.name_call(item, "call_1")
    items.name_call(item, "call_2")
    assert item.call_id == "call_1"
    assert items.find(CALL, "call_1", 5) == (item, True)


@pytest.mark.parametrize(
    ("deltas", "text", "agreement"),
    [
        ([], "Hello", 0),
        ([(0, "Hel")], "Hello", 1),
        ([(0, "Hel"), (1, "lo")], "Hello", 2),
        ([(0, "Bye")], "Hello", -1),
    ],
    ids=["nothing received", "the beginning", "everything, in two parts", "different"],
)
def test_received_text_is_compared_with_an_item(
    deltas: list[tuple[int, str]], text: str, agreement: int
) -> None:
    item = OutputItem(MESSAGE, 0, 0)
    for index, delta in deltas:
        item.add_text(TEXT, index, delta)
    assert item.agreement(message("m", text)) == agreement
    assert (item.received_length(TEXT, text) is None) == (agreement < 0)


def test_the_terminal_response_matches_items_by_id_then_by_content_then_by_order() -> None:
    items = OutputItems()
    streamed = [items.find_added(MESSAGE, id, index, message(id)) for index, id in enumerate("abc")]
    streamed[1].add_text(TEXT, 0, "Two.")
    output = [message("x", "Two."), message("c", "Three."), message("y", "One.")]
    found = items.match_output([(MESSAGE, raw) for raw in output], never)
    assert [each.number for each in found] == [1, 2, 0]
