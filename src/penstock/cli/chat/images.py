"""Images for a message: by path, or by `@path` in the typed text."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.cli import UsageError
from penstock.parts.parts import DataPart

LARGEST = 20 * 1024 * 1024
"""No endpoint accepts more; most accept less, and return an error."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_EXTENSIONS = re.compile(r"\.(?:png|jpe?g|gif|webp)", re.IGNORECASE)
_MENTION = re.compile(r"(?<!\S)@(?:\"([^\"\n]+)\"|(\S+))")


def read_image(name: str) -> DataPart:
    """Read an image; raise `UsageError` if endpoints cannot accept it."""
    try:
        data = Path(name).expanduser().read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    mime = _type_of(data)
    if mime is None:
        raise UsageError(f"{name} is not a PNG, JPEG, GIF or WebP image")
    if len(data) > LARGEST:
        raise UsageError(f"{name} is too large: {len(data):,} bytes, the limit is {LARGEST:,}")
    return DataPart.image(data, mime)


def mentioned_images(text: str) -> tuple[str, list[DataPart]]:
    """Return the text without the `@` before image paths, and the images. Any other `@` is plain text."""
    images: list[DataPart] = []

    def replace(found: re.Match[str]) -> str:
        name, suffix = found[1] or found[2], ""
        if found[2]:
            bare = name.rstrip(".,;:!?)'\"")  # the path may end a sentence
            name, suffix = bare, name[len(bare) :]
        if not _EXTENSIONS.fullmatch(Path(name).suffix):
            return found[0]
        images.append(read_image(name))
        return name + suffix

    return _MENTION.sub(replace, text), images


def _type_of(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for signature, mime in _SIGNATURES if data.startswith(signature)), None)
