"""The gateway: settings, routes and turns in one place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.gateway.running import gateway


@pytest.mark.e2e
def test_a_bound_on_turns_is_told_at_once(tmp_path: Path) -> None:
    """Ask J5: no hidden queue."""
    with gateway(tmp_path, config="[limits]\nmax_turns = 1\n") as running:
        connection = running.connect()
        body = json.dumps({"model": "demo", "input": "be silent", "stream": True})
        connection.request("POST", "/v1/responses", body)
        while "penstock_turns_running 1" not in running.ask(path="/metrics", method="GET").body.decode():
            pass
        reply = running.whole("demo")
        assert (reply.status, reply.error["code"]) == (503, "server_is_overloaded")
        assert reply.headers["retry-after"]
        connection.close()
