"""The pictures of docs/inspector.md and the README. `make pictures` replaces them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.client.server import Connection, answer, send
from tests.client.server import chunk as http_chunk
from tests.dialects.chat_streams import chunk
from tests.gateway.running import Reply, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, begun, frames, streamed
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import DOCUMENT

pytestmark = pytest.mark.page

CONFIG = """
[limits]
patience = 0.1
comment_every = 30.0
event_every = 0.5
retries = 0
[targets.primary]
base_url = "{url}/v1"
[targets.backup]
base_url = "{url}/v1"
[models.agent]
targets = ["primary/large-model", "backup/small-model"]
limits = "window:200k output:16000 tools reasoning price:1.25/10/0.125"
[models.writer]
targets = ["backup/small-model-fast"]
limits = "window:200k output:16000 price:0.25/2/0.025"
[models.coder]
targets = ["primary/code-model"]
limits = "window:200k output:16000 tools reasoning price:3/15/0.3"
"""
THOUGHT = "The user wants a summary of the log. The errors begin after the deployment, so I compare both. "
ANSWER = (
    "The errors begin right after the deployment at 14:02. Before it, one request in ten thousand failed; "
    "afterwards one in fifty. All of them wait for a connection to the database, and the pool"
)
CODEX = {"user-agent": "codex_cli_rs/0.72.0"}


def usage(prompt: int, cached: int, output: int, reasoning: int) -> dict[str, object]:
    return {
        "choices": [],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        },
    }


def pieces(text: str, field: str) -> list[object]:
    """Return the steps that send a text word by word, at the pace of a model."""
    steps: list[object] = []
    for word in text.split():
        steps += [_pause(0.03), send(http_chunk(frames(chunk({field: f"{word} "}), done=False)))]
    return steps


def _pause(seconds: float) -> object:
    async def wait(_: Connection) -> None:
        await asyncio.sleep(seconds)

    return wait


@pytest.fixture(scope="module")
def busy_day(
    tmp_path_factory: pytest.TempPathFactory, upstream: ScriptedUpstream
) -> Iterator[tuple[Running, Reply]]:
    """Run turns of several clients. The last upstream of one thinks, writes, is silent, and breaks off."""
    overloaded = answer(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})
    upstream.play("large-model", [overloaded])
    broken = [*begun(), *pieces(THOUGHT, "reasoning_content"), *pieces(ANSWER, "content"), _pause(1.9)]
    upstream.play("small-model", broken)  # type: ignore[arg-type]
    words = [chunk({"content": f"word {number} "}) for number in range(40)]
    upstream.play("small-model-fast", streamed(*words, chunk(finish="stop"), usage(18_432, 16_384, 611, 0)))
    upstream.play(
        "code-model",
        streamed(*words, chunk(finish="stop"), usage(51_204, 49_152, 1_840, 768)),
        streamed(*words, chunk(finish="length"), usage(9_880, 0, 4_096, 2_048)),
    )
    with gateway(
        tmp_path_factory.mktemp("day"), "--record", config=CONFIG.format(url=upstream.url)
    ) as running:
        running.stream("writer", "Write words.", headers={"user-agent": "langchain-openai/1.4.2"})
        running.stream("coder", "Write code.", headers=CODEX)
        running.stream(
            "demo", "Think about it, then count from 1 to 5.", headers={"user-agent": "curl/8.14.1"}
        )
        running.stream("writer", "Write words.", top_k=5, headers={"user-agent": "ai-sdk/6.1.4"})
        running.whole("demo", "Fail with 429.", headers={"user-agent": "openai-python/3.49.0"})
        running.stream("coder", "Write code.", headers={"user-agent": "vscode/1.110"})
        running.stream(
            "demo", "Answer with 20 words, and fail in the middle with server_error.", headers=CODEX
        )
        reply = running.stream("agent", "Why do requests fail since the deployment?", headers=CODEX)
        running.stream("writer", "Write words.", headers={"user-agent": "openai-node/6.9.0"})
        yield running, reply


def test_a_failed_turn(visit: Visits, busy_day: tuple[Running, Reply]) -> None:
    running, reply = busy_day
    opened = visit(gateway=running, size=DOCUMENT)
    page = opened.go(f"#/turns/{reply.last['id']}", view="turn")
    expect(page.get_by_role("heading", level=1)).to_contain_text("backup")
    expect(page.locator(".timeline-legend").get_by_text("heartbeat")).to_be_visible()
    expect(page.locator(".event-text").last).to_contain_text("upstream_truncated")
    page.mouse.move(0, 0)
    opened.documentation_picture("inspector-turn")


def test_the_list_of_turns(visit: Visits, busy_day: tuple[Running, Reply]) -> None:
    running, _ = busy_day
    opened = visit(gateway=running, size=DOCUMENT)
    page = opened.go("", view="turns")
    expect(page.locator(".turns tbody tr")).to_have_count(9)
    expect(page.locator(".feed-state")).to_have_text("live")
    page.mouse.move(0, 0)
    opened.documentation_picture("inspector-turns")
