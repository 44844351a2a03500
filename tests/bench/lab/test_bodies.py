from __future__ import annotations

import json

import pytest
from bench.lab.bodies import body_for, chunks_of, codex, history, small


@pytest.mark.parametrize(
    ("spec", "chunks"),
    [("fake-c256", 256), ("fake-c150-d20-ts", 150), ("fake-c16-r240", 256), ("fake-c64-t2", 64)],
)
def test_the_name_of_a_model_says_how_many_chunks_it_sends(spec: str, chunks: int) -> None:
    assert chunks_of(spec) == chunks


def test_a_request_offers_the_tools_that_the_model_calls() -> None:
    body = json.loads(body_for("fake-c64-t1-k2"))
    assert [(tool["type"], tool["name"]) for tool in body["tools"]] == [
        ("function", "tool_0"),
        ("custom", "tool_0"),
        ("custom", "tool_1"),
    ]
    assert "tools" not in json.loads(body_for("fake-c64"))


def test_bodies_have_the_sizes_of_the_figures() -> None:
    assert 900 < len(body_for("fake-c4", **small())) < 1_100
    assert 44_000 < len(body_for("fake-c4", **codex())) < 46_000


def test_a_history_has_an_output_for_every_call() -> None:
    items = history(5_000)
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert len(items) == 5_000
    assert calls == [item["call_id"] for item in items if item["type"] == "function_call_output"]
