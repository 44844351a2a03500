"""Text, thinking, citations and data of items are reported once."""

from __future__ import annotations

from base64 import b64encode

import pytest
from markdown_it import MarkdownIt

from penstock.errors import ProtocolError
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.parts.parts import DataPart, TextPart, ThinkingPart
from penstock.parts.reasoning import METADATA
from penstock.protocol.events import read_event
from tests.cli import streams
from tests.parts.adapted import adapt
from tests.parts.events import (
    JSON,
    call,
    citation_added,
    completed,
    event,
    failed,
    incomplete,
    item_added,
    item_done,
    message,
    reasoning,
    reasoning_delta,
    text_delta,
    text_done,
)
from tests.parts.expected import EMPTY
from tests.parts.stream_changes import Events, change_events, twice

# Text


def streamed_message(id: str, text: str, index: int = 0) -> Events:
    return [item_added(message(id), index), text_delta(id, text, index), item_done(message(id, text), index)]


TEXTS: dict[str, tuple[Events, str]] = {
    "only in output_text.done": ([text_done("m", "Hello"), completed()], "Hello"),
    "only in the item": ([item_done(message("m", "Hello")), completed(message("m", "Hello"))], "Hello"),
    "only in the response": ([completed(message("m", "Hello"))], "Hello"),
    "only when it was announced": ([item_added(message("m", "Hello")), completed()], "Hello"),
    "deltas, and a longer end": ([text_delta("m", "Hel"), text_done("m", "Hello"), completed()], "Hello"),
    "deltas, and a longer item": (
        [text_delta("m", "Hel"), item_done(message("m", "Hello")), completed()],
        "Hello",
    ),
    "deltas, and a longer response": ([text_delta("m", "Hel"), completed(message("m", "Hello"))], "Hello"),
    "deltas, and an item with one part more": (
        [text_delta("m", "Hello"), item_done(message("m", "Hello", ", you")), completed()],
        "Hello, you",
    ),
    "two parts, one of them streamed": (
        [
            text_delta("m", "a"),
            event("output_text.done", item_id="m", content_index=1, text="ab"),
            completed(),
        ],
        "aab",
    ),
    "done again with another id": (
        [*streamed_message("m", "Hello"), item_done(message("n", "Hello")), completed(message("n", "Hello"))],
        "Hello",
    ),
    "done twice with other ids, and never streamed": (
        [
            item_done(message("m", "Hello")),
            item_done(message("n", "Hello")),
            completed(message("o", "Hello")),
        ],
        "Hello",
    ),
    "two messages, and the response has other ids": (
        [
            *streamed_message("m", "One. "),
            *streamed_message("n", "Two.", 1),
            completed(message("o", "One. "), message("p", "Two.")),
        ],
        "One. Two.",
    ),
    "two messages with one id": (
        [
            *streamed_message("m", "One. "),
            *streamed_message("m", "Two.", 1),
            completed(message("m", "One. "), message("m", "Two.")),
        ],
        "One. Two.",
    ),
    "an empty message that the response does not have, with other ids": (
        [
            item_added(message("m")),
            item_done(message("m")),
            *streamed_message("n", "Hello", 1),
            completed(message("o", "Hello")),
        ],
        "Hello",
    ),
    "a message that begins like the one before it, with other ids": (
        [*streamed_message("m", "A"), *streamed_message("n", "AB", 1), completed(message("o", "AB"))],
        "AAB",
    ),
    "announced twice with two ids, and the response has a third": (
        [
            item_added(message("m")),
            item_added(message("n")),
            text_delta("n", "Hello"),
            completed(message("o", "Hello")),
        ],
        "Hello",
    ),
    "announced after it began, with another id": (
        [
            text_delta("m", "Hel"),
            item_added(message("n")),
            text_delta("o", "lo"),
            completed(message("p", "Hello")),
        ],
        "Hello",
    ),
}


