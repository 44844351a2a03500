"""Data parts that are private to the editor: they carry state between turns and are never content.

VS Code returns a data part of type `stateful_marker` with the assistant message that contained it. Its text
is the model's id, a backslash and a text of the provider's choice. Ours is the response id with fingerprints
of the endpoint and the conversation, so that a follow-up can reference the response instead of sending
everything again (decision 28).
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
"""Types of data that are private to the editor (editor 9): never sent to a model."""


_LENGTH = 16
"""The length of a fingerprint: it need not resist attacks, and the editor stores one per response."""


def marker_part(
    model: str, endpoint: str, response_id: str, instructions: str = "", history: str = ""
) -> DataPart:
    """Return the marker to report after a response that the endpoint has stored.

    `instructions` is the text of the system messages (`instructions_of`) and `history` the fingerprint of the
    conversation up to and including the response (`history_of`). If either changes, the follow-up must send
    the full history: editors compact a conversation and leave the marker in what remains. Without `history`,
    the caller guarantees that the conversation is unchanged.
    """
    mark = f"{response_id}@{_fingerprint(endpoint, instructions)}{f'-{history}' if history else ''}"
    return DataPart.text(f"{model}\\{mark}", STATEFUL_MARKER)


def marked_response(
    part: DataPart, model: str, endpoint: str, instructions: str = "", history: str = ""
) -> str | None:
    """Return the id of the marked response, if the model, endpoint, instructions and conversation match."""
    if part.mime != STATEFUL_MARKER:
        return None
    marked_model, _, mark = part.data.decode(errors="replace").rpartition("\\")
    response_id, _, fingerprints = mark.rpartition("@")
    fingerprint, _, marked_history = fingerprints.partition("-")
    if not response_id or (marked_model, fingerprint) != (model, _fingerprint(endpoint, instructions)):
        return None
    return response_id if marked_history in ("", history) else None


def history_of(messages: Sequence[ChatMessage]) -> str:
    """Return a fingerprint of a conversation; it is the same when the editor sends it again."""
    return [*histories(messages)][-1]


def histories(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """Yield the fingerprint before the first message and after each message, in one pass."""
    digest = sha256()
    yield digest.hexdigest()[:_LENGTH]
    for message in messages:
        content = [] if message.role == Role.SYSTEM else _stable_content(message)  # see `instructions_of`
        if content:
            digest.update(f"\0{int(message.role)}:{len(content)}".encode())
        for each in content:
            digest.update(b"%d:" % len(each))
            digest.update(each)
        yield digest.hexdigest()[:_LENGTH]


def _stable_content(message: ChatMessage) -> list[bytes]:
    """Return what is the same every time the editor sends a message (editor 8).

    Thinking is dropped after its turn, private data may come and go, and text is split differently and moved
    before the calls. JavaScript changes the numbers and the key order in the input of a call, so a call is
    identified by its id. An assistant's data may not be returned at all.
    """
    text = "".join(part.value for part in message.content if isinstance(part, TextPart)).strip()
    content = [_bytes("text", text)] if text else []
    for part in message.content:
        if isinstance(part, ToolCallPart):
            content.append(_bytes("call", part.call_id, part.name))
        elif isinstance(part, ToolResultPart):
            content.append(_bytes("result", part.call_id, "error" if part.is_error else ""))
            content += [_content(each) for each in part.content if not _is_private(each)]
        elif isinstance(part, DataPart) and message.role != Role.ASSISTANT and not _is_private(part):
            content.append(_content(part))
    return content


def _is_private(part: TextPart | DataPart) -> bool:
    """Return whether a part is private. All of the editor's own types lack a slash, including future ones."""
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
