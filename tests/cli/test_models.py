"""`penstock models`: a table with sources, JSON lines, and errors."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from penstock.models.enrich import enrich
from penstock.models.info import ModelFacts
from penstock.models.learned_limits import LearnedLimits
from tests.cli.chat.scripts import listed, refused
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


def models(endpoint: Served, *arguments: str, columns: str = "") -> Result:
    given = ("--base-url", endpoint.url, "--api-key-env", "TEST_KEY", *arguments)
    result = penstock("models", *given, TEST_KEY=KEY, COLUMNS=columns)
    assert KEY not in result.stdout + result.stderr
    return result


def test_the_table_has_values_and_their_sources() -> None:
    with served(listed(ROUTED, "gpt-5", "unheard-of")) as endpoint:
        result = models(endpoint, "--override", "unheard-of = window:32k price:0/0 no-tools")
    assert (result.returncode, result.stderr) == (0, "")
    header, routed, gpt, unheard, legend = result.stdout.splitlines()
    assert header.split()[:4] == ["model", "window", "input", "output"]
    assert routed.split()[:3] == ["anthropic/claude-sonnet-4.5", "200,000", "e"]
    assert routed.endswith("yes e   yes e  yes e      3/15 e            0.3 e")
    assert gpt.split()[:7] == ["gpt-5", "400,000", "c", "272,000", "c", "128,000", "c"]
    assert gpt.endswith("?")
    assert unheard.split()[:3] == ["unheard-of", "32,000", "o"]
    assert "no o" in unheard
    assert unheard.endswith("0/0 o")
    assert legend == ("from: o your override, e the endpoint's list, c the catalog, d default (unknown)")
    assert endpoint.asked[0].target == "/v1/models"
    assert endpoint.asked[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("columns", "shown", "hidden"),
    [
        (80, "model window output images tools $/million in/out", "input, reasoning, cached"),
        (60, "model window tools $/million in/out", "input, output, images, reasoning, cached"),
    ],
)
def test_a_narrow_table_has_fewer_columns_and_says_so(columns: int, shown: str, hidden: str) -> None:
    with served(listed(ROUTED, "x" * 90)) as endpoint:
        lines = models(endpoint, columns=str(columns)).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].split() == shown.split()
    assert f"not shown: {hidden}" in " ".join(line.strip() for line in lines)


def test_in_a_very_narrow_terminal_each_model_is_a_block_with_every_value() -> None:
    with served(listed(ROUTED, "x" * 90)) as endpoint:
        lines = models(endpoint, columns="40").stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[:2] == [ROUTED["id"], "  window 200,000 e  input 136,000 e"]
    assert lines[2] == "  output 64,000 c  images yes e"
    assert "cached 0.3 e" in "".join(lines)


def test_json_is_one_object_per_model() -> None:
    with served(listed(ROUTED, "gpt-5")) as endpoint:
        result = models(endpoint, "--json")
    routed, gpt = map(json.loads, result.stdout.splitlines())
    assert routed["id"] == ROUTED["id"]
    assert routed["prices"] == {"input": 3.0, "output": 15.0, "cached_input": 0.3, "cache_write": None}
    assert routed["sources"]["context_window"] == "endpoint"
    assert (gpt["max_input"], gpt["sources"]["max_input"]) == (272_000, "catalog")


def test_names_filter_the_list() -> None:
    with served(*[listed("gpt-5", "GPT-oss", "qwen3")] * 2) as endpoint:
        result = models(endpoint, "gpt", "--json")
        assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["gpt-5", "GPT-oss"]
        result = models(endpoint, "claude")
    assert (result.returncode, result.stdout) == (1, "")
    assert "the endpoint lists 3" in result.stderr


def test_a_local_server_is_probed_for_loaded_models() -> None:
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


def test_a_server_without_a_probe_is_listed() -> None:
    with served(listed({"id": "qwen3", "owned_by": "library"}), *[refused(404, "no")] * 2) as endpoint:
        result = models(endpoint, "--json")
    assert json.loads(result.stdout)["sources"]["context_window"] == "default"


def test_a_rejected_key_is_reported_with_its_variable() -> None:
    with served(refused(401, f"{KEY} is wrong", "invalid_api_key")) as endpoint:
        result = models(endpoint)
    assert (result.returncode, result.stdout) == (1, "")
    assert "the endpoint rejected the key in TEST_KEY" in result.stderr


def test_no_server_at_the_address_is_reported() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        result = penstock("models", "--base-url", f"http://127.0.0.1:{free.getsockname()[1]}")
    assert (result.returncode, result.stdout) == (2, "")
    assert "connection refused" in result.stderr


def test_names_are_safe_to_show() -> None:
    with served(listed("evil\x1b[31m")) as endpoint:
        assert "evil\\x1b[31m" in models(endpoint).stdout


def learn(endpoint: Served, state: Path, **limits: int) -> None:
    for model, limit in limits.items():
        learned = LearnedLimits(state / "penstock" / "limits.json", clock=lambda: 1_700_000_000).at(
            endpoint.url
        )
        assert learned.learn(enrich(ModelFacts(id=model)), limit, limit + 1)


def test_a_learned_limit_is_marked_in_the_table_and_in_json(tmp_path: Path) -> None:
    with served(*[listed("one", "two")] * 2) as endpoint:
        learn(endpoint, tmp_path, one=48_000)
        table = penstock("models", "--base-url", endpoint.url, XDG_STATE_HOME=str(tmp_path))
        encoded = penstock("models", "--base-url", endpoint.url, "--json", XDG_STATE_HOME=str(tmp_path))
    _, one, two, legend = table.stdout.splitlines()
    assert one.split()[:7] == ["one", "48,000", "l", "43,904", "l", "4,096", "d"]
    assert two.split()[:3] == ["two", "65,536", "d"]
    assert legend == "from: l learned from an error, d default (unknown)"
    first, second = map(json.loads, encoded.stdout.splitlines())
    assert first["sources"]["context_window"] == "learned"
    learned = {"limit": 48_000, "learned": 1_700_000_000, "refused": 48_001, "stated": None}
    assert first["learned"] == learned
    assert (second["sources"]["context_window"], second["learned"]) == ("default", None)


def test_forget_removes_the_named_limits_or_all_of_the_endpoint(tmp_path: Path) -> None:
    with served() as endpoint, served() as other:
        learn(endpoint, tmp_path, one=48_000, two=32_000, three=16_000)
        learn(other, tmp_path, one=8_000)
        named = penstock("models", "--base-url", endpoint.url, "--forget", "TW", XDG_STATE_HOME=str(tmp_path))
        unknown = penstock(
            "models", "--base-url", endpoint.url, "--forget", "four", XDG_STATE_HOME=str(tmp_path)
        )
        rest = penstock("models", "--base-url", endpoint.url, "--forget", XDG_STATE_HOME=str(tmp_path))
        again = penstock("models", "--base-url", endpoint.url, "--forget", XDG_STATE_HOME=str(tmp_path))
        assert endpoint.asked == []
        left = LearnedLimits(tmp_path / "penstock" / "limits.json").at(other.url).all()
    assert (named.returncode, named.stdout) == (0, "forgot two: 32,000 tokens, learned on 2023-11-14\n")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no limit was learned for a model whose name matches at http://127.0.0.1" in unknown.stderr
    assert [line.split(":")[0] for line in rest.stdout.splitlines()] == ["forgot one", "forgot three"]
    assert (again.returncode, again.stdout) == (1, "")
    assert "no limit was learned at http://127.0.0.1" in again.stderr
    assert [*left] == ["one"]


def test_an_unusable_file_of_learned_limits_is_reported_and_ignored(tmp_path: Path) -> None:
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "limits.json").write_text("not a list of limits")
    with served(listed("one")) as endpoint:
        result = penstock("models", "--base-url", endpoint.url, XDG_STATE_HOME=str(tmp_path))
    assert result.returncode == 0
    assert "65,536 d" in result.stdout
    assert "limits.json, is not used, because it does not contain limits: delete it" in result.stderr
