"""Secrets in environment variables, and in files that environment variables name.

Docker, Kubernetes and systemd hand out secrets as files: then `NAME_FILE` names the file with the value of
`NAME`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError

SUFFIX = "_FILE"
_MOST_BYTES = 65_536


def secret_variable(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of a variable, or the text of the file that `NAME_FILE` names; empty if neither is
    set.

    Raise `ConfigError` if both are set or the file cannot be used. No message has the value of a variable:
    somebody may have put the secret itself where the name of the file belongs.
    """
    value = environment.get(name, "").strip()
    file = name + SUFFIX
    path = environment.get(file, "").strip()
    if not path:
        return value
    if value:
        raise ConfigError(file, 0, f"is set, and {name} as well: unset one of them")
    try:
        with open(path, "rb") as opened:
            found = opened.read(_MOST_BYTES + 1)
        text = found.decode().strip()
    except UnicodeDecodeError:
        raise ConfigError(file, 0, "names a file that is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a path"
        raise ConfigError(file, 0, f"names a file that cannot be read: {reason}") from None
    if len(found) > _MOST_BYTES:
        raise ConfigError(file, 0, f"names a file of more than {_MOST_BYTES} bytes, which is no secret")
    if not text:
        raise ConfigError(file, 0, "names an empty file: write the secret into it")
    return text


def is_set(name: str, environment: Mapping[str, str]) -> bool:
    """Return whether a variable or its file has a value. A file that cannot be used counts as one, so that
    it is reported where the value is read."""
    try:
        return bool(secret_variable(name, environment))
    except ConfigError:
        return True
