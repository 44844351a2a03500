"""`GET /v1/models`."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.gateway.http.access import create_key
from tests.gateway.running import Running, gateway


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


@pytest.mark.e2e
def test_a_similar_model_is_suggested(tmp_path: Path) -> None:
    key, table = create_key("anna", models=["demo", "x*", "quick"])
    with gateway(tmp_path, config=f'{table}\n[aliases]\nsecret = "demo"\nxylophone = "demo"\n') as running:
        headers = {"x-api-key": key}
        near = running.ask(path="/v1/models/xylofone", method="GET", headers=headers)
        other = running.ask(path="/v1/models/quick", method="GET", headers=headers)
    assert (near.status, near.error["code"]) == (404, "model_not_found")
    assert near.error["message"] == "there is no model 'xylofone'; did you mean xylophone?"
    assert other.error["message"] == "there is no model 'quick'; available: demo, xylophone"