@pytest.mark.parametrize(("events", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_text_is_reported_once_wherever_it_is(events: Events, text: str) -> None:
    found = adapt(events)
    assert (found.text, found.error, found.result.finish) == (text, None, "stop")


def test_equal_deltas_are_kept_if_all_events_have_the_same_number() -> None:
    text, item = streams.message("m", 0, ["ha", "ha", "!"])
    events = change_events(lambda event: event.update(sequence_number=1))(streams.response(text, [item]))
    assert adapt(events).summary == ["ha", "ha", "!"]


DISAGREEING: dict[str, Events] = {
    "a shorter final text": [text_delta("m", "Hello\n"), item_done(message("m", "Hello")), completed()],
    "a different final text": [text_delta("m", "Hello"), text_done("m", "Bye"), completed()],
    "a shorter response with another id": [
        text_delta("m", "Hello\n"),
        item_done(message("m", "Hello\n")),
        completed(message("n", "Hello")),
    ],
    "a repeated delta with another number": twice("output_text.delta", numbered=True)(
        [{**text_delta("m", "Hello"), "sequence_number": 1}, item_done(message("m", "Hello")), completed()]
    ),
}


@pytest.mark.parametrize("events", DISAGREEING.values(), ids=DISAGREEING.keys())
def test_streamed_text_stays_if_the_final_text_differs(events: Events) -> None:
    found = adapt(events)
    assert found.text == "".join(each["delta"] for each in events if "delta" in each)
    assert set(found.diagnostics) == {"text_disagrees"}


@pytest.mark.parametrize("text", ["", " ", "\n\n"], ids=["nothing", "a space", "lines"])
def test_blank_text_is_not_an_answer(text: str) -> None:
    found = adapt([text_delta("m", text), completed(message("m", text))])
    assert (found.error, found.text) == (EMPTY, text)


# Thinking


REASONING_ITEM = reasoning("rs", "Hm", encrypted_content="sealed")

THINKING: dict[str, Events] = {
    "deltas": [reasoning_delta("rs", "H"), reasoning_delta("rs", "m"), item_done(REASONING_ITEM)],
    "only in the item": [item_done(REASONING_ITEM)],
    "only in the response": [],
    "only when it was announced": [item_added(REASONING_ITEM)],
    "deltas, and never done": [
        item_added(reasoning("rs", encrypted_content="sealed")),
        reasoning_delta("rs", "Hm"),
    ],
    "done twice": [reasoning_delta("rs", "Hm"), item_done(REASONING_ITEM), item_done(REASONING_ITEM)],
    "done again with another id": [
        reasoning_delta("rs", "Hm"),
        item_done(REASONING_ITEM),
        item_done({**REASONING_ITEM, "id": "rs_2"}),
    ],
    "another id in every event": [
        item_added(reasoning("rs")),
        reasoning_delta("a", "H"),
        reasoning_delta("b", "m"),
        item_done({**REASONING_ITEM, "id": "c"}),
    ],
    "content and summary": [item_done(reasoning("rs", "Hm", "In short", encrypted_content="sealed"))],
    "a bare text": [item_done({**reasoning("rs", encrypted_content="sealed"), "content": "Hm"})],
    "a bare summary": [item_done({**reasoning("rs", encrypted_content="sealed"), "summary": ["Hm"]})],
}


@pytest.mark.parametrize("events", THINKING.values(), ids=THINKING.keys())
def test_thinking_is_reported_once_with_its_encrypted_content(events: Events) -> None:
    listed = [] if events else [REASONING_ITEM]
    found = adapt([*events, text_delta("m", "Yes.", 1), completed(*listed)])
    assert (found.thinking, found.text) == ("Hm", "Yes.")
    thoughts = [part for part in found.parts if isinstance(part, ThinkingPart)]
    assert {part.id for part in thoughts} == {"rs"}
    sealed = [part.metadata for part in thoughts if part.metadata]
    assert [metadata["openresponses"]["reasoning"]["encrypted_content"] for metadata in sealed] == ["sealed"]
    assert thoughts[-1].metadata == sealed[0]


def test_thinking_without_an_id_gets_one() -> None:
    found = adapt([reasoning_delta("", "Hm"), text_delta("m", "Yes.", 1), completed()])
    assert [part.id for part in found.parts if isinstance(part, ThinkingPart)] == ["reasoning_0"]


def test_the_encrypted_content_of_the_item_takes_precedence_over_the_response() -> None:
    """The terminal response is encrypted again. Both are valid, and one is enough (quirk R4)."""
    found = adapt(
        [
            item_done(REASONING_ITEM),
            text_delta("m", "Yes.", 1),
            completed({**REASONING_ITEM, "encrypted_content": "again"}),
        ]
    )
    sealed = [part.metadata for part in found.parts if isinstance(part, ThinkingPart) and part.metadata]
    assert [metadata["openresponses"]["reasoning"]["encrypted_content"] for metadata in sealed] == ["sealed"]


CITED_STREAM = [
    text_delta("m", "Water"),
    citation_added("m", "https://example.com/a", "Rivers"),
    text_delta("m", " flows."),
    completed(message("m", "Water flows.")),
]


def test_citations_are_not_in_the_text_by_default() -> None:
    found = adapt(CITED_STREAM)
    assert found.text == "Water flows."
    assert [annotation.url for annotation in found.result.annotations] == ["https://example.com/a"]  # type: ignore[union-attr]


def test_citations_can_be_links_at_their_position() -> None:
    found = adapt(CITED_STREAM, citations="inline")
    assert found.summary == ["Water", " [Rivers](https://example.com/a)", " flows."]
    assert len(found.result.annotations) == 1


def test_a_citation_that_only_the_item_has_is_reported_once() -> None:
    item = message("m", "Water")
    item["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://example.com/a"}]
    found = adapt([text_delta("m", "Water"), item_done(item), completed(item)], citations="inline")
    assert found.text == "Water [example.com](https://example.com/a)"
    assert len(found.result.annotations) == 1


def test_the_links_of_a_part_follow_its_text() -> None:
    item = message("m", "One.", " Two.")
    for part, url in zip(item["content"], ("https://a.example", "https://b.example"), strict=True):
        part["annotations"] = [{"type": "url_citation", "url": url, "title": "x"}]
    expected = "One. [x](https://a.example) Two. [x](https://b.example)"
    assert adapt([item_done(item), completed(item)], citations="inline").text == expected


def test_the_same_citation_twice_in_an_item_is_two_citations() -> None:
    twice = message("m", "Water")
    # The event has a title and positions, which the item may omit.
    twice["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://example.com/a"}] * 2
    del twice["role"]  # so that the item stays unparsed
    found = adapt(
        [
            text_delta("m", "Water"),
            citation_added("m", "https://example.com/a"),
            item_done(twice),
            completed(twice),
        ]
    )
    assert len(found.result.annotations) == 2


