"""How the demo model describes images and files."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Any
from zlib import crc32

import pytest

from tests.demo.asking import (
    ask,
)


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", crc32(head))


def data_url(data: bytes, media: str = "image/png") -> str:
    return f"data:{media};base64,{b64encode(data).decode()}"


GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + bytes(3)


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 48, 64) + bytes(10)


WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + b"\x0f\x00\x00\x1f\x00\x00"


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        ({"image_url": data_url(png(640, 480))}, "a PNG image of 640 × 480 pixels and 33 bytes"),
        ({"image_url": data_url(GIF)}, "a GIF image of 7 × 9 pixels and 13 bytes"),
        ({"image_url": data_url(JPEG)}, "a JPEG image of 64 × 48 pixels and 27 bytes"),
        ({"image_url": data_url(WEBP)}, "a WebP image of 16 × 32 pixels and 30 bytes"),
        ({"image_url": data_url(b"?")}, "an image of 1 byte"),
        ({"image_url": "data:image/svg+xml,%3Csvg%3E"}, "an image of 5 bytes"),
        ({"image_url": "data:image/png;base64,!!"}, "an image of 1 byte"),
        ({"image_url": "https://example.org/cat.png?key=1"}, "an image at example.org (not fetched)"),
        ({"image_url": "https://[broken"}, "an image at an invalid address (not fetched)"),
        ({"file_id": "file_1"}, "an image stored as “file_1”"),
        ({"image_url": None}, "an image without content"),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": data_url(b"%PDF-1.7")},
            "a PDF file called “a.pdf” of 8 bytes",
        ),
        (
            {"type": "input_file", "filename": "a.txt", "file_data": b64encode(b"hi there").decode()},
            "a file called “a.txt” of 8 bytes",
        ),
        ({"type": "input_file", "file_url": "https://example.org/a"}, "a file at example.org (not fetched)"),
        (
            {"type": "input_video", "video_url": "https://example.org/a"},
            "a video at example.org (not fetched)",
        ),
    ],
)
def test_images_and_files_are_described(part: dict[str, Any], seen: str) -> None:
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", **part}]
    result = ask({"input": [user_with(content)]})
    assert f"- I see {seen}\n" in result.text


def user_with(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}
