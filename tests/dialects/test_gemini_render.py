"""A request as Gemini's generateContent wants it."""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from penstock.dialects.envelope import seal
from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.contents import BEGINNING, CONTINUE, UNSIGNED
from penstock.dialects.gemini.render import HANDLED, render
from penstock.dialects.gemini.schema import CleanedSchema
from penstock.dialects.gemini.thinking import EFFORTS, traits_of
from penstock.dialects.plan import Plan, Quirks, Target, UpstreamRequest
from penstock.errors import DecodeError
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import to_builtins
from tests.dialects.render_cases import (
    EVERY_ITEM,
    EVERY_TOOL,
    PATCH,
    PIXEL,
    SEARCH,
    WEATHER,
    assistant,
    call,
    codes,
    dropped,
    output,
    plan_for,
    requests,
    targets,
    user,
)
from tests.effort import examples
from tests.stream.running import run

MODEL = "gemini-3-flash-preview"
OLD = "gemini-2.5-flash"
ALL = Quirks(files=True)
PIXEL_PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
SIGNATURE = "c2lnbmVk"


def planned(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> Plan:
    plan = plan_for(request, quirks=quirks, dialect="gemini", vendor="gemini")
    return structs.replace(plan, target=structs.replace(plan.target, model=model))


def rendered(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> UpstreamRequest:
    return render(planned(request, model, quirks))


def body(request: dict[str, Any], model: str = MODEL, quirks: Quirks = ALL) -> dict[str, Any]:
    return rendered(request, model, quirks).body


def config(request: dict[str, Any], model: str = MODEL) -> dict[str, Any]:
    made: dict[str, Any] = body(request, model).get("generationConfig", {})
    return made


def signed(part: str, signature: str = SIGNATURE, summary: str = "", **payload: Any) -> dict[str, Any]:
    """As the reader seals it."""
    target = Target(model=MODEL, dialect="gemini", vendor="gemini")
    attached = "call" if part == "functionCall" else "block"
    sealed = seal(target, {"thoughtSignature": signature, "part": part, **payload}, attached=attached)
    parts = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "summary": parts, "encrypted_content": sealed}


def model_parts(items: list[dict[str, Any]], model: str = MODEL) -> list[dict[str, Any]]:
    made = body({"input": [user("?"), *items, user("!")], "tools": [WEATHER]}, model)
    parts: list[dict[str, Any]] = made["contents"][1]["parts"]
    return parts


# Where it goes


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        (MODEL, True, "models/gemini-3-flash-preview:streamGenerateContent?alt=sse"),
        (MODEL, False, "models/gemini-3-flash-preview:streamGenerateContent?alt=sse"),
        ("models/gemini-2.5-pro", True, "models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("tunedModels/mine-1", False, "tunedModels/mine-1:streamGenerateContent?alt=sse"),
    ],
)
def test_the_path_names_the_model(model: str, stream: bool, path: str) -> None:
    made = rendered({"stream": stream}, model)
    assert (made.path, made.headers) == (path, {})
    assert made.body == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    assert made.diagnostics == []


@pytest.mark.parametrize("model", ["", "../files", "a?key=b", "a#b", "a:b", "/a", "a//b", "a b"])
def test_a_name_that_would_lead_elsewhere_is_refused(model: str) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({}, model)
    assert caught.value.param == "model"


# Contents


