"""What is sent to an upstream only grows from turn to turn: otherwise its prompt cache is lost (ask D5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.anthropic.caching import MARK
from penstock.dialects.presets import target_for
from penstock.dialects.registry import rendered_dialect
from penstock.dialects.toolset import plan_for
from penstock.protocol.request import CreateResponse
from penstock.protocol.wire import encode, read
from tests.effort import examples

Json = dict[str, Any]

TARGETS = {
    "chat": "",
    "chat of OpenAI": "openai",
    "chat of OpenRouter": "openrouter",
    "chat of DeepSeek": "deepseek",
    "chat of Mistral": "mistral",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "responses of OpenAI": "openai",
    "responses": "",
}
FIELDS = ("messages", "contents", "input")
"""The history in each dialect."""
FIXED = ("system", "system_instruction", "systemInstruction", "instructions", "tools")
TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": name,
        "parameters": {"type": "object", "properties": {}},
    }
    for name in ("read", "write", "list")
]

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@st.composite
def turns(draw: st.DrawFn) -> list[list[Json]]:
    """What each turn adds to the history: the output of the last one, and then the user or its tools."""
    found: list[list[Json]] = [[{"role": "system", "content": "Be brief."}, user(draw(texts))]]
    for number in range(draw(st.integers(1, 4))):
        calls = draw(st.integers(0, 2))
        added: list[Json] = []
        if draw(st.booleans()) or not calls:
            added.append(said(number, draw(texts)))
        ids = [f"call_{number}_{place}" for place in range(calls)]
        added += [call(id, draw(st.sampled_from(["read", "write"]))) for id in ids]
        added += [output(id, draw(texts)) for id in ids]
        if draw(st.booleans()):  # a late instruction must not change the system prompt (decision 19)
            added.append({"role": "developer", "content": draw(texts)})
        found.append([*added, *([user(draw(texts))] if not calls or draw(st.booleans()) else [])])
    return found


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": text}


def said(number: int, text: str) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}


def call(id: str, name: str) -> Json:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": '{"path": "a", "n": 1}'}


def output(id: str, text: str) -> Json:
    return {"type": "function_call_output", "call_id": id, "output": text}


def rendered(where: str, items: list[Json]) -> Json:
    """Return what is sent, without the marks of Anthropic, which are not part of the prompt."""
    request = read(
        {"model": "m", "input": items, "instructions": "Help.", "tools": TOOLS, "prompt_cache_key": "k"},
        CreateResponse,
    )
    dialect = where.partition(" ")[0]
    target = target_for("m", TARGETS[where], dialect=dialect)
    body = rendered_dialect(dialect).render(plan_for(request, target)).body
    found: Json = json.loads(encode(body), object_hook=without_mark)
    return found


def without_mark(value: Json) -> Json:
    return {name: each for name, each in value.items() if name != MARK}


@pytest.mark.parametrize("where", TARGETS)
@settings(max_examples=examples(40), deadline=None)
@given(turns())
def test_the_prompt_of_a_turn_begins_with_the_one_before(where: str, added: list[list[Json]]) -> None:
    history: list[Json] = []
    before: Json = {}
    for items in added:
        history += items
        now = rendered(where, history)
        field = next(name for name in FIELDS if name in now)
        if before:
            assert [now.get(name) for name in FIXED] == [before.get(name) for name in FIXED]
            # The last message may be continued.
            assert encode(now[field]).startswith(encode(before[field]).rstrip(b']}"'))
            assert list(now) == list(before)
        before = now
