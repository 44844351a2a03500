"""The envelope around reasoning that is sent back only to the upstream that produced it.

Signatures, redacted and encrypted reasoning must be sent back to their upstream byte for byte, and to no
other: a Gemini signature sent to Anthropic fails the turn (ask C2 to ask C5). So `encrypted_content` holds
an envelope that records where its contents are from and what they were attached to.

Plain reasoning is sealed too if the client asks for it: then the client itself keeps everything that the next
turn needs, and nothing is lost when a gateway without the response restarts (ask C1).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from penstock.dialects.plan import Target
from penstock.protocol.large_json import has_more_values
from penstock.protocol.request import ENCRYPTED_REASONING, CreateResponse
from penstock.stream.deltas import Delta, DiagnosticDelta, Key, OpaqueReasoning

_MARK = "pk1."
"""The prefix of version 1. Any other prefix is not an envelope of ours."""


class Envelope(Struct, frozen=True, omit_defaults=True):
    """`payload` is the upstream's data, in the shape of its dialect.

    `attached` is `block` for reasoning of its own, `call` for data of the next call, `item` for the next item
    of a server tool, and `turn` for content that contains what is before it in the same turn of the model.
    """

    dialect: str
    payload: Any
    vendor: str = ""
    family: str = ""
    key: str = ""
    attached: str = "block"

    def is_for(self, target: Target) -> bool:
        """Return whether this target can read it."""
        return not self.obstacle(target)

    def obstacle(self, target: Target) -> str:
        """Return whose reasoning it is, if this target cannot read it; otherwise "". The key matters only
        where reasoning is bound to keys (ask C4)."""
        origin = (self.dialect, self.vendor, self.family)
        if origin != (target.dialect, target.vendor, target.family):
            return "another upstream"
        plain = isinstance(self.payload, dict) and "encrypted_content" not in self.payload
        is_bound = self.dialect == "responses" and not plain
        return "another key" if is_bound and self.key != target.key_fingerprint else ""


def foreign_to(target: Target, sealed: str) -> str:
    """Return whose reasoning this is, if the target cannot read it; otherwise ""."""
    envelope = unseal(sealed) if sealed else None
    if envelope is None:
        return "another upstream" if sealed else ""
    return envelope.obstacle(target)


def seal(target: Target, payload: Any, *, attached: str = "block") -> str:
    return _marked(_encoded(target, payload, attached))


def _encoded(target: Target, payload: Any, attached: str) -> bytes:
    envelope = Envelope(
        dialect=target.dialect,
        vendor=target.vendor,
        family=target.family,
        key=target.key_fingerprint,
        attached=attached,
        payload=payload,
    )
    return msgspec.json.encode(envelope)


def _marked(data: bytes) -> str:
    return _MARK + urlsafe_b64encode(data).decode().rstrip("=")


MOST_BYTES = 4 * 1024 * 1024
"""The largest payload, as JSON, that is sealed: the client receives and returns it with every turn."""


def sealed_reasoning(
    target: Target,
    payload: Any,
    *,
    attached: str = "block",
    block: Key | None = None,
    call: Key | None = None,
) -> Delta:
    """Return the delta that sends a payload to the client, or a diagnostic if the payload is too large."""
    data = _encoded(target, payload, attached)
    if len(data) <= MOST_BYTES and not has_more_values(data, _VALUES):
        return OpaqueReasoning(_marked(data), block=block, call=call)
    message = "reasoning is too large to be sent back in a later turn"
    return DiagnosticDelta("reasoning_too_large", message)


def seals_text(request: CreateResponse) -> bool:
    """Return whether plain reasoning is sealed for this request: the client asks for it, or the response is
    not stored, so that only the client can keep it."""
    return ENCRYPTED_REASONING in (request.include or ()) or request.store is False


def unseal(sealed: str) -> Envelope | None:
    """Return the envelope; None if the text is not one of ours."""
    return _decode(sealed, Envelope)


def key_of(sealed: str) -> str:
    """Return the fingerprint of the key that an envelope is bound to, without decoding its contents."""
    head = _decode(sealed, _Head)
    return head.key if head is not None else ""


class _Head(Struct, frozen=True):
    key: str = ""


_VALUES = 20_000
"""The most JSON values in one envelope. Clients can forge one, and request limits do not look inside."""

E = TypeVar("E")


def _decode(sealed: str, type: type[E]) -> E | None:
    if not sealed.startswith(_MARK):
        return None
    try:
        data = urlsafe_b64decode(sealed[len(_MARK) :] + "==")
        return None if has_more_values(data, _VALUES) else msgspec.json.decode(data, type=type)
    except (ValueError, msgspec.MsgspecError):
        return None
