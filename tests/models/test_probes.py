"""What servers on the own machine say that they have loaded."""

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
from tests.models import shapes
from tests.models.test_listing import ANYTHING

SHOWN: dict[str, Any] = {
    "parameters": 'stop              "<|im_end|>"\nnum_ctx           16384\ntemperature       0.7',
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.block_count": 36},
    "capabilities": ["completion", "tools", "thinking"],
}
RUNNING = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 4096}]}
PROPERTIES = {
    "default_generation_settings": {"n_ctx": 8192},
    "total_slots": 4,
    "modalities": {"vision": True},
}


class Server:
    """Answers from a table, fails where it says so, and remembers what it was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    async def fetch(self, path: str, body: dict[str, Any] | None = None) -> Any:
        self.asked.append((path, body))
        answer = self.answers.get(path)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_ollama_tells_what_is_loaded_then_what_is_set_then_only_what_was_trained_for() -> None:
    can = ModelFacts(id="qwen3:8b", image_input=False, tool_calling=True, reasoning=True, ceiling=40960)
    assert read_shown(SHOWN, RUNNING, "qwen3:8b") == replace(can, window=4096)
    assert read_shown(SHOWN, RUNNING, "qwen3:4b") == replace(can, id="qwen3:4b", window=16384)
    assert read_shown({**SHOWN, "parameters": "num_ctxs 9"}) == replace(can, id="")
    assert read_shown({"capabilities": []}) == ModelFacts()
    assert read_shown({"capabilities": ["completion", "vision"]}).image_input is True


def test_lm_studio_tells_what_is_loaded_in_both_of_its_lists() -> None:
    told = read_loadable({"data": [shapes.LMSTUDIO, {"id": "e", "type": "embeddings"}]})
    assert [(id, each.window) for id, each in told.items()] == [("maker/local-vl", 8192)]
    told = read_loadable({"models": [shapes.LMSTUDIO_1]})
    assert [(id, each.window) for id, each in told.items()] == [("maker/local", 8192)]


def test_llama_cpp_tells_the_share_of_one_slot() -> None:
    assert read_properties(PROPERTIES) == ModelFacts(window=8192, image_input=True)
    assert read_properties({"default_generation_settings": {"n_ctx": 0}, "modalities": {}}) == ModelFacts()


@given(
    ANYTHING, ANYTHING, st.dictionaries(st.sampled_from([*SHOWN, "models", "modalities", "data"]), ANYTHING)
)
def test_nothing_that_a_server_answers_raises(first: Any, second: Any, third: Any) -> None:
    for answer in (first, third):
        read_shown(answer, second, "m")
        read_loadable(answer)
        read_properties(answer)


@pytest.mark.parametrize(
    ("server", "ids", "answers", "asked", "windows"),
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
            {"/api/v0/models": {"data": [shapes.LMSTUDIO]}},
            ["/api/v0/models"],
            {"maker/local-vl": 8192},
        ),
        (
            "loaded_instances",
            ["maker/local"],
            {"/api/v1/models": {"models": [shapes.LMSTUDIO_1]}},
            ["/api/v0/models", "/api/v1/models"],
            {"maker/local": 8192},
        ),
        ("props", ["some.gguf"], {"/props": PROPERTIES}, ["/props"], {"some.gguf": 8192}),
        ("props", ["a", "b"], {"/props": PROPERTIES}, [], {}),  # it does not say which it speaks of
        ("", ["a"], {}, [], {}),
    ],
)
def test_a_server_is_asked_in_its_own_way(
    server: str, ids: list[str], answers: dict[str, Any], asked: list[str], windows: dict[str, int]
) -> None:
    fetcher = Server(answers)
    told = asyncio.run(probe(server, ids, fetcher))
    assert [path for path, _ in fetcher.asked] == asked
    assert {id: each.window for id, each in told.items()} == windows


def test_ollama_is_asked_by_name_and_not_for_ever() -> None:
    fetcher = Server({})
    asyncio.run(probe("show", [f"m{number}" for number in range(MAX_SHOW_REQUESTS + 9)], fetcher))
    assert fetcher.asked[1] == ("/api/show", {"model": "m0"})
    assert len(fetcher.asked) == MAX_SHOW_REQUESTS + 1


@pytest.mark.parametrize("failure", [NetworkError("no"), OSError("no"), TimeoutError()])
@pytest.mark.parametrize("server", PROBES)
def test_a_server_that_cannot_be_asked_tells_nothing(server: str, failure: Exception) -> None:
    paths = ("/api/ps", "/api/show", "/api/v0/models", "/api/v1/models", "/props")
    told = asyncio.run(probe(server, ["m"], Server(dict.fromkeys(paths, failure))))
    assert all(each.window is None for each in told.values())


@pytest.mark.parametrize(
    ("preset", "entries", "server"),
    [
        ("ollama", [], "show"),
        ("openai", [shapes.LLAMACPP], ""),  # the preset knows better
        ("", [shapes.LLAMACPP], "props"),
        ("", [{"id": "qwen3:8b", "owned_by": "library"}], "show"),
        ("", [{"id": "m", "owned_by": "organization_owner"}], "loaded_instances"),
        ("", [shapes.OPENAI, None, 5], ""),
        ("", [], ""),
    ],
)
def test_the_server_is_told_by_the_preset_or_by_its_list(
    preset: str, entries: list[Any], server: str
) -> None:
    assert probe_of(preset, entries) == server


def test_every_way_to_ask_is_that_of_a_preset_whose_list_gives_it_away() -> None:
    assert {row.probe for row in PRESETS.values()} == {"", *PROBES}
    assert {*OWNERS.values()} == {*PROBES}
    assert "" not in OWNERS
