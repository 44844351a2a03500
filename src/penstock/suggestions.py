"""Advice for a name that does not exist: similar names, or all that do exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_MOST_NEAR = 3
_MOST_LISTED = 60
_CLOSE = 0.1
"""A name that is less like it than the best one, by this or more, is not suggested as well."""
_LONGEST = 64
"""A longer text is no name that somebody mistyped, and may be a secret."""


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """Return the message for a name that does not exist, with advice."""
    import json  # as difflib: only errors need it

    shown = json.dumps(name, ensure_ascii=False) if name.isprintable() and len(name) <= _LONGEST else "that"
    return f"there is no {what} called {shown}; {advice(name, known)}"


def advice(name: str, known: Collection[str]) -> str:
    """Return similar names as a question, or else all names."""
    if near := near_names(name, known):
        return f"did you mean {_either(near)}?"
    if not known:
        return "none are defined"
    names = sorted(known)
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"available: {', '.join(names[:_MOST_LISTED])}{more}"


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the most similar names, the best first; else those that contain the name. Case is ignored."""
    from difflib import SequenceMatcher, get_close_matches  # only errors need it

    wanted = name.lower()
    if not wanted or len(wanted) > _LONGEST:
        return []
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(wanted, by_lower, n=_MOST_NEAR, cutoff=0.6)
    likeness = [SequenceMatcher(None, each, wanted).ratio() for each in found]
    found = [each for each, like in zip(found, likeness, strict=True) if like > likeness[0] - _CLOSE]
    if not found and len(wanted) > 2:  # part of a long name, such as "sonnet"
        found = sorted((each for each in by_lower if wanted in each), key=len)[:_MOST_NEAR]
    return [by_lower[each] for each in found]


def _either(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
