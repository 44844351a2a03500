"""Affinity: every turn of a conversation goes to the same key and target, whichever worker serves it.

Every key and every target has a prompt cache of its own (ask D5). What identifies a conversation, its *root*,
is derived from the request. Rendezvous hashing (highest random weight) chooses by it: each member gets a
score from the root and its own name, and the highest score wins. So workers and machines agree without shared
state, also after a restart, and in whatever order the members are listed. If a member is added, only the
conversations that it wins move, and they move to it; if one is removed, only its own move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from math import log

from penstock.protocol.items import Item, Message
from penstock.protocol.request import CreateResponse

SEED_BYTES = 16
_BITS = 52
"""A fraction of so many bits plus a half fits into a float, and is never 0 or 1."""
_SYSTEM_TEXT = 2048
"""Bytes of the system prompt that count. Vendors cache no prefix of fewer than about 1,000 tokens: if
the text changes within these, there is nothing to lose; what changes after them must not change the root."""
_USER_TEXT = 16 * 1024
"""Characters of the user's first messages that count. Hashing them takes a few microseconds."""
_LONG_FIELD = 1024
"""Characters of an image or a file that count; they are followed by its length."""
_PART_FIELDS = ("text", "image_url", "file_id", "file_url", "file_data", "video_url")
_DIGITS = b"0123456789"


def conversation_root(request: CreateResponse, tenant: str) -> bytes:
    """Return what identifies the conversation of a complete request, as a hash; empty if nothing does.

    It is the same in every turn, whether the client refers to earlier turns or sends the whole history: the
    conversation object, else the client's `prompt_cache_key`, else how the conversation begins. Two tenants
    never have the same root (ask K6).
    """
    named = request.conversation or ""
    conversation = named if isinstance(named, str) else named.id
    if conversation:
        return _hash("conversation", tenant, conversation)
    if request.prompt_cache_key:
        return _hash("cache key", tenant, request.prompt_cache_key)
    items = request.input if isinstance(request.input, list) else []
    system, user = _system_text(request, items), _user_text(items)
    return _hash("beginning", tenant, system, user) if system or user else b""


def _hash(*texts: str | bytes) -> bytes:
    digest = blake2b(digest_size=SEED_BYTES)
    for text in texts:
        data = _bytes(text) if isinstance(text, str) else text
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _system_text(request: CreateResponse, items: Sequence[Item]) -> bytes:
    """Return the beginning of the system prompt, without digits: dates and times may change from turn to
    turn."""
    text = request.instructions or ""
    for item in items:
        if len(text) >= 2 * _SYSTEM_TEXT or not _is_from(item, "system", "developer"):
            break
        text += "".join(_content(item, 2 * _SYSTEM_TEXT))
    return _bytes(text[: 2 * _SYSTEM_TEXT]).translate(None, _DIGITS)[:_SYSTEM_TEXT]


def _user_text(items: Sequence[Item]) -> str:
    """Return the user's messages before the first answer: an agent may put the same introduction before every
    task. Without such a message, the first item counts."""
    found: list[str] = []
    room, is_begun = _USER_TEXT, False
    for item in items:
        if _is_from(item, "user"):
            is_begun = True
            for piece in _content(item, room):
                found.append(piece)
                room -= len(piece)
        elif is_begun and not _is_from(item, "system", "developer"):
            break
        if room <= 0:
            break
    if not is_begun and items and not _is_from(items[0], "system", "developer"):
        return f"{items[0].type} {getattr(items[0], 'call_id', '')} {''.join(_content(items[0], room))}"
    return "".join(found)


def _is_from(item: Item, *roles: str) -> bool:
    return isinstance(item, Message) and item.role in roles


def _content(item: Item, most: int) -> Iterator[str]:
    """Yield the content of an item up to a number of characters: texts, and the beginnings of images and
    files."""
    content = getattr(item, "content", None) or getattr(item, "output", None) or ""
    if isinstance(content, str):
        yield content[:most]
        return
    for part in content:
        for name in _PART_FIELDS:
            value = getattr(part, name, None)
            if not isinstance(value, str) or not value:
                continue
            if most <= 0:
                return
            if name != "text" and len(value) > _LONG_FIELD:
                value = f"{value[:_LONG_FIELD]} {len(value)}"
            yield value[:most]
            most -= len(value)


def score(seed: bytes, member: str, weight: float = 1.0) -> tuple[float, float, str]:
    """Return a value to compare: a member wins a share of all seeds that is proportional to its weight.

    A member of weight 0 wins only against others of weight 0.
    """
    digest = blake2b(_bytes(member), digest_size=8, key=seed).digest()
    fraction = ((int.from_bytes(digest, "big") >> (64 - _BITS)) + 0.5) / 2**_BITS
    # Of exponential variables with these rates, each is the smallest with a probability that is proportional
    # to its rate. The fraction decides between members of weight 0.
    return -weight / log(fraction), fraction, member


def ranked(seed: bytes, members: Iterable[tuple[str, float]]) -> list[int]:
    """Return the places of the members, each a name and a weight, the best one first."""
    scores = [score(seed, name, weight) for name, weight in members]
    return sorted(range(len(scores)), key=scores.__getitem__, reverse=True)
