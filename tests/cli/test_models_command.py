"""`penstock models`: a table with sources, JSON lines, and what is told when there is nothing to list."""

from __future__ import annotations

import json
import socket
from typing import Any

from tests.cli.chats import listed, refused
from tests.cli.running import Result, penstock
from tests.client.server import Served, answer, served

KEY = "sk-test-0123456789"
ROUTED: dict[str, Any] = {
    "id": "anthropic/claude-sonnet-4.5",
    "context_length": 200_000,
    "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
    "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
    "supported_parameters": ["tools", "reasoning"],
}


def models(endpoint: Served, *arguments: str) -> Result:
    given = ("--base-url", endpoint.url, "--api-key-env", "TEST_KEY", *arguments)
    result = penstock("models", *given, TEST_KEY=KEY)
    assert KEY not in result.stdout + result.stderr
    return result


def test_the_table_has_figures_and_where_they_are_from() -> None:
    with served(listed(ROUTED, "gpt-5", "unheard-of")) as endpoint:
        result = models(endpoint, "--override", "unheard-of = window:32k price:0/0 no-tools")
    assert (result.returncode, result.stderr) == (0, "")
    header, routed, gpt, unheard, legend = result.stdout.splitlines()
    assert header.split()[:4] == ["model", "window", "input", "output"]
    assert routed.split()[:3] == ["anthropic/claude-sonnet-4.5", "200,000", "e"]
    assert routed.endswith("yes e   yes e  yes e      3/15 (cached 0.3) e")
    assert gpt.split()[:7] == ["gpt-5", "400,000", "c", "272,000", "c", "128,000", "c"]
    assert gpt.endswith("?")
    assert unheard.split()[:3] == ["unheard-of", "32,000", "o"]
    assert "no o" in unheard
    assert unheard.endswith("0/0 o")
    assert legend == ("from: o your override, e the endpoint's list, c the catalog, d default (unknown)")
    assert endpoint.asked[0].target == "/v1/models"
    assert endpoint.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_json_is_one_object_per_model() -> None:
    with served(listed(ROUTED, "gpt-5")) as endpoint:
        result = models(endpoint, "--json")
    routed, gpt = map(json.loads, result.stdout.splitlines())
    assert routed["id"] == ROUTED["id"]
    assert routed["prices"] == {"input": 3.0, "output": 15.0, "cached_input": 0.3, "cache_write": None}
    assert routed["sources"]["context_window"] == "endpoint"
    assert (gpt["max_input"], gpt["sources"]["max_input"]) == (272_000, "catalog")


def test_names_filter_by_what_is_in_them() -> None:
    with served(*[listed("gpt-5", "GPT-oss", "qwen3")] * 2) as endpoint:
        result = models(endpoint, "gpt", "--json")
        assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["gpt-5", "GPT-oss"]
        result = models(endpoint, "claude")
    assert (result.returncode, result.stdout) == (1, "")
    assert "the endpoint lists 3" in result.stderr


def test_a_server_on_this_machine_is_asked_what_it_has_loaded() -> None:
    running = {"models": [{"model": "qwen3", "context_length": 8192}]}
    shown = {"capabilities": ["completion", "tools", "thinking"]}
    with served(
        listed({"id": "qwen3", "owned_by": "library"}), [answer(200, running)], [answer(200, shown)]
    ) as (endpoint):
        result = models(endpoint, "--json")
    info = json.loads(result.stdout)
    assert (info["context_window"], info["sources"]["context_window"]) == (8192, "probe")
    assert (info["reasoning"], info["image_input"]) == (True, False)
    assert [asked.target for asked in endpoint.asked] == ["/v1/models", "/api/ps", "/api/show"]
    assert endpoint.asked[2].json == {"model": "qwen3"}


def test_a_server_that_cannot_be_asked_is_listed_all_the_same() -> None:
    with served(listed({"id": "qwen3", "owned_by": "library"}), *[refused(404, "no")] * 2) as endpoint:
        result = models(endpoint, "--json")
    assert json.loads(result.stdout)["sources"]["context_window"] == "default"


def test_a_wrong_key_is_told_with_its_variable() -> None:
    with served(refused(401, f"{KEY} is wrong", "invalid_api_key")) as endpoint:
        result = models(endpoint)
    assert (result.returncode, result.stdout) == (1, "")
    assert "the endpoint rejected the key in TEST_KEY" in result.stderr


def test_nothing_listens_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        result = penstock("models", "--base-url", f"http://127.0.0.1:{free.getsockname()[1]}")
    assert (result.returncode, result.stdout) == (2, "")
    assert "connection refused" in result.stderr


def test_names_are_safe_to_show() -> None:
    with served(listed("evil\x1b[31m")) as endpoint:
        assert "evil\\x1b[31m" in models(endpoint).stdout