def test_instructions_and_leading_system_items_are_the_system_instruction() -> None:
    made = body({"instructions": "A", "input": [{"role": "developer", "content": "B"}, user("hi")]})
    assert made["systemInstruction"] == {"parts": [{"text": "A\n\nB"}]}
    assert made["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_a_late_system_item_is_a_framed_user_part() -> None:
    made = body({"input": [user("one"), assistant("two"), {"role": "system", "content": "Late."}]})
    assert made["contents"][-1] == {"role": "user", "parts": [{"text": "<system>\nLate.\n</system>"}]}


def test_neighbours_of_one_role_are_one_content() -> None:
    made = body({"input": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")]})
    assert [content["role"] for content in made["contents"]] == ["user", "model", "user"]
    assert made["contents"][1]["parts"] == [{"text": "c"}, {"text": "d"}]


def test_a_tool_loop_has_its_responses_together_and_images_behind_them() -> None:
    picture = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}]
    given = [
        user("?"),
        call("a", arguments='{"city":"Ulm"}'),
        call("b"),
        output("a", picture),
        output("b", "x"),
    ]
    contents = body({"input": given, "tools": [WEATHER]}, OLD)["contents"]
    assert contents[1]["parts"] == [
        {"functionCall": {"id": "a", "name": "weather", "args": {"city": "Ulm"}}},
        {"functionCall": {"id": "b", "name": "weather", "args": {}}},
    ]
    assert contents[2] == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "a", "name": "weather", "response": {"output": "see"}}},
            {"functionResponse": {"id": "b", "name": "weather", "response": {"output": "x"}}},
            {"text": "[from the output of weather]"},
            PIXEL_PART,
        ],
    }


def test_an_output_stays_text_whatever_json_is_in_it() -> None:
    made = body({"input": [user("?"), call(), output(output='{"$ref":"#"}')], "tools": [WEATHER]})
    assert made["contents"][2]["parts"][0]["functionResponse"]["response"] == {"output": '{"$ref":"#"}'}


@pytest.mark.parametrize("arguments", ["{", "[]", '"x"'])
def test_arguments_that_are_no_object_are_wrapped_and_told(arguments: str) -> None:
    made = rendered({"input": [user("?"), call(arguments=arguments), output()], "tools": [WEATHER]})
    assert made.body["contents"][1]["parts"][0]["functionCall"]["args"] == {"arguments": arguments}
    assert "odd_arguments" in codes(made)


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    made = rendered({"input": [assistant("hello")]})
    assert [content["parts"][0]["text"] for content in made.body["contents"]] == [
        BEGINNING,
        "hello",
        CONTINUE,
    ]
    assert "turn_added" in codes(made)


@pytest.mark.parametrize("nothing", ["", [], [user([])], [{"role": "system", "content": "x"}]])
def test_nothing_to_send_is_refused(nothing: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"input": nothing})
    assert caught.value.param == "input"


# Content


def file_of(kind: str, data: bytes, **fields: str) -> dict[str, Any]:
    url = f"data:{kind};base64,{b64encode(data).decode()}"
    return {"type": "input_file", "file_data": url, **fields}


def part(given: dict[str, Any], quirks: Quirks = ALL) -> dict[str, Any]:
    made: dict[str, Any] = body({"input": [user([given])]}, quirks=quirks)["contents"][0]["parts"][0]
    return made


@pytest.mark.parametrize(
    ("given_part", "expected"),
    [
        ({"type": "input_image", "image_url": PIXEL}, PIXEL_PART),
        (
            {"type": "input_image", "image_url": "https://example.org/a.JPG?x=1"},
            {"fileData": {"fileUri": "https://example.org/a.JPG?x=1", "mimeType": "image/jpeg"}},
        ),
        (
            {"type": "input_image", "image_url": "https://example.org/a"},
            {"fileData": {"fileUri": "https://example.org/a"}},
        ),
        (
            file_of("application/pdf", b"%PDF", filename="a.pdf"),
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        ),
        (
            {"type": "input_file", "file_data": "AAAA", "filename": "a.mp3"},
            {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}},
        ),
        (
            {"type": "input_file", "file_url": "https://example.org/a"},
            {"fileData": {"fileUri": "https://example.org/a", "mimeType": "application/pdf"}},
        ),
        (file_of("text/csv", b"a,b", filename="a.csv"), {"text": "[the file 'a.csv']\na,b"}),
        (file_of("application/json", b"[1]"), {"text": "[a file]\n[1]"}),
        (
            {"type": "input_video", "video_url": "https://www.youtube.com/watch?v=x"},
            {"fileData": {"fileUri": "https://www.youtube.com/watch?v=x"}},
        ),
        (
            {"type": "input_video", "video_url": "data:video/mp4;base64,AAAA"},
            {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}},
        ),
    ],
)
def test_images_files_and_videos_are_parts(given_part: dict[str, Any], expected: dict[str, Any]) -> None:
    assert part(given_part) == expected


