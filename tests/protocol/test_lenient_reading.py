"""Every protocol type: a null or a wrong JSON type in any field is a value or a `DecodeError`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DecodeError
from penstock.protocol.content import (
    InputText,
)
from penstock.protocol.errors import ErrorBody, ErrorPayload
from penstock.protocol.request import (
    CompactRequest,
    CreateResponse,
    WebSocketCreate,
)
from penstock.protocol.response import CompactedResponse, Response
from penstock.protocol.wire import Wire, decode, encode, read, to_builtins
from tests.effort import examples
from tests.protocol.reading import JSON, back, quiet


def every_wire_type() -> list[type[Wire]]:
    def below(kind: type[Wire]) -> Iterator[type[Wire]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    return [kind for kind in below(Wire) if kind.__module__.startswith("penstock.protocol.")]


REQUIRED: dict[str, Any] = {
    "action": {"commands": []},
    "call_id": "call_1",
    "code": "tool_renamed",
    "encrypted_content": "gAAAA",
    "error": {"message": "No."},
    "id": "msg_1",
    "item": {"type": "message", "role": "user"},
    "message": "Hi",
    "model": "demo",
    "name": "add",
    "operation": {"type": "delete_file", "path": "a"},
    "part": {"type": "output_text", "text": "Hi"},
    "response": {"id": "resp_1"},
    "role": "user",
    "text": "Hi",
    "url": "https://example.com/",
    "video_url": "https://example.com/",
}
"""A value for every field that some type requires."""


def smallest(kind: type[Wire]) -> dict[str, Any]:
    """Return the smallest object that can be read as `kind`."""
    return {each.name: REQUIRED[each.name] for each in msgspec.structs.fields(kind) if each.required}


@pytest.mark.parametrize("kind", every_wire_type(), ids=lambda kind: kind.__name__)
def test_a_null_is_read_as_absent_in_every_type(kind: type[Wire]) -> None:
    optional = {each.name: None for each in msgspec.structs.fields(kind) if not each.required}
    optional.pop("extra")

    absent = to_builtins(read(smallest(kind), kind))
    nulls = to_builtins(read({**optional, **smallest(kind)}, kind))

    if kind.catch_all:
        assert nulls == {**absent, **optional}
    else:
        may_be_null = {name for name in nulls if nulls[name] is None}
        assert {name: nulls[name] for name in nulls.keys() - may_be_null} == {
            name: absent[name] for name in absent.keys() - may_be_null
        }


TOP_LEVEL = (
    CreateResponse,
    WebSocketCreate,
    CompactRequest,
    Response,
    CompactedResponse,
    ErrorBody,
)


@pytest.mark.parametrize("kind", TOP_LEVEL, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(quiet, max_examples=examples(40))
def test_any_json_is_a_value_or_a_decode_error(kind: type[Wire], data: st.DataObject) -> None:
    fields = st.dictionaries(st.sampled_from(kind.__struct_fields__), JSON, max_size=4)
    raw = data.draw(JSON | fields)
    try:
        value = decode(msgspec.json.encode(raw), kind)
    except DecodeError:
        return
    assert to_builtins(value) == back(value)
    assert decode(encode(value), kind) == value


WRONG: tuple[Any, ...] = (True, 5, 2**70, -1.5, "x", "", [], [None], [5], [[]], ["x"], {}, {"type": []})


def value_or_param(raw: Any, kind: type[Wire]) -> Wire | str:
    """Read `raw` as `kind`; return the path of the error if it is invalid. Other exceptions are failures."""
    try:
        return read(raw, kind)
    except DecodeError as error:
        return error.param


@pytest.mark.parametrize("kind", every_wire_type(), ids=lambda kind: kind.__name__)
def test_a_wrong_json_type_in_any_field_is_a_value_or_a_decode_error(kind: type[Wire]) -> None:
    for field in msgspec.structs.fields(kind):
        for wrong in WRONG:
            outcome = value_or_param({**smallest(kind), field.name: wrong}, kind)
            if isinstance(outcome, str):
                assert outcome.startswith(field.name)
            else:
                assert read(back(outcome), kind) == outcome


def test_a_value_has_a_repr_and_compares_by_value() -> None:
    assert repr(InputText(text="Hi")) == "InputText(extra=UNSET, type='input_text', text='Hi')"
    assert ErrorPayload(message="No.") == ErrorPayload(message="No.")
