"""What is found: keys in the environment, and servers at their usual addresses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.dialects.presets import PRESETS, rows
from penstock.gateway.settings import ClientKey, Settings
from penstock.upstream import discovery
from penstock.upstream.discovery import LOCAL_SERVERS, Discovery, FoundUpstream, discover
from tests.client.server import Script, answer, run, stall
from tests.gateway.threaded import threaded_gateway
from tests.upstream.local_servers import LocalServer, listed, preset_at

KEY = "sk-planted-0123456789"
REFUSED: Script = [answer(401, {"error": {"message": "who are you?"}})]


def found(
    servers: dict[str, LocalServer], environment: dict[str, str] | None = None, limit: float = 5.0
) -> Discovery:
    """Return what is found if these servers run instead of the ones with these presets."""

    async def search() -> Discovery:
        local = []
        for preset, server in servers.items():
            await server.__aenter__()
            local.append(preset_at(preset, server.url))
        try:
            return await discover(environment or {}, local=local, local_limit=limit, vendor_limit=limit)
        finally:
            for server in servers.values():
                await server.__aexit__()

    discovered = run(search())
    assert KEY not in str(discovered)
    return discovered


def test_the_usual_local_servers_are_looked_for() -> None:
    addresses = {row.name: row.base_url.removeprefix("http://127.0.0.1:") for row in LOCAL_SERVERS}
    assert addresses.items() >= {
        ("ollama", "11434/v1"),
        ("lmstudio", "1234/v1"),
        ("vllm", "8000/v1"),
        ("llamacpp", "8080/v1"),
    }


def test_local_servers_are_found_with_their_models() -> None:
    servers = {
        "ollama": LocalServer(listed("qwen3:8b", "bge-m3", "bad name\x1b")),
        "vllm": LocalServer(listed("Qwen/Qwen3-32B", owner="vllm")),
    }
    first, second = found(servers).upstreams
    assert (first.name, first.title, first.models, first.is_local) == (
        "ollama",
        "Ollama",
        ("qwen3:8b", "bge-m3"),
        True,
    )
    assert (second.name, second.base_url) == ("vllm", f"{servers['vllm'].url}/v1")
    assert (second.key_variable, second.problem) == ("", "")


def test_a_server_at_the_port_of_another_is_recognised_by_its_list() -> None:
    owner = PRESETS["llamacpp"].list_owner
    servers = {
        "vllm": LocalServer(listed("gemma", owner=owner)),
        "llamacpp": LocalServer(listed("qwen3", owner=owner)),
        "ollama": LocalServer(listed("custom", owner="somebody")),
    }
    assert [(each.name, each.preset) for each in found(servers).upstreams] == [
        ("llamacpp", "llamacpp"),
        ("llamacpp-2", "llamacpp"),
        ("ollama", "ollama"),
    ]


@pytest.mark.parametrize("keys", [(), (ClientKey(name="laptop", digest=b"0" * 32),)])
def test_a_gateway_of_ours_is_not_used_as_an_upstream(keys: tuple[ClientKey, ...]) -> None:
    with threaded_gateway(Settings(keys=keys)) as gateway:
        url = f"http://{gateway.address.netloc}"
        discovered = run(discover({}, local=[preset_at("llamacpp", url)]))
    assert discovered == Discovery(gateways=(f"{url}/v1",))


@pytest.mark.parametrize(
    ("models", "note"),
    [
        (REFUSED, 'requires a key: put it into an environment variable, and add a target with base_url = "'),
        (listed(), "vLLM is running at"),
        ([answer(404, {"detail": "Not Found"})], ""),
        ([answer(200, b"<html></html>", "text/html")], ""),
        ([stall], ""),
    ],
)
def test_what_cannot_be_used_is_explained_and_what_is_no_model_server_is_ignored(
    models: Any, note: str
) -> None:
    limit = 0.1 if models == [stall] else 5.0
    discovered = found({"vllm": LocalServer(models)}, limit=limit)
    assert discovered.upstreams == ()
    assert len(discovered.notes) == bool(note)
    assert all(note in each for each in discovered.notes)


@pytest.fixture
def vendor() -> LocalServer:
    """A server in place of a real vendor."""
    return LocalServer(listed("old", "gpt-5-mini"))


def found_vendor(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, preset: str = "openai", **environment: str
) -> Discovery:
    async def search() -> Discovery:
        async with server:
            row = replace(PRESETS[preset], base_url=f"{server.url}/v1")
            monkeypatch.setattr(discovery, "PRESETS", {preset: row})
            return await discover(environment, local=[])

    discovered = run(search())
    assert KEY not in str(discovered)
    return discovered


def test_a_vendor_is_found_by_the_variable_of_its_key(
    vendor: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (upstream,) = found_vendor(vendor, monkeypatch, OPENAI_API_KEY=f" {KEY} ").upstreams
    assert upstream == FoundUpstream(
        name="openai",
        preset="openai",
        base_url=f"{vendor.url}/v1",
        key_variable="OPENAI_API_KEY",
        models=("gpt-5-mini", "old"),
    )
    assert [each.headers["authorization"] for each in vendor.asked] == [f"Bearer {KEY}"]
    assert found_vendor(vendor, monkeypatch, OPENAI_API_KEY=" ", OTHER=KEY) == Discovery()


def test_a_key_that_is_refused_is_named_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    discovered = found_vendor(LocalServer(REFUSED), monkeypatch, OPENAI_API_KEY=KEY)
    assert discovered.upstreams == ()
    assert discovered.notes == ("OpenAI refused the key in OPENAI_API_KEY (HTTP 401): check its value",)


def test_a_value_that_cannot_be_a_key_is_not_sent(
    vendor: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    discovered = found_vendor(vendor, monkeypatch, OPENAI_API_KEY=f"{KEY}\nx")
    assert discovered.notes == (
        "the value of OPENAI_API_KEY is not a key: it contains a line break or is not ASCII",
    )
    assert vendor.asked == []


def test_a_vendor_that_cannot_be_reached_now_is_offered_with_its_examples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = replace(PRESETS["openai"], base_url="http://127.0.0.1:1/v1")
    monkeypatch.setattr(discovery, "PRESETS", {"openai": row})
    (upstream,) = run(discover({"OPENAI_API_KEY": KEY}, local=[])).upstreams
    assert upstream.problem.startswith("cannot be reached: could not connect to 127.0.0.1:1")
    assert upstream.models[0] == "gpt-5.5"


def test_a_vendor_with_an_address_per_customer_is_explained() -> None:
    row = next(row for row in rows.PRESETS.values() if "{" in row.base_url)
    (note,) = run(discover({row.key_variable: KEY}, local=[])).notes
    assert note.startswith(f"{row.key_variable} is set, but {row.title} has an address of its own")
    assert row.base_url in note


def test_a_proxy_is_not_asked_for_servers_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert len(found({"ollama": LocalServer(listed("qwen3"))}).upstreams) == 1
