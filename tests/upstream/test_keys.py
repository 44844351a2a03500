"""The keys of an upstream: which one is used, and how keys rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.dialects.presets import fingerprint
from penstock.upstream.affinity import SEED_BYTES
from penstock.upstream.keys import KeyRing
from tests.upstream.sending import Clock


def ring(*keys: str) -> tuple[KeyRing, Clock]:
    clock = Clock()
    return KeyRing(keys, clock=clock), clock


def test_without_keys_none_is_returned_and_there_is_no_wait() -> None:
    keys, _ = ring()
    keys.rest("", 5)
    assert (keys.take(), keys.another(()), keys.ready_in()) == ("", None, 0)


def test_the_first_key_is_used_every_time() -> None:
    keys, _ = ring("a", "b", "c")
    assert [keys.take() for _ in range(4)] == ["a"] * 4


def test_the_key_that_reasoning_is_bound_to_is_preferred() -> None:
    keys, _ = ring("a", "b", "c")
    assert keys.take([fingerprint("c")]) == "c"
    assert keys.take(["unknown"]) == "a"


def test_of_several_preferred_keys_the_first_that_is_ready_is_used() -> None:
    keys, _ = ring("a", "b", "c")
    preferred = [fingerprint("c"), fingerprint("b")]
    assert keys.take(preferred) == "c"
    keys.rest("c", 10)
    assert keys.take(preferred) == "b"


def test_a_ring_knows_its_keys_by_their_fingerprints() -> None:
    keys, _ = ring("a")
    assert keys.has(fingerprint("a"))
    assert not keys.has(fingerprint("b"))
    assert not keys.has("")


def test_a_resting_key_is_not_used_even_if_it_is_preferred() -> None:
    keys, clock = ring("a", "b")
    keys.rest("a", 10)
    assert keys.take([fingerprint("a")]) == "b"
    clock.now += 10
    assert keys.take() == "a"


def test_if_all_keys_rest_the_one_that_is_ready_first_is_used() -> None:
    keys, clock = ring("a", "b", "c")
    for key, seconds in (("a", 9), ("b", 4), ("c", 7)):
        keys.rest(key, seconds)
    assert (keys.take(), keys.ready_in(), keys.another(())) == ("b", 4, None)
    clock.now += 3
    assert keys.ready_in() == 1


def test_resting_keys_are_counted() -> None:
    keys, clock = ring("a", "b", "c")
    keys.rest("a", 5)
    keys.rest("b", 10)
    assert keys.resting() == 2
    clock.now += 5
    assert keys.resting() == 1


def test_a_short_rest_does_not_shorten_a_long_one() -> None:
    keys, _ = ring("a")
    keys.rest("a", 3600)
    keys.rest("a", 1)
    assert keys.ready_in() == 3600


def test_an_unknown_key_cannot_rest() -> None:
    keys, _ = ring("a")
    keys.rest("gone", 60)
    assert keys.take() == "a"


SEEDS = [bytes([number]) * SEED_BYTES for number in range(64)]


def test_conversations_are_spread_over_the_keys_and_keep_theirs() -> None:
    keys, clock = ring("a", "b", "c")
    taken = {seed: keys.take((), seed) for seed in SEEDS}
    assert set(taken.values()) == {"a", "b", "c"}
    reordered, _ = ring("c", "a", "b")
    assert {seed: reordered.take((), seed) for seed in SEEDS} == taken
    keys.rest("a", 60)
    moved = {seed: keys.take((), seed) for seed in SEEDS}
    assert set(moved.values()) == {"b", "c"}
    assert all(moved[seed] == key for seed, key in taken.items() if key != "a")
    clock.now += 60
    assert {seed: keys.take((), seed) for seed in SEEDS} == taken


def test_the_key_that_reasoning_is_bound_to_comes_before_that_of_the_conversation() -> None:
    keys, _ = ring("a", "b")
    assert {keys.take([fingerprint("b")], seed) for seed in SEEDS} == {"b"}


def test_keys_that_are_not_spread_are_used_in_their_order() -> None:
    clock = Clock()
    keys = KeyRing(("a", "b", "c"), clock=clock, spread=False)
    assert {keys.take((), seed) for seed in SEEDS} == {"a"}
    keys.rest("a", 60)
    assert {keys.take((), seed) for seed in SEEDS} == {"b"}
    assert {keys.another({"b"}, (), seed) for seed in SEEDS} == {"c"}


def test_a_duplicate_key_is_one_key() -> None:
    keys, _ = ring("a", "", "a", "b")
    keys.rest("a", 5)
    assert keys.take() == "b"
    assert keys.another({"b"}) is None


def test_no_key_is_in_a_repr() -> None:
    keys, _ = ring("sk-secret-1", "sk-secret-2")
    assert repr(keys) == "KeyRing(2 keys)"


@given(
    st.lists(st.sampled_from("abcd"), max_size=4),
    st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 100), st.floats(0, 50))),
    st.lists(st.sampled_from("abcde"), unique=True),
)
def test_a_ready_key_is_used_whenever_there_is_one(
    names: list[str], rests: list[tuple[str, float, float]], preferred: list[str]
) -> None:
    keys, clock = ring(*names)
    ends = dict.fromkeys(names, 0.0)
    for name, seconds, passed in rests:
        keys.rest(name, seconds)
        if name in ends:
            ends[name] = max(ends[name], clock.now + seconds)
        clock.now += passed
    taken = keys.take([fingerprint(name) for name in preferred])
    ready = [name for name in ends if ends[name] <= clock.now]
    if ready:
        wanted = [name for name in preferred if name in ready]
        assert taken == (wanted or ready)[0]
        assert keys.ready_in() == 0
    elif names:
        assert ends[taken] == min(ends.values())
        assert keys.ready_in() == min(ends.values()) - clock.now
    else:
        assert taken == ""


def test_a_key_has_the_name_of_its_variable_or_its_place() -> None:
    ring = KeyRing(("one", "two"), clock=Clock(), names=("FIRST",))
    assert (ring.name_of("one"), ring.name_of("two")) == ("FIRST", "key 2")
    assert (ring.name_of("three"), ring.name_of(""), len(ring)) == ("", "", 2)
    assert len(KeyRing(clock=Clock(), names=("UNUSED",))) == 0
