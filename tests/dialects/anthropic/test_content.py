"""Content parts as Anthropic's blocks."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from penstock.dialects.anthropic.content import blocks_of, text_block
from penstock.dialects.plan import Quirks
from penstock.protocol.content import ContentPart, InputText, Refusal
from penstock.stream.diagnostics import Diagnostics
from tests.dialects.anthropic.rendered_requests import block, rendered
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
    ("part", "expected"),
    [
        (
            {"type": "input_image", "image_url": "https://example.org/a.png"},
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (
            {"type": "input_image", "image_url": "DATA:image/JPEG;charset=x;base64,AAAA"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}},
        ),
        (
            file_of("application/pdf", b"%PDF", filename="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                "title": "a.pdf",
            },
        ),
        (
            {"type": "input_file", "file_data": "JVBERg==", "filename": "A.PDF"},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
                "title": "A.PDF",
            },
        ),
        (
            file_of("application/json", b'{"a":1}'),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": '{"a":1}'}},
        ),
        (
            file_of("image/png", b"x", filename="a.png"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}},
        ),
        (
            {"type": "input_file", "file_url": "https://example.org/a?b=c.png"},
            {"type": "document", "source": {"type": "url", "url": "https://example.org/a?b=c.png"}},
        ),
    ],
)
def test_images_and_files_are_blocks(part: dict[str, Any], expected: dict[str, Any]) -> None:
    assert block(part) == expected


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_image", "image_url": "data:image/svg+xml;base64,AAAA"},
        {"type": "input_image", "image_url": "data:image/png,AAAA"},
        {"type": "input_image", "image_url": "ftp://example.org/a.png"},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_file", "file_data": "AAAA", "filename": "a.exe"},
        {"type": "input_file", "file_data": "AAAA", "filename": "no suffix"},
        file_of("text/plain", b"\xff"),
        file_of("text/plain", b" "),
        {"type": "input_video", "video_url": "https://example.org/a.mp4"},
        {"type": "input_smell", "smell": "roses"},
    ],
)
def test_unsupported_content_is_replaced_by_a_note_and_reported(part: dict[str, Any]) -> None:
    result = rendered({"input": [user([part])]})
    note = result.body["messages"][0]["content"][0]
    assert note["type"] == "text"
    assert "left out" in note["text"]
    assert codes(result) == {"content_left_out"}


def test_a_model_without_images_or_files_gets_notes_and_text() -> None:
    blind = Quirks(images=False, files=False)
    assert "left out" in block({"type": "input_image", "image_url": PIXEL}, blind)["text"]
    assert "left out" in block(file_of("application/pdf", b"%PDF"), blind)["text"]
    assert block(file_of("text/csv", b"a,b", filename="a.csv"), blind) == {
        "type": "text",
        "text": "[the file 'a.csv']\na,b",
    }


def test_the_detail_of_an_image_is_reported_as_dropped() -> None:
    part = {"type": "input_image", "image_url": PIXEL, "detail": "high"}
    assert dropped(rendered({"input": [user([part])]})) == {"input_image.detail"}
    assert not dropped(rendered({"input": [user([{**part, "detail": "auto"}])]}))


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_blank_text_is_not_sent(text: str) -> None:
    assert text_block(text) is None


def test_a_refusal_is_sent_as_text() -> None:
    parts: list[ContentPart] = [Refusal(refusal="no"), Refusal(refusal=" "), InputText(text="yes")]
    assert blocks_of(parts, Quirks(), Diagnostics()) == [
        {"type": "text", "text": "no"},
        {"type": "text", "text": "yes"},
    ]
