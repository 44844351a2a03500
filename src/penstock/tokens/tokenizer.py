"""Run the tokenizers, or estimate if they are not installed.

rs-bpe has the vocabularies in its wheel, so nothing is downloaded, and its time is always linear in the text.
It does not have a wheel for every Python and platform, and counting must work without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol


class Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


@cache
def tokenizer(encoding: str) -> Tokenizer | None:
    """Return the tokenizer of an encoding, or None if rs-bpe is not installed. Loading takes 0.1 s, once."""
    openai = import_tokenizers()
    if openai is None:
        return None
    loaded: Tokenizer = getattr(openai, encoding)()
    return loaded


def import_tokenizers() -> Any:
    """Import rs-bpe. A server does this at startup: later it may have no file descriptor left."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]  # a module without types
    except ImportError:
        return None
    return openai


def count(encoding: str, text: str) -> int:
    """Count the tokens of a text. Special tokens count as plain text, as they do at endpoints."""
    counter = tokenizer(encoding)
    if counter is None:
        return estimate(text)
    return sum(_count(counter, piece) for piece in _pieces(text))


_MAX_PIECE = 131_072
"""Characters per call, about ten milliseconds: a call holds the interpreter's lock."""


def _pieces(text: str) -> Iterator[str]:
    """Split a long text before a space or a newline if possible, as tokens begin there."""
    at = 0
    while len(text) - at > _MAX_PIECE:
        end = at + _MAX_PIECE
        cut = max(text.rfind("\n", at + 1, end), text.rfind(" ", at + 1, end))
        end = cut if cut > at else end
        yield text[at:end]
        at = end
    yield text[at:] if at else text


def _count(counter: Tokenizer, text: str) -> int:
    try:
        return counter.count(text)
    except UnicodeEncodeError:
        return counter.count(without_surrogates(text))


def without_surrogates(text: str) -> str:
    """Return a text that can be encoded: surrogate pairs become their character, lone ones U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_PER_CHARACTER = (0.24, 0.35, 0.6, 1.5)
"""Tokens of `o200k_base` per character with one, two, three or four bytes in UTF-8.

English prose and code have 0.22 to 0.25, Cyrillic and Arabic 0.32, Korean and Hindi 0.33, Japanese 0.5,
Chinese 0.6 to 1.1, emoji 1 to 2.
"""


def estimate(text: str) -> int:
    """Count without a tokenizer: a tenth off for English and code, at most double or half otherwise."""
    text = without_surrogates(text)
    one = len(text.encode("ascii", "ignore"))
    four = len(text.encode("utf-16-le")) // 2 - len(text)
    rest = len(text) - one - four
    three = len(text.encode()) - one - 4 * four - 2 * rest
    sizes = (one, rest - three, three, four)
    tokens = sum(each * size for each, size in zip(_PER_CHARACTER, sizes, strict=True))
    return max(round(tokens), 1) if text else 0
