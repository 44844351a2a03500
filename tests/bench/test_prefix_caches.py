"""The prompt caches of the scripted upstreams of `bench.routing`."""

from __future__ import annotations

from typing import Any

from bench.prefix_caches import LEAST_TOKENS, CachingUpstream

LONG = "word " * 1000


def body(*texts: str, mark: int = -1, **fields: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": text}]} for text in texts
    ]
    if mark >= 0:
        messages[mark]["content"][0]["cache_control"] = {"type": "ephemeral"}
    return {"messages": messages, **fields}


def test_what_was_read_before_with_the_same_key_is_cached() -> None:
    upstream = CachingUpstream("chat")
    first, cached, _ = upstream.take("a", body(LONG, "one"))
    assert (first > LEAST_TOKENS, cached) == (True, 0)
    assert upstream.take("a", body(LONG, "one", "two"))[1] == first
    assert upstream.take("b", body(LONG, "one", "two"))[1] == 0
    assert 0 < upstream.take("a", body(LONG, "other"))[1] < first
    assert upstream.take("a", body("before", LONG, "one"))[1] == 0
    assert upstream.take("a", body(LONG, "one", tools=[{"name": "x"}]))[1] == 0


def test_a_short_prompt_is_not_cached() -> None:
    upstream = CachingUpstream("chat")
    assert [upstream.take("a", body("short"))[1] for _ in range(2)] == [0, 0]


def test_anthropic_caches_up_to_the_marks() -> None:
    upstream = CachingUpstream("anthropic")
    assert upstream.take("a", body(LONG, "one"))[1:] == (0, 0)
    total, cached, written = upstream.take("a", body(LONG, "one", mark=1))
    assert (cached, written) == (0, total)
    assert upstream.take("a", body(LONG, "one", "two", mark=2))[1] == total
