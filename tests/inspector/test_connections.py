"""How clients are pointed at the gateway: the text of `penstock connect`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.connect.guides import GUIDES
from tests.cli.running import penstock
from tests.gateway.fake_upstreams import FakeUpstream, answer
from tests.gateway.running import gateway
from tests.inspector.sites import KEYS, Site, with_site


def test_every_client_has_its_settings() -> None:
    async def scenario(site: Site) -> None:
        found = await site.get("connect?base_url=https://llm.example/penstock/v1/&model=demo")
        clients = {each["name"]: each for each in found["clients"]}
        assert list(clients) == list(GUIDES)
        for client in clients.values():
            assert "https://llm.example/penstock/v1" in client["settings"]
            assert client["title"]
        assert clients["codex"]["file"] == "~/.codex/config.toml"
        assert clients["openai"]["saved_as"] == "hello.py"
        assert clients["openai"]["steps"][0] == "save it as hello.py and run: python hello.py"
        assert "PENSTOCK_KEY" not in str(found)

    with_site(scenario)


def test_with_keys_the_client_takes_its_own_from_a_variable() -> None:
    async def scenario(site: Site) -> None:
        found = await site.get("connect", who="anna")
        clients = {each["name"]: each for each in found["clients"]}
        assert 'os.environ["PENSTOCK_KEY"]' in clients["openai"]["settings"]
        assert "put the gateway's key into the variable PENSTOCK_KEY" in clients["openai"]["steps"]
        assert "http://127.0.0.1/v1" in clients["openai"]["settings"]

    with_site(scenario, keys=True)


def test_a_key_sees_the_models_that_it_may_use() -> None:
    upstream = FakeUpstream("up", answer("Hello"))

    async def scenario(site: Site) -> None:
        services = site.gateway.services
        limited = replace(KEYS[0], models=("demo",))
        for keys, expected in ((KEYS, ["m", "demo"]), ((limited, *KEYS[1:]), ["demo"])):
            services.settings = replace(services.settings, keys=keys)
            found = await site.get("connect", who="anna")
            (editor,) = [each for each in found["clients"] if each["name"] == "vscode"]
            (group,) = json.loads(editor["settings"])
            assert sorted(each["id"] for each in group["models"]) == sorted(expected)

    with_site(scenario, upstream, keys=True)


@pytest.mark.parametrize(
    "query",
    [
        "base_url=javascript:alert(1)",
        "base_url=nothing",
        'base_url=http://x/"+evil()+"/v1',
        "base_url=http://x/v1%3Fa=b",
        "base_url=http://user:word@x/v1",
        f"base_url=http://{'x' * 300}/v1",
        "model=a%0Ab",
        f"model={'x' * 201}",
    ],
)
def test_values_that_would_break_out_of_a_file_are_refused(query: str) -> None:
    async def scenario(site: Site) -> None:
        found = await site.get(f"connect?{query}", status=400)
        assert found["error"]["param"] in ("base_url", "model")

    with_site(scenario)


def test_the_text_is_that_of_the_command(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        base_url = f"{running.url}/v1"
        reply = running.ask(path=f"/inspector/api/connect?base_url={base_url}", method="GET")
        clients = {each["name"]: each for each in reply.json["clients"]}
        for name, client in clients.items():
            printed = penstock("connect", name, "--base-url", base_url).stdout
            assert client["settings"].rstrip("\n") == printed.rstrip("\n")
