"""The envelope around reasoning that only the upstream that produced it can read.

Signatures, redacted and encrypted reasoning must be sent back to their upstream byte for byte, and to no
other: a Gemini signature sent to Anthropic fails the turn (ask C2 to ask C5). So `encrypted_content` holds
an envelope that records where its contents are from and what they were attached to.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from penstock.dialects.plan import Target
from penstock.protocol.large_json import has_more_values

_MARK = "pk1."
"""The prefix of version 1. Any other prefix is not an envelope of ours."""


class Envelope(Struct, frozen=True, omit_defaults=True):
    """`payload` is the upstream's data, in the shape of its dialect. `attached` is `block` or `call`."""

    dialect: str
    payload: Any
    vendor: str = ""
    family: str = ""
    key: str = ""
    attached: str = "block"

    def is_for(self, target: Target) -> bool:
        """Return whether this target can read it. The key matters only where reasoning is bound to keys."""
        same_origin = (self.dialect, self.vendor, self.family) == (
            target.dialect,
            target.vendor,
            target.family,
        )
        bound_to_other_key = self.dialect == "responses" and self.key != target.key_fingerprint
        return same_origin and not bound_to_other_key


def seal(target: Target, payload: Any, *, attached: str = "block") -> str:
    envelope = Envelope(
        dialect=target.dialect,
        vendor=target.vendor,
        family=target.family,
        key=target.key_fingerprint,
        attached=attached,
        payload=payload,
    )
    return _MARK + urlsafe_b64encode(msgspec.json.encode(envelope)).decode().rstrip("=")


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
