"""Which responses of a WebSocket can be continued without being stored."""

from __future__ import annotations

from penstock.gateway.history.connection_cache import ConnectionCache, ConnectionHistory


def history(id: str, weight: int = 1) -> ConnectionHistory:
    return ConnectionHistory(id, (), False, weight)


def test_the_last_response_of_each_lane_is_found_from_every_lane() -> None:
    cache = ConnectionCache(100)
    cache.put("", history("r1"))
    cache.put("a", history("r2"))
    cache.put("a", history("r3"))
    assert [cache.find(id) is not None for id in ("r1", "r2", "r3", None)] == [True, False, True, False]


def test_a_response_is_forgotten_only_in_its_own_lane() -> None:
    cache = ConnectionCache(100)
    cache.put("a", history("r1"))
    cache.forget("b", "r1")
    cache.forget("a", "r2")
    assert cache.find("r1") is not None
    cache.forget("a", "r1")
    assert cache.find("r1") is None


def test_the_least_recently_used_responses_make_room_and_the_newest_stays() -> None:
    cache = ConnectionCache(100)
    for lane in ("a", "b"):
        cache.put(lane, history(lane, 40))
    cache.find("a")
    cache.put("c", history("c", 40))
    assert [cache.find(id) is not None for id in ("a", "b", "c")] == [True, False, True]
    cache.put("d", history("d", 1000))
    assert [cache.find(id) is not None for id in ("a", "c", "d")] == [False, False, True]
