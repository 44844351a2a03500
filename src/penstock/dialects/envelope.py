"""The envelope around reasoning that only its maker can read.

Signatures, redacted and encrypted reasoning must go back to where they came from, byte for byte, and nowhere
else: a Gemini signature sent to Anthropic fails the turn (ask C2 to ask C5). So `encrypted_content` holds
an envelope that says where its contents are from and what they were attached to.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from penstock.dialects.plan import Target
from penstock.protocol.large import has_more_values

_MARK = "pk1."
"""Version 1. Another version has another mark, and is foreign to us."""


class Envelope(Struct, frozen=True, omit_defaults=True):
    """`payload` is the maker's, in whatever shape its dialect gave it. `attached` is `block` or `call`."""

    dialect: str
    payload: Any
    vendor: str = ""
    family: str = ""
    key: str = ""
    attached: str = "block"

    def is_for(self, target: Target) -> bool:
        """Can this target read it? Another key can, unless the maker is one that binds reasoning to keys."""
        same_maker = (self.dialect, self.vendor, self.family) == (
            target.dialect,
            target.vendor,
            target.family,
        )
        bound_elsewhere = self.dialect == "responses" and self.key != target.key_fingerprint
        return same_maker and not bound_elsewhere


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
    """The envelope, or None for what is not one of ours."""
    return _opened(sealed, Envelope)


def key_of(sealed: str) -> str:
    """The fingerprint of the key that an envelope is bound to; its contents are not read."""
    head = _opened(sealed, _Head)
    return head.key if head is not None else ""


class _Head(Struct, frozen=True):
    key: str = ""


_VALUES = 20_000
"""JSON values in one envelope. A client can write its own, and no limit of a request counts what is in it."""

E = TypeVar("E")


def _opened(sealed: str, type: type[E]) -> E | None:
    if not sealed.startswith(_MARK):
        return None
    try:
        data = urlsafe_b64decode(sealed[len(_MARK) :] + "==")
        return None if has_more_values(data, _VALUES) else msgspec.json.decode(data, type=type)
    except (ValueError, msgspec.MsgspecError):
        return None
