"""Which tokenizer a model has, and what its template adds around a text.

OpenAI's are public, and so is their chat format. Of every other model the tokenizer is taken to be
`o200k_base`, times a factor for its family: a start, which `calibration.py` corrects after the first turn.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from penstock.dialects.families import family_of


class Template(Struct, frozen=True):
    """What a request costs besides its texts, in tokens.

    `message` is the three that OpenAI documents and one for the role; `reply` opens the answer. `call` and
    `result` are what was measured around a call (its name and arguments) and around an output.
    """

    message: int = 4
    reply: int = 3
    call: int = 7
    result: int = 8


CHAT = Template()
"""Recorded: gpt-4o-mini takes 14 tokens for a call of 7, and 18 for an output of 10."""

HARMONY = Template(reply=2, call=12, result=12)
"""Recorded: gpt-5.1 takes 26 for a call of 14 and 13 for an output of 1; gpt-5 opens its answer with two.

The format is that of gpt-oss, which is public.
"""


class Encoding(Struct, frozen=True):
    """A tokenizer, and whether it is the model's own. `factor` makes its counts the model's."""

    name: str
    exact: bool
    factor: float = 1.0
    template: Template = CHAT


O200K = "o200k_base"
CL100K = "cl100k_base"

_OPENAI: tuple[tuple[re.Pattern[str], Encoding], ...] = tuple(
    (re.compile(names), Encoding(name, exact=True, template=template))
    for names, name, template in (
        (r"(chat)?gpt-4o\b|gpt-4\.[15]\b", O200K, CHAT),
        (r"gpt-5(?!\d)|o[134](?![a-z0-9])|gpt-oss\b|codex-mini\b", O200K, HARMONY),
        (r"gpt-4(?![a-z0-9.])|gpt-3\.?5-turbo\b", CL100K, CHAT),
        (r"text-embedding-(3|ada-002)\b", CL100K, CHAT),
    )
)
"""OpenAI's models by how their names begin. A name that begins otherwise may be anybody's model."""

FACTORS = {
    "claude": 1.15,
    "mistral": 1.1,
    "command": 1.05,
    "gemini": 1.04,
    "gemma": 1.04,
    "llama": 1.03,
    "qwen": 1.03,
    "sonar": 1.03,
    "deepseek": 1.02,
    "grok": 0.96,
}
"""Tokens of a family's models for one of `o200k_base`, in English prose and code.

Measured on the recordings: what the vendor counted for an answer, over our count of the same answer. Claude
and Gemini on thousands of tokens, Mistral on two hundred; Gemma has Gemini's tokenizer. A family that is not
here starts at 1. Other scripts are further off, which the first turn of real usage corrects.
"""

_VENDOR = re.compile(r"(?:.*[/:])?openai[/:.]|ft:")
"""What gateways put before OpenAI's own names. Of another vendor's prefix nothing is known."""


@lru_cache(maxsize=256)
def encoding_for(model: str) -> Encoding:
    name = _VENDOR.sub("", model.lower(), count=1)
    for pattern, encoding in _OPENAI:
        if pattern.match(name):
            return encoding
    return Encoding(O200K, exact=False, factor=FACTORS.get(family_of(model), 1.0))
