from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.tools.call_ids import LIMIT, distinct, fitting, original

ids = st.text(min_size=1, max_size=100) | st.sampled_from(
    ["call_0", "call_0-pk2", "call_0-pk2-pk3", "x" * 64]
)


@given(ids, st.sets(ids, max_size=6))
def test_a_call_id_is_new_short_and_can_be_traced_back(call_id: str, taken: set[str]) -> None:
    shown = distinct(call_id, taken)
    assert shown not in taken
    assert 1 <= len(shown) <= LIMIT
    assert distinct(call_id, taken) == shown
    if len(call_id) <= LIMIT - 8:
        assert original(shown) == call_id


@given(st.lists(ids, max_size=12))
def test_a_conversation_never_gets_one_id_twice(upstream: list[str]) -> None:
    taken: set[str] = set()
    for call_id in upstream:
        shown = distinct(call_id, taken)
        assert shown not in taken
        taken.add(shown)


def test_long_ids_that_begin_alike_stay_apart() -> None:
    one, other = "x" * 69, "x" * 116
    assert fitting(one) != fitting(other)
    assert fitting(one) == fitting(one)
    assert fitting("y" * 64) == "y" * 64


def test_an_id_that_looks_suffixed_is_suffixed_again() -> None:
    assert original(distinct("call_0-pk2", set())) == "call_0-pk2"
