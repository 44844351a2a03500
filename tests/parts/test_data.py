"""Data in a response is found in every shape that servers use."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from penstock.parts.data import LINK, data_of, generated_image
from penstock.parts.parts import DataPart

PNG = b"\x89PNG\r\n\x1a\n..."
ENCODED = b64encode(PNG).decode()
IMAGE = DataPart(PNG, "image/png")

DATA: dict[str, tuple[dict[str, Any], DataPart]] = {
    "base64, with its type": ({"mime_type": "image/png", "data": ENCODED}, IMAGE),
    "base64, with another type": (
        {"mediaType": "image/x-icon", "base64": ENCODED},
        DataPart(PNG, "image/x-icon"),
    ),
    "base64, without a type": ({"b64_json": ENCODED}, IMAGE),
    "a nested file": ({"file": {"mimeType": "image/png", "file_data": ENCODED}}, IMAGE),
    "a nested image": ({"image": {"data": ENCODED}, "mime_type": "text/plain"}, IMAGE),
    "a nested file with nothing in it": ({"file": {"file_id": "f"}, "result": ENCODED}, IMAGE),
    "a data URL": ({"image_url": f"data:image/png;base64,{ENCODED}"}, IMAGE),
    "a data URL in an object": ({"image_url": {"url": f"data:image/png;base64,{ENCODED}"}}, IMAGE),
    "a data URL whose type overrides the field": (
        {"mime_type": "text/plain", "url": f"data:image/png;base64,{ENCODED}"},
        IMAGE,
    ),
    "a data URL without a type": ({"mime": "image/png", "url": f"data:;base64,{ENCODED}"}, IMAGE),
    "a data URL without any type": ({"url": f"data:;base64,{ENCODED}"}, IMAGE),
    "a data URL that is text": ({"url": "data:text/plain,a%20b%2Fc"}, DataPart(b"a b/c", "text/plain")),
    "a data URL in a charset": (
        {"url": "data:text/plain;charset=utf-8,%C3%A9é"},
        DataPart("éé".encode(), "text/plain;charset=utf-8"),
    ),
    "a data URL of nothing but text": ({"url": "data:,Hi"}, DataPart(b"Hi", "text/plain")),
    "a URL": ({"file_url": "https://example.com/a.png"}, DataPart(b"https://example.com/a.png", LINK)),
    "an http:// URL": ({"url": "http://example.com"}, DataPart(b"http://example.com", LINK)),
    "text with a type": ({"text": "a,b", "mime_type": "text/csv"}, DataPart(b"a,b", "text/csv")),
    "invalid base64 next to a URL": (
        {"data": "!", "url": "https://example.com"},
        DataPart(b"https://example.com", LINK),
    ),
    "unknown bytes": ({"data": b64encode(b"??").decode()}, DataPart(b"??", "application/octet-stream")),
}


@pytest.mark.parametrize(("raw", "part"), DATA.values(), ids=DATA.keys())
def test_data_is_found_in_every_shape(raw: dict[str, Any], part: DataPart) -> None:
    assert data_of(raw) == part


NOTHING: dict[str, dict[str, Any]] = {
    "an empty object": {},
    "a file with only a name": {"file": {"file_id": "file_1", "filename": "a.png"}},
    "base64 that is broken": {"data": "not base64!"},
    "base64 that is cut": {"data": "QUI"},
    "base64 that is not ASCII": {"data": "é"},
    "fields that are empty": {"data": "", "url": "", "image_url": {"url": ""}},
    "fields of other types": {"data": 5, "file": "x", "image": [], "url": None, "image_url": {}},
    "text without a type": {"text": "a,b"},
    "text that is empty": {"text": "", "mime_type": "text/csv"},
    "a data URL that is broken": {"url": "data:image/png;base64,!"},
    "a data URL that ends early": {"url": "data:image/png;base64"},
    "a data URL of nothing": {"url": "data:,"},
}


@pytest.mark.parametrize("raw", NOTHING.values(), ids=NOTHING.keys())
def test_no_bytes_make_no_part(raw: dict[str, Any]) -> None:
    assert data_of(raw) is None


MAGIC = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF....WEBP",
    "application/pdf": b"%PDF-1.7",
    "application/octet-stream": b"MZ",
}


@pytest.mark.parametrize(("mime", "data"), MAGIC.items(), ids=MAGIC.keys())
def test_data_without_a_type_is_recognised_by_its_first_bytes(mime: str, data: bytes) -> None:
    assert data_of({"data": b64encode(data).decode()}) == DataPart(data, mime)


GENERATED: dict[str, tuple[dict[str, Any], DataPart | None]] = {
    "with a format": ({"result": ENCODED, "output_format": "webp"}, DataPart(PNG, "image/webp")),
    "jpg is jpeg": ({"result": ENCODED, "output_format": "jpg"}, DataPart(PNG, "image/jpeg")),
    "without a format": ({"result": ENCODED}, IMAGE),
    "its format is unknown": ({"result": ENCODED, "output_format": "acme"}, IMAGE),
    "it is not there yet": ({"result": None}, None),
    "it is empty": ({"result": ""}, None),
    "it is missing": ({}, None),
    "it is not a string": ({"result": [ENCODED]}, None),
}


@pytest.mark.parametrize(("raw", "part"), GENERATED.values(), ids=GENERATED.keys())
def test_a_generated_image(raw: dict[str, Any], part: DataPart | None) -> None:
    assert generated_image(raw) == part
