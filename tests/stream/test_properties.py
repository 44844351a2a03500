"""Properties of every stream, whatever the upstream sends."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BridgeError
from penstock.protocol.events import TERMINAL, Event, read_event
from penstock.protocol.wire import to_builtins
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    Delta,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
)
from penstock.stream.machine import ResponseStreamStateMachine
from tests.effort import examples
from tests.stream import strategies
from tests.stream.fold import Fold
from tests.stream.running import assert_lawful, end, finish, machine, of_type, plain, run
from tests.stream.strategies import ENDINGS

many = settings(max_examples=examples(300), deadline=None)
few = settings(max_examples=examples(120), deadline=None)  # JSON objects take long to generate

CHOICES = st.sampled_from(["auto", "auto", "none"])
USED = st.sets(st.sampled_from(["call_0", "call_1"]))


def check_snapshot(stream: ResponseStreamStateMachine, fold: Fold) -> None:
    snapshot = to_builtins(stream.snapshot)
    assert snapshot["output"] == fold.output
    assert snapshot["status"] == fold.response["status"]
    assert stream.snapshot.output_text == "".join(
        part["text"]
        for item in fold.output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    )


@many
@given(st.lists(strategies.deltas, max_size=25), ENDINGS, CHOICES, USED)
def test_every_stream_is_lawful_and_its_snapshot_is_the_fold_of_its_events(
    deltas: list[Delta], ending: str, choice: str, used: set[str]
) -> None:
    stream = machine(strategies.TOOLS, choice, used)
    fold = Fold()
    events: list[Event] = []

    def collect(new: list[Event]) -> None:
        for event in plain(new):
            fold.feed(event)
        events.extend(new)
        check_snapshot(stream, fold)

    collect(stream.start())
    for delta in deltas:
        collect(stream.apply(delta))
    collect(end(stream, ending))

    assert sum(event.type in TERMINAL for event in events) == 1
    assert events[-1].type in TERMINAL
    assert to_builtins(stream.snapshot) == to_builtins(events[-1])["response"] == fold.response
    assert_lawful(events)


@many
@given(st.lists(strategies.crowded_calls, max_size=8), ENDINGS, CHOICES)
def test_conflicting_calls_stay_lawful(deltas: list[Delta], ending: str, choice: str) -> None:
    stream = machine(strategies.TOOLS, choice)
    fold = Fold()
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += end(stream, ending)
    for event in plain(events):
        fold.feed(event)
    check_snapshot(stream, fold)
    assert_lawful(events)


@many
@given(st.lists(strategies.deltas, max_size=20), st.data())
def test_a_refused_call_changes_nothing(deltas: list[Delta], data: st.DataObject) -> None:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    before = stream.snapshot, stream.phase
    refused: BridgeError | None = None
    try:
        events += stream.finish(FinishReason.STOP)
    except BridgeError as error:
        refused = error
    if refused is not None:
        assert refused.code == BridgeError.INCOMPLETE_TOOL_CALL
        assert (stream.snapshot, stream.phase) == before
        events += stream.apply(data.draw(strategies.deltas)) + stream.fail(refused.code, refused.message)
    assert_lawful(events)


@many
@given(st.lists(strategies.deltas, max_size=20), st.sampled_from(list(ACCENTS)))
def test_an_accent_maps_each_event_to_one_event_with_the_same_number(deltas: list[Delta], name: str) -> None:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += finish(stream)
    convert = ACCENTS[name]()
    converted = [convert(event) for event in events]
    assert [event.sequence_number for event in converted] == list(range(len(events)))
    for event in map(to_builtins, converted):
        read = to_builtins(read_event(event))
        assert {name: read[name] for name in event} == event


# Conservation: all content is sent once, in order.


Marked = TextDelta | ReasoningDelta | RefusalDelta | SummaryDelta
MARKED: dict[str, type[Marked]] = {
    "output_text": TextDelta,
    "refusal": RefusalDelta,
    "reasoning_text": ReasoningDelta,
    "summary_text": SummaryDelta,
}


@st.composite
def marked(draw: st.DrawFn) -> list[Delta]:
    """Text of every kind, each piece with a mark that occurs nowhere else."""
    kinds = draw(st.lists(st.tuples(st.sampled_from("trus"), strategies.blocks), max_size=20))
    made: list[Delta] = []
    for number, (kind, block) in enumerate(kinds):
        mark = f"<{number}>"
        match kind:
            case "t":
                made.append(TextDelta(mark, block=block))
            case "r":
                made.append(ReasoningDelta(mark, block=block))
            case "u":
                made.append(RefusalDelta(mark, block=block))
            case _:
                made.append(SummaryDelta(mark, part=draw(st.integers(0, 1)), block=block))
    return made


@many
@given(marked(), ENDINGS)
def test_text_reasoning_refusals_and_summaries_are_conserved(deltas: list[Delta], ending: str) -> None:
    stream = machine()
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += end(stream, ending)
    texts: dict[str, list[str]] = {"output_text": [], "refusal": [], "reasoning_text": [], "summary_text": []}
    for item in plain(events)[-1]["response"]["output"]:
        for part in [*item.get("summary", []), *item.get("content", [])]:
            texts[part["type"]].append(part.get("text") or part["refusal"])
    for kind, pieces in texts.items():
        joined = "".join(pieces)
        received = [(delta.text, delta.block) for delta in deltas if isinstance(delta, MARKED[kind])]
        assert sorted(joined.split(">")) == sorted("".join(text for text, _ in received).split(">"))
        for block in (None, 0, 1, "a"):
            places = [joined.index(text) for text, of in received if of == block]
            assert places == sorted(places)
    assert_lawful(events)


@st.composite
def parallel_calls(draw: st.DrawFn) -> tuple[list[Delta], list[tuple[str, str]]]:
    """Regular parallel calls: each has its own id and index; the fragments of arguments are interleaved."""
    pieces = draw(st.lists(strategies.cut(strategies.json_objects), min_size=1, max_size=4))
    made: list[Delta] = [
        ToolCallDelta(key=index, id=f"call_{index}", name="get") for index in range(len(pieces))
    ]
    queues: list[tuple[int, list[str]]] = [(index, list(cut)) for index, cut in enumerate(pieces)]
    while queues:
        position = draw(st.integers(0, len(queues) - 1))
        index, queue = queues[position]
        made.append(ToolCallDelta(key=index, arguments=queue.pop(0)))
        if not queue:
            queues.pop(position)
    return made, [("get", "".join(cut)) for cut in pieces]


@few
@given(parallel_calls())
def test_arguments_are_conserved(case: tuple[list[Delta], list[tuple[str, str]]]) -> None:
    deltas, expected = case
    stream, events = run(deltas, strategies.TOOLS)
    output = [(item["name"], item["arguments"]) for item in events[-1]["response"]["output"]]
    assert output == expected
    streamed = [""] * len(expected)
    for event in of_type(events, "function_call_arguments.delta"):
        streamed[event["output_index"]] += event["delta"]
    assert streamed == [arguments for _, arguments in expected]
    assert stream.diagnostics == []


@many
@given(strategies.cut(st.text(max_size=30).map(lambda text: json.dumps({"input": text}))), st.booleans())
def test_custom_input_is_conserved(pieces: list[str], in_pieces: bool) -> None:
    wrapped = "".join(pieces)
    text = json.loads(wrapped)["input"]
    if not in_pieces:
        pieces = [wrapped]
    _, events = run(
        [ToolCallDelta(key=0, name="patch"), *(ToolCallDelta(key=0, arguments=piece) for piece in pieces)],
        strategies.TOOLS,
    )
    assert events[-1]["response"]["output"][0]["input"] == text


@few
@given(st.lists(strategies.json_objects, min_size=1, max_size=4), st.data())
def test_glued_arguments_are_split_however_they_arrive(wholes: list[str], data: st.DataObject) -> None:
    pieces = data.draw(strategies.cut(st.just("".join(wholes))))
    # Compare as text: in Python, 1 and true are equal.
    distinct = list(dict.fromkeys(json.dumps(json.loads(whole), sort_keys=True) for whole in wholes))
    deltas: list[Delta] = [ToolCallDelta(key=0, name="get")]
    deltas += [ToolCallDelta(key=0, arguments=piece) for piece in pieces]
    _, events = run(deltas, strategies.TOOLS)
    output = [json.loads(item["arguments"]) for item in events[-1]["response"]["output"]]
    assert [json.dumps(each, sort_keys=True) for each in output] == distinct
