"""`POST /v1/responses` and `/v1/responses/input_tokens`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.running import Running, gateway

BODY = {"model": "demo", "input": "say exactly: hello"}


@pytest.mark.e2e
def test_a_model_that_is_not_there_is_404_with_those_that_are(tmp_path: Path) -> None:
    with gateway(tmp_path, config='[aliases]\nfast = "demo"\n') as running:
        reply = running.whole("slow")
        assert (reply.status, reply.error["code"], reply.error["param"]) == (404, "model_not_found", "model")
        assert "fast" in reply.error["message"]
        assert "demo" in reply.error["message"]
        assert running.whole("fast", "say exactly: aliased").text == "aliased"


def test_the_tokens_of_a_request_are_counted(penstock: Running) -> None:
    short = penstock.ask(BODY, "/v1/responses/input_tokens").json
    long = penstock.ask({**BODY, "input": "word " * 1000}, "/v1/responses/input_tokens").json
    assert short["object"] == "response.input_tokens"
    assert long["input_tokens"] > short["input_tokens"] + 900
    assert [each["code"] for each in short["diagnostics"]] == ["tokens_estimated"]  # nobody's tokenizer
