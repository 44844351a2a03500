"""Secrets: a configuration file contains only the names of the environment variables that hold them, or that
name the files with them.

A secret in the file is an error, and no message repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from penstock.dialects.presets import KEY_HEADERS, PRESETS
from penstock.errors import ConfigError
from penstock.gateway.config.values import InvalidValue
from penstock.secret_variables import secret_variable

SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", *(name.lower() for name, _ in KEY_HEADERS.values())}
)
"""Headers whose value is a secret at every upstream."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXES = ("sk_", "pk_", "r8_", *(prefix for row in PRESETS.values() for prefix in row.key_prefixes))
"""Prefixes of vendors' keys that could also be the name of a variable."""
_MARKED = re.compile(r"\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{([^{}]*)\})?")


def variable(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of a variable; raise `InvalidValue` if there is none, or it cannot be sent."""
    try:
        found = secret_variable(name, environment)
    except ConfigError as wrong:
        raise InvalidValue(f"the environment variable {wrong.file} {wrong.message}") from None
    if not found and looks_secret(name):
        raise InvalidValue(
            "must be the name of an environment variable. If this is the key itself, put it into a variable "
            'and write the name here, such as "OPENAI_API_KEY". Replace the key, because it was in a file'
        )
    if not found:
        raise InvalidValue(f"the environment variable {name} is unset or empty: set it, or remove it here")
    if not found.isascii() or not found.isprintable():
        raise InvalidValue(f"the value of {name} cannot be sent: it contains a line break or is not ASCII")
    return found


def expanded(value: str, environment: Mapping[str, str]) -> str:
    """Return the text with every `$NAME` and `${NAME}` replaced by the variable's value; `$$` is a dollar."""

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        name = found[2] or found[3]
        if not name:
            raise InvalidValue("has a $ without a variable name: write $NAME, or $$ for a dollar sign")
        return variable(name, environment)

    return _MARKED.sub(replaced, value)


def variables_in(value: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of the variables in a text, which are secrets and must not be shown."""
    for name in variable_names(value):
        try:
            secret = secret_variable(name, environment)
        except ConfigError:  # reported where the text is read
            continue
        if secret:
            yield secret


def variable_names(value: str) -> list[str]:
    """Return the names of the variables in a text."""
    return [name for found in _MARKED.finditer(value) if (name := found[2] or found[3])]


def looks_secret(text: str) -> bool:
    """Return whether a text is probably a secret and not the name of a variable."""
    if not VARIABLE.fullmatch(text) or text.startswith(_PREFIXES):
        return True
    # Names consist of words. Random text has long runs with digits or mixed case.
    return any(len(run) >= 12 and _is_mixed(run) for run in text.split("_"))


def _is_mixed(run: str) -> bool:
    has_digits = any(each.isdigit() for each in run)
    return has_digits or not (run.isupper() or run.islower())
