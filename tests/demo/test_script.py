"""The steps of a turn: JSON answers, limits, usage and probabilities."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib._pydantic import to_strict_json_schema
from pydantic import BaseModel

from penstock.demo.counting import count, pieces
from penstock.errors import DecodeError
from tests.demo.asking import (
    WEATHER,
    ask,
    user,
)
from tests.dialects.render_cases import EVERY_ITEM, EVERY_TOOL, requests
from tests.effort import examples


class Person(BaseModel):
    name: str
    age: int | None
    tags: list[str]


class Family(BaseModel):
    city: str
    people: list[Person]
    kind: Person | None = None


@pytest.mark.parametrize("model", [Person, Family])
def test_strict_schemas_of_the_openai_client_are_matched(model: type[BaseModel]) -> None:
    """Use the schemas that `responses.parse` sends, and parse the answer as it does."""
    schema = to_strict_json_schema(model)
    format = {"type": "json_schema", "name": model.__name__, "strict": True, "schema": schema}
    result = ask("A family in Ulm, 3 tags", text={"format": format})
    assert jsonschema_rs.is_valid(schema, json.loads(result.text))
    assert model.model_validate_json(result.text)


def test_an_answer_in_json_is_one_object() -> None:
    assert json.loads(ask("Some JSON, please", text={"format": {"type": "json_object"}}).text)["words"] == 3


def test_an_answer_that_may_not_match_is_reported() -> None:
    format = {"type": "json_schema", "name": "n", "schema": {"type": "integer", "minimum": 2, "maximum": 1}}
    result = ask("Hello.", text={"format": format})
    assert [each["code"] for each in result.response["diagnostics"]] == ["schema_not_kept"]
    assert json.loads(result.text) is None


def test_max_output_tokens_stops_in_the_middle() -> None:
    whole = ask("Hello.").text
    result = ask("Hello.", max_output_tokens=16)
    assert result.response["status"] == "incomplete"
    assert result.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert result.text == "".join(pieces(whole)[:16])
    assert result.response["usage"]["output_tokens"] == 16
    assert [item["status"] for item in result.output] == ["incomplete"]


def test_reasoning_counts_towards_the_limit() -> None:
    result = ask("Think.", max_output_tokens=5)
    assert [item["type"] for item in result.output] == ["reasoning"]
    assert result.response["usage"]["output_tokens_details"]["reasoning_tokens"] == 5


@pytest.mark.parametrize("limit", range(8))
def test_a_call_can_be_cut_anywhere(limit: int) -> None:
    result = ask("The weather in San Francisco, CA?", tools=[WEATHER], max_output_tokens=limit)
    whole = limit >= 5
    assert result.response["status"] == ("completed" if whole else "incomplete")
    statuses = [item["status"] for item in result.output]
    assert statuses == (["completed"] if whole else ["incomplete"] * bool(limit))


def test_a_limit_that_is_just_enough_changes_nothing() -> None:
    spent = ask("Hello.").response["usage"]["output_tokens"]
    assert ask("Hello.", max_output_tokens=spent).response["status"] == "completed"
    assert ask("Hello.", max_output_tokens=spent - 1).response["status"] == "incomplete"


def test_usage_is_counted_and_history_is_cached() -> None:
    first = ask("one two three", instructions="four five")
    usage = first.response["usage"]
    assert usage["input_tokens"] == 5
    assert usage["output_tokens"] == count(first.text)
    assert usage["input_tokens_details"]["cached_tokens"] == 0
    given = [user("one two three"), *first.output, user("six")]
    second = ask({"input": given}, instructions="four five").response["usage"]
    assert second["input_tokens"] == 6 + usage["output_tokens"]
    assert second["input_tokens_details"]["cached_tokens"] == 5


def test_probabilities_come_with_every_word() -> None:
    result = ask("say exactly: one two", include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = result.output[0]["content"][0]["logprobs"]
    assert [each["token"] for each in logprobs] == ["one", " two"]
    assert all(each["logprob"] <= 0 and len(each["top_logprobs"]) == 2 for each in logprobs)
    assert bytes(logprobs[1]["bytes"]) == b" two"
    assert ask("say exactly: one").output[0]["content"][0]["logprobs"] == []


@settings(max_examples=examples(200), deadline=None)
@given(requests, st.sampled_from([None, 0, 3, 20]))
def test_every_request_ends_in_one_terminal(request: dict[str, Any], limit: int | None) -> None:
    """`ask` checks the stream. An invalid request is refused before that."""
    more = {} if limit is None else {"max_output_tokens": limit}
    try:
        result = ask(request, **more)
    except DecodeError:
        return
    assert result.response["status"] in ("completed", "incomplete")


def test_every_kind_of_item_and_tool_is_accepted() -> None:
    result = ask({"input": EVERY_ITEM, "tools": EVERY_TOOL})
    assert result.response["status"] == "completed"


def test_half_a_surrogate_pair_in_a_prompt_is_harmless() -> None:
    result = ask("say exactly: a\ud83d b")
    assert result.text == "a\ufffd b"
    assert "\ufffd" in ask("\ud83d").text
    assert ask("\ud83d", tools=[WEATHER], tool_choice="required").response["status"] == "completed"
