"""The extension in a real VS Code, used by another extension: parts, errors, cancelling, counting, groups."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.client.server import Connection, Script, Step, answer, cut
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import gateway
from tests.gateway.scripts import STOP, TOOL_CALLS, call, calls, text
from tests.gateway.upstream import USAGE, ScriptedUpstream, begun, said, streamed, until_gone
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.consumers import EXTENSION, ORDERS, Consumer
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.servers import Setup, code_server

pytestmark = pytest.mark.vscode

OURS = Path(__file__).parents[3] / "vscode"
GROUPS = {"North": ("brook", "stream"), "South": ("river", "delta")}
"""Two gateways, and the models of each."""

CONFIG = """
[limits]
retries = 0

[targets.chat]
base_url = "{url}/v1"

[targets.chat.quirks]
effort = "openai"
"""
MODEL_CONFIG = """
[models.{model}]
target = "chat"
limits = "window:64k output:8k images tools reasoning efforts:low/high"
"""

TOOLS = [
    {"name": name, "description": f"To {name}.", "inputSchema": {"type": "object", "properties": {}}}
    for name in ("read", "write")
]
OFFERED = {"options": {"tools": TOOLS}}


@pytest.fixture(scope="module")
def endpoints(upstream: ScriptedUpstream, folder: Path) -> Iterator[dict[str, str]]:
    """Return the URL of each group's gateway."""
    with ExitStack() as stack:
        urls = {}
        for group, models in GROUPS.items():
            home = folder / group
            home.mkdir()
            config = CONFIG.format(url=upstream.url) + "".join(MODEL_CONFIG.format(model=m) for m in models)
            urls[group] = stack.enter_context(gateway(home, config=config)).url
        yield urls


@pytest.fixture(scope="module")
def consumer(
    installed: Installed, endpoints: dict[str, str], folder: Path, page: Browser
) -> Iterator[Consumer]:
    orders = folder / "orders"
    orders.mkdir()
    setup = Setup(
        extensions=(OURS, EXTENSION),
        settings={"penstock.pythonPath": sys.executable, "penstock.logLevel": "debug"},
        groups=[
            {"name": name, "vendor": "penstock", "endpoint": f"{url}/v1", "apiKey": "none"}
            for name, url in endpoints.items()
        ],
        environment={ORDERS: str(orders)},
    )
    with code_server(installed, folder / "vscode", setup) as server:
        page.open(server.page)
        yield Consumer(orders)
        page.screenshot("after-all")


def test_the_models_of_both_groups_are_listed_once_each(consumer: Consumer) -> None:
    # Every gateway also has the model `demo`, so it is there in each group.
    models = [model for model in consumer.models() if not model["id"].endswith("demo")]
    named = {model["id"].rpartition("/")[2]: model for model in models}
    assert sorted(named) == sorted(model for group in GROUPS.values() for model in group)
    assert len(models) == len(named)
    assert all(0 < model["maxInputTokens"] <= 56_000 for model in models)


def test_text_arrives_with_its_usage_and_a_marker(consumer: Consumer, upstream: ScriptedUpstream) -> None:
    upstream.play("brook", streamed(*said("Water flows down, 水の流れ 🌊.")))
    answered = consumer.ask("brook")
    assert answered.error is None
    assert answered.text == "Water flows down, 水の流れ 🌊."
    (usage,) = answered.data("usage")
    figures = json.loads(usage)
    assert (figures["prompt_tokens"], figures["completion_tokens"], figures["total_tokens"]) == (11, 7, 18)
    assert figures["prompt_tokens_details"]["cached_tokens"] == 5
    assert len(answered.data("stateful_marker")) == 1


