"""The family of a model, derived from its name.

Sealed reasoning is sent back only within a family (ask C5), and the name of a model is all that is known
about it.
"""

from __future__ import annotations

import re

FAMILIES: dict[str, str] = {
    "claude": "claude",
    "gemini": "gemini",
    "gemma": "gemma",
    "gpt-oss": "gpt-oss",
    "gpt": "gpt chatgpt codex davinci",
    "deepseek": "deepseek",
    "qwen": "qwen qwq qvq",
    "kimi": "kimi moonshot",
    "glm": "glm chatglm",
    "grok": "grok",
    "llama": "llama codellama",
    "mistral": "mistral ministral mixtral magistral codestral devstral pixtral",
    "minimax": "minimax abab",
    "command": "command aya",
    "nova": "nova",
    "phi": "phi",
    "granite": "granite",
    "sonar": "sonar",
    "nemotron": "nemotron",
    "palmyra": "palmyra",
    "mimo": "mimo",
}
"""Each family of models, with the words that its models' names start with."""

_FAMILY_OF = {word: family for family, words in FAMILIES.items() for word in words.split()}
_WORD = re.compile(r"gpt-oss|\bo\d|[a-z]+")
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|latest|preview)$")


def family_of(model: str) -> str:
    """Return the family of a model: `claude` for `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.

    The first word that names a family wins, so a distilled model belongs to its teacher. For a model of no
    known family, the family is its name without vendor prefix, tag and date.
    """
    name = model.lower().rstrip("/").rpartition("/")[2].partition(":")[0]
    for word in _WORD.findall(name):
        family = "gpt" if word[1:].isdigit() else _FAMILY_OF.get(word)
        if family:
            return family
    return _DATE.sub("", name)
