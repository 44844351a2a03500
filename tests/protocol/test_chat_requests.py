"""Forms of Chat Completions in a request: what is refused, and what the error says."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import DecodeError
from penstock.protocol.chat_requests import (
    CALLS,
    FIELDS,
    NESTED,
    PARTS,
    ROLES,
    ignored_chat_fields,
    refuse_chat_items,
    refuse_chat_request,
)
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import read
from tests.protocol.chat_habits import BOTH_FORMS, HABITS, HARMLESS, Habit, Json, written

FORMS = {**FIELDS, **NESTED, **ROLES, **CALLS, **PARTS}


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_a_chat_habit_is_refused_by_its_path_with_what_to_write(habit: Habit) -> None:
    with pytest.raises(DecodeError) as refused:
        refuse_chat_request(habit.fields)
    assert refused.value.code == "invalid_request"
    assert refused.value.param == habit.param
    assert all(habit.write in example for example in written(refused.value.message))


@pytest.mark.parametrize("name", FORMS)
def test_every_example_is_a_request_that_is_not_refused(name: str) -> None:
    assert FORMS[name].examples
    for example in FORMS[name].examples:
        refuse_chat_request(example)
        assert not read({"input": "Hi", **example}, CreateResponse).extra


@pytest.mark.parametrize("fields", [*BOTH_FORMS.values(), *HARMLESS.values()], ids=[*BOTH_FORMS, *HARMLESS])
def test_a_request_that_has_the_responses_form_too_is_accepted(fields: Json) -> None:
    refuse_chat_request(fields)


def test_every_field_of_chat_is_tried_in_both_forms() -> None:
    assert BOTH_FORMS.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", BOTH_FORMS)
def test_a_chat_field_next_to_the_responses_form_is_reported(name: str) -> None:
    ((found, message),) = ignored_chat_fields(read(BOTH_FORMS[name], CreateResponse).extra or {})
    assert found == name
    assert f"{FIELDS[name].instead} is used" in message


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"n": 2}, "send the request again"),
        ({"logprobs": True}, "message.output_text.logprobs"),
        ({"web_search_options": {}}, "web_search"),
        ({"n": 1, "logprobs": False, "web_search_options": None, "stop": "x"}, None),
    ],
)
def test_a_chat_field_that_can_be_ignored_is_reported_with_what_to_write(
    fields: Json, hint: str | None
) -> None:
    refuse_chat_request({"input": "Hi", **fields})
    messages = [message for _, message in ignored_chat_fields(fields)]
    assert len(messages) == (hint is not None)
    assert hint is None or hint in messages[0]


def test_the_path_names_the_list_that_has_the_item() -> None:
    with pytest.raises(DecodeError) as refused:
        refuse_chat_items([{"role": "tool", "content": "5"}], "items")
    assert refused.value.param == "items[0].role"


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        "messages",
        {"input": 5, "tools": "function", "tool_choice": "function", "text": ["format"]},
        {"input": [None, {"role": ["tool"]}, {"role": "user", "content": [None, {"type": ["file"]}]}]},
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "5", "role": "tool"}]},
        {"tools": [None, {"type": "function", "function": None}], "tool_choice": {"function": None}},
    ],
)
def test_any_other_json_is_left_to_the_reader(raw: Any) -> None:
    refuse_chat_request(raw)
