"""The values of VS Code's Language Model API."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

from penstock.parts.messages import translate_messages
from penstock.parts.parts import Audience, ChatMessage, DataPart, Role, RoleName, TextPart, ToolCallPart
from penstock.parts.wire import message_to_json

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


@pytest.mark.parametrize("name", get_args(RoleName))
def test_a_message_takes_its_role_by_name(name: RoleName) -> None:
    named, numbered = ChatMessage(name, [TextPart("Hi.")]), ChatMessage(Role[name.upper()], [TextPart("Hi.")])
    assert named == numbered
    assert named.role is Role[name.upper()]
    assert message_to_json(named) == message_to_json(numbered)
    assert translate_messages([named]) == translate_messages([numbered])
    assert replace(named, name="Ada").role is named.role


def test_every_role_has_a_name() -> None:
    assert [Role[name.upper()] for name in get_args(RoleName)] == list(Role)


@pytest.mark.parametrize("name", ["tool", "User", "developer", ""])
def test_an_unknown_role_is_refused_with_the_names_that_exist(name: str) -> None:
    with pytest.raises(ValueError, match=r"'user', 'assistant', 'system'") as refused:
        ChatMessage(name, [])  # type: ignore[arg-type]
    assert repr(name) in str(refused.value)


def test_a_number_that_is_no_role_is_kept() -> None:
    assert ChatMessage(7, []).role == 7