A, B = "https://a.example/", "https://b.example/"
LISTED = "\n\n---\n\n1. [Rivers](https://a.example/)\n2. [b.example](https://b.example/)\n"


def cited_message(*urls: str) -> JSON:
    item = message("m", "Water flows.")
    item["content"][0]["annotations"] = [{"type": "url_citation", "url": url} for url in urls]
    return item


CITED_TWICE = [
    text_delta("m", "Water"),
    citation_added("m", A, "Rivers"),
    citation_added("m", B),
    text_delta("m", " flows."),
    citation_added("m", A, "Rivers"),
]


@pytest.mark.parametrize(
    "end",
    [completed(), completed(message("m", "Water flows.")), incomplete("max_output_tokens")],
    ids=["completed", "completed with the output", "incomplete"],
)
def test_citations_at_the_end_are_a_numbered_list_with_each_url_once(end: JSON) -> None:
    found = adapt([*CITED_TWICE, end], citations="end")
    assert found.summary == ["Water", " flows.", LISTED]
    assert len(found.result.annotations) == 3


def test_citations_that_every_event_repeats_are_listed_once() -> None:
    item = cited_message(A, B)
    events = [
        text_delta("m", "Water flows."),
        citation_added("m", A, "Rivers"),
        event("content_part.done", item_id="m", content_index=0, part=item["content"][0]),
        item_done(item),
        completed(item),
    ]
    assert adapt(events, citations="end").summary == ["Water flows.", LISTED]


@pytest.mark.parametrize("end", [failed("server_error", "Down"), None], ids=["failed", "cut off"])
def test_a_failed_answer_has_no_list_of_citations(end: JSON | None) -> None:
    events = [*CITED_TWICE, end] if end else CITED_TWICE
    assert adapt(events, citations="end").text == "Water flows."


