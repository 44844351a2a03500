"""Says in an upstream's 401 or 403 which key was refused.

A client of a gateway sees a 401 and looks at its own key. Usually the key of the target is meant, so the
message names its variable, and the code is not `authentication_error`. A 403 often has other reasons (a
country, a firewall), so it names the key only if the upstream's message is about keys or permissions. No part
of a key is shown.
"""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.errors import AuthenticationError, PermissionDeniedError
from penstock.failures import NO_MESSAGE
from penstock.upstream.keys import KeyRing
from penstock.upstream.target import UpstreamTarget

UNAUTHORIZED, FORBIDDEN = "upstream_unauthorized", "upstream_forbidden"
"""The codes if the key is not the client's own."""
_ABOUT_KEYS = re.compile(
    r"\bkeys?\b|\btoken\b|credential|permi(ssion|tted)|authori[sz]ed|\bscopes?\b|(have|no) access",
    re.IGNORECASE,
)


class SentKey(Struct, frozen=True):
    """The key of a request: words for it, empty if there was none; where it comes from, empty if it is not
    the target's; and whether it is for the client to send another."""

    words: str
    source: str
    is_clients: bool


def name_key(
    error: AuthenticationError | PermissionDeniedError,
    key: str,
    keys: KeyRing,
    target: UpstreamTarget,
    header: str,
) -> None:
    """Change the message and the code of an error, and note the refused key in it. `key` was sent in the
    header with this name."""
    place = f'target "{target.name}"'
    if error.code in (UNAUTHORIZED, FORBIDDEN):  # a gateway reports this about its own upstream
        error.reword(f"{place} reports: {error.message}")
        return
    sent = _sent_key(key, keys, target, header)
    is_refused = isinstance(error, AuthenticationError)
    is_page = error.message.startswith(NO_MESSAGE)
    names_key = is_refused or (not is_page and _ABOUT_KEYS.search(error.message) is not None)
    if is_refused and not sent.words:
        what = f"{place} has no key, and the upstream requires one"
    elif is_refused:
        what = f"the upstream refused {sent.words}"
    elif names_key and sent.words:
        what = f"the upstream refused a request with {sent.words}"
    else:
        status = f" ({error.status})" if error.status else ""
        without = ", which has no key" if names_key else ""
        what = place if is_page else f"the upstream refused the request of {place}{status}{without}"
    advice = _advice(sent, target) if names_key and not len(keys) else ""
    error.reword(f"{what}{advice}: {error.message}")
    error.refused_key = sent.source if names_key else ""
    if not sent.is_clients:
        error.code = UNAUTHORIZED if is_refused else FORBIDDEN


def _sent_key(key: str, keys: KeyRing, target: UpstreamTarget, header: str) -> SentKey:
    place = f'target "{target.name}"'
    if header in {name.lower() for name in target.headers}:  # headers of a target override the key
        source = f"targets.{target.name}.headers"
        return SentKey(f"the header {header} of {place} ({source})", source, is_clients=False)
    name = keys.name_of(key)
    if name and name in target.key_names:
        return SentKey(f"the key of {place} (from {name})", name, is_clients=False)
    if name:
        return SentKey(f"{name} of {place}", name, is_clients=False)
    return SentKey(f"your own key, which {place} passes on" if key else "", "", target.pass_key)


def _advice(sent: SentKey, target: UpstreamTarget) -> str:
    """Return what to do if the target has no key."""
    if sent.source or not target.missing_key:
        return ""
    if sent.words:
        return f" (the gateway can use its own key instead: {target.missing_key})"
    return f" ({'send a key, or ' if sent.is_clients else ''}{target.missing_key})"
