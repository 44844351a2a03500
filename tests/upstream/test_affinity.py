"""A conversation stays with the key and the target that it started with (ask C4, ask D5)."""

from __future__ import annotations

import pytest

from penstock.dialects.presets import fingerprint
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from penstock.upstream.affinity import KeyAffinity, conversation_names, origin_first, response_name
from penstock.upstream.attempts import Attempt, Candidate
from penstock.upstream.http import HttpUpstream
from tests.upstream.sending import target


def upstream(name: str, *keys: str, preset: str = "") -> HttpUpstream:
    return HttpUpstream(target("http://127.0.0.1:1", name=name, keys=keys, preset=preset))


def attempt(upstream: HttpUpstream, key: str) -> Attempt:
    return Attempt(upstream, "m", key, 0.0, 1)


A = upstream("a", "k1", "k2")
B = upstream("b", "k3")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, []),
        ({"previous_response_id": "resp_1"}, [response_name("resp_1")]),
        ({"conversation": "conv_1"}, ["conversation:conv_1"]),
        ({"conversation": {"id": "conv_1"}, "prompt_cache_key": "x"}, ["conversation:conv_1", "cache:x"]),
        ({"previous_response_id": None, "prompt_cache_key": ""}, []),
    ],
)
def test_a_conversation_is_known_by_what_the_request_names(
    fields: dict[str, object], names: list[str]
) -> None:
    assert conversation_names(read({"input": "x", **fields}, CreateResponse)) == names


def test_the_key_of_a_conversation_is_known_by_every_name_of_it() -> None:
    affinity = KeyAffinity()
    affinity.remember("t", ["cache:x", "response:1"], attempt(A, "k2"))
    assert affinity.keys_of("t", ["response:1"]) == affinity.keys_of("t", ["cache:x"]) == (fingerprint("k2"),)
    assert affinity.keys_of("t", ["response:2"]) == affinity.keys_of("other", ["response:1"]) == ()


def test_a_conversation_keeps_the_key_that_it_started_with() -> None:
    """Another key only stands in for it while it rests."""
    affinity = KeyAffinity()
    affinity.remember("t", ["response:1"], attempt(A, "k2"))
    affinity.remember("t", ["response:1", "response:2"], attempt(A, "k1"))
    assert affinity.keys_of("t", ["response:2"]) == (fingerprint("k2"),)


def test_a_key_that_is_gone_is_replaced() -> None:
    affinity = KeyAffinity()
    affinity.remember("t", ["cache:x"], attempt(upstream("a", "old"), "old"))
    affinity.remember("t", ["cache:x"], attempt(A, "k2"))
    assert affinity.keys_of("t", ["cache:x"]) == (fingerprint("old"), fingerprint("k2"))


def test_each_target_of_a_conversation_has_its_key() -> None:
    affinity = KeyAffinity()
    affinity.remember("t", ["cache:x"], attempt(A, "k2"))
    affinity.remember("t", ["cache:x"], attempt(B, "k3"))
    assert affinity.keys_of("t", ["cache:x"]) == (fingerprint("k2"), fingerprint("k3"))


@pytest.mark.parametrize("key", ["", "the client's own"])
def test_only_configured_keys_are_remembered(key: str) -> None:
    affinity = KeyAffinity()
    affinity.remember("t", ["cache:x"], attempt(A, key))
    assert len(affinity) == 0


def test_the_conversation_that_was_not_used_for_longest_is_forgotten_first() -> None:
    affinity = KeyAffinity(most=2)
    for name in ("1", "2"):
        affinity.remember("t", [name], attempt(A, "k1"))
    affinity.keys_of("t", ["1"])
    affinity.remember("t", ["3"], attempt(A, "k1"))
    assert [bool(affinity.keys_of("t", [name])) for name in ("1", "2", "3")] == [True, False, True]


def names(candidates: list[Candidate]) -> list[str]:
    return [candidate.upstream.name for candidate in candidates]


def test_among_equal_targets_the_one_with_the_conversations_key_comes_first() -> None:
    candidates = [Candidate(A, "m"), Candidate(B, "m")]
    assert names(origin_first(candidates, [fingerprint("k3")])) == ["b", "a"]
    assert names(origin_first(candidates, ["unknown", fingerprint("k1"), fingerprint("k3")])) == ["a", "b"]
    assert names(origin_first(candidates, [])) == ["a", "b"]


@pytest.mark.parametrize(
    "other", [Candidate(B, "cheaper"), Candidate(upstream("b", "k3", preset="xai"), "m")]
)
def test_the_order_of_different_targets_is_the_operators(other: Candidate) -> None:
    assert names(origin_first([Candidate(A, "m"), other], [fingerprint("k3")])) == ["a", "b"]
