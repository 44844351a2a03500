"""Content parts and annotations: what is always written, what only if set, and what is unknown."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from penstock.errors import DecodeError
from penstock.protocol.content import (
    Annotation,
    ContentPart,
    FileCitation,
    InputImage,
    OutputText,
    UnknownPart,
    UrlCitation,
)
from penstock.protocol.items import FunctionCallOutput, Message
from tests.protocol.reading import back, item


def part(fields: dict[str, Any]) -> Any:
    message = item({"role": "user", "content": [fields]})
    assert isinstance(message, Message)
    return message.content[0]


def test_the_lists_of_a_text_are_always_written() -> None:  # ask A7
    assert back(OutputText(text="a")) == {
        "type": "output_text",
        "text": "a",
        "annotations": [],
        "logprobs": [],
    }
    assert back(part({"type": "output_text", "text": "a", "annotations": None})) == back(OutputText(text="a"))


@pytest.mark.parametrize(
    "sent",
    [
        {"type": "input_image", "image_url": "u"},
        {"type": "input_image", "image_url": None, "file_id": "f"},
        {"type": "input_image", "image_url": "u", "detail": "low"},
    ],
)
def test_the_fields_of_an_image_are_written_only_if_they_were_given(sent: dict[str, Any]) -> None:
    image = part(sent)
    assert isinstance(image, InputImage)
    assert back(image) == sent


def test_a_citation_gets_the_positions_that_the_schema_requires() -> None:
    text = part({"type": "output_text", "text": "", "annotations": [{"type": "url_citation", "url": "u"}]})
    assert text.annotations == [UrlCitation(url="u")]
    assert back(text)["annotations"] == [
        {"type": "url_citation", "url": "u", "start_index": 0, "end_index": 0, "title": ""}
    ]


def test_a_file_citation_has_only_the_fields_that_the_vendor_sent() -> None:
    sent = {"type": "file_citation", "file_id": "f", "index": 3}
    text = part({"type": "output_text", "text": "", "annotations": [sent]})
    assert isinstance(text.annotations[0], FileCitation)
    assert back(text)["annotations"] == [sent]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"type": "input_text"}, "input[0].content[0].text"),
        ({"type": "input_video"}, "input[0].content[0].video_url"),
        (
            {"type": "output_text", "annotations": [{"type": "url_citation"}]},
            "input[0].content[0].annotations[0].url",
        ),
    ],
)
def test_a_part_without_a_required_field_is_refused_with_its_path(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(DecodeError, match="is required") as caught:
        part(fields)
    assert caught.value.param == param


def test_an_unknown_part_of_a_tool_output_survives_with_its_nulls() -> None:
    sent = {"type": "output_audio", "data": None, "format": {"rate": 24000}}
    output = item({"type": "function_call_output", "call_id": "c", "output": [sent]})
    assert isinstance(output, FunctionCallOutput)
    assert isinstance(output.output[0], UnknownPart)
    assert back(output)["output"] == [sent]


def smallest(kind: Any) -> Any:
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(**dict.fromkeys(required, ""))


@pytest.mark.parametrize("union", [ContentPart, Annotation])
def test_the_members_of_a_union_have_different_types_and_one_catch_all(union: Any) -> None:
    members = get_args(union)
    types = [member.type for member in map(smallest, members)]
    assert len(set(types)) == len(members)
    assert [member.__name__ for member in members if member.catch_all] == [members[-1].__name__]
