"""The numbers of the page are those of `/metrics` and `penstock usage`: of all workers, and of one key."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.gateway.http.access import key_digest
from tests.cli.running import penstock
from tests.gateway.running import Running, gateway

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
KEYS = {"anna": "pk_anna_planted_1", "ben": "pk_ben_planted_2", "ops": "pk_ops_planted_3"}
_SAMPLE = re.compile(r"^(penstock_\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
KINDS = ("input", "cached", "output", "reasoning")
BODIES: tuple[Json, ...] = (
    {"input": "Think about it, then count from 1 to 3.", "stream": True},
    {"input": "Answer with 20 words, and fail in the middle.", "stream": True},
    {"input": "Break off.", "stream": True},
    {"input": "Fail with 400."},
    {"input": "Answer with 60 words.", "max_output_tokens": 16, "store": False},
)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a gateway of two workers that has run turns of two keys, on several connections."""
    entry = '[[keys]]\nname = "{}"\nhash = "sha256:{}"\nadmin = {}\n'
    config = "".join(
        entry.format(name, key_digest(key).hex(), str(name == "ops").lower()) for name, key in KEYS.items()
    )
    with gateway(tmp_path_factory.mktemp("workers"), "--workers", "2", config=config) as running:
        for who, times in (("anna", 2), ("ben", 1)):
            for body in BODIES * times:
                running.ask({"model": "demo", **body}, headers=authorization(who))
        for _ in range(1000):  # a worker writes its last record after it has answered
            turns = get(running, "/v1/turns?limit=500", "ops")["data"]
            if sum(turn["ended_at"] is not None for turn in turns) == 3 * len(BODIES):
                break
        yield running


def authorization(who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[who]}"}


def get(running: Running, path: str, who: str) -> Any:
    return running.ask(path=path, method="GET", headers=authorization(who)).json


def metrics(running: Running, who: str = "") -> Counter[str]:
    """Return the sums of `/metrics`, of one key or of all."""
    sums: Counter[str] = Counter()
    text = running.ask(path="/metrics", method="GET", headers=authorization("ops")).body.decode()
    for name, labels, value in _SAMPLE.findall(text):
        label = dict(_LABEL.findall(labels))
        if who and label.get("key") != who:
            continue
        if name == "penstock_turns_total":
            sums["turns"] += int(float(value))
            sums["failed"] += int(float(value)) * (label["outcome"] in ("failed", "refused"))
        elif name == "penstock_tokens_total":
            sums[f"{label['kind']}_tokens"] += int(float(value))
    return sums


def of(totals: Json) -> Counter[str]:
    return Counter(
        {name: totals[name] for name in ("turns", "failed", *(f"{kind}_tokens" for kind in KINDS))}
    )


@pytest.mark.parametrize(("who", "whose"), [("ops", ""), ("anna", "anna"), ("ben", "ben")])
def test_the_dashboard_and_the_list_equal_metrics_and_usage(workers: Running, who: str, whose: str) -> None:
    expected = metrics(workers, whose)
    assert expected["turns"] == len(BODIES) * {"": 3, "anna": 2, "ben": 1}[whose]
    assert expected["failed"] == expected["turns"] * 3 // 5
    for by in ("model", "key", "target", "outcome"):
        dashboard = get(workers, f"/inspector/api/dashboard?by={by}", who)
        assert of(dashboard["totals"]) == expected
        assert by != "key" or {group["name"] for group in dashboard["groups"]} == (
            {whose} if whose else {"anna", "ben"}
        )
    assert sum(cause["turns"] for cause in dashboard["errors"]) == expected["failed"]
    listed = get(workers, "/v1/turns?limit=500", who)["data"]
    summed: Counter[str] = Counter()
    for turn in listed:
        summed["turns"] += 1
        summed["failed"] += turn["outcome"] in ("failed", "refused")
        summed.update({f"{kind}_tokens": turn[f"{kind}_tokens"] for kind in KINDS})
    assert summed == expected
    place = ("--base-url", f"{workers.url}/v1", "--api-key-env", "A_KEY")
    result = penstock("usage", *place, "--json", "--by", "model", "--since", "24h", A_KEY=KEYS[who])
    assert result.returncode == 0, result.stderr
    (line,) = result.stdout.splitlines()
    assert of(json.loads(line)) == expected


def test_the_report_of_each_turn_equals_its_record(workers: Running) -> None:
    for turn in get(workers, "/v1/turns?limit=500", "anna")["data"]:
        report = get(workers, f"/inspector/api/turns/{turn['id']}", "anna")
        assert report["record"] == turn
        if report["usage"] is not None:
            assert report["usage"]["input_tokens"] == turn["input_tokens"]
            assert report["usage"]["output_tokens"] == turn["output_tokens"]