def test_a_follow_up_with_the_marker_keeps_the_conversation(
    consumer: Consumer, upstream: ScriptedUpstream
) -> None:
    upstream.play("stream", streamed(*said("An otter.")), streamed(*said("Yes, an otter.")))
    first = consumer.ask("stream", "Name an animal.")
    markers = [part for part in first.of("data") if part["mime"] == "stateful_marker"]
    said_before = [*markers, {"type": "text", "value": first.text}]
    history = [
        {"role": 1, "content": "Name an animal."},
        {"role": 2, "content": said_before},
        {"role": 1, "content": "An otter?"},
    ]
    assert consumer.ask("stream", history).text == "Yes, an otter."
    messages = upstream.asked_for("stream")[-1].json["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


def test_thinking_is_a_separate_part(consumer: Consumer, upstream: ScriptedUpstream) -> None:
    thoughts = [chat_chunk({"reasoning_content": each}) for each in ("Let me ", "think.")]
    upstream.play("brook", streamed(*thoughts, *text("Thought."), STOP, USAGE))
    answered = consumer.ask("brook")
    assert (answered.thinking, answered.text) == ("Let me think.", "Thought.")
    assert [part["type"] for part in answered.parts].index("text") > 0


READ, WRITE = ("read", {"path": "a"}), ("write", {"path": "b"})
WHOLE_READ = call(0, "call_a", "read", '{"path":"a"}')
WHOLE_WRITE = call(1, "call_b", "write", '{"path":"b"}')
PIECES = [
    calls(call(0, "call_a", "read", "")),
    calls(call(1, "call_b", "write", "")),
    calls(call(1, arguments='{"path"')),
    calls(call(0, arguments='{"path":')),
    calls(call(0, arguments='"a"}')),
    calls(call(1, arguments=':"b"}')),
]
ONCE: dict[str, Script] = {
    "in pieces that mix": streamed(*PIECES, TOOL_CALLS, USAGE),
    "the whole calls again at the end": streamed(*PIECES, calls(WHOLE_READ, WHOLE_WRITE), TOOL_CALLS, USAGE),
    "everything repeated after the finish": streamed(
        calls(WHOLE_READ, WHOLE_WRITE), TOOL_CALLS, calls(WHOLE_READ, WHOLE_WRITE), TOOL_CALLS, USAGE
    ),
    "the id and the name in every chunk": streamed(
        calls(call(0, "call_a", "read", "")),
        calls(call(0, "call_a", "read", '{"path":')),
        calls(call(0, "call_a", "read", '"a"}')),
        calls(WHOLE_WRITE),
        TOOL_CALLS,
        USAGE,
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_parallel_calls_arrive_once_each(consumer: Consumer, upstream: ScriptedUpstream, name: str) -> None:
    upstream.play("river", ONCE[name])
    answered = consumer.ask("river", "Read and write.", **OFFERED)
    assert answered.error is None
    assert answered.calls == [READ, WRITE]
    assert len({part["callId"] for part in answered.of("tool_call")}) == 2


def test_results_are_sent_with_the_ids_of_their_calls(consumer: Consumer, upstream: ScriptedUpstream) -> None:
    upstream.play("delta", ONCE["in pieces that mix"], streamed(*said("Both are done.")))
    first = consumer.ask("delta", "Read and write.", **OFFERED)
    made = [
        {name: part[name] for name in ("type", "callId", "name", "input")} for part in first.of("tool_call")
    ]
    results = [
        {"type": "tool_result", "callId": part["callId"], "value": f"done: {part['name']}"} for part in made
    ]
    history = [
        {"role": 1, "content": "Read and write."},
        {"role": 2, "content": made},
        *({"role": 1, "content": [result]} for result in results),
    ]
    assert consumer.ask("delta", history, **OFFERED).text == "Both are done."
    messages = upstream.asked_for("delta")[-1].json["messages"]
    sent = {each["id"]: each["function"]["name"] for m in messages for each in m.get("tool_calls") or []}
    returned = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert {sent[id]: content for id, content in returned.items()} == {
        "read": "done: read",
        "write": "done: write",
    }


def test_a_refusal_is_shown_as_text(consumer: Consumer, upstream: ScriptedUpstream) -> None:
    upstream.play("brook", streamed(chat_chunk({"refusal": "I will not dam it."}), STOP, USAGE))
    answered = consumer.ask("brook")
    assert answered.error is None
    assert answered.text == "I will not dam it."


def refused(status: int, message: str, **fields: str) -> Script:
    return [answer(status, {"error": {"message": message, **fields}})]


FAILURES: dict[str, tuple[Script, str]] = {
    "nothing was said": (streamed(STOP, USAGE), ""),
    "only thinking": (streamed(chat_chunk({"reasoning_content": "Hm."}), STOP, USAGE), ""),
    "the key is refused": (refused(401, "No such key"), ""),
    "the rate is limited": (refused(429, "Slow down"), "Blocked"),
    "the server is down": (refused(503, "Down"), ""),
    "broken before anything": ([*begun(), cut], ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_before_parts_is_one_sentence_without_a_stack(
    consumer: Consumer, upstream: ScriptedUpstream, name: str
) -> None:
    script, code = FAILURES[name]
    upstream.play("stream", script)
    answered = consumer.ask("stream")
    assert answered.text == ""
    error = answered.error
    assert error is not None
    assert error["message"]
    assert "\n" not in error["message"]
    assert "    at " not in (error.get("stack") or "")
    if code:
        assert error["code"] == code


def until_there(file: Path) -> Step:
    async def step(_: Connection) -> None:
        while not file.exists():
            await asyncio.sleep(0.005)  # between two looks

    return step


def test_a_failure_after_parts_keeps_them(
    consumer: Consumer, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    # VS Code gives a consumer the error before parts that it has not read yet: so it must have read them.
    seen = tmp_path / "seen"
    upstream.play("brook", [*begun(*text("Half of an answer")), until_there(seen)])
    answered = consumer.ask("brook", begun=str(seen))
    assert answered.text == "Half of an answer"
    assert answered.error is not None
    assert answered.error["message"]


def test_cancelling_closes_the_upstream_and_nothing_follows(
    consumer: Consumer, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    upstream.play("river", [*begun(*text("One, ", "two")), until_gone(gone)])
    answered = consumer.ask("river", cancelAt=1)
    assert gone.wait(30)
    assert answered.seen_at_cancel == 1
    assert answered.error is None or answered.error["name"] == "Canceled"
    assert "One, two".startswith(answered.text)
    assert answered.of("tool_call") == []
    # The same model answers at once: nothing of the cancelled turn is in the way.
    upstream.play("river", streamed(*said("Three.")))
    assert consumer.ask("river").text == "Three."


def test_five_thousand_parts_in_a_burst_all_arrive_in_order(
    consumer: Consumer, upstream: ScriptedUpstream
) -> None:
    words = [f"{number} " for number in range(5_000)]
    upstream.play("delta", streamed(*text(*words), STOP, USAGE))
    answered = consumer.ask("delta")
    assert answered.error is None
    assert answered.text == "".join(words)


def test_tokens_are_counted(consumer: Consumer) -> None:
    short, long = (consumer.count_tokens("brook", "water flows down " * times) for times in (1, 100))
    assert 1 <= short <= 10
    assert 200 <= long <= 1_000


@pytest.mark.parametrize("effort", ["low", "high"])
def test_the_effort_reaches_the_upstream(consumer: Consumer, upstream: ScriptedUpstream, effort: str) -> None:
    upstream.play("river", streamed(*said("Thought about it.")))
    answered = consumer.ask("river", options={"modelOptions": {"reasoningEffort": effort}})
    assert answered.error is None
    assert upstream.asked_for("river")[-1].json["reasoning_effort"] == effort


def test_each_group_asks_its_own_endpoint(
    consumer: Consumer, upstream: ScriptedUpstream, endpoints: dict[str, str], folder: Path
) -> None:
    for group, (model, _) in GROUPS.items():
        upstream.play(model, streamed(*said(f"From the {group}.")))
        assert consumer.ask(model).text == f"From the {group}."
        others = [(folder / other / "log").read_text() for other in endpoints if other != group]
        assert all(f'"model": "{model}"' not in log for log in others)
