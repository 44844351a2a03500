"""The reader and the writer underneath all protocol types."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from penstock.errors import DecodeError
from penstock.protocol import wire
from penstock.protocol.content import InputText, OutputText
from penstock.protocol.events import (
    EVENTS,
    ArgumentsDeltaEvent,
    CustomInputDeltaEvent,
    Event,
    OutputTextDeltaEvent,
    ReasoningDeltaEvent,
    RefusalDeltaEvent,
    SummaryDeltaEvent,
)
from penstock.protocol.items import Message
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.tools import FunctionTool, NamespaceTool
from penstock.protocol.wire import Wire, decode, encode, parse, read, to_builtins
from tests.protocol.samples import samples


class Leaf(Wire, kw_only=True):
    implied_by: ClassVar[str] = "leaf"

    type: str = "leaf"
    leaf: str
    count: int = 3
    note: str | UnsetType | None = UNSET


class Weight(Wire):
    weight: float = 0


class Branch(Wire):
    type: str = "branch"
    below: list[Leaf | Branch] = []
    weight: float | UnsetType = UNSET
    pair: Leaf | UnsetType = UNSET


class Other(Wire):
    catch_all: ClassVar[bool] = True

    type: str = ""
    note: str | UnsetType = UNSET


class Holder(Wire):
    closed: Leaf | Branch | UnsetType = UNSET
    open: Leaf | Branch | Other | UnsetType = UNSET
    mixed: str | list[int] | Leaf | UnsetType | None = UNSET
    amount: float | UnsetType | None = UNSET
    whole: int | UnsetType | None = UNSET
    sparse: list[int | None] | UnsetType = UNSET
    anything: Any = UNSET


# Writing


@pytest.mark.parametrize("event", samples(), ids=lambda event: str(event.type))
def test_the_fast_path_writes_the_same_json(event: Event) -> None:
    """An unknown field `x: {}` forces the slow path; nothing else may differ."""
    slow = msgspec.json.decode(encode(replace(event, extra={**(event.extra or {}), "x": {}})))
    assert slow.pop("x") == {}
    assert slow == msgspec.json.decode(encode(event)) == to_builtins(event)


@pytest.mark.parametrize(
    "kind",
    [
        ArgumentsDeltaEvent,
        CustomInputDeltaEvent,
        OutputTextDeltaEvent,
        ReasoningDeltaEvent,
        RefusalDeltaEvent,
        SummaryDeltaEvent,
    ],
)
def test_a_delta_is_written_by_msgspec_alone(kind: type[Event], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_spread", None)
    assert encode(kind()) == msgspec.json.encode(kind())


def test_one_line_with_every_declared_field_and_no_unset_one() -> None:
    assert encode(Leaf(leaf="a\nb")) == b'{"type":"leaf","leaf":"a\\nb","count":3}'
    assert encode(Leaf(leaf="", note=None)) == b'{"type":"leaf","leaf":"","count":3,"note":null}'


def test_unknown_fields_are_written_at_every_depth() -> None:
    leaf = Leaf(leaf="x", extra={"l": 1})
    branch = Branch(
        below=[Branch(below=[leaf], extra={"m": [None]}), Leaf(leaf="y")], pair=leaf, extra={"b": {}}
    )
    written_leaf = {"type": "leaf", "leaf": "x", "count": 3, "l": 1}
    expected = {
        "type": "branch",
        "below": [
            {"type": "branch", "below": [written_leaf], "m": [None]},
            {"type": "leaf", "leaf": "y", "count": 3},
        ],
        "pair": written_leaf,
        "b": {},
    }
    assert to_builtins(branch) == expected
    assert msgspec.json.decode(encode(branch)) == expected
    assert decode(encode(branch), Branch) == branch


def test_an_unknown_field_deep_below_does_not_disturb_its_neighbours() -> None:
    clean = Message(role="user", content=[InputText(text="a")])
    odd = Message(role="user", content=[InputText(text="a", extra={"x": 1}), InputText(text="b")])
    written = to_builtins(Response(id="resp_1", output=[clean, odd]))["output"]
    assert written[0] == to_builtins(clean)
    assert written[1]["content"] == [
        {"type": "input_text", "text": "a", "x": 1},
        {"type": "input_text", "text": "b"},
    ]


def test_a_field_called_extra_is_an_unknown_field_like_any_other() -> None:
    sent = {"type": "leaf", "leaf": "x", "count": 3, "extra": {"extra": None}}
    assert read(sent, Leaf).extra == {"extra": {"extra": None}}
    assert to_builtins(read(sent, Leaf)) == sent


def test_an_empty_extra_writes_nothing() -> None:
    assert encode(Leaf(leaf="x", extra={})) == encode(Leaf(leaf="x"))


def test_plain_values_are_written_too() -> None:
    assert encode({"a": [Leaf(leaf="x")]}) == b'{"a":[{"type":"leaf","leaf":"x","count":3}]}'
    assert encode([Leaf(leaf="x", extra={"l": 1})]) == b'[{"type":"leaf","leaf":"x","count":3,"l":1}]'
    assert to_builtins(["a", None]) == ["a", None]


def test_writing_does_not_change_the_value() -> None:
    extra = {"x": [1]}
    message = Message(role="user", content=[OutputText(text="a", extra=extra)], extra=extra)
    to_builtins(message)["x"] = 2
    encode(message)
    assert message == Message(role="user", content=[OutputText(text="a", extra=extra)], extra={"x": [1]})


# Reading


def test_absent_fields_have_their_defaults() -> None:
    assert read({"leaf": "x"}, Leaf) == Leaf(leaf="x", count=3)


def test_defaults_are_not_shared() -> None:
    read({}, Branch).below.append(Leaf(leaf="x"))
    assert read({}, Branch).below == []


def test_a_field_is_null_only_if_its_type_allows_it() -> None:
    assert read({"leaf": "x", "note": None, "count": None}, Leaf) == Leaf(leaf="x", note=None)
    with pytest.raises(DecodeError, match="leaf: is required"):
        read({"leaf": None}, Leaf)


def test_union_members_are_chosen_by_type() -> None:
    assert read({"open": {"type": "branch"}}, Holder).open == Branch()
    assert read({"open": {"type": "twig", "note": "x"}}, Holder).open == Other(type="twig", note="x")
    assert read({"open": {"leaf": "x"}}, Holder).open == Leaf(leaf="x")
    assert read({"open": {"type": None, "leaf": "x"}}, Holder).open == Leaf(leaf="x")
    assert read({"open": {"type": "twig", "leaf": "x"}}, Holder).open == Other(
        type="twig", extra={"leaf": "x"}
    )


def test_a_catch_all_preserves_nulls() -> None:
    sent = {"open": {"type": "twig", "note": None, "x": None}}
    assert to_builtins(read(sent, Holder)) == sent


def test_a_union_without_a_catch_all_names_its_members() -> None:
    odds: list[dict[str, Any]] = [{"type": "twig"}, {"type": []}, {}]
    for odd in odds:
        with pytest.raises(DecodeError, match=r"closed\.type: expected one of branch, leaf"):
            read({"closed": odd}, Holder)


def test_a_union_accepts_the_json_types_of_its_members() -> None:
    for value in ("x", [1, 2], None):
        assert read({"mixed": value}, Holder).mixed == value
    assert read({"mixed": {"type": "leaf", "leaf": "x"}}, Holder).mixed == Leaf(leaf="x")
    with pytest.raises(DecodeError, match="mixed: expected a string or an array or an object, got a boolean"):
        read({"mixed": True}, Holder)
    with pytest.raises(DecodeError, match=r"mixed\[1\]: expected an integer, got a string"):
        read({"mixed": [1, "2"]}, Holder)


def test_a_number_is_written_as_it_was_read() -> None:
    for data in (b'{"weight":1}', b'{"weight":1.0}', b'{"weight":-0.5}'):
        assert encode(decode(data, Weight)) == data


def test_integers_and_floats_are_interchangeable_without_loss() -> None:
    assert read({"amount": 1, "whole": 2.0}, Holder) == Holder(amount=1, whole=2)
    assert encode(read({"amount": 1, "whole": 2.0}, Holder)) == b'{"amount":1,"whole":2}'
    assert read({"amount": None, "whole": None}, Holder) == Holder(amount=None, whole=None)
    assert read({"sparse": [1.0, None]}, Holder) == Holder(sparse=[1, None])
    for wrong in ({"whole": 2.5}, {"whole": True}, {"amount": True}, {"amount": "1"}):
        with pytest.raises(DecodeError):
            read(wrong, Holder)


def test_a_field_of_type_any_accepts_any_value() -> None:
    values: list[Any] = [None, 1, [{}], {"type": 5}]
    for value in values:
        assert to_builtins(read({"anything": value}, Holder)) == {"anything": value}


def test_a_type_may_contain_itself() -> None:
    deep = {"type": "branch", "below": [{"type": "branch", "below": [{"leaf": "x"}]}]}
    assert read(deep, Branch) == Branch(below=[Branch(below=[Leaf(leaf="x")])])


def test_the_path_of_an_error_has_fields_and_indexes() -> None:
    raw = {
        "below": [{"leaf": "x"}, {"type": "branch", "below": [{"type": "leaf", "leaf": "y", "count": "z"}]}]
    }
    with pytest.raises(DecodeError) as caught:
        read(raw, Branch)
    assert caught.value.param == "below[1].below[0].count"
    assert caught.value.message == "expected an integer, got a string"


@pytest.mark.parametrize("raw", [None, 5, "x", [], True, 1.5])
def test_a_value_that_is_not_an_object_is_refused(raw: Any) -> None:
    with pytest.raises(DecodeError, match="expected an object, got"):
        read(raw, Branch)
    with pytest.raises(DecodeError, match=r"below\[0\]: expected an object, got"):
        read({"below": [raw]}, Branch)


def test_a_list_field_accepts_only_a_list() -> None:
    with pytest.raises(DecodeError, match="below: expected an array, got an object"):
        read({"below": {}}, Branch)


def test_json_that_cannot_be_parsed_is_a_decode_error() -> None:
    for data in (b"", b"{", b"\xff", "\ud800", b"1e999"):
        with pytest.raises(DecodeError, match="not valid JSON"):
            parse(data)
    with pytest.raises(DecodeError, match="nested too deeply"):
        parse(b"[" * 100_000)
    assert parse('{"a":"é"}') == {"a": "é"} == parse('{"a":"é"}'.encode())


LEAVES = sorted(
    {kind for kind in EVENTS.values() if wire._is_leaf(kind)}
    | {Leaf, InputText, FunctionTool, CreateResponse},
    key=lambda kind: kind.__name__,
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-9, 9).map(float)
    | st.text(max_size=3)
    | st.sampled_from([[], [{}], [{"token": "x", "y": None}], [1], {}, {"a": 1.0}])
)


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
def test_the_fast_path_reads_the_same_value(kind: type[Wire], data: st.DataObject) -> None:
    """msgspec reads plain objects; reading field by field gives the same value, or fails too."""
    names = [name for name in kind.__struct_fields__ if name != "extra"]
    raw = data.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=len(names)))

    def outcome(reader: wire.Reader) -> tuple[Any, Any]:
        try:
            value = reader(raw)
        except DecodeError as error:
            return str(error), None
        return value, encode(value)

    table = wire._field_table(kind)
    assert outcome(wire._reader(kind)) == outcome(lambda raw: wire._read_fields(raw, kind, table))


def test_plain_objects_are_read_by_msgspec_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"type": "response.output_text.delta", "delta": "x", "logprobs": [], "sequence_number": 1}
    monkeypatch.setattr(wire, "_read_fields", None)
    assert read(raw, OutputTextDeltaEvent) == OutputTextDeltaEvent(delta="x", sequence_number=1)


# The types themselves


def test_values_are_frozen_and_created_by_keyword() -> None:
    leaf = Leaf(leaf="x")
    with pytest.raises(AttributeError):
        leaf.leaf = "y"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Leaf("x")  # type: ignore[call-arg, arg-type]
    assert replace(leaf, leaf="y") == Leaf(leaf="y")


def test_a_namespace_echoes_a_description_even_without_one() -> None:
    assert to_builtins(NamespaceTool(name="a")) == {
        "type": "namespace",
        "name": "a",
        "description": "",
        "tools": [],
    }