@pytest.mark.parametrize(
    "given_part",
    [
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_image", "image_url": "data:image/gif;base64,AAAA"},
        {"type": "input_image", "image_url": "ftp://example.org/a.png"},
        {"type": "input_file", "file_id": "file_1"},
        {"type": "input_file", "file_data": "AAAA", "filename": "a.exe"},
        {"type": "input_file", "file_data": "AAAA", "filename": "none"},
        file_of("text/plain", b"\xff"),
        {"type": "input_video", "video_url": "data:image/png;base64,AAAA"},
        {"type": "input_smell", "smell": "roses"},
    ],
)
def test_what_cannot_be_shown_leaves_a_note_and_a_diagnostic(given_part: dict[str, Any]) -> None:
    made = rendered({"input": [user([given_part])]})
    assert "left out" in made.body["contents"][0]["parts"][0]["text"]
    assert codes(made) == {"content_left_out"}


@pytest.mark.parametrize(
    "given_part",
    [
        {"type": "input_image", "image_url": PIXEL},
        {"type": "input_video", "video_url": "https://example.org/a.mp4"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        file_of("application/pdf", b"%PDF"),
    ],
)
def test_a_model_without_images_or_files_gets_notes(given_part: dict[str, Any]) -> None:
    assert "left out" in part(given_part, Quirks(images=False, files=False))["text"]


def test_the_detail_of_an_image_is_dropped_and_told() -> None:
    image = {"type": "input_image", "image_url": PIXEL, "detail": "high"}
    assert dropped(rendered({"input": [user([image])]})) == {"input_image.detail"}


# Signatures


def test_the_signature_of_a_call_goes_back_on_that_call() -> None:
    parts = model_parts(
        [assistant("so"), signed("functionCall"), call("a"), call("b"), output("a"), output("b")]
    )
    assert [each.get("thoughtSignature") for each in parts] == [None, SIGNATURE, None]


def test_each_step_has_its_own_signature() -> None:
    given = [user("?"), signed("functionCall", "UzE="), call("a"), output("a")]
    given += [signed("functionCall", "UzI="), call("b"), output("b")]
    contents = body({"input": given, "tools": [WEATHER]})["contents"]
    assert [contents[index]["parts"][0]["thoughtSignature"] for index in (1, 3)] == ["UzE=", "UzI="]


def test_a_signature_that_came_after_its_call_goes_back_on_it() -> None:
    parts = model_parts([call("a"), signed("functionCall", after=True), output("a")])
    assert [each.get("thoughtSignature") for each in parts] == [SIGNATURE]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([assistant("so"), signed("text")], [{"text": "so", "thoughtSignature": SIGNATURE}]),
        ([signed("text"), assistant("so")], [{"text": "", "thoughtSignature": SIGNATURE}, {"text": "so"}]),
        (
            [assistant("so"), signed("empty_text")],
            [{"text": "so"}, {"text": "", "thoughtSignature": SIGNATURE}],
        ),
        (
            [signed("thought", summary="Hm."), assistant("so")],
            [{"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}, {"text": "so"}],
        ),
        (
            [assistant("so"), signed("text"), signed("text", "Mg==")],
            [{"text": "so", "thoughtSignature": SIGNATURE}, {"text": "", "thoughtSignature": "Mg=="}],
        ),
    ],
)
def test_a_signature_goes_back_on_the_part_that_it_came_on(items: list[Any], expected: list[Any]) -> None:
    assert model_parts(items) == expected


def test_a_payload_without_its_part_goes_by_what_it_was_attached_to() -> None:
    target = Target(model=MODEL, dialect="gemini", vendor="gemini")
    bare = {
        attached: {
            "type": "reasoning",
            "encrypted_content": seal(target, {"thoughtSignature": "UA=="}, attached=attached),
        }
        for attached in ("call", "block")
    }
    assert model_parts([bare["call"], call("a"), output("a")])[0]["thoughtSignature"] == "UA=="
    assert model_parts([bare["block"]]) == [{"text": "", "thoughtSignature": "UA=="}]


def test_summaries_of_thoughts_are_not_sent_back() -> None:
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    made = rendered({"input": [user("?"), summary, assistant("so"), user("!")]})
    assert made.body["contents"][1]["parts"] == [{"text": "so"}]
    assert made.diagnostics == []


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "foreign"},
        signed("functionCall"),
        signed("executableCode", value={}),
        signed("inlineData"),
    ],
)
def test_reasoning_that_cannot_go_back_is_told(item: dict[str, Any]) -> None:
    made = rendered({"input": [user("?"), item, assistant("so"), user("!")]})
    assert made.body["contents"][1]["parts"] == [{"text": "so"}]
    assert [(each.code, each.count) for each in made.diagnostics] == [("reasoning_left_out", 1)]


