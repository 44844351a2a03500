from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.tools.call_ids import LIMIT, CallIds, UniqueIds, fitting, is_hashed, original

likely = st.sampled_from(["call_0", "call_0-pk2", "call_0-pk2-pk3", "x" * 64])
ids = st.text(min_size=1, max_size=100) | likely


@given(ids, st.sets(ids, max_size=6))
def test_a_call_id_is_new_short_and_can_be_traced_back(call_id: str, used: set[str]) -> None:
    unique = CallIds(used).distinct(call_id)
    assert unique not in used
    assert 1 <= len(unique) <= LIMIT
    assert CallIds(used).distinct(call_id) == unique
    if len(call_id) <= LIMIT - 8:
        assert original(unique) == call_id


@given(st.lists(ids, max_size=12))
def test_ids_are_unique_in_a_conversation(upstream: list[str]) -> None:
    call_ids = CallIds()
    unique = [call_ids.distinct(call_id) for call_id in upstream]
    assert len(set(unique)) == len(unique)


def test_long_ids_with_the_same_beginning_stay_different() -> None:
    one, other = "x" * 69, "x" * 116
    assert fitting(one) != fitting(other)
    assert fitting(one) == fitting(one)
    assert fitting("y" * 64) == "y" * 64


@given(ids, st.sets(ids, max_size=6))
def test_an_id_is_hashed_if_it_does_not_begin_with_the_given_one(call_id: str, used: set[str]) -> None:
    unique = CallIds(used).distinct(call_id)
    assert is_hashed(unique, call_id) == (not unique.startswith(call_id))


def test_an_id_that_is_too_long_with_its_suffix_is_hashed() -> None:
    call_id = "x" * LIMIT
    call_ids = CallIds()
    assert not is_hashed(call_ids.distinct(call_id), call_id)
    assert is_hashed(call_ids.distinct(call_id), call_id)


def test_a_hash_that_comes_back_is_not_hashed_again() -> None:
    hashed = fitting("x" * 99)
    assert not is_hashed(fitting(hashed), hashed)
    assert not is_hashed(original(f"{hashed}-pk2"), f"{hashed}-pk2")


def test_an_id_that_looks_suffixed_is_suffixed_again() -> None:
    assert original(CallIds().distinct("call_0-pk2")) == "call_0-pk2"


def test_the_first_free_of_the_wanted_ids_is_used() -> None:
    ids = UniqueIds()
    assert [ids.first_free("call_a", "call_b") for _ in range(4)] == [
        "call_a",
        "call_b",
        "call_b-2",
        "call_b-3",
    ]
    assert ids.first_free("call_b-3") == "call_b-3-2"
    assert ids.first_free("call_a", separator="_") == "call_a_2"


def test_a_numbered_id_stays_short_and_unique() -> None:
    ids = UniqueIds()
    made = [ids.first_free("x" * LIMIT) for _ in range(5)]
    assert len(set(made)) == 5
    assert all(len(each) <= LIMIT for each in made)