@pytest.mark.parametrize("end", [completed(), incomplete("max_output_tokens")], ids=["whole", "incomplete"])
def test_the_list_of_citations_is_not_in_the_code_block_that_an_answer_ends_in(end: JSON) -> None:
    deltas = ["Water:\n\n``", "`py\n", "flows()\n  ``", "\n"]
    events = [*(text_delta("m", each) for each in deltas), citation_added("m", A, "Rivers"), end]
    found = adapt(events, citations="end")
    assert found.text.endswith("\n  ``\n```\n\n---\n\n1. [Rivers](https://a.example/)\n")
    blocks = [token.type for token in MarkdownIt("commonmark").parse(found.text) if token.nesting != -1]
    assert [each for each in blocks if each != "inline"] == [
        *("paragraph_open", "fence", "hr", "ordered_list_open", "list_item_open", "paragraph_open")
    ]


def test_the_thinking_that_is_shown_as_text_may_end_in_a_code_block() -> None:
    thought = event("reasoning_text.delta", item_id="rs", delta="~~~\nhm")
    events = [thought, text_delta("m", "Water"), citation_added("m", A, "Rivers"), completed()]
    assert adapt(events, citations="end", thinking="text").text.startswith("~~~\nhm\n\nWater\n~~~\n\n---")
    assert adapt(events, citations="end", thinking="part").text.startswith("Water\n\n---")


def test_an_answer_without_citations_has_no_list() -> None:
    assert adapt([text_delta("m", "Water"), completed()], citations="end").summary == ["Water"]


def test_citations_without_text_are_not_an_answer() -> None:
    found = adapt([citation_added("m", A), completed()], citations="end")
    assert (found.parts, found.error) == ([], (ProtocolError, "empty_response"))


def test_a_response_that_calls_a_tool_has_no_list_of_citations() -> None:
    """The answer goes on after the call; an editor would show the list before it."""
    look = call("fc_1", "look", "{}")
    found = adapt([*CITED_TWICE, item_done(look, 1), completed(look)], citations="end")
    assert found.summary == ["Water", " flows.", ("gw-call_fc_1", "look", {})]
    assert len(found.result.annotations) == 3


def test_links_are_known_because_the_model_did_not_generate_them() -> None:
    for citations, links in (("inline", 3), ("end", 1), ("off", 0)):
        adapter = OpenResponsesStreamAdapter(citations=citations)  # type: ignore[arg-type]
        parts = [part for each in (*CITED_TWICE, completed()) for part in adapter.feed(read_event(each))]
        assert [adapter.is_link(part) for part in parts].count(True) == links
        assert not adapter.is_link(TextPart("Water"))


# Thinking, with every event name (decision 20, decision 24)


CHANNELS = {
    "reasoning": "content_index",
    "reasoning_text": "content_index",
    "reasoning_summary": "summary_index",
    "reasoning_summary_text": "summary_index",
}


def thinking_stream(spelling: str, step: str) -> list[JSON]:
    """Return a stream with thinking, in deltas or only in `done`, and an answer."""
    place = {"item_id": "rs", "output_index": 0, CHANNELS[spelling]: 0}
    pieces = {"delta": [{"delta": "Hm, "}, {"delta": "yes"}], "done": [{"text": "Hm, yes"}]}[step]
    events = [event(f"{spelling}.{step}", **place, **piece) for piece in pieces]
    return [item_added(reasoning("rs")), *events, text_delta("m", "Yes.", 1), completed()]


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
def test_every_reasoning_event_follows_the_thinking_mode(
    spelling: str, step: str, thinking: str, text: str, thought: str
) -> None:
    found = adapt(thinking_stream(spelling, step), thinking=thinking)
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
def test_a_done_part_of_reasoning_is_thinking(name: str, part: str) -> None:
    found = adapt(
        [
            item_added(reasoning("rs")),
            event(f"{name}.added", item_id="rs", part={"type": part, "text": ""}),
            event(f"{name}.done", item_id="rs", part={"type": part, "text": "Hm"}),
            text_delta("m", "Yes.", 1),
            completed(),
        ]
    )
    assert (found.text, found.thinking) == ("Yes.", "Hm")


def test_a_plain_text_part_of_a_message_is_text() -> None:
    part = event("content_part.done", item_id="m", part={"type": "text", "text": "Yes."})
    assert adapt([item_added(message("m")), part, completed()]).summary == ["Yes."]


