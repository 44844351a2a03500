"""Tables of the fields that snapshots, items, parts and annotations must have.

They follow the published schema (2026-04-24). A `Shape` describes a JSON value, and `faults` compares a value
with its shape. Unknown fields are always allowed (spec N68), so only listed fields are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any

from msgspec import Struct


class Shape(Struct, frozen=True):
    """The allowed JSON types of a value, and the shapes of its contents."""

    types: tuple[type, ...]
    values: tuple[str, ...] = ()
    """The allowed strings; any string if empty."""
    fields: dict[str, Shape] = {}
    """Required fields of an object."""
    optional: dict[str, Shape] = {}
    """Optional fields of an object, which must be valid if present."""
    each: Shape | None = None
    """The shape of an array's members."""
    choose: Callable[[Any], Shape | None] | None = None
    """For an object: returns the additional shape for its `type`, if there is one."""


class Fault(Struct, frozen=True):
    """One field that does not match its shape."""

    path: str
    missing: bool
    message: str


def faults(value: Any, shape: Shape, path: str) -> Iterator[Fault]:
    """Yield everything in `value` that does not match `shape`. The recursion is as deep as the shape."""
    if value.__class__ not in shape.types:
        expected = " or ".join(_JSON_TYPES[kind] for kind in shape.types)
        actual = _JSON_TYPES.get(value.__class__, "not a JSON value")
        yield Fault(path, False, f"{path} is {actual}, expected {expected}")
    elif value.__class__ is str:
        if shape.values and value not in shape.values:
            yield Fault(path, False, f"{path} is {value[:40]!r}, expected one of {', '.join(shape.values)}")
    elif value.__class__ is dict:
        chosen = shape.choose(value) if shape.choose else None
        for part in (shape, chosen) if chosen else (shape,):
            yield from _object_faults(value, part, path)
    elif value.__class__ is list and shape.each is not None:
        for index, member in enumerate(value):
            yield from faults(member, shape.each, f"{path}[{index}]")


def _object_faults(value: dict[str, Any], shape: Shape, path: str) -> Iterator[Fault]:
    for name, inner in shape.fields.items():
        if name in value:
            yield from faults(value[name], inner, f"{path}.{name}")
        else:
            yield Fault(f"{path}.{name}", True, f"{path} has no `{name}`")
    for name, inner in shape.optional.items():
        if name in value:
            yield from faults(value[name], inner, f"{path}.{name}")


_JSON_TYPES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    NoneType: "null",
}

ANYTHING = Shape(tuple(_JSON_TYPES))
STRING = Shape((str,))
STRING_OR_NULL = Shape((str, NoneType))
INTEGER = Shape((int,))
INTEGER_OR_NULL = Shape((int, NoneType))
NUMBER = Shape((int, float))
BOOLEAN = Shape((bool,))
LIST = Shape((list,))
NULL = Shape((NoneType,))


def _one_of(*values: str, null: bool = False) -> Shape:
    return Shape((str, NoneType) if null else (str,), values=values)


def _record(optional: dict[str, Shape] | None = None, /, *, null: bool = False, **fields: Shape) -> Shape:
    return Shape((dict, NoneType) if null else (dict,), fields=fields, optional=optional or {})


def _by_type(table: dict[str, Shape]) -> Callable[[Any], Shape | None]:
    def choose(value: Any) -> Shape | None:
        name = value.get("type")
        return table.get(name) if isinstance(name, str) else None

    return choose


# --- parts

TOP_LOGPROB = _record(token=STRING, logprob=NUMBER, bytes=LIST)
LOGPROBS = Shape(
    (list,),
    each=_record(token=STRING, logprob=NUMBER, bytes=LIST, top_logprobs=Shape((list,), each=TOP_LOGPROB)),
)
ANNOTATIONS_BY_TYPE = {
    "url_citation": _record(url=STRING, start_index=INTEGER, end_index=INTEGER, title=STRING),
}
ANNOTATION = Shape((dict,), fields={"type": STRING}, choose=_by_type(ANNOTATIONS_BY_TYPE))
PARTS_BY_TYPE = {
    "output_text": _record({"logprobs": LOGPROBS}, text=STRING, annotations=Shape((list,), each=ANNOTATION)),
    "refusal": _record(refusal=STRING),
    "reasoning_text": _record(text=STRING),
    "summary_text": _record(text=STRING),
    "text": _record(text=STRING),
    "input_text": _record(text=STRING),
}
PART = Shape((dict,), fields={"type": STRING}, choose=_by_type(PARTS_BY_TYPE))

