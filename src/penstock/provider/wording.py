"""Parts of the sentences about errors that the editor host and the command line share."""

from __future__ import annotations

from penstock.errors import OpenResponsesError


def overflow_size(error: OpenResponsesError) -> str:
    """Return the size and the limit of a conversation that is too long, as far as they are known; else "".

    Our own estimate is marked as one.
    """
    known = []
    if error.used_tokens:
        known.append(f"{error.used_tokens:,} tokens")
    elif error.estimated_tokens:
        known.append(f"about {error.estimated_tokens:,} tokens by our own estimate")
    if error.limit_tokens:
        unit = "" if known else " tokens"
        learned = ", which is now known" if error.is_limit_learned else ""
        known.append(f"the model's limit is {error.limit_tokens:,}{unit}{learned}")
    return "; ".join(known)


def wait_of(seconds: float | None) -> str:
    """Return how long to wait: `17 s`, `10 min`, or `a moment` if the server does not say."""
    if not seconds:
        return "a moment"
    if seconds < 120:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{round(seconds / 3600)} h"
