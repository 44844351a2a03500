"""Each tool call is delivered once, complete, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import (
    ProtocolError,
)
from penstock.parts.parts import ToolCallPart
from tests.parts.adapted import adapt
from tests.parts.events import (
    JSON,
    arguments_delta,
    arguments_done,
    call,
    completed,
    custom_call,
    event,
    incomplete,
    item_added,
    item_done,
    text_delta,
)
from tests.parts.expected import (
    ADD,
    ADD_PART,
    MALFORMED,
    MULTIPLY,
    MULTIPLY_PART,
    TRUNCATED,
    Expected,
    Table,
    assert_produces,
)
from tests.parts.stream_changes import Events

REPEATED = {
    "before the first is done": [
        item_added(call("fc_1", "add"), 0),
        item_added(call("fc_9", "add", call_id="call_fc_1"), 1),
        arguments_done("fc_1", '{"a":2,"b":3}', 0),
        arguments_done("fc_9", '{"a":2,"b":3}', 1),
    ],
    "after the first is done": [
        item_done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        item_done(call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1"), 1),
    ],
    "with other arguments": [
        item_done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        item_done(call("fc_9", "add", '{"a":9}', call_id="call_fc_1"), 1),
    ],
    "at the same place": [
        item_done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        item_done(call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1"), 0),
    ],
    "only in the response": [
        item_done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
        completed(
            call("fc_1", "add", '{"a":2,"b":3}'), call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1")
        ),
    ],
}


@pytest.mark.parametrize("events", REPEATED.values(), ids=REPEATED.keys())
def test_a_call_repeated_with_another_item_id_is_delivered_once(events: Events) -> None:
    assert adapt([*events, completed()]).summary == [ADD]


def test_an_equal_call_that_only_the_response_has_is_delivered() -> None:
    """An equal call is not a repeat if all streamed calls are matched already."""
    alike = [call("fc_1", "add", '{"a":2,"b":3}'), call("fc_2", "add", '{"a":2,"b":3}')]
    again = call("fc_9", "add", '{"a":2,"b":3}', call_id="call_fc_1")
    found = adapt([item_done(alike[0], 0), item_done(again, 1), completed(*alike)])
    assert [call.call_id for call in found.calls] == ["gw-call_fc_1", "gw-call_fc_2"]


# Arguments


def only_in_arguments_done(arguments: Any) -> Events:
    return [item_added(call("fc_1", "add")), arguments_done("fc_1", arguments), completed()]


def only_in_the_item(arguments: Any) -> Events:
    return [item_done(call("fc_1", "add", arguments)), completed()]


def only_in_the_response(arguments: Any) -> Events:
    return [completed(call("fc_1", "add", arguments))]


def only_announced(arguments: Any) -> Events:
    return [item_added(call("fc_1", "add", arguments)), arguments_done("fc_1", ""), completed()]


SOURCES = [only_in_arguments_done, only_in_the_item, only_in_the_response, only_announced]
GOOD: dict[str, tuple[Any, JSON]] = {
    "empty": ("", {}),
    "blank": (" \n", {}),
    "an empty object": ("{}", {}),
    "missing": (None, {}),
    "an object": ('{"a":2}', {"a": 2}),
    "an object with surrounding space": (' {"a":2}\n', {"a": 2}),
    "an object instead of a string": ({"a": 2}, {"a": 2}),
    "an empty object instead of a string": ({}, {}),
}
BAD: dict[str, Any] = {
    "cut off": '{"a":',
    "not JSON": "nope",
    "a list": "[1]",
    "a string in a string": '"{}"',
    "null as a string": "null",
    "a number as a string": "5",
    "two objects": '{"a":2}{"a":3}',
    "a list instead of a string": [1],
    "a number": 5,
    "true": True,
}


@pytest.mark.parametrize("place", SOURCES, ids=lambda place: place.__name__)
@pytest.mark.parametrize(("arguments", "input"), GOOD.values(), ids=GOOD.keys())
def test_valid_arguments_become_the_input(
    place: Callable[[Any], Events], arguments: Any, input: JSON
) -> None:
    assert adapt(place(arguments)).summary == [("gw-call_fc_1", "add", input)]


@pytest.mark.parametrize("place", SOURCES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_malformed_arguments_add_a_diagnostic_and_are_an_error_without_other_output(
    place: Callable[[Any], Events], arguments: Any
) -> None:
    Expected(error=MALFORMED, finish="error", diagnostics={"malformed_tool_call": 1}).check(place(arguments))
    with_text = [text_delta("m", "Hm.", 1), *place(arguments)]
    Expected(text="Hm.", diagnostics={"malformed_tool_call": 1}).check(with_text)
    again = [item_done(call("fc_1", "add", arguments)), *place(arguments)]
    Expected(error=MALFORMED, finish="error", diagnostics={"malformed_tool_call": 1}).check(again)
    with_call = [item_done(call("fc_2", "multiply", '{"c":4}'), 1), *place(arguments)]
    Expected(calls=[MULTIPLY], finish="tool_calls", diagnostics={"malformed_tool_call": 1}).check(with_call)


COMPLETE_SOMEWHERE: dict[str, Events] = {
    "the item's arguments are broken, the event's complete": [
        item_added(call("fc_1", "add")),
        arguments_done("other", '{"a":2,"b":3}', 1),
        item_done(call("fc_1", "add", '{"a":2,')),
        completed(call("fc_1", "add", '{"a":2,"b":3}')),
    ],
    "the deltas are complete": [
        item_added(call("fc_1", "add")),
        arguments_delta("fc_1", '{"a":2,"b":3}'),
        item_done(call("fc_1", "add", '{"a":')),
        completed(),
    ],
    "the item has another id, another index, and no arguments": [
        item_added(call("fc_1", "add")),
        arguments_delta("fc_1", '{"a":2,"b":3}'),
        item_done(call("x", "add", "", call_id="call_fc_1"), 1),
        completed(),
    ],
    "the response's arguments are complete": [
        item_done(call("fc_1", "add", '{"a":')),
        completed(call("fc_1", "add", '{"a":2,"b":3}')),
    ],
}


@pytest.mark.parametrize("events", COMPLETE_SOMEWHERE.values(), ids=COMPLETE_SOMEWHERE.keys())
def test_the_complete_copy_of_the_arguments_is_used(events: Events) -> None:
    assert adapt(events).summary == [ADD]


def test_the_name_of_a_call_may_arrive_late() -> None:
    late = [item_added(call("fc_1", "")), arguments_done("fc_1", '{"a":2,"b":3}', name="add"), completed()]
    assert adapt(late).summary == [ADD]
    for early in ("", "ad"):
        announced = [item_added(call("fc_1", early)), arguments_delta("fc_1", '{"a":2,"b":3}')]
        assert adapt([*announced, item_done(call("fc_1", "add")), completed()]).summary == [ADD]


def test_a_call_without_a_name_is_an_error() -> None:
    for events in (
        [item_done(call("fc_1", "", "{}")), completed()],
        [item_added(call("fc_1", "")), arguments_delta("fc_1", "{}"), completed()],
    ):
        Expected(error=MALFORMED, finish="error", diagnostics={"malformed_tool_call": 1}).check(events)


def test_a_call_that_is_only_announced_is_an_error() -> None:
    events = [item_added(call("fc_1", "add")), completed()]
    Expected(error=MALFORMED, finish="error", diagnostics={"malformed_tool_call": 1}).check(events)


# Calls that are cut off


CUT_OFF: dict[str, tuple[Events, Expected]] = {
    "its item is incomplete": (
        [
            item_done(call("fc_1", "add", '{"a":2,"b":3}', status="incomplete")),
            incomplete("max_output_tokens"),
        ],
        Expected(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "its item does not say that it is incomplete": (
        [item_done(call("fc_1", "add", '{"a":')), incomplete("max_output_tokens")],
        Expected(
            error=(ProtocolError, "incomplete_length"),
            finish="length",
            diagnostics={"malformed_tool_call": 1},
        ),
    ),
    "its arguments stop": (
        [item_added(call("fc_1", "add")), arguments_delta("fc_1", '{"a":'), incomplete("max_output_tokens")],
        Expected(error=(ProtocolError, "incomplete_length"), finish="length"),
    ),
    "the stream stops": (
        [item_added(call("fc_1", "add")), arguments_delta("fc_1", '{"a":')],
        Expected(error=TRUNCATED, finish="error"),
    ),
    "the call before it is complete": (
        [
            item_done(call("fc_1", "add", '{"a":2,"b":3}'), 0),
            item_added(call("fc_2", "multiply"), 1),
            arguments_delta("fc_2", '{"c":', 1),
            incomplete("max_output_tokens", call("fc_2", "multiply", '{"c":', status="incomplete")),
        ],
        Expected(calls=[ADD], finish="length"),
    ),
    "one that only the response has is completed": (
        [
            incomplete(
                "max_output_tokens",
                call("fc_1", "add", '{"a":2,"b":3}', status="completed"),
                call("fc_2", "multiply", '{"c":4}', status="in_progress"),
            )
        ],
        Expected(calls=[ADD], finish="length"),
    ),
}


@pytest.mark.parametrize(("events", "outcome"), CUT_OFF.values(), ids=CUT_OFF.keys())
def test_a_call_that_is_cut_off_is_not_delivered(events: Events, outcome: Expected) -> None:
    outcome.check(events)


CALL_FLOWS: dict[str, Table] = {
    "primary: the arguments are done": [
        (item_added(call("fc_1", "add")), []),
        (arguments_delta("fc_1", '{"a"'), []),
        (arguments_delta("fc_1", ":2}"), []),
        (arguments_done("fc_1", '{"a":2}'), [ADD_PART]),
        (item_done(call("fc_1", "add", '{"a":2}')), []),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "primary: from the buffered deltas": [
        (item_added(call("fc_1", "add")), []),
        (arguments_delta("fc_1", '{"a":2}'), []),
        (arguments_done("fc_1", ""), [ADD_PART]),
        (item_done(call("fc_1", "add", "")), []),
        (completed(), []),
    ],
    "primary: empty arguments wait for the item": [
        (item_added(call("fc_1", "add")), []),
        (arguments_done("fc_1", ""), []),
        (item_done(call("fc_1", "add", '{"a":2}')), [ADD_PART]),
        (completed(), []),
    ],
    "primary: from the event alone": [
        (item_added(call("fc_1", "add")), []),
        (arguments_done("fc_1", '{"a":2}'), [ADD_PART]),
        (completed(), []),
    ],
    "fallback: the item is done": [
        (item_added(call("fc_1", "add")), []),
        (arguments_delta("fc_1", '{"a":2}'), []),
        (item_done(call("fc_1", "add", '{"a":2}')), [ADD_PART]),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "fallback: only the done item": [
        (item_done(call("fc_1", "add", '{"a":2}')), [ADD_PART]),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "final: the response is completed": [
        (item_added(call("fc_1", "add")), []),
        (arguments_delta("fc_1", '{"a":2}'), []),
        (completed(call("fc_1", "add", '{"a":2}')), [ADD_PART]),
    ],
    "final: only the response has it": [(completed(call("fc_1", "add", '{"a":2}')), [ADD_PART])],
}


@pytest.mark.parametrize("table", CALL_FLOWS.values(), ids=CALL_FLOWS.keys())
def test_a_call_is_delivered_at_the_first_moment_that_it_is_complete(table: Table) -> None:
    assert_produces(table)


def test_interleaved_parallel_calls() -> None:
    assert_produces(
        [
            (item_added(call("fc_1", "add"), 0), []),
            (item_added(call("fc_2", "multiply"), 1), []),
            (arguments_delta("fc_1", '{"a":2}', 0), []),
            (arguments_delta("fc_2", '{"b":3}', 1), []),
            (arguments_done("fc_1", '{"a":2}', 0), [ADD_PART]),
            (arguments_done("fc_2", '{"b":3}', 1), [MULTIPLY_PART]),
            (item_done(call("fc_1", "add", '{"a":2}'), 0), []),
            (item_done(call("fc_2", "multiply", '{"b":3}'), 1), []),
        ]
    )


# Missing events (decision 22)


UNANNOUNCED: dict[str, Table] = {
    "the item has the name": [
        (arguments_delta("fc_1", '{"a":2}'), []),
        (arguments_done("fc_1", '{"a":2}'), []),
        (item_done(call("fc_1", "add", '{"a":2}')), [ADD_PART]),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "the item has no arguments": [
        (arguments_done("fc_1", '{"a":2}'), []),
        (item_done(call("fc_1", "add", "")), [ADD_PART]),
        (completed(), []),
    ],
    "the response has the name": [
        (arguments_done("fc_1", '{"a":2}'), []),
        (completed(call("fc_1", "add", '{"a":2}')), [ADD_PART]),
    ],
    "`added` comes after the arguments": [
        (arguments_delta("fc_1", '{"a":2}'), []),
        (item_added(call("fc_1", "add")), []),
        (arguments_done("fc_1", '{"a":2}'), [ADD_PART]),
        (completed(), []),
    ],
    "two interleaved calls without it": [
        (arguments_delta("fc_1", '{"a":', 0), []),
        (arguments_delta("fc_2", '{"b":', 1), []),
        (arguments_delta("fc_1", "2}", 0), []),
        (arguments_delta("fc_2", "3}", 1), []),
        (arguments_done("fc_2", "", 1), []),
        (arguments_done("fc_1", "", 0), []),
        (item_done(call("fc_1", "add", ""), 0), [ADD_PART]),
        (item_done(call("fc_2", "multiply", ""), 1), [MULTIPLY_PART]),
    ],
}


@pytest.mark.parametrize("table", UNANNOUNCED.values(), ids=UNANNOUNCED.keys())
def test_arguments_before_the_announcement_are_buffered(table: Table) -> None:
    assert_produces(table)


def test_arguments_without_a_name_are_an_error() -> None:
    found = adapt([arguments_done("fc_1", '{"a":2}'), completed()])
    assert found.parts == []
    assert found.error is not None
    assert found.error[1] == "malformed_tool_call"


@pytest.mark.parametrize(
    "call_id", ["call_1", "gw-call_1", "toolu_01", "x" * 90], ids=["plain", "prefixed", "foreign", "long"]
)
def test_a_call_id_gets_our_prefix_once(call_id: str) -> None:
    found = adapt([completed(call("fc_1", "add", "{}", call_id=call_id))])
    assert [each.call_id for each in found.calls] == [f"gw-{call_id}"]


CUT_CALLS: dict[str, list[JSON]] = {
    "in its arguments": [item_added(call("fc_1", "add")), arguments_delta("fc_1", '{"a":')],
    "after complete arguments, before their end": [
        item_added(call("fc_1", "add")),
        arguments_delta("fc_1", '{"a":2}'),
    ],
    "before its arguments": [item_added(call("fc_1", "add"))],
    "in the text for a custom tool": [
        item_added(custom_call("ctc_1", "patch")),
        event("custom_tool_call_input.delta", item_id="ctc_1", delta="*** Begin"),
        event("custom_tool_call_input.done", item_id="ctc_1", input="*** Begin"),
        item_done(custom_call("ctc_1", "patch", "*** Begin", status="incomplete")),
    ],
}


@pytest.mark.parametrize("ending", [[], [incomplete("max_output_tokens")]], ids=["cut", "incomplete"])
@pytest.mark.parametrize("events", CUT_CALLS.values(), ids=CUT_CALLS.keys())
def test_a_partial_call_is_never_emitted(events: list[JSON], ending: list[JSON]) -> None:
    found = adapt([text_delta("m", "Wait.", 1), *events, *ending])
    assert found.summary == ["Wait."]


def test_a_custom_call_waits_for_its_item() -> None:
    assert_produces(
        [
            (item_added(custom_call("ctc_1", "patch")), []),
            (event("custom_tool_call_input.delta", item_id="ctc_1", delta="*** Begin"), []),
            (event("custom_tool_call_input.done", item_id="ctc_1", input="*** Begin"), []),
            (
                item_done(custom_call("ctc_1", "patch", "*** Begin")),
                [ToolCallPart("gw-call_ctc_1", "patch", {"input": "*** Begin"})],
            ),
            (completed(custom_call("ctc_1", "patch", "*** Begin")), []),
        ]
    )


def test_a_custom_call_without_a_done_item_is_delivered_at_the_end() -> None:
    events = [
        item_added(custom_call("ctc_1", "patch")),
        event("custom_tool_call_input.done", item_id="ctc_1", input=" "),
        completed(),
    ]
    assert adapt(events).summary == [("gw-call_ctc_1", "patch", {"input": " "})]


TYPED_CALLS: dict[str, tuple[JSON, str, JSON]] = {
    "local_shell_call": ({"action": {"command": ["ls"]}}, "local_shell", {"command": ["ls"]}),
    "shell_call": ({"action": {"commands": ["ls"]}}, "shell", {"commands": ["ls"]}),
    "apply_patch_call": ({"operation": {"type": "delete_file"}}, "apply_patch", {"type": "delete_file"}),
    "tool_search_call": ({"arguments": {"query": "q"}, "execution": "client"}, "tool_search", {"query": "q"}),
    "computer_call": ({"action": {"type": "click"}}, "computer", {"type": "click"}),
}


@pytest.mark.parametrize("type", TYPED_CALLS)
def test_a_typed_call_is_a_call_to_the_tool_of_that_type(type: str) -> None:
    fields, name, input = TYPED_CALLS[type]
    item = {"type": type, "id": "x", **fields}
    # The id is provisional until the call is done.
    events = [item_added({**item, "call_id": "call_0"}), item_done({**item, "call_id": "call_1"})]
    assert adapt([*events, completed({**item, "call_id": "call_1"})]).summary == [("gw-call_1", name, input)]


HOSTED: dict[str, JSON] = {
    "a shell in a container": {
        "type": "shell_call",
        "id": "x",
        "call_id": "c",
        "action": {},
        "environment": {"type": "container_auto"},
    },
    "a search of tools by the server": {"type": "tool_search_call", "id": "x", "execution": "server"},
    "a tool of the vendor that looks like a custom one": custom_call("x", "x_keyword_search", "water"),
    "a web search": {"type": "web_search_call", "id": "x", "status": "completed"},
    "an unknown type": {"type": "acme:dream_call", "id": "x", "call_id": "c", "name": "dream"},
}


@pytest.mark.parametrize("ends", [True, False], ids=["done", "never done"])
@pytest.mark.parametrize("item", HOSTED.values(), ids=HOSTED.keys())
def test_a_call_that_the_vendor_runs_is_not_delivered(item: JSON, ends: bool) -> None:
    found = adapt(
        [item_added(item), *([item_done(item)] if ends else []), text_delta("m", "Found.", 1), completed()]
    )
    assert (found.summary, found.diagnostics) == (["Found."], {})


# Requirements for a provider


def test_a_call_to_an_undeclared_tool_is_delivered_with_a_diagnostic() -> None:
    item = call("fc_1", "add", '{"a":2}')
    found = adapt([item_done(item), item_done(item), completed(item)], tools=["multiply"])
    assert (found.parts, found.diagnostics) == ([ADD_PART], {"undeclared_tool": 1})
    assert adapt([item_done(item), completed(item)], tools=["add"]).diagnostics == {}


# One call, announced twice (ask B4)


NYC = '{"location":"NYC"}'
NEW_YORK = [("gw-call_123", "get_weather", {"location": "NYC"})]


def weather(id: str, arguments: Any = "") -> JSON:
    return call(id, "get_weather", arguments, call_id="call_123")


STREAMED = [
    item_added(weather("fc_abc"), 0),
    arguments_delta("fc_abc", '{"loc', 0),
    arguments_delta("fc_abc", 'ation":"NYC"}', 0),
]
AGAIN = [
    item_added(weather("fc_xyz", NYC), 1),
    # The gateway sends the id of the call here, not of its item.
    arguments_done("call_123", NYC, 1),
    item_done(weather("fc_xyz", NYC), 1),
]

TWICE: dict[str, list[JSON]] = {
    "the first is never done": [*STREAMED, *AGAIN],
    "the first is done before": [
        *STREAMED,
        arguments_done("call_123", NYC, 0),
        item_done(weather("fc_abc", NYC), 0),
        *AGAIN,
    ],
    "the first is done after": [
        *STREAMED,
        *AGAIN,
        arguments_done("fc_abc", NYC, 0),
        item_done(weather("fc_abc", NYC), 0),
    ],
    "the second comes first": [*AGAIN, *STREAMED, item_done(weather("fc_abc", NYC), 0)],
    "both at one index": [{**each, "output_index": 0} for each in [*STREAMED, *AGAIN]],
    "the first with its own id, then with the call id": [
        item_added(weather("fc_abc"), 0),
        arguments_delta("call_123", NYC, 0),
        *AGAIN,
    ],
    "the second has different whitespace": [
        *STREAMED,
        item_done(weather("fc_abc", NYC), 0),
        item_added(weather("fc_xyz"), 1),
        item_done(weather("fc_xyz", '{ "location": "NYC" }'), 1),
    ],
    "the second has an object": [*STREAMED, item_done(weather("fc_xyz", {"location": "NYC"}), 1)],
    "announced three times": [
        *STREAMED,
        item_added(weather("fc_2"), 1),
        item_added(weather("fc_3"), 2),
        *(item_done(weather(id, NYC), index) for index, id in enumerate(("fc_abc", "fc_2", "fc_3"))),
    ],
    "an end with a third id, without arguments": [
        *STREAMED,
        item_added(weather("fc_xyz"), 1),
        item_done(weather("fc_3"), 2),
    ],
    "an end without a beginning": [
        item_done(weather("fc_abc", NYC), 0),
        item_done(weather("fc_xyz", NYC), 1),
    ],
}
LISTED: dict[str, list[JSON]] = {
    "both": [weather("fc_abc", NYC), weather("fc_xyz", NYC)],
    "the first": [weather("fc_abc", NYC)],
    "the second": [weather("fc_xyz", NYC)],
    "a third": [weather("fc_new", NYC)],
    "none": [],
}


@pytest.mark.parametrize("output", LISTED.values(), ids=[f"{name} in the response" for name in LISTED])
@pytest.mark.parametrize("events", TWICE.values(), ids=TWICE.keys())
def test_a_call_announced_twice_is_delivered_once(events: list[JSON], output: list[JSON]) -> None:
    found = adapt([*events, completed(*output)])
    assert found.summary == NEW_YORK
    assert found.error is None
    assert set(found.diagnostics) <= {"repeated_call"}


def test_one_of_two_calls_is_announced_twice() -> None:
    other = call("fc_9", "get_weather", '{"location":"Oslo"}')
    found = adapt(
        [*STREAMED, item_added(call("fc_9", "get_weather"), 1), item_done(other, 1), *AGAIN, completed(other)]
    )
    assert sorted(found.summary) == sorted([*NEW_YORK, ("gw-call_fc_9", "get_weather", {"location": "Oslo"})])
