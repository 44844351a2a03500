"""The order of a model's targets (ask C4, ask D5)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from penstock.dialects.presets import fingerprint
from penstock.upstream.affinity import SEED_BYTES
from penstock.upstream.attempts import Candidate
from penstock.upstream.http import HttpUpstream
from penstock.upstream.placement import in_order, origin_first
from tests.upstream.sending import target


def upstream(name: str, *keys: str, preset: str = "") -> HttpUpstream:
    return HttpUpstream(target("http://127.0.0.1:1", name=name, keys=keys, preset=preset))


def seeds(count: int) -> list[bytes]:
    random = Random(count)
    return [random.randbytes(SEED_BYTES) for _ in range(count)]


GROUP = [Candidate(upstream(name), "m", 0, 1.0) for name in "abcd"]


def names(candidates: list[Candidate]) -> str:
    return "".join(each.upstream.name for each in candidates)


def test_conversations_are_spread_over_a_group_by_weight() -> None:
    heavy = [*GROUP[:3], Candidate(GROUP[3].upstream, "m", 0, 3.0)]
    first = Counter(names(in_order(heavy, seed))[0] for seed in seeds(600))
    assert min(first["a"], first["b"], first["c"]) > 60
    assert 250 < first["d"] < 350


def test_groups_stay_in_the_operators_order() -> None:
    """A plain list is a fallback chain: every target is a group of its own."""
    chain = [Candidate(each.upstream, "m", place) for place, each in enumerate(GROUP)]
    pairs = [Candidate(each.upstream, "m", place // 2) for place, each in enumerate(GROUP)]
    assert {names(in_order(chain, seed)) for seed in seeds(60)} == {"abcd"}
    assert {names(in_order(pairs, seed)) for seed in seeds(60)} == {"abcd", "abdc", "bacd", "badc"}


def test_two_models_of_one_target_may_be_in_a_group() -> None:
    pair = [Candidate(GROUP[0].upstream, model) for model in ("m", "n")]
    assert {in_order(pair, seed)[0].model for seed in seeds(40)} == {"m", "n"}


A, B = upstream("a", "k1", "k2"), upstream("b", "k3")


def test_of_equal_targets_the_one_with_the_key_of_the_reasoning_comes_first() -> None:
    candidates = [Candidate(A, "m", 0), Candidate(B, "m", 1)]
    assert names(origin_first(candidates, [fingerprint("k3")])) == "ba"
    assert names(origin_first(candidates, ["unknown", fingerprint("k1"), fingerprint("k3")])) == "ab"
    assert names(origin_first(candidates, [])) == "ab"


def test_in_the_first_group_the_key_decides_even_between_vendors() -> None:
    vendors = [upstream("a", "k1", preset="openai"), upstream("b", "k2", preset="azure")]
    group = [Candidate(each, each.name) for each in vendors]
    chain = [Candidate(each, each.name, place) for place, each in enumerate(vendors)]
    assert names(origin_first(group, [fingerprint("k2")])) == "ba"
    assert names(origin_first(chain, [fingerprint("k2")])) == "ab"


@pytest.mark.parametrize(
    "other", [Candidate(B, "n", 1), Candidate(upstream("b", "k3", preset="groq"), "m", 1)]
)
def test_another_model_or_vendor_stays_where_the_operator_put_it(other: Candidate) -> None:
    assert names(origin_first([Candidate(A, "m"), other], [fingerprint("k3")])) == "ab"
