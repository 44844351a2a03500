"""The example runs as its first line says: a process of its own, against an endpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.client.server import answer, served, streamed
from tests.provider.scripted_provider import call_stream, text_stream

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent.py"


def test_the_agent_of_the_examples_looks_and_answers() -> None:
    scripts = [
        [answer(200, {"data": [{"id": "demo"}]})],
        streamed(call_stream(("1", "look", {"at": "sea"}))),
        streamed(text_stream("There is a ship at sea.")),
    ]
    with served(*scripts) as endpoint:
        command = [sys.executable, str(EXAMPLE), endpoint.url, "demo", "What is at sea?"]
        environment = {**os.environ, "PENSTOCK_API_KEY": "sk-test"}
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert run.stderr == ""
    assert run.stdout == "There is a ship at sea.\n18 tokens in, 24 out, 2 turns\n"
    assert {asked.headers["authorization"] for asked in endpoint.asked} == {"Bearer sk-test"}
    _, _, second = endpoint.asked
    assert second.json["input"][-1]["output"] == "a ship at sea"


def test_the_example_is_about_twenty_lines() -> None:
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 20
