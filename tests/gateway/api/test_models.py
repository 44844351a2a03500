"""`GET /v1/models`."""

from __future__ import annotations

from tests.gateway.running import Running


def test_models_are_listed_for_everybody(penstock: Running) -> None:
    """Ask I1: OpenAI's list and Codex's, in one answer."""
    listed = penstock.ask(path="/v1/models?client_version=0.166.0", method="GET").json
    assert listed["object"] == "list"
    assert "demo" in [model["id"] for model in listed["data"]]
    assert "demo" in [model["slug"] for model in listed["models"]]
    [demo] = [model for model in listed["data"] if model["id"] == "demo"]
    assert demo["context_window"] > demo["max_output_tokens"] > 0
    assert penstock.ask(path="/v1/models/demo", method="GET").json == demo
    missing = penstock.ask(path="/v1/models/", method="GET")
    assert missing.json == listed
