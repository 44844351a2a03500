"""Parts of an item under every numbering that an upstream may use: each text comes out once, in order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from penstock.dialects.responses import DIALECT
from penstock.dialects.responses.received_parts import FullTextMatch, ReceivedParts
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.responses.stream_events import added, completed, content_of, done, inner, message
from tests.effort import examples

JSON = dict[str, Any]


class PartKind(Struct, frozen=True):
    item: str
    field: str
    part: str
    text: str
    event: str
    part_event: str
    index: str


KINDS = {
    "text": PartKind(
        "message", "content", "output_text", "text", "output_text", "content_part", "content_index"
    ),
    "refusal": PartKind(
        "message", "content", "refusal", "refusal", "refusal", "content_part", "content_index"
    ),
    "reasoning": PartKind(
        "reasoning", "content", "reasoning_text", "text", "reasoning_text", "content_part", "content_index"
    ),
    "summary": PartKind(
        *("reasoning", "summary", "summary_text", "text"),
        *("reasoning_summary_text", "reasoning_summary_part", "summary_index"),
    ),
}

NUMBERINGS: dict[str, dict[str, Any]] = {
    "from 0": {"base": 0},
    "from 1": {"base": 1},
    "from 5": {"base": 5},
    "with gaps": {"base": 2, "step": 3},
    "missing": {"missing": True},
    "always the same": {"base": 4, "step": 0},
    "deltas from 1, the rest from 0": {"base": 0, "delta": 1},
    "deltas from 0, `*.done` from 1": {"base": 1, "delta": 0},
    "each event differently": {"random": True},
}
COPIES = ("delta", "text", "part", "item", "response")
"""Where a text may be: in deltas, in `*.done`, in its part, in its item, in the terminal response."""


class Upstream(Struct, frozen=True):
    kinds: list[str]
    """The kinds of the parts of one item."""
    texts: list[list[str]]
    """The text of each part, in pieces."""
    numbering: str
    copies: frozenset[str]
    announces_item: bool
    announces_parts: bool
    random_indexes: list[int]

    def index(self, copy: str, number: int, event: int) -> JSON:
        rule = NUMBERINGS[self.numbering]
        if rule.get("missing"):
            return {}
        if rule.get("random"):
            return {self.kind(number).index: self.random_indexes[event % len(self.random_indexes)]}
        base = rule.get(copy, rule["base"])
        return {self.kind(number).index: base + rule.get("step", 1) * number}

    def kind(self, number: int) -> PartKind:
        return KINDS[self.kinds[number]]

    def parts(self) -> list[tuple[PartKind, str]]:
        return [(self.kind(number), "".join(pieces)) for number, pieces in enumerate(self.texts)]

    def item(self, *, full: bool) -> JSON:
        type = KINDS[self.kinds[0]].item
        item: JSON = {"type": type, "id": "item_u", "role": "assistant", "summary": [], "content": []}
        if full:
            for kind, text in self.parts():
                item[kind.field].append({"type": kind.part, kind.text: text})
        return item

    def events(self) -> list[JSON]:
        events: list[JSON] = [added(0, self.item(full=False))] if self.announces_item else []
        for number in range(len(self.kinds)):
            for copy, name, fields in self.part_events(number):
                events.append(inner(name, 0, **fields, **self.index(copy, number, len(events))))
        if "item" in self.copies:
            events.append(done(0, self.item(full=True)))
        return [*events, completed(*([self.item(full=True)] if "response" in self.copies else []))]

    def part_events(self, number: int) -> list[tuple[str, str, JSON]]:
        """Return the events of a part: which copy of its text each has, its name, and its fields."""
        kind, text = self.parts()[number]
        part = {"type": kind.part, kind.text: text}
        events: list[tuple[str, str, JSON]] = []
        if self.announces_parts:
            events.append(("part", f"{kind.part_event}.added", {"part": {"type": kind.part}}))
        if "delta" in self.copies:
            events += [("delta", f"{kind.event}.delta", {"delta": piece}) for piece in self.texts[number]]
        if "text" in self.copies:
            events.append(("text", f"{kind.event}.done", {kind.text: text}))
        if "part" in self.copies:
            events.append(("part", f"{kind.part_event}.done", {"part": part}))
        return events

    @property
    def marks_parts(self) -> bool:
        """Whether the border of every part can be known when its text arrives."""
        numbered = self.numbering not in ("missing", "always the same", "each event differently")
        streamed = "delta" in self.copies
        if self.numbering == "each event differently":
            return not streamed
        return numbered or not streamed or self.announces_parts or bool({"text", "part"} & self.copies)

    @property
    def is_ambiguous(self) -> bool:
        """Whether another part looks like a repeated event: the same text and index."""
        numbered = self.numbering not in ("missing", "always the same", "each event differently")
        return not (numbered or self.announces_parts or "delta" in self.copies)


pieces = st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=3)


@st.composite
def upstreams(draw: st.DrawFn) -> Upstream:
    kinds = draw(
        st.sampled_from([["text"], ["refusal"], ["text", "refusal"], ["reasoning"], ["summary"]]).flatmap(
            lambda choice: st.lists(st.sampled_from(choice), min_size=1, max_size=4)
        )
    )
    upstream = Upstream(
        kinds=kinds,
        texts=draw(st.lists(pieces, min_size=len(kinds), max_size=len(kinds))),
        numbering=draw(st.sampled_from([*NUMBERINGS])),
        copies=draw(st.frozensets(st.sampled_from(COPIES), min_size=1)),
        announces_item=draw(st.booleans()),
        announces_parts=draw(st.booleans()),
        random_indexes=draw(st.lists(st.integers(0, 3), min_size=1, max_size=8)),
    )
    if upstream.is_ambiguous:  # no two parts with the same text
        texts = [[f"{number}", *each] for number, each in enumerate(upstream.texts)]
        return Upstream(
            upstream.kinds, texts, *(getattr(upstream, name) for name in upstream.__struct_fields__[2:])
        )
    return upstream


def received(upstream: Upstream) -> list[tuple[str, str]]:
    [item] = checks.answer(DIALECT, upstream.events())["output"]
    parts = [*item.get("summary", []), *item.get("content", [])]
    return [(part["type"], part.get("text", part.get("refusal"))) for part in parts]


def joined(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parts with neighbours of one type as one."""
    texts: list[tuple[str, str]] = []
    for type, text in parts:
        if texts and texts[-1][0] == type:
            texts[-1] = (type, texts[-1][1] + text)
        else:
            texts.append((type, text))
    return texts


