"""The OpenAI Agents SDK: functions, hand-offs, the typed tools, sessions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.cases import ADDS, FIVE, Case, play, rows, saw_tool_loop
from tests.clients.driver import Driver
from tests.clients.script import Call, Say, Think, function, patch, shell, write
from tests.clients.stage import Stage

pytestmark = pytest.mark.clients

CLIENT = "openai-agents"
ADDED = {"text": "It is 5.", "ran": [[2, 3]]}
DONE = (Say("Done."),)
SHELLED = {"text": "Done.", "ran": ["echo meow", "echo purr"]}


def rewritten() -> Call:
    whole = "*** Begin Patch\n*** Update File: notes.txt\n@@\n one\n-two\n+2\n*** End Patch\n"
    return patch(whole, type="update_file", path="notes.txt", diff="@@\n one\n-two\n+2\n")


def items_sent(*types: str) -> Callable[[Stage, str], None]:
    """The client sent back these items, and the upstream got a call and an output for each pair."""

    def then(stage: Stage, dialect: str) -> None:
        sent = [item.get("type") for item in stage.turns[-1].json["input"]]
        assert [each for each in sent if each and ("call" in each)] == list(types)
        last = stage.seen(dialect)[-1]
        assert [kind for kind in last.kinds if kind in ("call", "output")] == ["call", "output"] * (
            len(types) // 2
        )

    return then


def outputs_seen(*words: str) -> Callable[[Stage, str], None]:
    def then(stage: Stage, dialect: str) -> None:
        outputs = stage.seen(dialect)[-1].texts("output")
        assert len(outputs) == len(words)
        assert [word in text for word, text in zip(words, outputs, strict=True)] == [True] * len(words)

    return then


def only_new_items(stage: Stage, dialect: str) -> None:
    saw_tool_loop(stage, dialect)
    assert [item["type"] for item in stage.turns[1].json["input"]] == ["function_call_output"]


def over_websocket(stage: Stage, dialect: str) -> None:
    saw_tool_loop(stage, dialect)
    assert {each.status for each in stage.turns} == {101}


def thought_again(stage: Stage, dialect: str) -> None:
    """The upstream that signs its reasoning gets it back."""
    saw_tool_loop(stage, dialect)
    if dialect == "anthropic":
        assert stage.seen(dialect)[1].texts("reasoning") == ["I add."]


def typed(item: str, count: int = 2) -> Callable[[Stage, str], None]:
    """Calls came back as items of their own type, and the upstream saw what they printed."""

    def then(stage: Stage, dialect: str) -> None:
        items_sent(*[f"{item}_call", f"{item}_call_output"] * count)(stage, dialect)

    return then


SHELLS = (shell("echo meow"),), (shell("echo purr"),), DONE
PATCHES = (rewritten(),), (write("fresh.txt", "new\n"),), DONE
PATCHED = {"text": "Done.", "ran": [], "files": ["one\n2\n", "new"]}

CASES = {
    "functions": Case(run="functions", script=(ADDS, FIVE), expected=ADDED, then=saw_tool_loop),
    "auto_previous_response_id": Case(
        run="functions",
        arguments={"automatic": True},
        script=(ADDS, FIVE),
        expected=ADDED,
        then=only_new_items,
    ),
    "streaming": Case(
        run="streamed",
        script=((Say("Let me see."), *ADDS), FIVE),
        expected={
            **ADDED,
            "items": [
                "message_output_item",
                "tool_call_item",
                "tool_call_output_item",
                "message_output_item",
            ],
        },
        then=saw_tool_loop,
    ),
    "parallel functions": Case(
        run="functions",
        script=((*ADDS, function("add", a=4, b=5)), (Say("5 and 9."),)),
        expected={"text": "5 and 9.", "ran": [[2, 3], [4, 5]]},
        then=outputs_seen("5", "9"),
    ),
    "hand-off": Case(
        run="hand_off",
        script=((function("transfer_to_spanish"),), (Say("Hola."),)),
        expected={"text": "Hola.", "ran": [], "agent": "Spanish"},
    ),
    "shell": Case(run="shell", script=SHELLS, expected=SHELLED, then=typed("shell")),
    "shell, streaming": Case(
        run="shell", arguments={"streaming": True}, script=SHELLS, expected=SHELLED, then=typed("shell")
    ),
    "local_shell": Case(run="local_shell", script=SHELLS, expected=SHELLED, then=typed("local_shell")),
    "local_shell, streaming": Case(
        run="local_shell",
        arguments={"streaming": True},
        script=SHELLS,
        expected=SHELLED,
        then=typed("local_shell"),
    ),
    "apply_patch": Case(run="apply_patch", script=PATCHES, expected=PATCHED, then=typed("apply_patch")),
    "apply_patch, streaming": Case(
        run="apply_patch",
        arguments={"streaming": True},
        script=PATCHES,
        expected=PATCHED,
        then=typed("apply_patch"),
    ),
    "session": Case(
        run="session",
        script=(ADDS, FIVE, (Say("Yes."),)),
        expected={"text": "Yes.", "ran": [[2, 3]], "first": "It is 5."},
        then=saw_tool_loop,
    ),
    "structured output": Case(
        run="structured", script=((Say('{"name": "Tom", "age": 3}'),),), expected={"name": "Tom", "age": 3}
    ),
    "reasoning": Case(
        run="reasoning",
        script=((Think("I add."), *ADDS), FIVE),
        expected={**ADDED, "thoughts": ["I add."]},
        then=thought_again,
    ),
    "WebSocket": Case(
        run="websocket",
        script=(ADDS, FIVE, (Say("Yes."),)),
        expected={"text": "Yes.", "ran": [[2, 3]], "first": "It is 5."},
        then=over_websocket,
    ),
}


@pytest.mark.parametrize(("client", "case", "dialect"), rows({CLIENT: CASES}))
def test_agents_sdk(
    client: str, case: str, dialect: str, drivers: Callable[[str], Driver], scene: Stage
) -> None:
    play(CASES[case], dialect, scene, drivers(client))