def test_a_call_of_another_model_says_that_it_has_no_signature() -> None:
    given = {"input": [user("?"), call("a"), call("b"), output("a"), output("b")], "tools": [WEATHER]}
    made = rendered(given)
    assert [each.get("thoughtSignature") for each in made.body["contents"][1]["parts"]] == [UNSIGNED, None]
    assert codes(made) == {"unsigned_call"}
    assert "thoughtSignature" not in str(body(given, OLD))


def test_old_reasoning_is_dropped_where_the_quirk_says_so() -> None:
    given = [user("?"), assistant("so"), signed("text"), user("!")]
    made = body({"input": given}, quirks=Quirks(drops_old_reasoning=True))
    assert made["contents"][1]["parts"] == [{"text": "so"}]


@pytest.mark.parametrize(
    "parts",
    [
        [
            {"text": "I look.", "thoughtSignature": "UzA="},
            {
                "functionCall": {"id": "c1", "name": "weather", "args": {"city": "Ulm"}},
                "thoughtSignature": "UzE=",
            },
            {"functionCall": {"id": "c2", "name": "mcp__docs__search", "args": {}}},
        ],
        [
            {"functionCall": {"id": "c1", "name": "weather", "args": {}}, "thoughtSignature": "UzE="},
            {"functionCall": {"id": "c2", "name": "weather", "args": {}}, "thoughtSignature": "UzI="},
        ],
        [{"text": "Done."}, {"text": "", "thoughtSignature": "UzM="}],
        [{"text": "Hm.", "thought": True, "thoughtSignature": "UzQ="}, {"text": "Done."}],
    ],
)
def test_what_was_read_goes_back_as_it_came(parts: list[dict[str, Any]]) -> None:
    plan = planned({"input": "?", "tools": [WEATHER, SEARCH]})
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    stream, _ = run(DIALECT.read_body(plan, msgspec.json.encode(answer)), plan.request.tools or [])
    items = [to_builtins(item) for item in stream.snapshot.output]
    given = [user("?"), *items, output("c1"), output("c2"), user("!")]
    made = body({"input": given, "tools": [WEATHER, SEARCH]})
    assert made["contents"][1] == {"role": "model", "parts": parts}


# Tools


