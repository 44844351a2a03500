"""Carrying an upstream's answer to the outlet of a turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.server import chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.running import gateway
from tests.gateway.upstream import (
    SSE_HEAD,
    ScriptedUpstream,
    frames,
)


@pytest.mark.e2e
def test_an_answer_without_end_is_ended(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    piece = send(chunk(frames(chat_chunk({"content": "x" * 9000}), done=False)))
    upstream.play("endless-answer", [send(SSE_HEAD), *[piece] * 200])
    config = CONFIG.format(url=upstream.url).replace("retries = 0", 'retries = 0\nanswer_bytes = "1MB"')
    with gateway(tmp_path, config=config) as running:
        reply = running.stream("endless-answer")
        assert reply.last["error"]["code"] == "upstream_invalid"
        assert "answer_bytes" in reply.last["error"]["message"]
        assert 700_000 < len(reply.text) < 1_000_000