# --- items. Every item has a `status`, although two schemas lack it (spec N60; spec S11). Its values and
# those of `role` have rules of their own, and parts are checked when they are opened and closed.

ITEMS_BY_TYPE = {
    "message": _record({"phase": _one_of("commentary", "final_answer")}, role=STRING, content=LIST),
    "function_call": _record({"namespace": STRING}, call_id=STRING, name=STRING, arguments=STRING),
    "function_call_output": _record(call_id=STRING, output=Shape((str, list))),
    "reasoning": _record({"content": LIST, "encrypted_content": STRING}, summary=LIST),
    "compaction": _record(encrypted_content=STRING),
    "custom_tool_call": _record({"namespace": STRING}, call_id=STRING, name=STRING, input=STRING),
}
ITEM = Shape((dict,), fields={"type": STRING, "status": STRING}, choose=_by_type(ITEMS_BY_TYPE))

# --- the response

_TEXT_FORMAT = _record(type=_one_of("text"))
_FORMATS = {"text": _TEXT_FORMAT, "json_object": _record(type=_one_of("json_object"))}


def _format(schema: Shape) -> Shape:
    json_schema = _record(name=STRING, description=STRING_OR_NULL, schema=schema, strict=BOOLEAN)
    known = _one_of("text", "json_object", "json_schema")
    return Shape((dict,), fields={"type": known}, choose=_by_type({**_FORMATS, "json_schema": json_schema}))


TOOLS_BY_TYPE = {
    "function": _record(
        name=STRING,
        description=STRING_OR_NULL,
        parameters=Shape((dict, NoneType)),
        strict=Shape((bool, NoneType)),
    ),
}
"""Tools of other types are echoed as the client declared them."""

_CHOICE = _one_of("none", "auto", "required")
TOOL_CHOICES_BY_TYPE = {
    "function": _record({"name": STRING}),
    "allowed_tools": _record(tools=LIST, mode=_CHOICE),
}
TOOL_CHOICE = Shape(
    (str, dict),
    values=_CHOICE.values,
    fields={"type": STRING},
    choose=_by_type(TOOL_CHOICES_BY_TYPE),
)


def _resource(schema: Shape) -> Shape:
    """Return the shape with the 31 fields. Members of `output` are compared with the streamed items."""
    return _record(
        id=STRING,
        object=_one_of("response"),
        created_at=INTEGER,
        completed_at=INTEGER_OR_NULL,
        status=STRING,
        incomplete_details=Shape((dict, NoneType), fields={"reason": STRING}),
        model=STRING,
        previous_response_id=STRING_OR_NULL,
        instructions=STRING_OR_NULL,
        output=LIST,
        error=Shape((dict, NoneType), fields={"code": STRING, "message": STRING}),
        tools=Shape((list,), each=Shape((dict,), fields={"type": STRING}, choose=_by_type(TOOLS_BY_TYPE))),
        tool_choice=TOOL_CHOICE,
        truncation=_one_of("auto", "disabled"),
        parallel_tool_calls=BOOLEAN,
        text=_record({"verbosity": _one_of("low", "medium", "high")}, format=_format(schema)),
        top_p=NUMBER,
        presence_penalty=NUMBER,
        frequency_penalty=NUMBER,
        top_logprobs=INTEGER,
        temperature=NUMBER,
        reasoning=_record(
            null=True,
            effort=_one_of("none", "low", "medium", "high", "xhigh", null=True),
            summary=_one_of("concise", "detailed", "auto", null=True),
        ),
        usage=Shape((dict, NoneType)),
        max_output_tokens=INTEGER_OR_NULL,
        max_tool_calls=INTEGER_OR_NULL,
        store=BOOLEAN,
        background=BOOLEAN,
        service_tier=STRING,
        metadata=ANYTHING,
        safety_identifier=STRING_OR_NULL,
        prompt_cache_key=STRING_OR_NULL,
    )


RESOURCE = _resource(schema=NULL)
RESOURCE_WITH_SCHEMA = _resource(schema=Shape((dict, NoneType)))
"""For clients of OpenAI's wire format, where `text.format.schema` is the schema itself."""

ERROR_PAYLOAD = _record(type=STRING, code=STRING_OR_NULL, message=STRING, param=STRING_OR_NULL)
WEBSOCKET_ERROR = _record(code=STRING, message=STRING)