def test_every_tool_is_declared_in_order_and_what_is_none_is_told() -> None:
    made = rendered({"tools": EVERY_TOOL})
    functions = made.body["tools"][0]["functionDeclarations"]
    assert [function["name"] for function in functions] == ["weather", "apply_patch", "mcp__docs__search"]
    assert functions[0] == {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
    assert "start: /.+/" in functions[1]["description"]
    assert functions[1]["parameters"]["required"] == ["input"]
    assert sum(each.code == "tool_dropped" for each in made.diagnostics) == 4


def test_a_tool_without_parameters_has_none() -> None:
    function = body({"tools": [{"type": "function", "name": "now"}]})["tools"][0]["functionDeclarations"][0]
    assert function == {"name": "now"}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": mode, "tools": tools}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "name": "weather"}, {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        (allowed("auto", "weather"), {"mode": "VALIDATED", "allowedFunctionNames": ["weather"]}),
        (allowed("required", "weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
        (allowed("auto"), {"mode": "NONE"}),
        (allowed("none", "weather"), {"mode": "NONE"}),
    ],
)
def test_the_choice_of_tools_leaves_the_tools_as_they_are(choice: Any, expected: Any) -> None:
    made = body({"tools": [WEATHER, PATCH, SEARCH], "tool_choice": choice})
    assert made.get("toolConfig", {}).get("functionCallingConfig") == expected
    assert len(made["tools"][0]["functionDeclarations"]) == 3


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        {"tools": [WEATHER], "tool_choice": allowed("required")},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}},
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused(request_: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered(request_)
    assert caught.value.param == "tool_choice"


def test_an_upstream_without_a_choice_is_told_about() -> None:
    made = rendered({"tools": [WEATHER], "tool_choice": "required"}, quirks=Quirks(tool_choice=False))
    assert "toolConfig" not in made.body
    assert dropped(made) == {"tool_choice"}


def test_strict_is_told() -> None:
    assert dropped(rendered({"tools": [{**WEATHER, "strict": True}]})) == {"tools.strict"}


# Schemas


@pytest.mark.parametrize(
    ("schema", "expected", "changed"),
    [
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}, False),
        ({"type": "string", "format": "email"}, {"type": "string"}, False),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer"}, True),
        (
            {"type": "integer", "minimum": 1, "maximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 9},
            False,
        ),
        ({"type": ["null", "string"]}, {"type": "string", "nullable": True}, False),
        (
            {"type": ["string", "integer"], "description": "d"},
            {"description": "d", "anyOf": [{"type": "string"}, {"type": "integer"}]},
            False,
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}, False),
        ({"const": 3}, {"type": "number", "description": "One of: 3"}, False),
        ({"const": True}, {"type": "boolean", "description": "One of: true"}, False),
        ({"enum": ["a", "", None, "a"]}, {"type": "string", "enum": ["a"], "nullable": True}, False),
        (
            {"type": "integer", "enum": [1, 2], "description": "d"},
            {"type": "integer", "description": "d\nOne of: 1, 2"},
            False,
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}, False),
        ({"anyOf": [{"type": "null"}]}, {"type": "string", "nullable": True}, False),
        (
            {"oneOf": [{"type": "string"}, {"type": "boolean"}], "description": "d"},
            {"description": "d", "anyOf": [{"type": "string"}, {"type": "boolean"}]},
            False,
        ),
        (
            {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxLength": 3},
            {"type": "array", "minItems": 1, "items": {"type": "number"}},
            False,
        ),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}, True),
        (
            {"items": [{"type": "number"}, {"type": "boolean"}]},
            {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "boolean"}]}},
            True,
        ),
        ({"prefixItems": [{"type": "number"}]}, {"type": "array", "items": {"type": "number"}}, True),
        (
            {"type": "string", "pattern": "^a", "minLength": 2},
            {"type": "string", "minLength": 2, "pattern": "^a"},
            False,
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}, False),
        ({"patternProperties": {}, "properties": {}}, {"type": "object"}, True),
        ({}, {"type": "string"}, True),
        ({"type": "strange", "format": ["x"], "enum": 3, "required": 1}, {"type": "string"}, True),
    ],
)
def test_a_schema_is_written_in_what_gemini_takes(schema: Any, expected: Any, changed: bool) -> None:
    cleaned = CleanedSchema(schema)
    assert (cleaned.schema, cleaned.changed, cleaned.cut) == (expected, changed, False)


def test_a_real_schema_keeps_its_properties_whatever_they_are_called() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "x",
        "type": "object",
        "properties": {
            "$id": {"type": "string", "default": "y"},
            "format": {"$ref": "#/$defs/kind", "description": "which"},
            "tree": {"$ref": "#/$defs/tree"},
        },
        "required": ["$id", "gone", "$id", 3],
        "additionalProperties": False,
        "$defs": {
            "kind": {"type": "string", "enum": ["a", "b"]},
            "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}},
        },
    }
    cleaned = CleanedSchema(schema)
    assert cleaned.cut
    assert cleaned.schema == {
        "type": "object",
        "properties": {
            "$id": {"type": "string"},
            "format": {"type": "string", "enum": ["a", "b"], "description": "which"},
            "tree": {"type": "object", "properties": {"left": {"type": "string"}}},
        },
        "required": ["$id"],
    }
    made = rendered({"tools": [{**WEATHER, "parameters": schema}]})
    assert {"schema_cut", "schema_changed"} == codes(made)


