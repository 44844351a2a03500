"""Data parts that are private to the editor: they carry state between turns and are never content.

VS Code gives a data part of type `stateful_marker` back with the assistant message that had it. Its text is
the model's id, a backslash and whatever the provider likes: ours is the response id and a fingerprint of the
endpoint, so that a follow-up can name the response instead of sending everything again (decisions 28).
"""

from __future__ import annotations

from hashlib import sha256

from penstock.parts.parts import DataPart

STATEFUL_MARKER = "stateful_marker"
USAGE = "usage"

PRIVATE_MIMES = frozenset(
    {STATEFUL_MARKER, USAGE, "cache_control", "context_management", "thinking", "phase_data"}
)
"""Types of data that are the editor's own business (notes/vscode 3): never sent to a model."""


def marker_part(model: str, endpoint: str, response_id: str, instructions: str = "") -> DataPart:
    """The marker to report behind a response that the endpoint has stored.

    `instructions` are what the system said (`instructions_of`): a follow-up that says something else must say
    everything again.
    """
    mark = f"{response_id}@{_fingerprint(endpoint, instructions)}"
    return DataPart.text(f"{model}\\{mark}", STATEFUL_MARKER)


def marked_response(part: DataPart, model: str, endpoint: str, instructions: str = "") -> str | None:
    """The response that a marker names, if it is of this model at this endpoint, so instructed."""
    if part.mime != STATEFUL_MARKER:
        return None
    marked_model, _, mark = part.data.decode(errors="replace").rpartition("\\")
    response_id, _, fingerprint = mark.rpartition("@")
    if not response_id or (marked_model, fingerprint) != (model, _fingerprint(endpoint, instructions)):
        return None
    return response_id


def _fingerprint(endpoint: str, instructions: str) -> str:
    marked = f"{endpoint.rstrip('/')}\0{instructions}"
    return sha256(marked.encode(errors="surrogatepass")).hexdigest()[:16]
