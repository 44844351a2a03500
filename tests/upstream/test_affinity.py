"""Every turn of a conversation goes to the same key and target (ask C4, ask D5)."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from penstock.upstream.affinity import SEED_BYTES, conversation_root, ranked, score
from tests.effort import examples

Json = dict[str, Any]


def root(*items: Json, tenant: str = "alice", **fields: Any) -> bytes:
    return conversation_root(read({"model": "m", "input": list(items), **fields}, CreateResponse), tenant)


def message(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


SYSTEM, ASKED = message("system", "Be brief."), message("user", "Hi.")
ANSWERED = message("assistant", [{"type": "output_text", "text": "Hello."}])
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "done"}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
MORE = message("user", "And now?")
FIRST = (SYSTEM, ASKED)


# The root of a conversation


SAME: dict[str, tuple[list[Json], Json]] = {
    "an answer and another question": ([*FIRST, ANSWERED, MORE], {}),
    "a call and its output": ([*FIRST, CALL, OUTPUT], {}),
    "reasoning first": ([*FIRST, REASONING, CALL, OUTPUT, MORE], {}),
    "a later system message": ([*FIRST, ANSWERED, message("developer", "New rules."), MORE], {}),
    "the content as parts": ([SYSTEM, message("user", [{"type": "input_text", "text": "Hi."}])], {}),
    "other tools": ([*FIRST], {"tools": [{"type": "function", "name": "f"}]}),
    "another model": ([*FIRST], {"model": "n"}),
    "the system prompt as instructions": ([ASKED], {"instructions": "Be brief."}),
}


@pytest.mark.parametrize("later", SAME)
def test_a_later_turn_has_the_root_of_the_first(later: str) -> None:
    items, fields = SAME[later]
    assert root(*items, **fields) == root(*FIRST)
    assert len(root(*FIRST)) == SEED_BYTES


OTHER: dict[str, bytes] = {
    "another tenant": root(*FIRST, tenant="bob"),
    "other instructions": root(*FIRST, instructions="Be kind."),
    "no system prompt": root(ASKED),
    "another question": root(SYSTEM, message("user", "Hello.")),
    "another introduction": root(SYSTEM, message("user", "You are in /tmp."), ASKED),
    "a picture": root(SYSTEM, message("user", [{"type": "input_image", "image_url": "data:,a"}])),
    "another picture": root(SYSTEM, message("user", [{"type": "input_image", "image_url": "data:,b"}])),
    "a file": root(SYSTEM, message("user", [{"type": "input_file", "file_id": "file_1"}])),
    "a conversation object": root(*FIRST, conversation="conv_1"),
    "another conversation object": root(*FIRST, conversation={"id": "conv_2"}),
    "a cache key": root(*FIRST, prompt_cache_key="k"),
    "a cache key with the name of a conversation": root(*FIRST, prompt_cache_key="conv_1"),
    "a cache key of another tenant": root(*FIRST, prompt_cache_key="k", tenant="bob"),
    "the same texts, divided otherwise": root(message("system", "Be brief.Hi"), message("user", ".")),
    "a history that begins with an answer": root(ANSWERED),
    "a history that begins with another answer": root(message("assistant", "What?")),
    "a history that begins with an output": root(OUTPUT),
}


def test_another_conversation_has_another_root() -> None:
    """Tenants above all share nothing (ask K6)."""
    roots = [root(*FIRST), *OTHER.values()]
    assert len(set(roots)) == len(roots)


def test_what_the_client_names_comes_before_how_the_conversation_begins() -> None:
    assert root(ASKED, prompt_cache_key="k") == root(MORE, prompt_cache_key="k", instructions="x")
    assert root(ASKED, conversation="c") == root(MORE, conversation={"id": "c"}, prompt_cache_key="k")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Today is 2026-11-19, 14:05:59. Be brief.", "Today is 2026-11-20, 9:00:01. Be brief."),
        ("Rules. " * 400 + "The folder is /a.", "Rules. " * 400 + "The folder is /b."),
    ],
)
def test_a_system_prompt_may_change_where_no_cache_is_lost(one: str, other: str) -> None:
    """Dates and times, and everything after what vendors cache at least."""
    assert root(message("developer", one), ASKED) == root(message("developer", other), ASKED)
    assert root(ASKED, instructions=one) == root(ASKED, instructions=other)


def test_a_request_without_content_has_no_root() -> None:
    assert root() == root(message("user", "")) == b""


def test_only_the_beginning_of_a_long_message_counts() -> None:
    long = "x" * 100_000
    assert root(message("user", long)) == root(message("user", long + "y"))
    picture = [{"type": "input_image", "image_url": long}]
    larger = [{"type": "input_image", "image_url": long + "y"}]
    assert root(message("user", picture)) != root(message("user", larger))


texts = st.text(max_size=30)
questions = st.lists(texts.map(lambda text: message("user", text)), min_size=1, max_size=3)
rest = st.lists(
    st.one_of(
        st.sampled_from([CALL, OUTPUT, REASONING, ANSWERED, MORE]), texts.map(lambda t: message("user", t))
    ),
    max_size=6,
)


@settings(max_examples=examples(200), deadline=None)
@given(texts, questions, rest, rest, st.text(max_size=5))
def test_the_root_stays_while_the_history_grows(
    system: str, asked: list[Json], more: list[Json], still_more: list[Json], tenant: str
) -> None:
    history = [message("system", system), *asked, ANSWERED, *more]
    first = root(message("system", system), *asked, tenant=tenant)
    assert root(*history, tenant=tenant) == root(*history, *still_more, tenant=tenant) == first


def test_the_root_is_the_same_in_every_version() -> None:
    """During an upgrade, workers of two versions run."""
    assert root(*FIRST).hex() == "06ded6584599c8447c8fb937c59cd1d2"


# Rendezvous hashing


Member = tuple[str, float]

seeds = st.binary(min_size=SEED_BYTES, max_size=SEED_BYTES)
weights = st.floats(0, 1e6)
members = st.lists(st.tuples(st.text(max_size=12), weights), min_size=1, max_size=8, unique_by=lambda m: m[0])


def order(seed: bytes, given_members: list[Member]) -> list[str]:
    return [given_members[place][0] for place in ranked(seed, given_members)]


@settings(max_examples=examples(300), deadline=None)
@given(seeds, members, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_in_the_configuration(
    seed: bytes, group: list[Member], random: Random
) -> None:
    shuffled = list(group)
    random.shuffle(shuffled)
    assert order(seed, shuffled) == order(seed, group)
    assert sorted(order(seed, group)) == sorted(name for name, _ in group)


@settings(max_examples=examples(300), deadline=None)
@given(seeds, members, st.data())
def test_without_a_member_the_others_keep_their_order(
    seed: bytes, group: list[Member], data: st.DataObject
) -> None:
    """So a conversation moves only if its own member goes, or if a new member wins it."""
    gone = data.draw(st.sampled_from(group))
    left = [each for each in group if each != gone]
    assert order(seed, left) == [name for name in order(seed, group) if name != gone[0]]


@settings(max_examples=examples(300), deadline=None)
@given(seeds, members, st.data(), weights)
def test_a_member_with_more_weight_only_gains(
    seed: bytes, group: list[Member], data: st.DataObject, more: float
) -> None:
    place = data.draw(st.sampled_from(range(len(group))))
    name, weight = group[place]
    heavier = [*group[:place], (name, weight + more), *group[place + 1 :]]
    before, after = order(seed, group), order(seed, heavier)
    assert after.index(name) <= before.index(name)
    assert [each for each in after if each != name] == [each for each in before if each != name]


@settings(max_examples=examples(200), deadline=None)
@given(seeds, members)
def test_a_member_without_weight_comes_after_all_that_have_some(seed: bytes, group: list[Member]) -> None:
    weight = dict(group)
    found = [weight[name] > 0 for name in order(seed, group)]
    assert found == sorted(found, reverse=True)


def test_each_member_wins_in_proportion_to_its_weight() -> None:
    """20,000 seeds that never change: within four standard deviations."""
    group = [("a", 5.0), ("b", 3.0), ("c", 1.5), ("d", 0.5), ("e", 0.0)]
    count, random = 20_000, Random(20261119)
    wins = Counter(order(random.randbytes(SEED_BYTES), group)[0] for _ in range(count))
    for name, weight in group:
        share = weight / 10
        assert abs(wins[name] - count * share) <= 4 * sqrt(count * share * (1 - share)), name


def test_seeds_of_a_lost_member_spread_over_the_others_by_weight() -> None:
    group, random = [("a", 1.0), ("b", 2.0), ("c", 1.0)], Random(7)
    second = Counter(
        found[1] for _ in range(9_000) if (found := order(random.randbytes(SEED_BYTES), group))[0] == "a"
    )
    assert abs(second["b"] / second.total() - 2 / 3) < 0.04


def test_the_order_is_the_same_in_every_version() -> None:
    """During an upgrade, workers of two versions run: they must agree, or conversations lose their caches."""
    assert order(b"penstock rendezv", [("a", 1), ("b", 1), ("c", 1), ("d", 1)]) == ["c", "b", "d", "a"]
    assert score(bytes(SEED_BYTES), "a")[1] == 0.15454405799156257
