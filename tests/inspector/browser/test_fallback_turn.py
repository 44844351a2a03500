"""A turn with two attempts, a silence and heartbeats: the page says which upstream did what."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.client.server import Connection, answer
from tests.dialects.chat_streams import chunk
from tests.gateway.running import Reply, Running, gateway
from tests.gateway.upstream import ScriptedUpstream, begun, streamed
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import THEMES, Theme

pytestmark = pytest.mark.page

CONFIG = """
[limits]
patience = 0.1
comment_every = 0.2
event_every = 0.4
retries = 0
[targets.busy]
base_url = "{url}/v1"
[targets.flaky]
base_url = "{url}/v1"
[models.agent]
targets = ["busy/large-model", "flaky/small-model"]
limits = "window:200k output:16000 tools reasoning price:1.25/10/0.125"
[models.writer]
targets = ["flaky/small-model-fast"]
limits = "window:200k output:16000 price:0.25/2/0.025"
"""
SILENCE = 1.4
USAGE = {
    "choices": [],
    "usage": {
        "prompt_tokens": 18_432,
        "completion_tokens": 611,
        "total_tokens": 19_043,
        "prompt_tokens_details": {"cached_tokens": 16_384},
        "completion_tokens_details": {"reasoning_tokens": 256},
    },
}


async def _silence(_: Connection) -> None:
    await asyncio.sleep(SILENCE)


@pytest.fixture(scope="module")
def chained(
    tmp_path_factory: pytest.TempPathFactory, upstream: ScriptedUpstream
) -> Iterator[tuple[Running, Reply]]:
    """Run a turn whose first upstream is overloaded, and whose second one stops in the middle of a word."""
    busy = answer(503, {"error": {"message": "The server is overloaded.", "type": "server_error"}})
    upstream.play("large-model", [busy])
    words = [chunk({"content": f"word {number} "}) for number in range(40)]
    upstream.play("small-model", [*begun(chunk({"reasoning_content": "Let me think."}), *words), _silence])
    upstream.play("small-model-fast", streamed(*words, chunk(finish="stop"), USAGE))
    with gateway(tmp_path_factory.mktemp("chain"), config=CONFIG.format(url=upstream.url)) as running:
        for agent in ("openai-python/3.49.0", "ai-sdk/6.1.4", "langchain-openai/1.4.2"):
            running.stream("writer", "Write words.", headers={"user-agent": agent})
        yield running, running.stream("agent", "Count words.", headers={"user-agent": "codex_cli_rs/0.72.0"})


@pytest.mark.parametrize("theme", THEMES)
def test_the_page_says_who_broke_the_stream(
    visit: Visits, chained: tuple[Running, Reply], theme: Theme
) -> None:
    running, reply = chained
    opened = visit(gateway=running, theme=theme)
    page = opened.go(f"#/turns/{reply.last['id']}", view="turn")
    sentence = page.get_by_role("heading", level=1)
    expect(sentence).to_contain_text("flaky")
    expect(sentence).to_contain_text("of silence")
    attempts = page.get_by_role("region", name="Attempts").get_by_role("listitem")
    expect(attempts.nth(0)).to_contain_text("busy")
    expect(attempts.nth(0)).to_contain_text("HTTP 503")
    expect(attempts.nth(0).locator("blockquote")).to_have_text("The server is overloaded.")
    expect(attempts.nth(1)).to_contain_text("flaky")
    expect(page.locator(".verdict-head")).to_contain_text("the last of 2 attempts")
    expect(page.locator(".upstream-words")).to_have_count(0)  # only the gateway said why it failed
    canvas = page.locator(".timeline canvas")
    box = canvas.bounding_box()
    assert box is not None
    left, width = 156, box["width"] - 14 - 156
    row = box["y"] + 24 + 28 + 14
    for part in range(100):  # heartbeats stand in the row of the response, somewhere in the silence
        page.mouse.move(box["x"] + left + width * part / 100, row)
        if "heartbeat" in (page.locator(".timeline-tip").text_content() or ""):
            break
    else:
        raise AssertionError("the timeline shows no heartbeat")
    opened.picture(f"turn-fallback-{theme}")


def test_the_list_has_tokens_and_cost(visit: Visits, chained: tuple[Running, Reply]) -> None:
    running, _ = chained
    running.stream("demo", "Think about it, then count from 1 to 5.", headers={"user-agent": "curl/8.14.1"})
    running.whole("demo", "Fail with 429.", headers={"user-agent": "curl/8.14.1"})
    running.whole(
        "demo", "Answer with 60 words.", max_output_tokens=16, headers={"user-agent": "vscode/1.110"}
    )
    for theme in THEMES:
        opened = visit(gateway=running, theme=theme)
        page = opened.go("", view="turns")
        row = page.locator(".turns tbody tr").filter(has_text="ai-sdk 6.1.4")
        expect(row.locator('[data-label="Input"]')).to_have_text("18.4k16.4k cached")
        expect(row.locator('[data-label="Output"]')).to_have_text("611256 reasoning")
        expect(row.locator('[data-label="Cost"]')).to_have_text("$0.002144")
        opened.picture(f"turns-showcase-{theme}")
