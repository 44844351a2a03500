"""Text that PostgreSQL cannot hold: it refuses NUL, and half of a surrogate pair is not UTF-8.

Ids and keys come from clients and upstreams. Such text is stored in a form that can be reversed, so that a
strange id is an id like any other: it is found again, and no request fails because of it.
"""

from __future__ import annotations

import hashlib
import re

_ESCAPE = "\x1a"
"""The control character SUBSTITUTE, followed by four hexadecimal digits. It is escaped itself."""
_UNSTORABLE = re.compile(f"[\x00{_ESCAPE}\ud800-\udfff]")
_ESCAPED = re.compile(f"{_ESCAPE}([0-9a-f]{{4}})")

LONGEST_KEY = 300
"""Characters. An index holds no entry of more than 2,700 bytes."""
_CUT = f"{_ESCAPE}#"


def storable(text: str) -> str:
    """Return a text in the form in which it is stored."""
    return _UNSTORABLE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def storable_or_none(text: str | None) -> str | None:
    return None if text is None else storable(text)


def original(text: str) -> str:
    """Return the text that `storable` was given."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if _ESCAPE in text else text


def original_or_none(text: str | None) -> str | None:
    return None if text is None else original(text)


def indexable(text: str, most: int = LONGEST_KEY) -> str:
    """Return a text that an index can hold: a long one is cut, and stays different from every other."""
    text = storable(text)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}{_CUT}{hashlib.sha256(text.encode()).hexdigest()}"
