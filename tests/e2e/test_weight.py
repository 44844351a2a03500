"""What a gateway imports between its start and its first answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.gateway.running import gateway

NOT_NEEDED = (
    # for compacted conversations, and for bodies that are compressed
    *("cryptography", "backports.zstd", "compression.zstd", "brotli"),
    # development tools
    *("aiohttp", "anthropic", "google", "hypothesis", "openai", "pydantic", "pytest", "uvicorn"),
    # other commands
    *("penstock.connect", "penstock.doctor", "penstock.explain", "penstock.replay", "penstock.cli.chat"),
)


@pytest.mark.e2e
def test_a_gateway_imports_nothing_that_its_first_answer_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with gateway(tmp_path) as running:
        assert running.whole("demo", "say exactly: hello").text == "hello"
    log = (tmp_path / "log").read_text()
    imported = re.findall(r"^import time: .*\| +(\S+)$", log, re.MULTILINE)
    assert "penstock.gateway.server" in imported
    unneeded = [name for name in imported if name.startswith(tuple(f"{each}." for each in NOT_NEEDED))]
    assert not unneeded + [name for name in imported if name in NOT_NEEDED]
