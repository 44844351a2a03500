"""The demo model as an upstream."""

from __future__ import annotations

import asyncio

from penstock.demo.upstream import DemoUpstream
from penstock.net.source import UpstreamSource
from penstock.upstream.target import Upstream
from tests.demo.asking import (
    RecordedSleep,
    ask,
    plan_for,
    read_all,
    user,
)
from tests.dialects.render_cases import EVERY_TOOL


def test_it_streams_in_many_small_reads_with_pauses() -> None:
    result = ask("Hello.")
    words = [frame["say"] for frame in result.frames if "say" in frame]
    assert len(words) > 40
    assert "".join(words) == result.text
    assert max(map(len, words)) < 20
    assert result.sleeps.count(0.01) == len(words)


def test_the_same_request_has_the_same_bytes() -> None:
    request = {
        "input": [user("Think: what is the weather in Ulm?")],
        "tools": EVERY_TOOL,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    }
    assert ask(request).reads == ask(request).reads


def test_it_is_an_upstream() -> None:
    upstream: Upstream = DemoUpstream()
    assert (upstream.name, upstream.dialect.name, upstream.pass_key) == ("demo", "demo", False)
    assert upstream.keys.take() == ""
    target = upstream.target("demo", "a key")
    assert (target.dialect, target.key_fingerprint) == ("demo", "")
    asyncio.run(upstream.aclose())


def test_an_answer_is_a_stream_of_events() -> None:
    async def run() -> UpstreamSource:
        upstream = DemoUpstream(RecordedSleep())
        return await upstream.send(upstream.dialect.render(plan_for("Hello.")), key="", headers={})

    answer = asyncio.run(run())
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    assert answer.request_id
    assert answer.mask("text") == "text"


def test_the_pace_can_be_zero() -> None:
    async def run() -> list[float]:
        sleep = RecordedSleep()
        upstream = DemoUpstream(sleep, pace=0)
        await read_all(await upstream.send(upstream.dialect.render(plan_for("Hello.")), key="", headers={}))
        return sleep.times

    assert set(asyncio.run(run())) == {0}
