"""The tokenizers, and the estimates without them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tokens import tokenizer as module
from penstock.tokens.encodings import CL100K, O200K
from penstock.tokens.tokenizer import count, estimate, tokenizer, without_surrogates

TABLE = [
    ("", 0, 0),
    ("hello world", 2, 2),
    ("Hello, world!", 4, 4),
    ("The quick brown fox jumps over the lazy dog.", 10, 10),
    ("tiktoken is great!", 6, 6),
    ("antidisestablishmentarianism", 6, 6),
    ("don't I'LL we've", 4, 7),
    ("HTTPServer camelCase snake_case kebab-case", 9, 9),
    ("1234567890", 4, 4),
    ("3.14159 1,000,000 0xDEADBEEF", 16, 16),
    ("def add(a, b):\n    return a + b\n", 12, 12),
    ('{"city":"Paris","days":[1,2,3]}', 13, 13),
    ("SELECT * FROM users WHERE id = 42;", 10, 10),
    ('<div class="box">\n\t<p>text</p>\n</div>', 15, 15),
    ("Привет, мир! Как дела?", 8, 12),
    ("你好,世界。今天天气怎么样?", 9, 17),
    ("こんにちは、世界。", 4, 6),
    ("안녕하세요 세계", 3, 9),
    ("مرحبا بالعالم", 4, 10),
    ("שלום עולם", 2, 10),
    ("नमस्ते दुनिया", 5, 13),
    ("สวัสดีชาวโลก", 7, 13),
    ("Γειά σου Κόσμε", 8, 13),
    ("Äpfel, Öl und Übermut", 8, 9),
    ("😀😃😄", 5, 6),
    ("👩\u200d👩\u200d👧\u200d👦 family", 12, 19),
    ("🇩🇪🇫🇷", 8, 12),
    ("caf\xe9 vs cafe\u0301", 5, 5),
    ("          ", 1, 1),
    ("\n\n\n\n", 1, 1),
    ("\t\t\tx", 2, 2),
    ("a \n \n b", 3, 3),
    ("trailing   ", 3, 3),
    ("\r\n\r\n", 1, 1),
    ("<|endoftext|>", 7, 7),
    ("<|im_start|>user<|im_end|>", 13, 13),
    ("!!!???...", 3, 3),
    ("https://example.com/a/b?c=d&e=f#g", 12, 12),
    ("x" * 100, 13, 13),
    ("ab" * 64, 32, 64),
    (" \xa0\u2003mixed spaces", 4, 5),
    ("½ ² Ⅷ ٣", 8, 9),
    ("\x00\x01", 2, 2),
]
"""Texts and their tokens in o200k_base and cl100k_base. The counts are from tiktoken 0.14."""

any_text = st.text(st.characters(), max_size=80)
"""With lone surrogates: editors cut strings anywhere."""


@pytest.fixture
def no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Simulate a Python without rs-bpe."""
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    tokenizer.cache_clear()
    yield
    tokenizer.cache_clear()


@pytest.mark.parametrize(("text", "o200k", "cl100k"), TABLE)
def test_counts_match_tiktoken(text: str, o200k: int, cl100k: int) -> None:
    assert (count(O200K, text), count(CL100K, text)) == (o200k, cl100k)


def test_surrogate_pairs_become_characters_and_lone_ones_are_replaced() -> None:
    assert without_surrogates("a\ud83d\ude00b\ud83d") == "a😀b�"
    assert count(O200K, "a\ud83d\ude00b") == count(O200K, "a😀b")
    assert count(O200K, "\udfff") == count(O200K, "�")


@given(any_text)
def test_every_text_has_a_count_and_always_the_same(text: str) -> None:
    tokens = count(O200K, text)
    assert tokens == count(O200K, text)
    assert 0 <= tokens <= 4 * len(text)
    assert (tokens > 0) == bool(text)


@given(any_text, any_text)
def test_joined_texts_count_about_as_much_as_separate_ones(first: str, second: str) -> None:
    together = count(O200K, first + second)
    apart = count(O200K, first) + count(O200K, second)
    # Joining may merge or split tokens at the seam, but only a few.
    assert together <= apart + 8
    assert together >= max(count(O200K, first), count(O200K, second)) - 8


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, " " * 1_000_000, "\n" * 1_000_000, "好" * 300_000, "ab1" * 300_000]
)
def test_a_megabyte_of_repetition_is_counted(text: str) -> None:
    assert 0 < count(O200K, text) < len(text) + 1


def test_importing_the_counter_does_not_load_the_tokenizer() -> None:
    code = "import sys, penstock.tokens.counter; sys.exit('rs_bpe' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("no_tokenizer")
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 20, 201),
        ("def add(first, second):\n    return first + second\n" * 20, 240),
        ("Быстрая коричневая лиса перепрыгнула через ленивую собаку. " * 20, 382),
        ("敏捷的棕色狐狸跳过了懒狗。" * 20, 280),
    ],
)
def test_without_a_tokenizer_counts_are_close(text: str, tokens: int) -> None:
    assert module.count(O200K, text) == pytest.approx(tokens, rel=0.5)


@pytest.mark.usefixtures("no_tokenizer")
def test_without_a_tokenizer_only_empty_text_counts_zero() -> None:
    assert [module.count(O200K, text) for text in ("", "a", "\ud800", "😀")] == [0, 1, 1, 2]


@given(any_text)
def test_every_text_can_be_estimated(text: str) -> None:
    assert bool(estimate(text)) == bool(text)
