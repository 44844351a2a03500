"""Which event makes which part, and when: every row of the mapping as a test (editor 14 to editor 18)."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from penstock.errors import OpenResponsesError, RateLimitError, ServerError
from penstock.parts.adapter import TRACE, WARNING, OpenResponsesStreamAdapter
from penstock.parts.parts import DataPart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from penstock.parts.reasoning import METADATA
from penstock.protocol.events import read_event
from tests.parts.events import (
    JSON,
    added,
    all_argued,
    all_said,
    argued,
    call,
    cited,
    completed,
    custom_call,
    done,
    event,
    failed,
    incomplete,
    message,
    reasoning,
    said,
    thought,
)
from tests.parts.reading import read, steps

Table = list[tuple[JSON, list[Part]]]
"""A stream, and what each event of it makes."""

ADD = ToolCallPart("gw-call_fc_1", "add", {"a": 2})
MULTIPLY = ToolCallPart("gw-call_fc_2", "multiply", {"b": 3})


def assert_makes(table: Table, **options: Any) -> None:
    assert steps([event for event, _ in table], **options) == [parts for _, parts in table]


# The flows of text, calls and thinking


def test_the_text_flow() -> None:
    part = {"type": "output_text", "text": "", "annotations": []}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    assert_makes(
        [
            (event("created", response={"id": "resp_1"}), []),
            (event("in_progress", response={"id": "resp_1"}), []),
            (added(message("m")), []),
            (event("content_part.added", **place, part=part), []),
            (said("m", "Hello, "), [TextPart("Hello, ")]),
            (said("m", "world"), [TextPart("world")]),
            (all_said("m", "Hello, world"), []),
            (event("content_part.done", **place, part={**part, "text": "Hello, world"}), []),
            (done(message("m", "Hello, world")), []),
            (completed(message("m", "Hello, world")), []),
        ]
    )


CALL_FLOWS: dict[str, Table] = {
    "primary: the arguments are done": [
        (added(call("fc_1", "add")), []),
        (argued("fc_1", '{"a"'), []),
        (argued("fc_1", ":2}"), []),
        (all_argued("fc_1", '{"a":2}'), [ADD]),
        (done(call("fc_1", "add", '{"a":2}')), []),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "primary: from what was buffered": [
        (added(call("fc_1", "add")), []),
        (argued("fc_1", '{"a":2}'), []),
        (all_argued("fc_1", ""), [ADD]),
        (done(call("fc_1", "add", "")), []),
        (completed(), []),
    ],
    "primary: empty arguments prove nothing, so the item is awaited": [
        (added(call("fc_1", "add")), []),
        (all_argued("fc_1", ""), []),
        (done(call("fc_1", "add", '{"a":2}')), [ADD]),
        (completed(), []),
    ],
    "primary: from the event alone": [
        (added(call("fc_1", "add")), []),
        (all_argued("fc_1", '{"a":2}'), [ADD]),
        (completed(), []),
    ],
    "fallback: the item is done": [
        (added(call("fc_1", "add")), []),
        (argued("fc_1", '{"a":2}'), []),
        (done(call("fc_1", "add", '{"a":2}')), [ADD]),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "fallback: the item is done and nothing else came": [
        (done(call("fc_1", "add", '{"a":2}')), [ADD]),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "final: the response is completed": [
        (added(call("fc_1", "add")), []),
        (argued("fc_1", '{"a":2}'), []),
        (completed(call("fc_1", "add", '{"a":2}')), [ADD]),
    ],
    "final: only the response has it": [(completed(call("fc_1", "add", '{"a":2}')), [ADD])],
}


@pytest.mark.parametrize("table", CALL_FLOWS.values(), ids=CALL_FLOWS.keys())
def test_the_function_call_flow(table: Table) -> None:
    assert_makes(table)


def test_the_reasoning_flow() -> None:
    assert_makes(
        [
            (added(reasoning("rs")), []),
            (thought("rs", "Hm, "), [ThinkingPart("Hm, ", "rs")]),
            (thought("rs", "yes"), [ThinkingPart("yes", "rs")]),
            (event("reasoning.done", item_id="rs", content_index=0, text="Hm, yes"), []),
            (said("m", "Yes.", 1), [TextPart("Yes.")]),
        ]
    )


def test_the_table_of_parallel_calls() -> None:
    assert_makes(
        [
            (added(call("fc_1", "add"), 0), []),
            (added(call("fc_2", "multiply"), 1), []),
            (argued("fc_1", '{"a":2}', 0), []),
            (argued("fc_2", '{"b":3}', 1), []),
            (all_argued("fc_1", '{"a":2}', 0), [ADD]),
            (all_argued("fc_2", '{"b":3}', 1), [MULTIPLY]),
            (done(call("fc_1", "add", '{"a":2}'), 0), []),
            (done(call("fc_2", "multiply", '{"b":3}'), 1), []),
        ]
    )


def test_the_table_of_text_and_a_call_interleaved() -> None:
    part = event("content_part.added", item_id="m", part={"type": "output_text", "text": ""})
    assert_makes(
        [
            (added(message("m"), 0), []),
            (part, []),
            (said("m", "Let me "), [TextPart("Let me ")]),
            (added(call("fc_1", "add"), 1), []),
            (said("m", "check that..."), [TextPart("check that...")]),
            (argued("fc_1", '{"a":2}', 1), []),
            (all_said("m", "Let me check that..."), []),
            (all_argued("fc_1", '{"a":2}', 1), [ADD]),
            (done(message("m", "Let me check that..."), 0), []),
            (done(call("fc_1", "add", '{"a":2}'), 1), []),
        ]
    )


# What may be missing (decision 22)


GAP_1: dict[str, Table] = {
    "the item tells whose the arguments are": [
        (argued("fc_1", '{"a":2}'), []),
        (all_argued("fc_1", '{"a":2}'), []),
        (done(call("fc_1", "add", '{"a":2}')), [ADD]),
        (completed(call("fc_1", "add", '{"a":2}')), []),
    ],
    "the item has no arguments of its own": [
        (all_argued("fc_1", '{"a":2}'), []),
        (done(call("fc_1", "add", "")), [ADD]),
        (completed(), []),
    ],
    "the response tells whose they are": [
        (all_argued("fc_1", '{"a":2}'), []),
        (completed(call("fc_1", "add", '{"a":2}')), [ADD]),
    ],
    "`added` comes after the arguments": [
        (argued("fc_1", '{"a":2}'), []),
        (added(call("fc_1", "add")), []),
        (all_argued("fc_1", '{"a":2}'), [ADD]),
        (completed(), []),
    ],
    "two calls are missing it, interleaved": [
        (argued("fc_1", '{"a":', 0), []),
        (argued("fc_2", '{"b":', 1), []),
        (argued("fc_1", "2}", 0), []),
        (argued("fc_2", "3}", 1), []),
        (all_argued("fc_2", "", 1), []),
        (all_argued("fc_1", "", 0), []),
        (done(call("fc_1", "add", ""), 0), [ADD]),
        (done(call("fc_2", "multiply", ""), 1), [MULTIPLY]),
    ],
}


@pytest.mark.parametrize("table", GAP_1.values(), ids=GAP_1.keys())
def test_gap_1_a_call_that_was_not_announced_is_buffered_until_it_is_whole(table: Table) -> None:
    assert_makes(table)


def test_gap_1_arguments_that_nothing_ever_names_are_a_typed_error() -> None:
    found = read([all_argued("fc_1", '{"a":2}'), completed()])
    assert found.parts == []
    assert found.error is not None
    assert found.error[1] == "malformed_tool_call"


CITED = [
    said("m", "Water"),
    cited("m", "https://example.com/a", "Rivers"),
    said("m", " flows."),
    completed(message("m", "Water flows.")),
]


def test_gap_2_citations_stay_out_of_the_text_by_default() -> None:
    found = read(CITED)
    assert found.text == "Water flows."
    assert [annotation.url for annotation in found.result.annotations] == ["https://example.com/a"]  # type: ignore[union-attr]


def test_gap_2_citations_are_links_at_their_place_on_request() -> None:
    found = read(CITED, annotations=True)
    assert found.said == ["Water", " [Rivers](https://example.com/a)", " flows."]
    assert len(found.result.annotations) == 1


def test_a_citation_that_only_the_item_has_comes_once() -> None:
    item = message("m", "Water")
    item["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://example.com/a"}]
    found = read([said("m", "Water"), done(item), completed(item)], annotations=True)
    assert found.text == "Water [https://example.com/a](https://example.com/a)"
    assert len(found.result.annotations) == 1


def test_the_links_of_a_part_follow_its_text() -> None:
    item = message("m", "One.", " Two.")
    for part, url in zip(item["content"], ("https://a.example", "https://b.example"), strict=True):
        part["annotations"] = [{"type": "url_citation", "url": url, "title": "x"}]
    expected = "One. [x](https://a.example) Two. [x](https://b.example)"
    assert read([done(item), completed(item)], annotations=True).text == expected


def test_a_citation_with_an_event_and_in_the_item_comes_once_and_twice_only_where_it_is_told_twice() -> None:
    twice = message("m", "Water")
    # In the event it has a title and places, which the item may leave out.
    twice["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://example.com/a"}] * 2
    del twice["role"]  # so that the item is kept as it came
    found = read([said("m", "Water"), cited("m", "https://example.com/a"), done(twice), completed(twice)])
    assert len(found.result.annotations) == 2


# Thinking, in every spelling (decision 20, decision 24)


CHANNELS = {
    "reasoning": "content_index",
    "reasoning_text": "content_index",
    "reasoning_summary": "summary_index",
    "reasoning_summary_text": "summary_index",
}


def thinking_stream(spelling: str, step: str) -> list[JSON]:
    """Some thinking, told by deltas or by `done` alone, and an answer."""
    place = {"item_id": "rs", "output_index": 0, CHANNELS[spelling]: 0}
    pieces = {"delta": [{"delta": "Hm, "}, {"delta": "yes"}], "done": [{"text": "Hm, yes"}]}[step]
    events = [event(f"{spelling}.{step}", **place, **piece) for piece in pieces]
    return [added(reasoning("rs")), *events, said("m", "Yes.", 1), completed()]


@pytest.mark.parametrize("step", ["delta", "done"])
@pytest.mark.parametrize("spelling", CHANNELS)
@pytest.mark.parametrize(
    ("thinking", "text", "thought"),
    [
        ("part", "Yes.", "Hm, yes"),
        ("text", "Hm, yes\n\nYes.", ""),
        ("none", "Yes.", ""),
    ],
)
def test_every_reasoning_event_is_thinking_text_or_nothing(
    spelling: str, step: str, thinking: str, text: str, thought: str
) -> None:
    found = read(thinking_stream(spelling, step), thinking=thinking)
    assert (found.text, found.thinking) == (text, thought)
    thoughts = [part for part in found.parts if isinstance(part, ThinkingPart)]
    assert {part.id for part in thoughts} <= {"rs"}


PART_EVENTS = {
    "content_part": "reasoning_text",
    "reasoning_part": "reasoning_text",
    "reasoning_text_part": "reasoning_text",
    "reasoning_summary_part": "summary_text",
}


@pytest.mark.parametrize(("name", "part"), PART_EVENTS.items(), ids=PART_EVENTS.keys())
def test_a_part_of_reasoning_that_is_done_is_thinking(name: str, part: str) -> None:
    found = read(
        [
            added(reasoning("rs")),
            event(f"{name}.added", item_id="rs", part={"type": part, "text": ""}),
            event(f"{name}.done", item_id="rs", part={"type": part, "text": "Hm"}),
            said("m", "Yes.", 1),
            completed(),
        ]
    )
    assert (found.text, found.thinking) == ("Yes.", "Hm")


def test_a_plain_text_part_of_a_reasoning_item_is_no_answer() -> None:
    """Some servers have parts of type `text` in reasoning: by its item, also where that has other ids."""
    for id, before in (("rs", []), ("other", []), ("rs", [added(message("m"))])):
        part = event("content_part.done", item_id=id, part={"type": "text", "text": "Hm"})
        events = [
            added(reasoning("rs")),
            thought("rs", "Hm"),
            *before,
            part,
            said("m", "Yes.", 1),
            completed(),
        ]
        found = read(events)
        assert (found.text, found.thinking) == ("Yes.", "Hm")


def test_a_plain_text_part_of_a_message_is_text() -> None:
    part = event("content_part.done", item_id="m", part={"type": "text", "text": "Yes."})
    assert read([added(message("m")), part, completed()]).said == ["Yes."]


@pytest.mark.parametrize("first", ["reasoning", "reasoning_text"])
def test_of_two_spellings_the_first_is_read(first: str) -> None:
    second = ({"reasoning", "reasoning_text"} - {first}).pop()
    events = [thought("rs", each, 0, name) for each in ("Hm, ", "yes") for name in (first, second)]
    assert read([*events, said("m", "Yes.", 1), completed()]).thinking == "Hm, yes"


def test_the_summary_of_an_item_with_content_is_not_shown() -> None:
    summary = thought("rs", "In short", 0, "reasoning_summary_text")
    item = reasoning("rs", "At length", "In short")
    found = read([thought("rs", "At length"), summary, done(item), said("m", "Yes.", 1), completed(item)])
    assert found.thinking == "At length"
    assert found.diagnostics == {}


def test_the_parts_of_a_summary_are_blocks_of_their_own() -> None:
    item = reasoning("rs")
    item["summary"] = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    found = read([done(item), said("m", "Yes.", 1), completed(item)])
    assert [(part.value, part.id) for part in found.parts if isinstance(part, ThinkingPart)] == [
        ("One.", "rs"),
        ("Two.", "rs:1"),
        ("", "rs"),
    ]


def test_a_part_of_a_summary_with_an_impossible_number_is_the_first() -> None:
    odd = thought("rs", "Hm", 0, "reasoning_summary_text") | {"summary_index": -1}
    found = read([odd, said("m", "Yes.", 1), completed()])
    assert [part.id for part in found.parts if isinstance(part, ThinkingPart)] == ["rs"]


def test_thinking_as_text_keeps_its_paragraphs_apart() -> None:
    item = reasoning("rs")
    item["summary"] = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    assert read([done(item), said("m", "Yes.", 1), completed(item)], thinking="text").said == [
        "One.",
        "\n\nTwo.",
        "\n\nYes.",
    ]


@pytest.mark.parametrize(
    ("asked", "marked"),
    [("gpt", "gpt"), ("", "m")],
    ids=["the model that was asked for", "the model that answered"],
)
def test_the_last_part_of_thinking_has_what_must_come_back(asked: str, marked: str) -> None:
    item = reasoning("rs", "Hm", encrypted_content="sealed", status="completed")
    opened = event("created", response={"id": "resp_1", "model": "m"})
    events = [opened, thought("rs", "Hm"), done(item), said("x", "Yes.", 1), completed(item)]
    last = [part for part in read(events, model=asked).parts if isinstance(part, ThinkingPart)][-1]
    assert (last.value, last.id) == ("", "rs")
    kept = {name: value for name, value in item.items() if name != "status"}
    assert last.metadata == {METADATA: {"reasoning": kept, "model": marked}}


# The other events


def test_a_refusal_is_text_and_the_result_says_so() -> None:
    found = read(
        [
            event("refusal.delta", item_id="m", delta="I can"),
            event("refusal.delta", item_id="m", delta="not."),
            event("refusal.done", item_id="m", refusal="I cannot."),
            completed(),
        ]
    )
    assert found.said == ["I can", "not."]
    assert found.result.refused
    assert found.error is None


def test_a_refusal_that_only_its_end_has_is_text() -> None:
    found = read([event("refusal.done", item_id="m", refusal="I cannot."), completed()])
    assert (found.said, found.result.refused) == (["I cannot."], True)


NESTED = {
    "type": "error",
    "error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Slow"},
}
FLAT = {"type": "error", "code": "rate_limit_exceeded", "message": "Slow", "param": None}
RATE_LIMIT = failed("rate_limit_exceeded", "Slow")


@pytest.mark.parametrize(
    "ending",
    [[NESTED], [FLAT], [RATE_LIMIT], [NESTED, RATE_LIMIT], [FLAT, RATE_LIMIT]],
    ids=["nested", "flat", "failed", "nested, then failed", "flat, then failed"],
)
def test_an_error_rejects_with_its_type_and_the_parts_before_it_stay(ending: list[JSON]) -> None:
    found = read([said("m", "Half an ans"), *ending])
    assert found.said == ["Half an ans"]
    assert found.error == (RateLimitError, "rate_limit_exceeded")
    assert found.result.error is not None
    assert found.result.error.message == "Slow"
    assert found.result.finish == "error"
    with pytest.raises(RateLimitError):
        found.result.raise_for_error()


def test_an_error_is_text_on_request() -> None:
    assert read([said("m", "Half"), RATE_LIMIT], errors_as_text=True).said == [
        "Half",
        "\n\n**Error:** Slow\n\n",
    ]


def test_what_the_result_knows_of_the_response() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    result = read(
        [
            event("created", response={"id": "resp_1", "model": "m"}),
            event("in_progress", response={"id": "resp_1", "model": "m-2025"}),
            said("x", "Yes."),
            event("completed", response={"id": "resp_1", "status": "completed", "usage": usage}),
        ]
    ).result
    assert (result.response_id, result.model, result.status, result.finish) == (
        *("resp_1", "m-2025"),
        *("completed", "stop"),
    )
    assert result.usage is not None
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.total_tokens) == (3, 4, 7)
    assert not result.refused
    result.raise_for_error()


# Kinds of parts (editor 15)


EVERYTHING = [
    added(reasoning("rs"), 0),
    thought("rs", "Hm", 0),
    done(reasoning("rs", "Hm"), 0),
    said("m", "Look:", 1),
    done(message("m", "Look:"), 1),
    done(call("fc_1", "add", '{"a":2}'), 2),
    event("file", mime_type="text/plain", data=b64encode(b"a file").decode()),
    done({"type": "function_call_output", "id": "fco", "call_id": "call_fc_1", "output": "5"}, 3),
    done({"type": "custom_tool_call_output", "id": "ctco", "call_id": "call_x", "output": "5"}, 4),
    completed({"type": "function_call_output", "id": "fco", "call_id": "call_fc_1", "output": "5"}),
]


@pytest.mark.parametrize("thinking", ["part", "text", "none"])
def test_a_tool_result_is_never_emitted(thinking: str) -> None:
    found = read(EVERYTHING, thinking=thinking)
    assert not any(isinstance(part, ToolResultPart) for part in found.parts)
    assert "5" not in found.text
    assert [call.call_id for call in found.calls] == ["gw-call_fc_1"]


def test_parts_come_in_the_order_of_generation() -> None:
    kinds = [part.__class__ for part in read(EVERYTHING).parts]
    assert kinds == [ThinkingPart, ThinkingPart, TextPart, ToolCallPart, DataPart]


def test_text_is_passed_on_as_it_comes() -> None:
    pieces = ["Hello", ", ", "", "world!", "\n", "\n"]
    table: Table = [(said("m", piece), [TextPart(piece)] if piece else []) for piece in pieces]
    assert_makes(table)


@pytest.mark.parametrize(
    "call_id", ["call_1", "gw-call_1", "toolu_01", "x" * 90], ids=["plain", "prefixed", "foreign", "long"]
)
def test_a_call_id_gets_our_prefix_once(call_id: str) -> None:
    found = read([completed(call("fc_1", "add", "{}", call_id=call_id))])
    assert [each.call_id for each in found.calls] == [f"gw-{call_id}"]


def test_a_call_comes_as_soon_as_it_is_whole_and_text_goes_on_behind_it() -> None:
    found = read(
        [
            said("m_1", "Let me check", 0),
            done(message("m_1", "Let me check"), 0),
            done(call("fc_1", "add", '{"a":2}'), 1),
            said("m_2", "Based on the file...", 2),
            completed(),
        ]
    )
    assert found.parts == [TextPart("Let me check"), ADD, TextPart("Based on the file...")]


def test_parallel_calls_come_before_the_text_that_follows_them() -> None:
    first, second = call("fc_1", "add", '{"a":2}'), call("fc_2", "multiply", '{"b":3}')
    found = read([done(first, 0), done(second, 1), said("m", "Done.", 2), completed()])
    assert found.parts == [ADD, MULTIPLY, TextPart("Done.")]


@pytest.mark.parametrize("place", [1, 0], ids=["one behind the other", "all at place 0"])
def test_two_calls_that_are_alike_but_for_their_ids_are_two(place: int) -> None:
    alike = [call("fc_1", "add", '{"a":2}'), call("fc_2", "add", '{"a":2}')]
    found = read([done(alike[0], 0), done(alike[1], place), completed()])
    assert [each.call_id for each in found.calls] == ["gw-call_fc_1", "gw-call_fc_2"]


PNG = b"\x89PNG\r\n\x1a\n"
FILES = {
    "a file event": event("file", mime_type="image/png", data=b64encode(PNG).decode()),
    "a file event that nests": event(
        "file", file={"mimeType": "image/png", "base64": b64encode(PNG).decode()}
    ),
    "a generated image": done(
        {
            "type": "image_generation_call",
            "id": "ig",
            "result": b64encode(PNG).decode(),
            "output_format": "png",
        }
    ),
    "a part of a message": done(
        message("m")
        | {
            "content": [
                {"type": "output_image", "image_url": f"data:image/png;base64,{b64encode(PNG).decode()}"}
            ]
        }
    ),
    "a part that is done": event(
        "content_part.done",
        item_id="m",
        part={"type": "output_file", "mime_type": "image/png", "file_data": b64encode(PNG).decode()},
    ),
    "only the response": completed(
        {"type": "image_generation_call", "id": "ig", "result": b64encode(PNG).decode()}
    ),
}


@pytest.mark.parametrize("told", FILES.values(), ids=FILES.keys())
def test_files_and_images_are_data_parts_and_never_markdown(told: JSON) -> None:
    found = read([told, told, completed()])
    assert found.parts == [DataPart(PNG, "image/png")]
    assert found.error is None


# The life of a stream and the order of its parts (editor 16, editor 17)


def test_a_stream_that_is_cancelled_holds_nothing_back() -> None:
    adapter = OpenResponsesStreamAdapter()
    parts = [
        part for each in (said("m", "Half"), said("m", " an")) for part in adapter.feed(read_event(each))
    ]
    assert parts == [TextPart("Half"), TextPart(" an")]
    assert adapter.result.error is None


SAY, CALL_ADD, CALL_MULTIPLY = "say", "add", "multiply"
PATTERNS = [
    (SAY, SAY, CALL_ADD, SAY),
    (SAY, CALL_ADD, CALL_MULTIPLY, SAY),
    (CALL_ADD, SAY, CALL_MULTIPLY, SAY),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=", ".join)
def test_the_allowed_patterns_stay_as_they_are(pattern: tuple[str, ...]) -> None:
    moves: dict[str, tuple[JSON, Part]] = {
        CALL_ADD: (done(call("fc_1", "add", '{"a":2}')), ADD),
        CALL_MULTIPLY: (done(call("fc_2", "multiply", '{"b":3}')), MULTIPLY),
        SAY: (said("m", "text"), TextPart("text")),
    }
    events = [{**moves[each][0], "output_index": index} for index, each in enumerate(pattern)]
    assert read([*events, completed()]).parts == [moves[each][1] for each in pattern]


CUT_CALLS: dict[str, list[JSON]] = {
    "in its arguments": [added(call("fc_1", "add")), argued("fc_1", '{"a":')],
    "between arguments that are whole and their end": [added(call("fc_1", "add")), argued("fc_1", '{"a":2}')],
    "before its arguments": [added(call("fc_1", "add"))],
    "in the text for a custom tool": [
        added(custom_call("ctc_1", "patch")),
        event("custom_tool_call_input.delta", item_id="ctc_1", delta="*** Begin"),
        event("custom_tool_call_input.done", item_id="ctc_1", input="*** Begin"),
        done(custom_call("ctc_1", "patch", "*** Begin", status="incomplete")),
    ],
}


@pytest.mark.parametrize("ending", [[], [incomplete("max_output_tokens")]], ids=["cut", "incomplete"])
@pytest.mark.parametrize("events", CUT_CALLS.values(), ids=CUT_CALLS.keys())
def test_a_partial_call_is_never_emitted(events: list[JSON], ending: list[JSON]) -> None:
    found = read([said("m", "Wait.", 1), *events, *ending])
    assert found.said == ["Wait."]


def test_a_custom_call_waits_for_its_item_because_its_text_may_be_cut_anywhere() -> None:
    assert_makes(
        [
            (added(custom_call("ctc_1", "patch")), []),
            (event("custom_tool_call_input.delta", item_id="ctc_1", delta="*** Begin"), []),
            (event("custom_tool_call_input.done", item_id="ctc_1", input="*** Begin"), []),
            (
                done(custom_call("ctc_1", "patch", "*** Begin")),
                [ToolCallPart("gw-call_ctc_1", "patch", {"input": "*** Begin"})],
            ),
            (completed(custom_call("ctc_1", "patch", "*** Begin")), []),
        ]
    )


def test_a_custom_call_whose_item_never_ends_comes_with_the_end_of_the_response() -> None:
    events = [
        added(custom_call("ctc_1", "patch")),
        event("custom_tool_call_input.done", item_id="ctc_1", input=" "),
        completed(),
    ]
    assert read(events).said == [("gw-call_ctc_1", "patch", {"input": " "})]


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
    # Its id is provisional until it is done.
    events = [added({**item, "call_id": "call_0"}), done({**item, "call_id": "call_1"})]
    assert read([*events, completed({**item, "call_id": "call_1"})]).said == [("gw-call_1", name, input)]


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
    "a type that nobody knows": {"type": "acme:dream_call", "id": "x", "call_id": "c", "name": "dream"},
}


@pytest.mark.parametrize("ends", [True, False], ids=["done", "never done"])
@pytest.mark.parametrize("item", HOSTED.values(), ids=HOSTED.keys())
def test_a_call_that_the_vendor_runs_is_none_for_us(item: JSON, ends: bool) -> None:
    found = read([added(item), *([done(item)] if ends else []), said("m", "Found.", 1), completed()])
    assert (found.said, found.diagnostics) == (["Found."], {})


# What a provider must do


def test_a_call_to_a_tool_that_was_not_offered_comes_once_with_a_diagnostic() -> None:
    item = call("fc_1", "add", '{"a":2}')
    found = read([done(item), done(item), completed(item)], tools=["multiply"])
    assert (found.parts, found.diagnostics) == ([ADD], {"undeclared_tool": 1})
    assert read([done(item), completed(item)], tools=["add"]).diagnostics == {}


def test_the_end_of_a_response_is_the_end_of_its_parts() -> None:
    late = [said("m", "more"), done(call("fc_1", "add", "{}")), completed(message("m", "more")), RATE_LIMIT]
    found = read([said("m", "Yes."), completed(), *late])
    assert (found.said, found.error) == (["Yes."], None)


def test_every_event_is_traced_with_what_it_made_and_trouble_is_a_warning() -> None:
    lines: list[tuple[int, str]] = []
    events = [
        {**said("m", "Yes."), "sequence_number": 4},
        added(call("fc_1", "add"), 1),
        event("nonsense"),
        done(call("fc_1", "add", "{nope"), 1),
        RATE_LIMIT,
    ]
    read(events, log=lambda level, line: lines.append((level, line)))
    assert [line for level, line in lines if level == TRACE] == [
        "4 response.output_text.delta 0 m -> TextPart",
        "0 response.output_item.added 1  -> nothing",
        "0 response.nonsense 0  -> nothing",
        "0 response.output_item.done 1  -> nothing",
        "0 response.failed 0  -> nothing",
    ]
    assert [line for level, line in lines if level == WARNING] == [
        "unknown_event: an event of type 'response.nonsense' was ignored",
        "malformed_tool_call: a call to 'add' has arguments that are not a JSON object",
        "the response failed: Slow (rate_limit_exceeded)",
    ]


# One call, announced twice (ask B4)


NYC = '{"location":"NYC"}'
NEW_YORK = [("gw-call_123", "get_weather", {"location": "NYC"})]


def weather(id: str, arguments: Any = "") -> JSON:
    return call(id, "get_weather", arguments, call_id="call_123")


STREAMED = [
    added(weather("fc_abc"), 0),
    argued("fc_abc", '{"loc', 0),
    argued("fc_abc", 'ation":"NYC"}', 0),
]
AGAIN = [
    added(weather("fc_xyz", NYC), 1),
    # The gateway names the call here, and not its item.
    all_argued("call_123", NYC, 1),
    done(weather("fc_xyz", NYC), 1),
]

TWICE: dict[str, list[JSON]] = {
    "the first is never done": [*STREAMED, *AGAIN],
    "the first is done before": [
        *STREAMED,
        all_argued("call_123", NYC, 0),
        done(weather("fc_abc", NYC), 0),
        *AGAIN,
    ],
    "the first is done behind": [
        *STREAMED,
        *AGAIN,
        all_argued("fc_abc", NYC, 0),
        done(weather("fc_abc", NYC), 0),
    ],
    "the second comes first": [*AGAIN, *STREAMED, done(weather("fc_abc", NYC), 0)],
    "both at one place": [{**each, "output_index": 0} for each in [*STREAMED, *AGAIN]],
    "the first under its own id, and then under that of the call": [
        added(weather("fc_abc"), 0),
        argued("call_123", NYC, 0),
        *AGAIN,
    ],
    "the second is spelled otherwise": [
        *STREAMED,
        done(weather("fc_abc", NYC), 0),
        added(weather("fc_xyz"), 1),
        done(weather("fc_xyz", '{ "location": "NYC" }'), 1),
    ],
    "the second has an object": [*STREAMED, done(weather("fc_xyz", {"location": "NYC"}), 1)],
    "announced three times": [
        *STREAMED,
        added(weather("fc_2"), 1),
        added(weather("fc_3"), 2),
        *(done(weather(id, NYC), index) for index, id in enumerate(("fc_abc", "fc_2", "fc_3"))),
    ],
    "an end under a third id, without arguments": [
        *STREAMED,
        added(weather("fc_xyz"), 1),
        done(weather("fc_3"), 2),
    ],
    "an end without a beginning": [done(weather("fc_abc", NYC), 0), done(weather("fc_xyz", NYC), 1)],
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
def test_a_call_that_is_announced_twice_comes_once(events: list[JSON], output: list[JSON]) -> None:
    found = read([*events, completed(*output)])
    assert found.said == NEW_YORK
    assert found.error is None
    assert set(found.diagnostics) <= {"repeated_call"}


def test_one_call_of_two_is_announced_twice() -> None:
    other = call("fc_9", "get_weather", '{"location":"Oslo"}')
    found = read([*STREAMED, added(call("fc_9", "get_weather"), 1), done(other, 1), *AGAIN, completed(other)])
    assert sorted(found.said) == sorted([*NEW_YORK, ("gw-call_fc_9", "get_weather", {"location": "Oslo"})])


def test_the_errors_that_a_stream_can_end_in_are_all_of_one_tree() -> None:
    assert isinstance(read([]).result.error, OpenResponsesError)
    assert read([failed("server_error", "boom")]).error == (ServerError, "server_error")
