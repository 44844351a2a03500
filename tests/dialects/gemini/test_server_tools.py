"""Server tools of Gemini become items (quirk G9)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from penstock.dialects.gemini import DIALECT
from penstock.dialects.gemini.server_tools import GeminiServerTools, image
from penstock.protocol.items import WebSearchCall
from penstock.stream.deltas import DiagnosticDelta, ItemDelta
from tests.dialects.gemini.streams import chunk
from tests.dialects.recording_checks import (
    response,
)


def test_executed_code_is_an_item_and_not_a_call() -> None:
    parts: list[dict[str, Any]] = [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"executableCode": {"code": "never()"}},
        {"text": "done"},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no", "id": "unknown"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    ]
    output = response(DIALECT, [chunk(*parts, finish="STOP")])["output"]
    assert [(item["type"], item["status"], item.get("code")) for item in output] == [
        ("code_interpreter_call", "completed", "print(1)"),
        ("code_interpreter_call", "failed", "never()"),
        ("message", "completed", None),
        ("code_interpreter_call", "completed", ""),
    ]
    assert output[0]["outputs"] == [{"type": "logs", "logs": "1\n"}]


def test_a_result_without_an_id_belongs_to_the_latest_code() -> None:
    parts: list[dict[str, Any]] = [
        {"executableCode": {"code": "one"}},
        {"executableCode": {"code": "two"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
    ]
    output = response(DIALECT, [chunk(*parts, finish="STOP")])["output"]
    assert [(item["code"], bool(item["outputs"])) for item in output] == [("one", False), ("two", True)]


def test_server_side_calls_are_items_and_not_calls() -> None:
    parts: list[dict[str, Any]] = [
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1", "args": {"queries": ["a", "b"]}}},
        {"toolCall": {"toolType": "URL_CONTEXT", "id": "2", "args": {"url": "https://a.example"}}},
        {"toolCall": {"toolType": "FILE_SEARCH", "id": "3"}},
        {"toolResponse": {"toolType": "URL_CONTEXT", "id": "2"}},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1", "response": {}}},
        {"toolResponse": {"toolType": "FILE_SEARCH", "id": "3"}},
        {"toolResponse": {"toolType": "FILE_SEARCH", "id": "4"}},
        {"toolCall": {"toolType": "TIME_MACHINE"}},
    ]
    ended = chunk(*parts, finish="STOP", groundingMetadata={"webSearchQueries": ["a", "b"]})
    snapshot = response(DIALECT, [ended])
    assert [(item["type"], item["status"]) for item in snapshot["output"]] == [
        ("web_search_call", "completed"),
        ("web_search_call", "completed"),
        ("file_search_call", "completed"),
    ]
    assert snapshot["output"][0]["action"]["queries"] == ["a", "b"]
    assert snapshot["output"][1]["action"] == {"type": "open_page", "url": "https://a.example"}
    assert [each["code"] for each in snapshot["diagnostics"]] == ["left_out", "left_out"]


def test_generated_images_are_items_and_other_data_is_reported() -> None:
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "S"},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True},
        {"fileData": {"fileUri": "gs://a/b", "mimeType": "video/mp4"}},
        {"somethingNew": {}, "other": None},
    ]
    snapshot = response(DIALECT, [chunk(*parts, finish="STOP")])
    assert [item["type"] for item in snapshot["output"]] == ["reasoning", "image_generation_call"]
    assert (snapshot["output"][1]["result"], snapshot["output"][1]["output_format"]) == ("AAAA", "png")
    messages = " ".join(each["message"] for each in snapshot["diagnostics"])
    for content in ("audio/wav", "image/png", "gs://a/b", "somethingNew"):
        assert content in messages


def test_a_result_with_an_id_belongs_to_its_call() -> None:
    tools = GeminiServerTools(count())
    for id in ("1", "2"):
        tools.read("toolCall", {"toolType": "GOOGLE_SEARCH", "id": id, "args": {"query": f"q{id}"}})
    (delta,) = tools.read("toolResponse", {"toolType": "GOOGLE_SEARCH", "id": "1"})
    assert isinstance(delta, ItemDelta)
    assert (delta.key, getattr(delta.item, "status", None), delta.done) == (0, "completed", True)
    (delta,) = tools.read("toolResponse", {"toolType": "GOOGLE_SEARCH", "id": "1"})
    assert isinstance(delta, DiagnosticDelta)


@pytest.mark.parametrize(
    ("arguments", "queries"),
    [
        ({"queries": ["a", "", 3, "b"]}, ["a", "b"]),
        ({"query": "a"}, ["a"]),
        ({"queries": "a", "query": "b"}, ["b"]),
        ({}, []),
        ("a", []),
    ],
)
def test_the_queries_of_a_search_are_a_list_or_a_text(arguments: Any, queries: list[str]) -> None:
    call = {"toolType": "GOOGLE_SEARCH", "args": arguments}
    (delta,) = GeminiServerTools(count()).read("toolCall", call)
    assert isinstance(delta, ItemDelta)
    assert isinstance(delta.item, WebSearchCall)
    assert isinstance(delta.item.action, dict)
    assert delta.item.action["queries"] == queries


@pytest.mark.parametrize(
    "data",
    [{}, {"mimeType": "image/png"}, {"mimeType": "image/png", "data": ""}, {"mimeType": "a", "data": "x"}],
)
def test_data_without_an_image_is_not_an_item(data: dict[str, Any]) -> None:
    assert image(data) is None
