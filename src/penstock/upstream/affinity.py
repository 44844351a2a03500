"""Affinity: a conversation stays with the key, and among equal targets with the target, that it started with.

Encrypted reasoning is bound to its key (ask C4), and every key has a prompt cache of its own (ask D5). The
envelopes in a history name their keys. Turns without envelopes are remembered here, by what identifies their
conversation: the previous response, the conversation object, or the prompt cache key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256

from penstock.dialects.presets import fingerprint
from penstock.protocol.request import CreateResponse
from penstock.upstream.attempts import Attempt, Candidate

_MOST = 20_000
"""Conversations that are remembered. A forgotten one uses the first key that is ready."""

_MOST_KEYS = 8
"""Keys of different targets that are remembered for one conversation."""


class KeyAffinity:
    """The keys with which conversations started, as fingerprints. Keys and names are never stored as such."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._keys: OrderedDict[bytes, tuple[str, ...]] = OrderedDict()
        """The least recently used conversation comes first."""

    def __len__(self) -> int:
        return len(self._keys)

    def keys_of(self, tenant: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return the fingerprints of the keys that conversations with these names started with."""
        found: dict[str, None] = {}
        for name in names:
            entry = _entry(tenant, name)
            if entry in self._keys:
                self._keys.move_to_end(entry)
                found |= dict.fromkeys(self._keys[entry])
        return tuple(found)

    def remember(self, tenant: str, names: Iterable[str], attempt: Attempt) -> None:
        """Remember the key of an attempt, unless the conversation started with another one that its target
        still has. A client's own key is not remembered."""
        key = fingerprint(attempt.key)
        ring = attempt.upstream.keys
        if not ring.has(key):
            return
        names = list(names)
        started = self.keys_of(tenant, names)
        if not any(ring.has(each) for each in started):
            started = (*started, key)[-_MOST_KEYS:]
        for name in names:
            self._keys[_entry(tenant, name)] = started
        while len(self._keys) > self._most:
            self._keys.popitem(last=False)


def _entry(tenant: str, name: str) -> bytes:
    return sha256(f"{tenant}\0{name}".encode("utf-8", "surrogatepass")).digest()[:16]


def conversation_names(request: CreateResponse) -> list[str]:
    """Return what identifies the conversation of a request; empty if nothing does."""
    conversation = request.conversation or ""
    named = {
        "response": request.previous_response_id or "",
        "conversation": conversation if isinstance(conversation, str) else conversation.id,
        "cache": request.prompt_cache_key or "",
    }
    return [f"{kind}:{name}" for kind, name in named.items() if name]


def response_name(id: str) -> str:
    """Return the name under which a follow-up to this response finds its conversation."""
    return f"response:{id}"


def origin_first(candidates: Sequence[Candidate], keys: Iterable[str]) -> list[Candidate]:
    """Return the candidates with the one first that has the conversation's key. Only the same model at the
    same vendor is moved: any other order is the operator's decision."""
    if len(candidates) == 1:
        return list(candidates)
    wanted = _origin(candidates[0])
    for key in keys:
        for candidate in candidates:
            if candidate.upstream.keys.has(key) and _origin(candidate) == wanted:
                return [candidate, *(each for each in candidates if each is not candidate)]
    return list(candidates)


def _origin(candidate: Candidate) -> tuple[str, str, str]:
    target = candidate.upstream.target(candidate.model, "")
    return target.dialect, target.vendor, target.model
