"""Data parts that are private to the editor: they carry state between turns and are never content.

VS Code gives a data part of type `stateful_marker` back with the assistant message that had it. Its text is
the model's id, a backslash and whatever the provider likes: ours is the response id and fingerprints of the
endpoint and of the conversation, so that a follow-up can name the response instead of sending everything
again (decision 28).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

from penstock.lenient import join_surrogates
from penstock.parts.parts import ChatMessage, DataPart, Role, TextPart, ToolCallPart, ToolResultPart

STATEFUL_MARKER = "stateful_marker"
USAGE = "usage"

PRIVATE_MIMES = frozenset(
    {STATEFUL_MARKER, USAGE, "cache_control", "context_management", "thinking", "phase_data"}
)
"""Types of data that are the editor's own business (editor 9): never sent to a model."""


_LENGTH = 16
"""Letters of a fingerprint: nobody attacks it, and the editor keeps it for every answer."""


def marker_part(
    model: str, endpoint: str, response_id: str, instructions: str = "", history: str = ""
) -> DataPart:
    """The marker to report behind a response that the endpoint has stored.

    `instructions` are what the system said (`instructions_of`): a follow-up that says something else must say
    everything again. The same is so for `history` (`history_of`), the conversation up to the response and
    with it: editors compact a conversation and leave the marker in what they keep. Without it, whoever
    follows the marker vouches for the conversation.
    """
    mark = f"{response_id}@{_fingerprint(endpoint, instructions)}{f'-{history}' if history else ''}"
    return DataPart.text(f"{model}\\{mark}", STATEFUL_MARKER)


def marked_response(
    part: DataPart, model: str, endpoint: str, instructions: str = "", history: str = ""
) -> str | None:
    """The response that a marker names, if it is of this model at this endpoint, so instructed, and if the
    conversation that it was made in is still there."""
    if part.mime != STATEFUL_MARKER:
        return None
    marked_model, _, mark = part.data.decode(errors="replace").rpartition("\\")
    response_id, _, fingerprints = mark.rpartition("@")
    fingerprint, _, marked_history = fingerprints.partition("-")
    if not response_id or (marked_model, fingerprint) != (model, _fingerprint(endpoint, instructions)):
        return None
    return response_id if marked_history in ("", history) else None


def history_of(messages: Sequence[ChatMessage]) -> str:
    """A fingerprint of a conversation, the same when the editor sends it again."""
    return [*histories(messages)][-1]


def histories(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """The fingerprint before the first message, and behind each: one walk, however many are marked."""
    read = sha256()
    yield read.hexdigest()[:_LENGTH]
    for message in messages:
        said = _said(message) if message.role != Role.SYSTEM else []  # `instructions_of` has the system
        if said:
            read.update(f"\0{int(message.role)}:{len(said)}".encode())
        for each in said:
            read.update(b"%d:" % len(each))
            read.update(each)
        yield read.hexdigest()[:_LENGTH]


def _said(message: ChatMessage) -> list[bytes]:
    """What of a message is the same whenever it comes (editor 8).

    Thinking goes with the turn, private data may come and go, and text is cut into other parts and stands
    before the calls. The input of a call has been through JavaScript, which has other numbers and another
    order of names: a call is known by its id. Nobody promises to bring an assistant's data back.
    """
    text = "".join(part.value for part in message.content if isinstance(part, TextPart)).strip()
    said = [_bytes("text", text)] if text else []
    for part in message.content:
        if isinstance(part, ToolCallPart):
            said.append(_bytes("call", part.call_id, part.name))
        elif isinstance(part, ToolResultPart):
            said.append(_bytes("result", part.call_id, "error" if part.is_error else ""))
            said += [_content(each) for each in part.content if not _is_private(each)]
        elif isinstance(part, DataPart) and message.role != Role.ASSISTANT and not _is_private(part):
            said.append(_content(part))
    return said


def _is_private(part: TextPart | DataPart) -> bool:
    """All of the editor's own types are without a slash, also those of next year."""
    return isinstance(part, DataPart) and "/" not in part.mime


def _content(part: TextPart | DataPart) -> bytes:
    if isinstance(part, TextPart):
        return _bytes("text", part.value)
    return _bytes("data", part.mime) + b"\0" + part.data


def _bytes(*words: str) -> bytes:
    return "\0".join(join_surrogates(word) for word in words).encode()


def _fingerprint(endpoint: str, instructions: str) -> str:
    marked = f"{endpoint.rstrip('/')}\0{instructions}"
    return sha256(marked.encode(errors="surrogatepass")).hexdigest()[:_LENGTH]