@settings(max_examples=examples(600), deadline=None)
@given(upstreams())
def test_every_text_comes_out_once_and_in_order(upstream: Upstream) -> None:
    parts = received(upstream)
    expected = [(kind.part, text) for kind, text in upstream.parts()]
    assert joined(parts) == joined(expected)
    if upstream.marks_parts:
        assert parts == expected


@pytest.mark.parametrize("numbering", NUMBERINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_single_text_is_not_doubled(kind: str, numbering: str) -> None:
    upstream = Upstream([kind], [["Hi"]], numbering, frozenset(COPIES), True, True, [3, 1, 2])
    assert received(upstream) == [(KINDS[kind].part, "Hi")]


# One list of parts, directly


def parts_of(*deltas: tuple[int | None, str]) -> ReceivedParts:
    parts = ReceivedParts()
    for index, text in deltas:
        parts.extend("text", index, text)
    return parts


def keys(match: FullTextMatch) -> list[int]:
    return [part.key for part in match.parts]


def test_a_delta_continues_the_last_part_unless_its_index_differs_or_the_part_has_ended() -> None:
    parts = parts_of((3, "a"), (3, "b"), (None, "c"))
    assert parts.extend("text", 3, "d").text == "abcd"
    assert parts.extend("text", 1, "e").text == "e"
    assert parts.extend("refusal", 1, "f").text == "f"
    parts.announce()
    assert parts.extend("refusal", 1, "g").key == 3


def test_deltas_with_an_index_each_are_one_text() -> None:  # ask A4
    match = parts_of((0, "Hel"), (1, "lo")).settle("text", 0, "Hello!", "done")
    assert (keys(match), match.missing, match.starts()) == ([0, 1], "!", [0, 3])


def test_deltas_with_an_index_each_are_one_text_even_if_the_last_one_could_be_its_start() -> None:
    match = parts_of((0, "a"), (1, "a")).settle("text", 1, "aa", "done")
    assert (keys(match), match.missing) == ([0, 1], "")


def test_the_same_text_after_an_announcement_is_another_part() -> None:
    parts = ReceivedParts()
    assert parts.settle("text", 0, "a", "done").missing == "a"
    parts.announce()
    assert parts.settle("text", 0, "a", "done").missing == "a"
    assert parts.settle("text", 0, "a", "done").missing == ""


def test_the_end_of_a_part_that_has_ended_cannot_be_added() -> None:  # spec N29
    match = parts_of((0, "He"), (1, "B")).settle("text", 0, "Hello", "done")
    assert (match.missing, match.agrees) == ("", False)
    final = parts_of((0, "He"), (1, "B")).complete([("text", "Hello"), ("text", "Bye")])
    assert [(keys(each), each.missing, each.agrees) for _, each in final] == [
        ([0], "", False),
        ([1], "ye", True),
    ]


def test_a_repeated_event_adds_nothing_and_another_text_at_the_same_index_is_another_part() -> None:
    parts = ReceivedParts()
    texts = ["a", "a", "ab", "ab"]
    assert [parts.settle("text", 0, text, "done").missing for text in texts] == ["a", "", "ab", ""]


def test_a_part_that_was_not_streamed_follows_those_that_were() -> None:
    final = parts_of((1, "b")).complete([("text", "a"), ("text", "bc")])
    assert [(position, each.missing) for position, each in final] == [(1, "c"), (0, "a")]


def test_a_final_list_that_says_something_else_adds_nothing_for_the_parts_that_were_streamed() -> None:
    final = parts_of((0, "Hello")).complete([("text", "Bye"), ("text", "More")])
    assert [(each.missing, each.agrees) for _, each in final] == [("", False), ("More", True)]


def test_parts_received_as_one_have_offsets_in_it() -> None:
    final = parts_of((0, "ab")).complete([("text", "a"), ("text", "b"), ("text", "c")])
    assert [(keys(each), each.starts()) for _, each in final] == [([0], [0]), ([0], [-1]), ([1], [0])]


@pytest.mark.parametrize(
    ("index", "ended", "key"), [(7, False, 0), (8, False, 1), (9, False, 1), (None, False, 1), (9, True, 2)]
)
def test_a_citation_belongs_to_the_part_of_its_index_or_the_open_one_or_the_next(
    index: int | None, ended: bool, key: int
) -> None:
    parts = parts_of((7, "a"), (8, "b"))
    if ended:
        parts.announce()
    assert parts.key_of("text", index) == key


def test_many_parts_in_one_text_are_matched_without_comparing_all_with_all() -> None:
    count = 20_000
    parts = parts_of(*((number % 2, "x") for number in range(count)))
    for _ in range(count):
        parts.settle("text", 5, "y", "done")
    assert parts.complete([("text", "z")] * count)[-1][1].agrees is False


def test_a_message_with_several_parts_is_read_as_a_body_like_as_a_stream() -> None:
    [item] = checks.answer(DIALECT, [completed(message("a", "b", "b"))])["output"]
    assert content_of(item) == ["a", "b", "b"]
