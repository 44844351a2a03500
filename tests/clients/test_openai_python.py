"""OpenAI's Python library: the newest version, and one from a year ago."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.cases import ADDS, ALL, FIVE, HELLO, Case, play, rows, saw_tool_loop
from tests.clients.driver import Driver
from tests.clients.script import Cut, Hang, Refuse, Say, Silence, Stop, Think
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

CLIENTS = ("openai-python", "openai-python, a year old")


def was_left(stage: Stage, dialect: str) -> None:
    assert stage.wait_until_left(dialect)


def instructed(stage: Stage, dialect: str) -> None:
    assert stage.seen(dialect)[0].texts("system") == ["Be brief."]


def remembered(stage: Stage, dialect: str) -> None:
    texts = [entry.text for entry in stage.seen(dialect)[1].entries]
    assert texts == ["My cat is grey", "Hello to you.", "Which colour?"]


CONVERSED = {
    "text": "Grey.",
    "items": ["My cat is grey", "Hello to you.", "Which colour?", "Grey."],
    "metadata": {"topic": "cats"},
}
STREAMED = {
    "text": "Hello to you.",
    "final": "Hello to you.",
    "calls": [],
    "first": "response.created",
    "last": "response.completed",
}
LOOPED = {"calls": ['{"a":2,"b":3}'], "text": "It is 5."}

CASES = {
    "create": Case(
        run="create",
        script=(HELLO,),
        expected={"text": "Hello to you.", "status": "completed", "tokens": 150},
        then=instructed,
    ),
    "stream helper": Case(run="stream_helper", script=(HELLO,), expected=STREAMED),
    "stream helper with a call": Case(
        run="stream_helper",
        script=(ADDS,),
        expected={**STREAMED, "text": "", "final": "", "calls": [{"a": 2, "b": 3}]},
    ),
    "tool loop, full history": Case(
        run="tool_loop", script=(ADDS, FIVE), expected=LOOPED, then=saw_tool_loop
    ),
    "tool loop, previous_response_id": Case(
        run="tool_loop",
        script=(ADDS, FIVE),
        arguments={"way": "previous"},
        expected=LOOPED,
        then=saw_tool_loop,
    ),
    "tool loop, conversation": Case(
        run="tool_loop",
        script=(ADDS, FIVE),
        arguments={"way": "conversation"},
        expected=LOOPED,
        then=saw_tool_loop,
    ),
    "reasoning": Case(
        run="reasoning",
        script=((Think("A cat, surely."), *HELLO),),
        expected={"streamed": "A cat, surely.", "final": "A cat, surely.", "text": "Hello to you."},
    ),
    "parse": Case(
        run="parse", script=((Say('{"name": "Tom", "age": 3}'),),), expected={"name": "Tom", "age": 3}
    ),
    "retrieve": Case(run="retrieve", script=(HELLO,), expected={"same": True, "text": "Hello to you."}),
    "input_items": Case(run="input_items", script=(HELLO,), expected=[["message", "user", "Say hello"]]),
    "delete": Case(run="delete", script=(HELLO,), expected="response_not_found", dialects=("chat",)),
    "background": Case(
        run="background",
        script=(HELLO,),
        expected={"begun": "queued", "status": "completed", "text": "Hello to you."},
    ),
    "cancel": Case(
        run="cancel",
        script=((Say("And so on "), Hang()),),
        expected={"status": "cancelled", "later": "cancelled"},
        then=was_left,
    ),
    "resume": Case(
        run="resume",
        script=((Say("Hello "), Silence(0.5), Say("to you.")),),
        expected={"numbers": True, "text": "Hello to you.", "last": "response.completed"},
    ),
    "conversations": Case(
        run="conversations", script=(HELLO, (Say("Grey."),)), expected=CONVERSED, then=remembered
    ),
    "an upstream error": Case(
        run="refused",
        script=((Refuse(400, "no cats are allowed here"),),),
        expected={"shown": True, "code": "invalid_request"},
    ),
    "cut": Case(
        run="cut",
        script=((Say("Hello "), Cut()),),
        expected={"text": "Hello ", "end": "raised", "has_code": True},
    ),
    "truncated": Case(
        run="truncated",
        script=((Say("Hello "), Stop()),),
        expected={"status": "incomplete", "reason": "max_output_tokens", "text": "Hello "},
        dialects=ALL,
    ),
    "list of models": Case(run="models", script=(), expected=True, dialects=("chat",)),
}


@pytest.mark.parametrize(("client", "case", "dialect"), rows(dict.fromkeys(CLIENTS, CASES)))
def test_openai_python(
    client: str, case: str, dialect: str, drivers: Callable[[str], Driver], scene: Stage
) -> None:
    play(CASES[case], dialect, scene, drivers(client))
