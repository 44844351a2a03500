"""Content parts as Gemini's parts."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from penstock.dialects.plan import Quirks
from tests.dialects.gemini.rendered_requests import PIXEL_PART, part, rendered
from tests.dialects.render_cases import (
    PIXEL,
    codes,
    dropped,
    user,
)


def file_of(kind: str, data: bytes, **fields: str) -> dict[str, Any]:
    url = f"data:{kind};base64,{b64encode(data).decode()}"
    return {"type": "input_file", "file_data": url, **fields}


@pytest.mark.parametrize(
    ("given_part", "expected"),
    [
        ({"type": "input_image", "image_url": PIXEL}, PIXEL_PART),
        (
            {"type": "input_image", "image_url": "https://example.org/a.JPG?x=1"},
            {"fileData": {"fileUri": "https://example.org/a.JPG?x=1", "mimeType": "image/jpeg"}},
        ),
        (
            {"type": "input_image", "image_url": "https://example.org/a"},
            {"fileData": {"fileUri": "https://example.org/a"}},
        ),
        (
            file_of("application/pdf", b"%PDF", filename="a.pdf"),
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        ),
        (
            {"type": "input_file", "file_data": "AAAA", "filename": "a.mp3"},
            {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}},
        ),
        (
            {"type": "input_file", "file_url": "https://example.org/a"},
            {"fileData": {"fileUri": "https://example.org/a", "mimeType": "application/pdf"}},
        ),
        (file_of("text/csv", b"a,b", filename="a.csv"), {"text": "[the file 'a.csv']\na,b"}),
        (file_of("application/json", b"[1]"), {"text": "[a file]\n[1]"}),
        (
            {"type": "input_video", "video_url": "https://www.youtube.com/watch?v=x"},
            {"fileData": {"fileUri": "https://www.youtube.com/watch?v=x"}},
        ),
        (
            {"type": "input_video", "video_url": "data:video/mp4;base64,AAAA"},
            {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}},
        ),
    ],
)
def test_images_files_and_videos_are_parts(given_part: dict[str, Any], expected: dict[str, Any]) -> None:
    assert part(given_part) == expected


@pytest.mark.parametrize(
    "given_part",
    [
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_image", "image_url": "data:image/gif;base64,AAAA"},
        {"type": "input_image", "image_url": "ftp://example.org/a.png"},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_file", "file_data": "AAAA", "filename": "a.exe"},
        {"type": "input_file", "file_data": "AAAA", "filename": "none"},
        file_of("text/plain", b"\xff"),
        {"type": "input_video", "video_url": "data:image/png;base64,AAAA"},
        {"type": "input_smell", "smell": "roses"},
    ],
)
def test_unsupported_content_is_replaced_by_a_note_and_reported(given_part: dict[str, Any]) -> None:
    result = rendered({"input": [user([given_part])]})
    assert "left out" in result.body["contents"][0]["parts"][0]["text"]
    assert codes(result) == {"content_left_out"}


@pytest.mark.parametrize(
    "given_part",
    [
        {"type": "input_image", "image_url": PIXEL},
        {"type": "input_video", "video_url": "https://example.org/a.mp4"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        file_of("application/pdf", b"%PDF"),
    ],
)
def test_a_model_without_images_or_files_gets_notes(given_part: dict[str, Any]) -> None:
    assert "left out" in part(given_part, Quirks(images=False, files=False))["text"]


def test_the_detail_of_an_image_is_reported_as_dropped() -> None:
    image = {"type": "input_image", "image_url": PIXEL, "detail": "high"}
    assert dropped(rendered({"input": [user([image])]})) == {"input_image.detail"}
