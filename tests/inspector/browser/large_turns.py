"""Turns that are too large for the judge of `tests/gateway/running.py`, which takes seconds for them."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.running import Running


def run_large(site: Running, model: str, prompt: str) -> tuple[str, int]:
    """Run a streamed turn; return its id and the number of its events."""
    connection = site.connect()
    try:
        body = {"model": model, "input": prompt, "stream": True}
        connection.request("POST", "/v1/responses", json.dumps(body), {"content-type": "application/json"})
        stream = connection.getresponse().read()
    finally:
        connection.close()
    events = [line for line in stream.splitlines() if line.startswith(b"data: {")]
    last: dict[str, Any] = json.loads(events[-1].removeprefix(b"data: "))
    assert last["type"] == "response.completed", last["type"]
    return last["response"]["id"], len(events)
