"""The cache of counts."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tokens.cache import CountCache, key_of


class Counted:
    """A cache that counts characters, and records what it had to count."""

    def __init__(self, size: int) -> None:
        self.cache = CountCache(size)
        self.computed: list[str] = []

    def look(self, text: str, kind: str = "e") -> int:
        return self.cache.get(key_of(kind, text), partial(self._count, text))

    def _count(self, text: str) -> int:
        self.computed.append(text)
        return len(text)


def test_a_count_is_computed_once() -> None:
    counted = Counted(8)
    assert [counted.look("text") for _ in range(3)] == [4, 4, 4]
    assert counted.computed == ["text"]


def test_a_count_of_zero_is_cached() -> None:
    counted = Counted(8)
    assert [counted.look("") for _ in range(2)] == [0, 0]
    assert counted.computed == [""]


def test_the_same_text_of_another_kind_is_another_count() -> None:
    counted = Counted(8)
    counted.look("text", "a")
    counted.look("text", "b")
    assert counted.computed == ["text", "text"]


def test_the_least_recently_used_count_is_evicted() -> None:
    counted = Counted(2)
    for text in ("first", "second", "first", "third"):
        counted.look(text)
    counted.computed.clear()
    for text in ("first", "third", "second"):
        counted.look(text)
    assert counted.computed == ["second"]


@given(st.integers(0, 5), st.lists(st.text(max_size=3), max_size=40))
def test_the_cache_never_exceeds_its_size(size: int, texts: list[str]) -> None:
    counted = Counted(size)
    for text in texts:
        assert counted.look(text) == len(text)
        assert len(counted.cache) <= size


class Text(str):
    """A string that can be weakly referenced."""

    __slots__ = ("__weakref__",)


@pytest.mark.e2e
def test_the_cache_does_not_keep_texts_alive() -> None:
    cache, text = CountCache(8), Text("long " * 1000)
    watched = weakref.ref(text)
    cache.get(key_of("e", text), lambda: 1000)
    del text
    gc.collect()
    assert watched() is None
    assert len(cache) == 1


def test_it_is_thread_safe() -> None:
    counted = Counted(16)
    is_correct: list[bool] = []

    def look(start: int) -> None:
        is_correct.extend(
            counted.look("x" * (number % 40)) == number % 40 for number in range(start, start + 2000)
        )

    threads = [Thread(target=look, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_correct == [True] * 8000
    assert len(counted.cache) <= 16
