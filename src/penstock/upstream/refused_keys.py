"""Says in an upstream's error which key was refused.

A client of a gateway sees a 401 and looks at its own key. Usually the key of the target is meant, so the
message names its variable, and the code is not `authentication_error`. No part of a key is shown.
"""

from __future__ import annotations

from penstock.errors import AuthenticationError, PermissionDeniedError
from penstock.upstream.keys import KeyRing
from penstock.upstream.target import UpstreamTarget

UNAUTHORIZED, FORBIDDEN = "upstream_unauthorized", "upstream_forbidden"
"""The codes if the key is not the client's own."""


def name_key(
    error: AuthenticationError | PermissionDeniedError,
    key: str,
    keys: KeyRing,
    target: UpstreamTarget,
    header: str,
) -> None:
    """Change the message and the code of an error. `key` was sent in the header with this name."""
    which, is_clients = _described(key, keys, target, header)
    is_refused = isinstance(error, AuthenticationError)
    if which:
        sentence = f"the upstream {'refused' if is_refused else 'does not permit this with'} {which}"
    else:
        sentence = f"{_place(target)} has no key, and the upstream requires one"
    if not len(keys) and header not in _header_names(target):
        sentence += f" (to use a key of the gateway, {target.missing_key})" if target.missing_key else ""
    error.reword(f"{sentence}: {error.message}")
    if not is_clients:
        error.code = UNAUTHORIZED if is_refused else FORBIDDEN


def _described(key: str, keys: KeyRing, target: UpstreamTarget, header: str) -> tuple[str, bool]:
    """Return words for the key, empty if none was sent; and whether it is for the client to send another."""
    if header in _header_names(target):  # headers of a target override the key
        return f"the header {header} of {_place(target)} (targets.{target.name}.headers)", False
    if name := keys.name_of(key):
        return f"the key of {_place(target)} (from {name})", False
    return (f"your own key, which {_place(target)} passes on" if key else ""), target.pass_key


def _place(target: UpstreamTarget) -> str:
    return f'target "{target.name}"'


def _header_names(target: UpstreamTarget) -> set[str]:
    return {name.lower() for name in target.headers}
