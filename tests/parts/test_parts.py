"""The values of VS Code's Language Model API."""

from __future__ import annotations

import pytest

from penstock.parts.parts import Audience, DataPart, Role, TextPart, ToolCallPart

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("made", "part"),
    [
        (DataPart.image(PNG, "image/png"), DataPart(PNG, "image/png")),
        (DataPart.json({"a": [1, None]}), DataPart(b'{"a":[1,null]}', "text/x-json")),
        (DataPart.json("é", "application/json"), DataPart('"é"'.encode(), "application/json")),
        (DataPart.text("é"), DataPart("é".encode(), "text/plain")),
        (DataPart.text("a", "text/csv"), DataPart(b"a", "text/csv")),
    ],
)
def test_data_parts_are_built_from_images_json_and_text(made: DataPart, part: DataPart) -> None:
    assert made == part


def test_parts_are_immutable_and_compare_by_value() -> None:
    part = TextPart("Hi.")
    with pytest.raises(AttributeError):
        part.value = "Bye."  # type: ignore[misc]
    assert part == TextPart("Hi.")
    assert part != TextPart("Hi.", (Audience.USER,))
    assert ToolCallPart("1", "look", {"a": 1}) == ToolCallPart("1", "look", {"a": 1})


def test_roles_and_audiences_have_the_numbers_of_vs_code() -> None:
    assert {role.name: int(role) for role in Role} == {"USER": 1, "ASSISTANT": 2, "SYSTEM": 3}
    assert {each.name: int(each) for each in Audience} == {"ASSISTANT": 0, "USER": 1, "EXTENSION": 2}
