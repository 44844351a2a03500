"""Keys of a real gateway: changed while it runs, expired, and limited to some models."""

from __future__ import annotations

import http.client
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from penstock.gateway.config.values import Literal
from penstock.gateway.http.access import create_key
from tests.cli.running import penstock
from tests.gateway.probes import has_logged, wait_for
from tests.gateway.running import Running, gateway
from tests.gateway.websocket_client import talking


def status(running: Running, key: str, path: str = "/v1/models") -> int:
    return running.ask(path=path, method="GET", headers={"x-api-key": key}).status


def keys(folder: Path, *arguments: str) -> str:
    result = penstock("keys", *arguments, "--config", str(folder / "penstock.toml"))
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.e2e
def test_keys_are_created_rotated_and_revoked_while_the_gateway_runs(tmp_path: Path) -> None:
    first, entry = create_key("first")
    with gateway(tmp_path, config=entry) as running:
        new = keys(tmp_path, "create", "second")
        wait_for(lambda: status(running, new) == 200)
        made = running.whole("demo", headers={"x-api-key": new}).json["id"]
        with talking(running, additional_headers={"authorization": f"Bearer {new}"}) as socket:
            assert socket.response()["status"] == "completed"
            rotated = keys(tmp_path, "rotate", "second")
            wait_for(lambda: status(running, rotated, f"/v1/responses/{made}") == 200)
            assert status(running, new) == 401
            assert socket.refused()["code"] == "authentication_error"
        graced = keys(tmp_path, "rotate", "second", "--grace", "1h")
        wait_for(lambda: status(running, graced) == 200)
        assert status(running, rotated) == 200
        keys(tmp_path, "revoke", "second")
        wait_for(lambda: status(running, graced) == 401)
        assert status(running, first) == 200
        with (tmp_path / "penstock.toml").open("a") as file:
            file.write("[broken")
        wait_for(lambda: has_logged(running, "the settings were not changed"))
        assert status(running, first) == 200


@pytest.mark.e2e
def test_a_key_uses_only_its_models_on_every_route(tmp_path: Path) -> None:
    expired, first = create_key("old", expires=Literal("2020-01-31"))
    key, second = create_key("anna", models=["demo", "x*"])
    config = f'{first}\n{second}\n[aliases]\nsecret = "demo"\nxyz = "demo"\n'
    with gateway(tmp_path, config=config) as running:
        headers = {"x-api-key": key}
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
            for model in ("secret", "unknown"):
                reply = running.ask({"model": model, "input": "x"}, path, headers=headers)
                assert (reply.status, reply.error["code"]) == (403, "permission_denied")
        line = {"method": "respond", "model": "secret", "messages": [{"role": 1, "content": "x"}]}
        assert running.ask(line, "/v1/parts", headers=headers).status == 403
        unknown = running.ask({"model": "xx", "input": "x"}, headers=headers)
        assert (unknown.status, unknown.error["code"]) == (404, "model_not_found")
        assert "secret" not in unknown.error["message"]
        with talking(running, additional_headers=headers) as socket:
            assert socket.refused(model="secret")["code"] == "permission_denied"
        listed = running.ask(path="/v1/models", method="GET", headers=headers).json
        assert {each["id"] for each in listed["data"]} == {"demo", "xyz"}
        assert {each["slug"] for each in listed["models"]} == {"demo", "xyz"}
        assert status(running, key, "/v1/models/secret") == 403
        assert running.whole("xyz", headers=headers).status == 200
        refused = running.ask({"model": "demo", "input": "x"}, headers={"x-api-key": expired})
        assert refused.status == 401
        assert "expired at 2020-02-01" in refused.error["message"]


@pytest.mark.e2e
def test_200_turns_at_once_spend_at_most_the_budget(tmp_path: Path) -> None:
    """The budget is enough for ten turns. A turn is admitted only if its reservation fits, so what is spent
    exceeds the budget by less than one reservation, however many turns begin at once."""
    reserved = 60  # 50 tokens of output, and an estimate of the input
    key, entry = create_key("bot", budget=f"{10 * reserved} tokens/day")
    body = {"model": "demo", "input": "Answer with 300 words.", "max_output_tokens": 50}
    with gateway(tmp_path, config=entry) as running:
        with ThreadPoolExecutor(200) as pool:
            replies = list(pool.map(lambda _: running.ask(body, headers={"x-api-key": key}), range(200)))
        made = [reply for reply in replies if reply.status == 200]
        refused = [reply for reply in replies if reply.status != 200]
        assert {(reply.status, reply.error["code"]) for reply in refused} == {(429, "budget_exceeded")}
        assert all(int(reply.headers["retry-after"]) > 0 for reply in refused)
        assert re.search(r"reset at \d{4}-\d\d-\d\dT00:00Z", refused[0].error["message"])
        spent = sum(reply.json["usage"]["total_tokens"] for reply in made)
        assert 5 * reserved < spent <= 11 * reserved
        usage = running.ask(path="/v1/usage?by=key", method="GET", headers={"x-api-key": key}).json
        [row] = usage["data"]
        assert row["turns"] == len(made)
        assert row["input_tokens"] + row["output_tokens"] == spent


def scraped(url: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.mark.e2e
@pytest.mark.parametrize("has_token", [False, True])
def test_metrics_need_no_tenants_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_token: bool
) -> None:
    monkeypatch.setitem(os.environ, "METRICS_TOKEN", "tok-of-the-scraper")
    _, entry = create_key("a")
    token = 'metrics_token_env = "METRICS_TOKEN"\n' if has_token else ""
    config = f'{entry}\n[server]\nmetrics = "127.0.0.1:0"\n{token}'
    with gateway(tmp_path, config=config) as running:
        (url,) = re.findall(r"http://[0-9.:]+(?=/metrics)", json.dumps(running.log))
        bearer = {"authorization": "Bearer tok-of-the-scraper"}
        assert scraped(url, "/metrics")[0] == (401 if has_token else 200)
        assert "penstock_turns_running" in scraped(url, "/metrics", **bearer)[1]
        assert [scraped(url, path)[0] for path in ("/healthz", "/readyz", "/v1/models", "/")] == [
            *(200, 200),
            *(404, 404),
        ]
        assert scraped(url, "/metrics", origin="https://evil.example", **bearer)[0] == 403
        assert scraped(url, "/metrics", host="evil.example")[0] == (401 if has_token else 403)
        main = running.ask(path="/metrics", method="GET", headers=bearer)
        assert main.status == (200 if has_token else 401)
        assert "tok-of-the-scraper" not in json.dumps(running.log)
