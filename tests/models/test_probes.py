"""Probing local servers for what they have loaded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.dialects.presets import PRESETS
from penstock.errors import NetworkError
from penstock.models.info import ModelFacts
from penstock.models.probes import (
    MAX_SHOW_REQUESTS,
    OWNERS,
    PROBES,
    probe,
    probe_of,
    read_loadable,
    read_properties,
    read_shown,
)
from tests.models import model_lists
from tests.models.fake_servers import PROPERTIES, Server

SHOWN: dict[str, Any] = {
    "parameters": 'stop              "<|im_end|>"\nnum_ctx           16384\ntemperature       0.7',
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.block_count": 36},
    "capabilities": ["completion", "tools", "thinking"],
}
RUNNING = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 4096}]}


def test_ollama_reports_the_loaded_the_configured_or_the_trained_length() -> None:
    can = ModelFacts(id="qwen3:8b", image_input=False, tool_calling=True, reasoning=True, ceiling=40960)
    assert read_shown(SHOWN, RUNNING, "qwen3:8b") == replace(can, window=4096)
    assert read_shown(SHOWN, RUNNING, "qwen3:4b") == replace(can, id="qwen3:4b", window=16384)
    assert read_shown({**SHOWN, "parameters": "num_ctxs 9"}) == replace(can, id="")
    assert read_shown({"capabilities": []}) == ModelFacts()
    assert read_shown({"capabilities": ["completion", "vision"]}).image_input is True


def test_both_lists_of_lm_studio_report_the_loaded_length() -> None:
    found = read_loadable({"data": [model_lists.LMSTUDIO, {"id": "e", "type": "embeddings"}]})
    assert [(id, each.window) for id, each in found.items()] == [("maker/local-vl", 8192)]
    found = read_loadable({"models": [model_lists.LMSTUDIO_1]})
    assert [(id, each.window) for id, each in found.items()] == [("maker/local", 8192)]


def test_llama_cpp_reports_the_context_of_one_slot() -> None:
    assert read_properties(PROPERTIES) == ModelFacts(window=8192, image_input=True)
    assert read_properties({"default_generation_settings": {"n_ctx": 0}, "modalities": {}}) == ModelFacts()


@given(
    model_lists.ANY_JSON,
    model_lists.ANY_JSON,
    st.dictionaries(st.sampled_from([*SHOWN, "models", "modalities", "data"]), model_lists.ANY_JSON),
)
def test_any_answer_of_a_server_is_read_without_an_error(first: Any, second: Any, third: Any) -> None:
    for answer in (first, third):
        read_shown(answer, second, "m")
        read_loadable(answer)
        read_properties(answer)


@pytest.mark.parametrize(
    ("server", "ids", "answers", "requests", "windows"),
    [
        (
            "show",
            ["qwen3:8b", "qwen3:4b"],
            {"/api/ps": RUNNING, "/api/show": SHOWN},
            ["/api/ps", "/api/show", "/api/show"],
            {"qwen3:8b": 4096, "qwen3:4b": 16384},
        ),
        (
            "loaded_instances",
            ["maker/local-vl"],
            {"/api/v0/models": {"data": [model_lists.LMSTUDIO]}},
            ["/api/v0/models"],
            {"maker/local-vl": 8192},
        ),
        (
            "loaded_instances",
            ["maker/local"],
            {"/api/v1/models": {"models": [model_lists.LMSTUDIO_1]}},
            ["/api/v0/models", "/api/v1/models"],
            {"maker/local": 8192},
        ),
        ("props", ["some.gguf"], {"/props": PROPERTIES}, ["/props"], {"some.gguf": 8192}),
        ("props", ["a", "b"], {"/props": PROPERTIES}, [], {}),  # it does not name the model
        ("", ["a"], {}, [], {}),
    ],
)
def test_each_server_is_probed_with_its_own_requests(
    server: str, ids: list[str], answers: dict[str, Any], requests: list[str], windows: dict[str, int]
) -> None:
    fetcher = Server(answers)
    found = asyncio.run(probe(server, ids, fetcher))
    assert [path for path, _ in fetcher.requests] == requests
    assert {id: each.window for id, each in found.items()} == windows


def test_the_requests_to_ollama_are_limited() -> None:
    fetcher = Server({})
    asyncio.run(probe("show", [f"m{number}" for number in range(MAX_SHOW_REQUESTS + 9)], fetcher))
    assert fetcher.requests[1] == ("/api/show", {"model": "m0"})
    assert len(fetcher.requests) == MAX_SHOW_REQUESTS + 1


@pytest.mark.parametrize("failure", [NetworkError("no"), OSError("no"), TimeoutError()])
@pytest.mark.parametrize("server", PROBES)
def test_a_failing_probe_finds_nothing(server: str, failure: Exception) -> None:
    paths = ("/api/ps", "/api/show", "/api/v0/models", "/api/v1/models", "/props")
    found = asyncio.run(probe(server, ["m"], Server(dict.fromkeys(paths, failure))))
    assert all(each.window is None for each in found.values())


@pytest.mark.parametrize(
    ("preset", "entries", "server"),
    [
        ("ollama", [], "show"),
        ("openai", [model_lists.LLAMACPP], ""),  # the preset takes precedence
        ("", [model_lists.LLAMACPP], "props"),
        ("", [{"id": "qwen3:8b", "owned_by": "library"}], "show"),
        ("", [{"id": "m", "owned_by": "organization_owner"}], "loaded_instances"),
        ("", [model_lists.OPENAI, None, 5], ""),
        ("", [], ""),
    ],
)
def test_the_kind_of_server_is_from_the_preset_or_the_list(
    preset: str, entries: list[Any], server: str
) -> None:
    assert probe_of(preset, entries) == server


def test_every_probe_belongs_to_a_preset_with_a_list_owner() -> None:
    assert {row.probe for row in PRESETS.values()} == {"", *PROBES}
    assert {*OWNERS.values()} == {*PROBES}
    assert "" not in OWNERS
