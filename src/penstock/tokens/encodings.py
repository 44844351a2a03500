"""Choose the tokenizer of a model, and what its template adds around a text.

OpenAI's tokenizers and chat format are public. For every other model we use `o200k_base` times a factor for
its family, which `calibration.py` corrects after the first turn.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from penstock.dialects.model_families import family_of


class Template(Struct, frozen=True):
    """The tokens of a request in addition to its texts.

    `message` is the three that OpenAI documents plus one for the role; `reply` opens the answer. `call` and
    `result` were measured around a call (its name and arguments) and around an output.
    """

    message: int = 4
    reply: int = 3
    call: int = 7
    result: int = 8


CHAT = Template()
"""From recordings: gpt-4o-mini uses 14 tokens for a call of 7, and 18 for an output of 10."""

HARMONY = Template(reply=2, call=12, result=12)
"""From recordings: gpt-5.1 uses 26 for a call of 14 and 13 for an output of 1; gpt-5 opens its answer with 2.

The format is that of gpt-oss, which is public.
"""


class Encoding(Struct, frozen=True):
    """A tokenizer, and whether it is the model's own. `factor` converts its counts to the model's."""

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
"""OpenAI's models by the start of the name. Any other name may be a model of another vendor."""

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
"""Tokens of a family's models per token of `o200k_base`, in English prose and code.

Measured on recordings: the vendor's count of an answer divided by ours. Claude and Gemini on thousands of
tokens, Mistral on two hundred; Gemma has Gemini's tokenizer. Other families start at 1. Other scripts deviate
more, which the first turn with real usage corrects.
"""

_VENDOR = re.compile(r"(?:.*[/:])?openai[/:.]|ft:")
"""Prefixes that gateways add to OpenAI's own names."""


@lru_cache(maxsize=256)
def encoding_for(model: str) -> Encoding:
    name = _VENDOR.sub("", model.lower(), count=1)
    for pattern, encoding in _OPENAI:
        if pattern.match(name):
            return encoding
    return Encoding(O200K, exact=False, factor=FACTORS.get(family_of(model), 1.0))
