"""Secrets are not written into a configuration: it names the environment variables that hold them.

A secret that stands there all the same is an error, and no message repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from penstock.dialects.presets import KEY_HEADERS, PRESETS
from penstock.gateway.config.values import Wrong

SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", *(name.lower() for name, _ in KEY_HEADERS.values())}
)
"""Headers whose value is a secret, whoever the upstream is."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXES = ("sk_", "pk_", "r8_", *(prefix for row in PRESETS.values() for prefix in row.key_prefixes))
"""How vendors begin keys that could be the name of a variable as well."""
_MARKED = re.compile(r"\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([^{}]*)\})?")


def variable(name: str, environment: Mapping[str, str]) -> str:
    """What a variable holds. `Wrong` where it holds nothing that can be sent, or where it is no name."""
    found = environment.get(name, "").strip()
    if not found and looks_secret(name):
        raise Wrong(
            "must be the name of an environment variable, and is none. If it is the key itself: put it into "
            'a variable, and write the name here, such as "OPENAI_API_KEY". A key that stood in a file '
            "should be replaced"
        )
    if not found:
        raise Wrong(f"the environment variable {name} is not set, or empty: set it, or leave it out here")
    if not found.isascii() or not found.isprintable():
        raise Wrong(f"what {name} holds cannot be sent: it has a line break, or is not ASCII")
    return found


def expanded(value: str, environment: Mapping[str, str]) -> str:
    """The text with every `$NAME` and `${NAME}` replaced by what the variable holds; `$$` is a dollar."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        name = found[2] or found[3]
        if not name:
            raise Wrong("has a $ without a variable's name: write $NAME, or $$ for the character itself")
        return variable(name, environment)

    return _MARKED.sub(replaced, value)


def variables_in(value: str, environment: Mapping[str, str]) -> Iterator[str]:
    """What the variables hold that a text names: none of it is to be shown."""
    for found in _MARKED.finditer(value):
        if held := environment.get(found[2] or found[3] or "", "").strip():
            yield held


def names_a_variable(value: str) -> bool:
    return any(found[2] or found[3] for found in _MARKED.finditer(value))


def looks_secret(text: str) -> bool:
    """Is this rather a secret than the name of a variable?"""
    if not _NAME.fullmatch(text) or text.startswith(_PREFIXES):
        return True
    # Names are made of words. Random text has long runs, with digits or both kinds of letters in them.
    return any(len(run) >= 12 and _is_mixed(run) for run in text.split("_"))


def _is_mixed(run: str) -> bool:
    has_digits = any(each.isdigit() for each in run)
    return has_digits or not (run.isupper() or run.islower())
