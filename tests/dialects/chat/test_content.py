"""Content parts for Chat Completions: sent, converted to text, or replaced by a note."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.plan import Quirks
from tests.dialects.chat.rendering import messages, rendered
from tests.dialects.render_cases import (
    PIXEL,
    codes,
    user,
)


def test_texts_are_joined_and_images_make_the_content_a_list() -> None:
    texts = [
        {"type": "input_text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "input_text", "text": ""},
    ]
    assert messages({"input": [user(texts)]}) == [{"role": "user", "content": "a\nb"}]
    image = {"type": "input_image", "image_url": PIXEL, "detail": "low"}
    assert messages({"input": [user([*texts, image])]})[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
    ]


@pytest.mark.parametrize(
    ("part", "quirks", "vendor", "expected"),
    [
        (
            {"type": "input_image", "image_url": "https://example.org/a.png"},
            Quirks(),
            "",
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ),
        (
            {"type": "input_image", "image_url": PIXEL, "detail": "original"},
            Quirks(),
            "",
            {"type": "image_url", "image_url": {"url": PIXEL, "detail": "high"}},
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            Quirks(files=True),
            "",
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            },
        ),
        (
            {"type": "input_file", "file_id": "file_1"},
            Quirks(files=True),
            "",
            {"type": "file", "file": {"file_id": "file_1"}},
        ),
        (
            {"type": "input_video", "video_url": "https://example.org/a.mp4"},
            Quirks(),
            "qwen",
            {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
        ),
    ],
)
def test_supported_media_are_sent(
    part: dict[str, Any], quirks: Quirks, vendor: str, expected: dict[str, Any]
) -> None:
    request = rendered({"input": [user([part])]}, quirks=quirks, vendor=vendor)
    assert request.body["messages"][0]["content"] == [expected]
    assert request.diagnostics == []


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"type": "input_image", "image_url": PIXEL}, "an image"),
        ({"type": "input_image", "file_id": "file_1"}, "an image"),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            "a.pdf",
        ),
        ({"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,////"}, "a.txt"),
        ({"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain,abc"}, "a.txt"),
        ({"type": "input_file", "file_url": "https://example.org/a"}, "https://example.org/a"),
        ({"type": "input_video", "video_url": "https://example.org/a"}, "a video"),
        ({"type": "input_smell"}, "input_smell"),
    ],
)
def test_unsupported_content_leaves_a_note_and_a_diagnostic(part: dict[str, Any], named: str) -> None:
    request = rendered({"input": [user([part])]}, quirks=Quirks(images=False))
    assert named in request.body["messages"][0]["content"]
    assert "left out" in request.body["messages"][0]["content"]
    assert codes(request) == {"content_left_out"}


def test_a_text_file_is_sent_as_text_if_files_are_not_supported() -> None:
    part = {
        "type": "input_file",
        "filename": "a.txt",
        "file_data": "data:text/plain;charset=utf-8;base64,aGk=",
    }
    request = rendered({"input": [user([part])]})
    assert request.body["messages"][0]["content"] == "[file a.txt]\nhi"
    assert codes(request) == {"file_as_text"}
