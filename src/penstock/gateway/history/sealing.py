"""Text that only this gateway can read, and only for the tenant that it was sealed for (ask G4, ask K1).

A sealed text is `pkc1.` and then, in base64, the id of the key, a nonce and what AES-GCM made of the data.
"""

from __future__ import annotations

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from penstock.errors import ConfigError

SECRET = "PENSTOCK_SECRET"
OLD_SECRETS = "PENSTOCK_OLD_SECRETS"
FILE = "penstock.secret"
"""Beside the store, where no secret is given."""

MARK = "pkc1."
"""Version 1. Another version has another mark, and is foreign to us."""

_ID_BYTES, _NONCE_BYTES, _TAG_BYTES = 4, 12, 16


class Sealer:
    """Seals with `secret`; opens also what was sealed with the `old` ones."""

    def __init__(self, secret: str, old: Iterable[str] = ()) -> None:
        keys = [_key(each) for each in (secret, *old)]
        self._id = _id(keys[0])
        # The first one wins, in case that two have the same id.
        self._ciphers = {_id(key): AESGCM(key) for key in reversed(keys)}

    def __repr__(self) -> str:
        return "Sealer()"

    def seal(self, tenant: str, data: bytes) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self._id].encrypt(nonce, data, _bound_to(tenant))
        return MARK + _written(self._id + nonce + sealed)

    def open(self, tenant: str, sealed: str) -> bytes | None:
        """The data, or None for what is another's, was changed, or is none of ours."""
        raw = _read(sealed.removeprefix(MARK)) if sealed.startswith(MARK) else b""
        cipher = self._ciphers.get(raw[:_ID_BYTES])
        if cipher is None or len(raw) < _ID_BYTES + _NONCE_BYTES + _TAG_BYTES:
            return None
        nonce, text = raw[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], raw[_ID_BYTES + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, text, _bound_to(tenant))
        except InvalidTag:
            return None


def load_sealer(environment: Mapping[str, str], folder: Path | None) -> Sealer:
    """With the secret of the environment, else of the file in `folder`, else one that ends with the process.

    The file's is still read when the environment has taken its place.
    """
    old = [each for part in environment.get(OLD_SECRETS, "").split(",") if (each := part.strip())]
    file = None if folder is None else folder / FILE
    try:
        if given := environment.get(SECRET, "").strip():
            kept = [_kept(file)] if file is not None and file.exists() else []
            return Sealer(given, [*old, *kept])
        return Sealer(_new() if file is None else _kept_or_made(file), old)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text"
        message = f"the secret cannot be kept there: {why}; give one in {SECRET}"
        raise ConfigError(str(file), 0, message) from None


def _kept_or_made(file: Path) -> str:
    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(file)
    return _kept(file)


def _make(file: Path) -> None:
    """Whole or not at all, and never over another's: two gateways may begin at the same time."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
            written.write(_new())
            written.flush()
            os.fsync(written.fileno())
        os.link(draft, file)
    except FileExistsError:
        pass  # the other one was first: its secret is as good
    finally:
        draft.unlink(missing_ok=True)


def _kept(file: Path) -> str:
    if os.name == "posix" and file.stat().st_mode & 0o077:
        file.chmod(0o600)
    secret = file.read_text(encoding="utf-8").strip()
    if not secret:
        raise ConfigError(str(file), 0, f"is empty: remove it, and a new secret is made, or set {SECRET}")
    return secret


def _new() -> str:
    return secrets.token_urlsafe(32)


def _key(secret: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=b"penstock sealing 1").derive(secret.encode())


def _id(key: bytes) -> bytes:
    """Tells keys apart, and nothing about them."""
    return sha256(b"penstock key id" + key).digest()[:_ID_BYTES]


def _bound_to(tenant: str) -> bytes:
    return MARK.encode() + tenant.encode()


def _written(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _read(text: str) -> bytes:
    """Nothing for what `_written` did not write: Python's decoder takes much else for base64."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
    return data if _written(data) == text else b""
