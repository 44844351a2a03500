"""Images for a message: by their path, or by an `@path` in what was typed."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.cli import UsageError
from penstock.parts.parts import DataPart

LARGEST = 20 * 1024 * 1024
"""No endpoint takes more; most take less, and say so."""

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_NAMES = re.compile(r"\.(?:png|jpe?g|gif|webp)", re.IGNORECASE)
_MENTION = re.compile(r"(?<!\S)@(?:\"([^\"\n]+)\"|(\S+))")


def read_image(name: str) -> DataPart:
    """Raises `UsageError` for what is no image that endpoints take."""
    try:
        data = Path(name).expanduser().read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    mime = _type_of(data)
    if mime is None:
        raise UsageError(f"{name} is no image: PNG, JPEG, GIF and WebP are taken")
    if len(data) > LARGEST:
        raise UsageError(f"{name} is too large: {len(data):,} bytes, and {LARGEST:,} are taken")
    return DataPart.image(data, mime)


def mentioned_images(text: str) -> tuple[str, list[DataPart]]:
    """The text without the `@` of its images, and the images. An `@` before anything else is text."""
    images: list[DataPart] = []

    def take(found: re.Match[str]) -> str:
        name, behind = found[1] or found[2], ""
        if found[2]:
            bare = name.rstrip(".,;:!?)'\"")  # a sentence may end behind a name
            name, behind = bare, name[len(bare) :]
        if not _NAMES.fullmatch(Path(name).suffix):
            return found[0]
        images.append(read_image(name))
        return name + behind

    return _MENTION.sub(take, text), images


def _type_of(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for beginning, mime in _BEGINNINGS if data.startswith(beginning)), None)
