"""Messages between agents, for upstreams that do not have them: a user message with the same text (field F5).

Codex sends the task of a sub-agent as `encrypted_content`. OpenAI encrypts it; any other upstream wrote it as
plain text, and Codex sends it back as it is. Real ciphertext cannot be read by anyone but OpenAI, so it is
refused: a sub-agent without its task would do something else.
"""

from __future__ import annotations

import re

from penstock.errors import UnreadableContent
from penstock.protocol.content import ContentPart, EncryptedContent, InputText
from penstock.protocol.items import AgentMessage

_CIPHER_LENGTH = 96
_CIPHER_LETTERS = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_FERNET = "gAAAAA"
"""How OpenAI's encrypted content begins: a version byte and a time, in base64."""


def readable_parts(item: AgentMessage) -> list[ContentPart]:
    """Return the message as parts of a user message; raise `UnreadableContent` for ciphertext."""
    content = item.content
    given: list[ContentPart] = [InputText(text=content)] if isinstance(content, str) else content
    parts = [_readable(part) for part in given]
    return [InputText(text=heading), *parts] if (heading := _heading(item)) else parts


def _heading(item: AgentMessage) -> str:
    names = [f"{word} {name}" for word, name in (("from", item.author), ("to", item.recipient)) if name]
    return f"[message {' '.join(names)}]" if names else ""


def _readable(part: ContentPart) -> ContentPart:
    if not isinstance(part, EncryptedContent):
        return part
    if is_ciphertext(part.encrypted_content):
        raise UnreadableContent(
            "a message between agents is encrypted, and only the vendor that encrypted it can read it: use "
            "the same vendor's models for all agents of this conversation, or start a new one",
            "input",
        )
    return InputText(text=part.encrypted_content)


def is_ciphertext(text: str) -> bool:
    """Return whether a text is encrypted: one long word in base64. Prose has spaces, or other letters."""
    if not _CIPHER_LETTERS.fullmatch(text):
        return False
    if text.startswith(_FERNET):
        return True
    kinds = (str.isupper, str.islower, str.isdigit)
    return len(text) >= _CIPHER_LENGTH and all(any(map(kind, text)) for kind in kinds)
