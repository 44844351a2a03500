"""Seal text so that only this gateway can read it, and only for the same tenant (ask G4, ask K1). Names for
caches of upstreams are derived from the same secret.

A sealed text is `pkc1.` followed by base64 of the key id, a nonce and the data encrypted with AES-GCM.
"""

from __future__ import annotations

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.secret_variables import secret_variable
from penstock.shared_file import is_planted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET = "PENSTOCK_SECRET"
OLD_SECRETS = "PENSTOCK_OLD_SECRETS"
FILE = "penstock.secret"
"""The file next to the store that is used if no secret is set."""
SHARED_NAME = "sealing"
"""The name of the secret that workers share in their database."""

MARK = "pkc1."
"""Version 1. Another version has another mark and cannot be opened."""

_CACHE_KEY_LENGTH = 32
_ID_BYTES, _NONCE_BYTES, _TAG_BYTES = 4, 12, 16


class Sealer:
    """Seals with `secret`; can also open text that was sealed with the `old` secrets."""

    def __init__(self, secret: str, old: Iterable[str] = ()) -> None:
        keys = [_key(each) for each in (secret, *old)]
        self._id = _id(keys[0])
        # Reversed, so that the first key takes precedence if two have the same id.
        self._keys = {_id(key): key for key in reversed(keys)}
        self._cache_secret = digest(keys[0], b"penstock prompt cache 1", "sha256")

    def __repr__(self) -> str:
        return "Sealer()"

    def seal(self, tenant: str, data: bytes) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(self._keys[self._id]).encrypt(nonce, data, _bound_to(tenant))
        return MARK + _encoded(self._id + nonce + sealed)

    def cache_key(self, root: bytes) -> str:
        """Return a `prompt_cache_key` for the conversation with this root. Without the secret, neither the
        tenant nor the text can be guessed from it."""
        return digest(self._cache_secret, root, "sha256").hex()[:_CACHE_KEY_LENGTH]

    def open(self, tenant: str, sealed: str) -> bytes | None:
        """Return the data; None if the text is another tenant's, was changed, or is not ours."""
        raw = _decoded(sealed.removeprefix(MARK)) if sealed.startswith(MARK) else b""
        key = self._keys.get(raw[:_ID_BYTES])
        if key is None or len(raw) < _ID_BYTES + _NONCE_BYTES + _TAG_BYTES:
            return None
        from cryptography.exceptions import InvalidTag

        nonce, text = raw[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], raw[_ID_BYTES + _NONCE_BYTES :]
        try:
            return _cipher(key).decrypt(nonce, text, _bound_to(tenant))
        except InvalidTag:
            return None


def _cipher(key: bytes) -> AESGCM:
    # Imported with the first compaction: it takes 6 MB, and most gateways never seal anything.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def load_sealer(environment: Mapping[str, str], folder: Path | None, stored: Sequence[str] = ()) -> Sealer:
    """Return a sealer with the secret from the environment, else the first of `stored`, which workers share
    in their database, else from the file in `folder`, else a temporary one for this process.

    Text that was sealed with another of these secrets can still be opened, also if the environment has one.
    """
    old = [each for part in secret_variable(OLD_SECRETS, environment).split(",") if (each := part.strip())]
    file = None if folder is None else folder / FILE
    try:
        if given := secret_variable(SECRET, environment):
            before = [_read_secret(file)] if file is not None and file.exists() else stored
            return Sealer(given, [*old, *before])
        first, *others = stored or [new_secret() if file is None else _read_or_create(file)]
        return Sealer(first, [*old, *others])
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            str(file),
            0,
            f"the secret cannot be stored in this file: {_reason(error)}; set the environment variable "
            f"{SECRET} instead",
        ) from None


def secret_in(folder: Path) -> str:
    """Return the secret that gateways with a store in this folder have used; empty if there is no file with
    it. Raise `ConfigError` if the file cannot be read."""
    file = folder / FILE
    try:
        return _read_secret(file) if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), 0, f"the secret cannot be read: {_reason(error)}") from None


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else "it is not a text file"


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def _read_or_create(file: Path) -> str:
    if is_planted(file):
        raise ConfigError(
            str(file),
            0,
            "is a link or a file of another user, in a folder that everyone can write to: store responses in "
            f"another folder, or set {SECRET}",
        )
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create(file)
    return _read_secret(file)


def _create(file: Path) -> None:
    """Create the file atomically, and never overwrite it: two gateways may start at the same time."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
            written.write(new_secret())
            written.flush()
            os.fsync(written.fileno())
        os.link(draft, file)
    except FileExistsError:
        pass  # the other gateway was first: its secret is used
    finally:
        draft.unlink(missing_ok=True)


def _read_secret(file: Path) -> str:
    if os.name == "posix" and file.stat().st_mode & 0o077:
        file.chmod(0o600)
    secret = file.read_text(encoding="utf-8").strip()
    if not secret:
        raise ConfigError(
            str(file), 0, f"is empty: delete it, so that a new secret is created, or set {SECRET}"
        )
    return secret


def _key(secret: str) -> bytes:
    """Derive a key of 32 bytes with HKDF-SHA256 (RFC 5869), without a salt."""
    extracted = digest(bytes(32), secret.encode(), "sha256")
    return digest(extracted, b"penstock sealing 1" + b"\x01", "sha256")


def _id(key: bytes) -> bytes:
    """Return an id that distinguishes keys without revealing them."""
    return sha256(b"penstock key id" + key).digest()[:_ID_BYTES]


def _bound_to(tenant: str) -> bytes:
    return MARK.encode() + tenant.encode()


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Return the data; empty if `_encoded` cannot have written the text: Python's decoder is too lenient."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
    return data if _encoded(data) == text else b""
