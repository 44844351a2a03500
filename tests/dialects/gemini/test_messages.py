"""A history as Gemini's contents."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.envelope import seal
from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.messages import BEGINNING, CONTINUE, UNSIGNED
from penstock.dialects.plan import Quirks, Target
from penstock.errors import DecodeError
from penstock.protocol.wire import to_builtins
from tests.dialects.gemini.rendered_requests import (
    MODEL,
    OLD,
    PIXEL_PART,
    SIGNATURE,
    body,
    planned,
    rendered,
    signed,
)
from tests.dialects.render_cases import (
    PIXEL,
    SEARCH,
    WEATHER,
    assistant,
    call,
    codes,
    output,
    user,
)
from tests.stream.running import run


def model_parts(items: list[dict[str, Any]], model: str = MODEL) -> list[dict[str, Any]]:
    result = body({"input": [user("?"), *items, user("!")], "tools": [WEATHER]}, model)
    parts: list[dict[str, Any]] = result["contents"][1]["parts"]
    return parts


def test_instructions_and_leading_system_items_are_the_system_instruction() -> None:
    result = body({"instructions": "A", "input": [{"role": "developer", "content": "B"}, user("hi")]})
    assert result["systemInstruction"] == {"parts": [{"text": "A\n\nB"}]}
    assert result["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_a_late_system_item_is_a_framed_user_part() -> None:
    result = body({"input": [user("one"), assistant("two"), {"role": "system", "content": "Late."}]})
    assert result["contents"][-1] == {"role": "user", "parts": [{"text": "<system>\nLate.\n</system>"}]}


def test_adjacent_turns_of_one_role_are_one_content() -> None:
    result = body({"input": [user("a"), user("b"), assistant("c"), assistant("d"), user("e")]})
    assert [content["role"] for content in result["contents"]] == ["user", "model", "user"]
    assert result["contents"][1]["parts"] == [{"text": "c"}, {"text": "d"}]


def test_a_tool_loop_has_its_responses_first_and_then_images() -> None:
    picture = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}]
    history = [
        user("?"),
        call("a", arguments='{"city":"Ulm"}'),
        call("b"),
        output("a", picture),
        output("b", "x"),
    ]
    contents = body({"input": history, "tools": [WEATHER]}, OLD)["contents"]
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


def test_an_output_with_json_stays_text() -> None:
    result = body({"input": [user("?"), call(), output(output='{"$ref":"#"}')], "tools": [WEATHER]})
    assert result["contents"][2]["parts"][0]["functionResponse"]["response"] == {"output": '{"$ref":"#"}'}


@pytest.mark.parametrize("arguments", ["{", "[]", '"x"'])
def test_arguments_that_are_not_an_object_are_wrapped_and_reported(arguments: str) -> None:
    result = rendered({"input": [user("?"), call(arguments=arguments), output()], "tools": [WEATHER]})
    assert result.body["contents"][1]["parts"][0]["functionCall"]["args"] == {"arguments": arguments}
    assert "odd_arguments" in codes(result)


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    result = rendered({"input": [assistant("hello")]})
    assert [content["parts"][0]["text"] for content in result.body["contents"]] == [
        BEGINNING,
        "hello",
        CONTINUE,
    ]
    assert "turn_added" in codes(result)


@pytest.mark.parametrize("nothing", ["", [], [user([])], [{"role": "system", "content": "x"}]])
def test_empty_input_is_rejected(nothing: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        rendered({"input": nothing})
    assert caught.value.param == "input"


def test_the_signature_of_a_call_is_sent_back_on_the_call() -> None:
    parts = model_parts(
        [assistant("so"), signed("functionCall"), call("a"), call("b"), output("a"), output("b")]
    )
    assert [each.get("thoughtSignature") for each in parts] == [None, SIGNATURE, None]


def test_each_step_has_its_own_signature() -> None:
    history = [user("?"), signed("functionCall", "UzE="), call("a"), output("a")]
    history += [signed("functionCall", "UzI="), call("b"), output("b")]
    contents = body({"input": history, "tools": [WEATHER]})["contents"]
    assert [contents[index]["parts"][0]["thoughtSignature"] for index in (1, 3)] == ["UzE=", "UzI="]


def test_a_signature_that_arrived_after_its_call_is_sent_back_on_the_call() -> None:
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
def test_a_signature_is_sent_back_on_its_part(items: list[Any], expected: list[Any]) -> None:
    assert model_parts(items) == expected


def test_a_payload_without_a_part_uses_what_it_was_attached_to() -> None:
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
    result = rendered({"input": [user("?"), summary, assistant("so"), user("!")]})
    assert result.body["contents"][1]["parts"] == [{"text": "so"}]
    assert result.diagnostics == []


def test_parts_of_server_tools_are_sent_back_as_sealed_and_their_items_are_not_reported() -> None:
    used = [signed("executableCode", value={"code": "1"}), {"type": "code_interpreter_call", "id": "ci_1"}]
    result = rendered({"input": [user("?"), *used, assistant("so"), user("!")]})
    code = {"executableCode": {"code": "1"}, "thoughtSignature": SIGNATURE}
    assert result.body["contents"][1]["parts"] == [code, {"text": "so"}]
    assert result.diagnostics == []


def test_the_sealed_text_of_a_signed_thought_takes_precedence() -> None:
    (part,) = model_parts([signed("thought", text="as sent")])
    assert part == {"text": "as sent", "thought": True, "thoughtSignature": SIGNATURE}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "foreign"},
        signed("functionCall"),
        signed("executableCode"),
        signed("inlineData"),
    ],
)
def test_reasoning_that_cannot_be_sent_back_is_reported(item: dict[str, Any]) -> None:
    result = rendered({"input": [user("?"), item, assistant("so"), user("!")]})
    assert result.body["contents"][1]["parts"] == [{"text": "so"}]
    assert [(each.code, each.count) for each in result.diagnostics] == [("reasoning_left_out", 1)]


def test_a_call_by_another_model_gets_the_unsigned_placeholder() -> None:
    request = {"input": [user("?"), call("a"), call("b"), output("a"), output("b")], "tools": [WEATHER]}
    result = rendered(request)
    assert [each.get("thoughtSignature") for each in result.body["contents"][1]["parts"]] == [UNSIGNED, None]
    assert codes(result) == {"unsigned_call"}
    assert "thoughtSignature" not in str(body(request, OLD))


def test_old_reasoning_is_dropped_if_the_quirk_is_set() -> None:
    history = [user("?"), assistant("so"), signed("text"), user("!")]
    result = body({"input": history}, quirks=Quirks(drops_old_reasoning=True))
    assert result["contents"][1]["parts"] == [{"text": "so"}]


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
def test_what_was_read_is_sent_back_unchanged(parts: list[dict[str, Any]]) -> None:
    plan = planned({"input": "?", "tools": [WEATHER, SEARCH]})
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    stream, _ = run(DIALECT.read_body(plan, msgspec.json.encode(answer)), plan.request.tools or [])
    items = [to_builtins(item) for item in stream.snapshot.output]
    history = [user("?"), *items, output("c1"), output("c2"), user("!")]
    result = body({"input": history, "tools": [WEATHER, SEARCH]})
    assert result["contents"][1] == {"role": "model", "parts": parts}


TURNS: list[list[dict[str, Any]]] = [
    [user("one")],
    [signed("functionCall", "UzE="), call("c1"), call("c2"), output("c1"), output("c2", "rain")],
    [{"role": "developer", "content": "late"}],
    [assistant("b"), signed("text"), call("c1-pk2"), output("c1-pk2")],
    [assistant("done"), user([{"type": "input_image", "image_url": PIXEL}])],
    [{"type": "reasoning", "summary": [], "encrypted_content": "foreign"}, assistant("ok"), user("bye")],
]


def parts_in(result: dict[str, Any]) -> list[Any]:
    return [(content["role"], part) for content in result["contents"] for part in content["parts"]]


@given(order=st.permutations(range(1, len(TURNS))))
@settings(max_examples=60, deadline=None)
def test_a_longer_conversation_starts_with_the_shorter_one(order: list[int]) -> None:
    turns = [TURNS[0], *(TURNS[index] for index in order)]
    request: dict[str, Any] = {"instructions": "A", "tools": [WEATHER]}
    before: dict[str, Any] = {}
    for length in range(1, len(turns) + 1):
        result = body({**request, "input": [item for turn in turns[:length] for item in turn]})
        if before:
            parts = parts_in(before)
            assert parts_in(result)[: len(parts)] == parts
            assert {**result, "contents": []} == {**before, "contents": []}
        before = result


def output_with(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [user("go"), call(), output(output=list(parts))]


IMAGE: dict[str, Any] = {"type": "input_image", "image_url": PIXEL}
INLINE = {"inlineData": {"mimeType": "image/png", "data": PIXEL.partition(",")[2]}}


def test_an_image_in_a_tool_output_is_part_of_the_functions_response() -> None:
    """Field F13: since Gemini 3, a response of a function may contain images."""
    parts = body(
        {"input": output_with({"type": "input_text", "text": "seen"}, IMAGE)}, "gemini-3-pro-preview"
    )
    (response,) = parts["contents"][-1]["parts"]
    assert response["functionResponse"]["response"] == {"output": "seen"}
    assert response["functionResponse"]["parts"] == [INLINE]


def test_an_older_model_gets_the_image_after_the_response() -> None:
    """Field F13."""
    found = body({"input": output_with(IMAGE)}, "gemini-2.5-flash")["contents"][-1]["parts"]
    assert "parts" not in found[0]["functionResponse"]
    assert found[1:] == [{"text": "[from the output of weather]"}, INLINE]


def test_media_that_a_response_cannot_contain_follows_it() -> None:
    address = {"type": "input_image", "image_url": "https://example.org/a.png"}
    found = body({"input": output_with(address)}, "gemini-3-pro-preview")["contents"][-1]["parts"]
    assert "parts" not in found[0]["functionResponse"]
    assert "fileData" in found[2]
