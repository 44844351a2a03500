"""The AI SDK with both of its providers: `@ai-sdk/openai` and `@ai-sdk/open-responses`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from tests.clients.cases import ADDS, ALL, FIVE, HELLO, Case, play, rows, saw_tool_loop
from tests.clients.driver import Driver
from tests.clients.script import Cut, Say, Think, shell, write
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

PROVIDERS = {"@ai-sdk/openai": "openai", "@ai-sdk/open-responses": "open-responses"}
SURE = (Say("Yes."),)
QUESTIONS = ["What is 2 + 3?", "Are you sure?"]
THINKING = {"reasoningEffort": "medium", "reasoningSummary": "auto"}


def turns(*texts: str, ran: Any = (), thoughts: Any = ()) -> dict[str, Any]:
    return {"texts": list(texts), "ran": list(ran), "thoughts": list(thoughts)}


def referenced(*kinds: str) -> Callable[[Stage, str], None]:
    """The last request refers to earlier items of these kinds instead of sending them."""

    def then(stage: Stage, dialect: str) -> None:
        saw_tool_loop(stage, dialect)
        items = stage.turns[-1].json["input"]
        ids = [item["id"].partition("_")[0] for item in items if item.get("type") == "item_reference"]
        assert set(kinds) <= set(ids)

    return then


def both(run: str, way: str, **fields: Any) -> Case:
    return Case(run=run, arguments={"way": way, **fields.pop("arguments", {})}, **fields)


def loop(way: str) -> Case:
    return both(
        "turns",
        way,
        arguments={"questions": QUESTIONS, "tools": "add"},
        script=((Say("Let me see."), *ADDS), FIVE, SURE),
        expected=turns("It is 5.", "Yes.", ran=[[2, 3]]),
        then=saw_tool_loop,
    )


def typed(tools: str, item: str, way: str) -> Case:
    is_patch = tools == "applyPatch"
    first = write("note.txt", "meow\n") if is_patch else shell("echo meow")
    ran = [["create_file", "note.txt", "+meow\n"]] if is_patch else ["echo meow"]

    def then(stage: Stage, dialect: str) -> None:
        """The call came back as an item of its own type, and what it printed reached the upstream."""
        calls = [each["type"] for response in stage.responses for each in response["output"]]
        assert f"{item}_call" in calls
        sent = [each.get("type", "") for each in stage.turns[1].json["input"]]
        assert f"{item}_call_output" in sent
        assert ("note.txt" if is_patch else "meow") in stage.seen(dialect)[1].texts("output")[0]
        last = stage.seen(dialect)[-1].kinds
        assert [kind for kind in last if kind in ("call", "output")] == ["call", "output"]

    return both(
        "turns",
        way,
        arguments={"questions": ["Do it", "Again?"], "tools": tools},
        script=((first,), (Say("Done."),), SURE),
        expected=turns("Done.", "Yes.", ran=ran),
        then=then,
    )


def reasoning(
    way: str, *references: str, options: dict[str, str] = THINKING, dialects: tuple[str, ...] = ALL
) -> Case:
    return both(
        "turns",
        way,
        arguments={"questions": QUESTIONS, "tools": "add", "options": options},
        script=((Think("I add."), *ADDS), (Think("Five."), *FIVE), SURE),
        expected=turns("It is 5.", "Yes.", ran=[[2, 3]], thoughts=["I add.", "Five."]),
        then=referenced(*references),
        dialects=dialects,
    )


SHARED = {
    "generateText": both(
        "turns",
        "whole",
        arguments={"questions": ["Say hello"]},
        script=(HELLO,),
        expected=turns("Hello to you."),
    ),
    "streamText": both(
        "turns",
        "stream",
        arguments={"questions": ["Say hello"]},
        script=(HELLO,),
        expected=turns("Hello to you."),
    ),
    "tool loop": loop("whole"),
    "tool loop, streaming": loop("stream"),
    "structured output": Case(
        run="structured", script=((Say('{"name": "Tom", "age": 3}'),),), expected={"name": "Tom", "age": 3}
    ),
    "cut": Case(run="cut", script=((Say("Hello "), Cut()),), expected={"text": "Hello ", "failed": True}),
}

CASES = {
    "@ai-sdk/openai": {
        **SHARED,
        "reasoning by reference": reasoning("whole", "rs", "msg"),
        "reasoning by reference, streaming": reasoning("stream", "rs", "msg"),
        "shell": typed("shell", "shell", "whole"),
        "shell, streaming": typed("shell", "shell", "stream"),
        "local_shell": typed("localShell", "local_shell", "whole"),
        "local_shell, streaming": typed("localShell", "local_shell", "stream"),
        "apply_patch": typed("applyPatch", "apply_patch", "whole"),
        "apply_patch, streaming": typed("applyPatch", "apply_patch", "stream"),
    },
    "@ai-sdk/open-responses": {
        **SHARED,
        # Without streaming, this provider reads the content of reasoning and not its summary.
        "reasoning": reasoning(
            "whole", options={"reasoningEffort": "medium"}, dialects=("chat", "anthropic")
        ),
        "reasoning, streaming": reasoning("stream"),
    },
}


@pytest.mark.parametrize(("client", "case", "dialect"), rows(CASES))
def test_ai_sdk(client: str, case: str, dialect: str, drivers: Callable[[str], Driver], scene: Stage) -> None:
    found = CASES[client][case]
    arguments = {**found.arguments, "provider": PROVIDERS[client]}
    play(structs.replace(found, arguments=arguments), dialect, scene, drivers(client))