def test_variants_of_an_object_become_one_object() -> None:
    variants = [
        {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a"]},
    ]
    for keyword in ("anyOf", "oneOf"):
        cleaned = CleanedSchema(
            {"type": "object", keyword: variants, "required": ["d"], "properties": {"d": {"type": "null"}}}
        )
        assert set(cleaned.schema["properties"]) == {"a", "b", "c", "d"}
        assert set(cleaned.schema["required"]) == {"a", "d"}
        assert cleaned.changed
    joined = CleanedSchema(
        {"allOf": [*variants, {"description": "d", "allOf": [{"minimum": 1}]}], "type": "object"}
    )
    assert set(joined.schema["properties"]) == {"a", "b", "c"}
    assert joined.schema["required"] == ["a", "b"]
    assert joined.schema["description"] == "d"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["string", "object", "null", "#", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "items",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "enum",
                    "const",
                    "$ref",
                    "required",
                    "format",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    schema=st.dictionaries(
        st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "$ref", "enum"]), _json
    )
)
@settings(max_examples=examples(100), deadline=None)
def test_any_schema_becomes_one_that_gemini_takes(schema: dict[str, Any]) -> None:
    def check(cleaned: dict[str, Any]) -> None:
        assert cleaned.keys() <= {
            *(
                "type",
                "anyOf",
                "nullable",
                "description",
                "enum",
                "format",
                "properties",
                "required",
                "items",
            ),
        }
        assert ("type" in cleaned) != ("anyOf" in cleaned)
        if cleaned.get("type") == "array":
            check(cleaned["items"])
        for inner in (*cleaned.get("properties", {}).values(), *cleaned.get("anyOf", [])):
            check(inner)
        assert set(cleaned.get("required", [])) <= set(cleaned.get("properties", {}))

    check(CleanedSchema(schema).schema)


# The answer

ANSWER = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
SCHEMA_FORMAT = {"format": {"type": "json_schema", "name": "x", "schema": ANSWER}}


def test_a_format_is_enforced() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    expected = {"responseMimeType": "application/json", "responseSchema": schema}
    assert config({"text": SCHEMA_FORMAT}) == expected
    assert config({"text": SCHEMA_FORMAT, "tools": [WEATHER]}) == expected
    assert config({"text": {"format": {"type": "json_object"}}}) == {"responseMimeType": "application/json"}
    assert config({"text": {"format": {"type": "text"}}}) == {}


def test_a_simpler_schema_for_the_answer_is_told() -> None:
    format = {"type": "json_schema", "name": "x", "schema": {"type": "object", "not": {}}}
    assert codes(rendered({"text": {"format": format, "verbosity": "low"}})) == {
        "format_weakened",
        "field_dropped",
    }


@pytest.mark.parametrize(
    ("text", "model", "quirks", "config_"),
    [
        (SCHEMA_FORMAT, OLD, ALL, None),
        ({"format": {"type": "json_object"}}, OLD, ALL, None),
        (SCHEMA_FORMAT, MODEL, Quirks(json_schema=False), {"responseMimeType": "application/json"}),
    ],
)
def test_a_format_that_cannot_be_enforced_is_asked_for_in_words(
    text: Any, model: str, quirks: Quirks, config_: Any
) -> None:
    made = rendered({"text": text, "tools": [WEATHER]}, model, quirks)
    assert made.body.get("generationConfig") == config_
    assert "Answer with one JSON" in made.body["systemInstruction"]["parts"][0]["text"]
    assert codes(made) == {"format_weakened"}


def test_a_format_that_nobody_knows_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"text": {"format": {"type": "grammar"}}})
    assert caught.value.param == "text.format.type"