@pytest.mark.parametrize("first", ["reasoning", "reasoning_text"])
def test_of_two_event_names_the_first_is_used(first: str) -> None:
    second = ({"reasoning", "reasoning_text"} - {first}).pop()
    events = [reasoning_delta("rs", each, 0, name) for each in ("Hm, ", "yes") for name in (first, second)]
    assert adapt([*events, text_delta("m", "Yes.", 1), completed()]).thinking == "Hm, yes"


def test_the_summary_of_an_item_with_content_is_not_shown() -> None:
    summary = reasoning_delta("rs", "In short", 0, "reasoning_summary_text")
    item = reasoning("rs", "At length", "In short")
    found = adapt(
        [
            reasoning_delta("rs", "At length"),
            summary,
            item_done(item),
            text_delta("m", "Yes.", 1),
            completed(item),
        ]
    )
    assert found.thinking == "At length"
    assert found.diagnostics == {}


def test_the_parts_of_a_summary_are_separate_blocks() -> None:
    item = reasoning("rs")
    item["summary"] = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    found = adapt([item_done(item), text_delta("m", "Yes.", 1), completed(item)])
    assert [(part.value, part.id) for part in found.parts if isinstance(part, ThinkingPart)] == [
        ("One.", "rs"),
        ("Two.", "rs:1"),
        ("", "rs"),
    ]


def test_a_negative_summary_index_means_the_first_part() -> None:
    odd = reasoning_delta("rs", "Hm", 0, "reasoning_summary_text") | {"summary_index": -1}
    found = adapt([odd, text_delta("m", "Yes.", 1), completed()])
    assert [part.id for part in found.parts if isinstance(part, ThinkingPart)] == ["rs"]


def test_thinking_as_text_separates_paragraphs() -> None:
    item = reasoning("rs")
    item["summary"] = [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]
    assert adapt([item_done(item), text_delta("m", "Yes.", 1), completed(item)], thinking="text").summary == [
        "One.",
        "\n\nTwo.",
        "\n\nYes.",
    ]


@pytest.mark.parametrize(
    ("requested", "expected_model"),
    [("gpt", "gpt"), ("", "m")],
    ids=["the requested model", "the model that answered"],
)
def test_the_last_thinking_part_has_the_metadata_to_return(requested: str, expected_model: str) -> None:
    item = reasoning("rs", "Hm", encrypted_content="sealed", status="completed")
    opened = event("created", response={"id": "resp_1", "model": "m"})
    events = [
        opened,
        reasoning_delta("rs", "Hm"),
        item_done(item),
        text_delta("x", "Yes.", 1),
        completed(item),
    ]
    last = [part for part in adapt(events, model=requested).parts if isinstance(part, ThinkingPart)][-1]
    assert (last.value, last.id) == ("", "rs")
    returned_item = {name: value for name, value in item.items() if name != "status"}
    assert last.metadata == {METADATA: {"reasoning": returned_item, "model": expected_model}}


# Refusals and errors


def test_a_refusal_is_text_and_sets_refused() -> None:
    found = adapt(
        [
            event("refusal.delta", item_id="m", delta="I can"),
            event("refusal.delta", item_id="m", delta="not."),
            event("refusal.done", item_id="m", refusal="I cannot."),
            completed(),
        ]
    )
    assert found.summary == ["I can", "not."]
    assert found.result.refused
    assert found.error is None


def test_a_refusal_without_deltas_is_text() -> None:
    found = adapt([event("refusal.done", item_id="m", refusal="I cannot."), completed()])
    assert (found.summary, found.result.refused) == (["I cannot."], True)


PNG = b"\x89PNG\r\n\x1a\n"
FILES = {
    "a file event": event("file", mime_type="image/png", data=b64encode(PNG).decode()),
    "a file event that nests": event(
        "file", file={"mimeType": "image/png", "base64": b64encode(PNG).decode()}
    ),
    "a generated image": item_done(
        {
            "type": "image_generation_call",
            "id": "ig",
            "result": b64encode(PNG).decode(),
            "output_format": "png",
        }
    ),
    "a part of a message": item_done(
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


@pytest.mark.parametrize("event_with_data", FILES.values(), ids=FILES.keys())
def test_files_and_images_are_data_parts(event_with_data: JSON) -> None:
    found = adapt([event_with_data, event_with_data, completed()])
    assert found.parts == [DataPart(PNG, "image/png")]
    assert found.error is None
