"""The tokenizers themselves, and what stands in for them where they cannot be had.

rs-bpe has the vocabularies in its wheel, so nothing is downloaded; it takes time in proportion to the text,
whatever the text. It has no wheel for every Python and platform, and counting must work all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Protocol


class Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


@cache
def tokenizer(encoding: str) -> Tokenizer | None:
    """The tokenizer of an encoding, or None where rs-bpe is not installed. Loading it takes 0.1 s, once."""
    openai = import_tokenizers()
    if openai is None:
        return None
    made: Tokenizer = getattr(openai, encoding)()
    return made


def import_tokenizers() -> Any:
    """Import rs-bpe. A server does this when it starts: later there may be no file descriptor left for it."""
    try:
        from rs_bpe.bpe import openai  # type: ignore[import-not-found]  # a module without types
    except ImportError:
        return None
    return openai


def count(encoding: str, text: str) -> int:
    """The tokens of a text; what looks like a special token is text, as it is to the endpoints."""
    counter = tokenizer(encoding)
    if counter is None:
        return estimate(text)
    return sum(_count(counter, piece) for piece in _pieces(text))


_LONGEST_PIECE = 131_072
"""Characters that are counted in one call, some ten milliseconds. It holds the interpreter's lock."""


def _pieces(text: str) -> Iterator[str]:
    """A long text in pieces that begin with a space or a new line, as tokens do, where there is one."""
    at = 0
    while len(text) - at > _LONGEST_PIECE:
        end = at + _LONGEST_PIECE
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
    """A text that can be encoded: pairs of surrogates become their character, lone ones U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_PER_CHARACTER = (0.24, 0.35, 0.6, 1.5)
"""Tokens of `o200k_base` for a character that UTF-8 writes in one, two, three or four bytes.

English prose and code have 0.22 to 0.25, Cyrillic and Arabic 0.32, Korean and Hindi 0.33, Japanese 0.5,
Chinese 0.6 to 1.1, emoji 1 to 2.
"""


def estimate(text: str) -> int:
    """A count without a tokenizer: a tenth off for English and code, at most double or half elsewhere."""
    text = without_surrogates(text)
    one = len(text.encode("ascii", "ignore"))
    four = len(text.encode("utf-16-le")) // 2 - len(text)
    rest = len(text) - one - four
    three = len(text.encode()) - one - 4 * four - 2 * rest
    sizes = (one, rest - three, three, four)
    tokens = sum(each * size for each, size in zip(_PER_CHARACTER, sizes, strict=True))
    return max(round(tokens), 1) if text else 0