@pytest.mark.parametrize(
    ("model", "effort", "expected", "told"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}, False),
        ("gemini-2.5-flash-lite", "minimal", {"thinkingBudget": 512}, False),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}, True),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32768}, False),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH"}, True),
        ("gemini-3-pro-preview", "low", {"thinkingLevel": "LOW"}, False),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "MINIMAL"}, False),
        ("gemini-3.1-flash-lite", "none", {"thinkingLevel": "MINIMAL"}, True),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}, True),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}, False),
        ("gemini-4-argon", "xhigh", {"thinkingLevel": "HIGH"}, True),
        ("gemini-4-argon", "strange", {"thinkingLevel": "MEDIUM"}, True),
        ("gemini-2.0-flash", "high", None, True),
        ("gemini-2.0-flash", "none", None, False),
        ("tunedModels/x", "high", None, True),
    ],
)
def test_an_effort_is_asked_for_in_the_manner_of_the_model(
    model: str, effort: str, expected: Any, told: bool
) -> None:
    made = rendered({"reasoning": {"effort": effort}}, model)
    assert made.body.get("generationConfig", {}).get("thinkingConfig") == expected
    assert bool(made.diagnostics) is told


def test_every_row_knows_every_effort() -> None:
    efforts = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
    assert {row: set(levels) for row, levels in EFFORTS.items()} == dict.fromkeys(EFFORTS, efforts)


def test_the_quirk_names_another_row_than_the_model() -> None:
    assert traits_of(Target(model="gemini-4-argon", quirks=Quirks(effort="budget"))).effort == "budget"


def test_a_summary_shows_thoughts() -> None:
    assert config({"reasoning": {"summary": "auto"}})["thinkingConfig"] == {"includeThoughts": True}
    assert dropped(rendered({"reasoning": {"summary": "auto"}}, "gemini-2.0-flash")) == {"reasoning.summary"}


def test_numbers_are_the_generation_config() -> None:
    request = {
        "temperature": 1.5,
        "top_p": 0.5,
        "max_output_tokens": 9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "top_logprobs": 3,
        "stop": "x",
        "seed": 7,
    }
    assert config(request) == {
        "temperature": 1.5,
        "topP": 0.5,
        "maxOutputTokens": 9,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "responseLogprobs": True,
        "logprobs": 3,
        "stopSequences": ["x"],
        "seed": 7,
    }


def test_what_is_asked_to_be_included_is_mapped_or_told() -> None:
    include = ["reasoning.encrypted_content", "message.output_text.logprobs", "web"]
    made = rendered({"include": include})
    assert made.body["generationConfig"] == {"responseLogprobs": True}
    assert dropped(made) == {"include: web"}


@pytest.mark.parametrize(
    ("tier", "sent", "gone"),
    [
        ("auto", None, set()),
        ("default", "standard", set()),
        ("flex", "flex", set()),
        ("scale", None, {"service_tier"}),
    ],
)
def test_service_tiers(tier: str, sent: str | None, gone: set[str]) -> None:
    made = rendered({"service_tier": tier})
    assert made.body.get("serviceTier") == sent
    assert dropped(made) == gone


def test_unknown_fields_are_told() -> None:
    made = rendered(
        {"stop": 3, "seed": "x", "top_k": 3, "nothing": None, "reasoning": {"context": "all_turns"}}
    )
    assert dropped(made) == {"stop", "seed", "top_k", "reasoning.context"}


SAMPLES: dict[str, Any] = {
    "input": "other",
    "instructions": "x",
    "include": ["message.output_text.logprobs"],
    "tools": [WEATHER],
    "tool_choice": "none",
    "parallel_tool_calls": False,
    "max_tool_calls": 2,
    "text": SCHEMA_FORMAT,
    "reasoning": {"effort": "low"},
    "temperature": 0.5,
    "top_p": 0.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "top_logprobs": 2,
    "max_output_tokens": 7,
    "truncation": "auto",
    "service_tier": "flex",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "user": "u",
    "extra": "x",
}


@pytest.mark.parametrize("field", CreateResponse.__struct_fields__)
def test_every_field_is_handled_as_its_row_says(field: str) -> None:
    handling = HANDLED[field]
    if handling == "gateway" or field == "model":  # the model is the target's
        return
    value: Any = SAMPLES[field]
    field = "stop" if field == "extra" else field
    needs = {"tools": [WEATHER]} if field == "tool_choice" else {}
    made, before = rendered({**needs, field: value}), rendered(needs)
    if handling == "dropped":
        assert dropped(made) == {field}
        assert made.body == before.body
    else:
        assert made.body != before.body
        assert dropped(made) == set()


