"""Content parts for another Responses endpoint: sent, or replaced by a note."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.dialects.plan import Quirks
from tests.dialects.render_cases import (
    PIXEL,
    call,
    codes,
    dropped,
    output,
    user,
)
from tests.dialects.responses.rendering import IMAGE, OPENAI, OTHER, items, message, rendered


def test_the_type_of_a_text_depends_on_the_role() -> None:
    texts = [
        {"type": "text", "text": "a"},
        {"type": "output_text", "text": "b"},
        {"type": "refusal", "refusal": "c"},
    ]
    assert items([user(texts)])[0]["content"] == [{"type": "input_text", "text": each} for each in "abc"]
    assert items([{"role": "assistant", "content": texts[:1]}])[0]["content"] == [
        {"type": "output_text", "text": "a", "annotations": []}
    ]


STORED_IMAGE = {"type": "input_image", "file_id": "file_1"}


FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}


STORED_FILE = {"type": "input_file", "file_id": "file_1"}


VIDEO = {"type": "input_video", "video_url": "https://example.org/a.mp4"}


@pytest.mark.parametrize(
    ("part", "target", "is_sent"),
    [
        (IMAGE, OPENAI, True),
        (IMAGE, OTHER, True),
        (IMAGE, {**OTHER, "quirks": Quirks(images=False)}, False),
        (STORED_IMAGE, OPENAI, True),
        (STORED_IMAGE, OTHER, False),
        (FILE, OPENAI, True),
        (FILE, OTHER, False),
        (FILE, {**OTHER, "quirks": Quirks(files=True)}, True),
        (STORED_FILE, OPENAI, True),
        (STORED_FILE, {**OTHER, "quirks": Quirks(files=True)}, False),
        (VIDEO, OPENAI, False),
        (VIDEO, OTHER, True),
        ({"type": "input_smell"}, OPENAI, False),
    ],
)
def test_media_are_sent_or_replaced_by_a_note(
    part: dict[str, Any], target: dict[str, Any], is_sent: bool
) -> None:
    request = rendered({"input": [user([part])]}, target)
    [content] = request.body["input"][0]["content"]
    if is_sent:
        assert content == part
        assert request.diagnostics == []
    else:
        assert part["type"] in content["text"]
        assert codes(request) == {"content_left_out"}


def test_an_image_of_the_assistant_is_replaced_by_a_note() -> None:
    request = rendered({"input": [{"role": "assistant", "content": [IMAGE]}]})
    assert request.body["input"][0]["content"][0]["type"] == "output_text"
    assert codes(request) == {"content_left_out"}


def test_an_image_among_instructions_is_replaced_by_a_note() -> None:
    parts = [{"type": "input_text", "text": "Be."}, IMAGE, {"type": "input_text", "text": ""}]
    request = rendered({"input": [{"role": "system", "content": parts}, user("x")]}, OTHER)
    assert request.body["instructions"].startswith("Be.\n[content of type 'input_image' was left out")
    assert codes(request) == {"content_left_out"}


HERE: dict[str, Any] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
MARKED: list[dict[str, Any]] = [
    {"type": "input_text", "text": "a long text", **HERE},
    {"type": "input_image", "image_url": PIXEL, **HERE},
]


def test_openai_gets_its_cache_breakpoints_unchanged() -> None:
    found = items(
        [message("user", MARKED), call(), output(output=MARKED[:1]), {**message("user", "b"), **HERE}]
    )
    assert found[0]["content"] == MARKED
    assert found[2]["output"] == MARKED[:1]
    assert found[3]["content"] == [{"type": "input_text", "text": "b", **HERE}]


def test_other_endpoints_get_no_cache_breakpoints() -> None:
    found = rendered({"input": [message("user", MARKED)]}, OTHER)
    assert "prompt_cache_breakpoint" not in str(found.body)
    assert [part["type"] for part in found.body["input"][0]["content"]] == ["input_text", "input_image"]
    assert dropped(found) == {"prompt_cache_breakpoint"}