def test_what_asks_for_the_usual_is_not_told() -> None:
    usual = {"truncation": "disabled", "parallel_tool_calls": True, "prompt_cache_retention": "in_memory"}
    assert rendered(usual).diagnostics == []


# Proofs

TURNS: list[list[dict[str, Any]]] = [
    [user("one")],
    [signed("functionCall", "UzE="), call("c1"), call("c2"), output("c1"), output("c2", "rain")],
    [{"role": "developer", "content": "late"}],
    [assistant("b"), signed("text"), call("c1-pk2"), output("c1-pk2")],
    [assistant("done"), user([{"type": "input_image", "image_url": PIXEL}])],
    [{"type": "reasoning", "summary": [], "encrypted_content": "foreign"}, assistant("ok"), user("bye")],
]


def parts_in(made: dict[str, Any]) -> list[Any]:
    return [(content["role"], part) for content in made["contents"] for part in content["parts"]]


@given(order=st.permutations(range(1, len(TURNS))))
@settings(max_examples=60, deadline=None)
def test_a_longer_conversation_starts_with_the_shorter_one(order: list[int]) -> None:
    turns = [TURNS[0], *(TURNS[index] for index in order)]
    request: dict[str, Any] = {"instructions": "A", "tools": [WEATHER]}
    before: dict[str, Any] = {}
    for length in range(1, len(turns) + 1):
        made = body({**request, "input": [item for turn in turns[:length] for item in turn]})
        if before:
            parts = parts_in(before)
            assert parts_in(made)[: len(parts)] == parts
            assert {**made, "contents": []} == {**before, "contents": []}
        before = made


_own = st.builds(
    signed,
    st.sampled_from(["functionCall", "text", "thought", "empty_text", "executableCode", ""]),
    st.sampled_from([SIGNATURE, ""]),
    after=st.booleans(),
)


@given(
    request=requests, own=st.lists(_own, max_size=3), target=targets, model=st.sampled_from([MODEL, OLD, "x"])
)
@settings(max_examples=examples(100), deadline=None)
def test_any_request_is_rendered_or_refused(
    request: dict[str, Any], own: list[Any], target: dict[str, Any], model: str
) -> None:
    mixed = [item for pair in zip(request["input"], [*own, *[{}] * 9], strict=False) for item in pair if item]
    try:
        made = rendered({**request, "input": mixed}, model, target["quirks"])
    except DecodeError:
        return
    roles = [content["role"] for content in made.body["contents"]]
    assert roles[0] == roles[-1] == "user"
    assert all(left != right for left, right in pairwise(roles))
    calls = 0
    for content in made.body["contents"]:
        assert content["parts"]
        assert sum("functionResponse" in each for each in content["parts"]) == calls
        calls = sum("functionCall" in each for each in content["parts"])


def test_every_item_is_accepted_by_the_vendors_own_types() -> None:
    types = pytest.importorskip("google.genai.types")
    made = body(
        {
            "instructions": "A",
            "input": [*EVERY_ITEM[:-1], signed("functionCall"), call("own"), output("own"), EVERY_ITEM[-1]],
            "tools": [*EVERY_TOOL, {**WEATHER, "name": "odd", "parameters": {"anyOf": [ANSWER]}}],
            "tool_choice": allowed("auto", "weather"),
            "text": SCHEMA_FORMAT,
            "reasoning": {"effort": "high", "summary": "auto"},
            "max_output_tokens": 5000,
            "temperature": 0.5,
            "top_logprobs": 2,
            "service_tier": "flex",
            "stop": ["x"],
        }
    )
    accept(types.GenerationConfig, made.pop("generationConfig"))
    accept(types.ToolConfig, made.pop("toolConfig"))
    accept(types.Content, made.pop("systemInstruction"))
    for tool in made.pop("tools"):
        accept(types.Tool, tool)
    for content in made.pop("contents"):
        accept(types.Content, content)
    assert types.ServiceTier(made.pop("serviceTier")) is types.ServiceTier.FLEX
    assert made == {}


def accept(type: Any, value: Any) -> None:
    """The vendor's types forbid fields that they do not know."""
    type.model_validate_json(msgspec.json.encode(value))
