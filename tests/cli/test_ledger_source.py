"""The ledger of a running gateway, page by page, and servers that are no gateways."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from penstock.cli import UsageError
from penstock.cli.ledger_source import each_turn, newest_turns, open_ledger
from penstock.store.ledger import TurnFilter
from tests.client.server import answer, in_a_thread
from tests.gateway.upstream import ScriptedUpstream


def options(url: str) -> argparse.Namespace:
    return argparse.Namespace(store=None, base_url=f"{url}/v1", api_key_env=None)


def turn(number: int) -> dict[str, object]:
    return {"id": f"resp_{number}", "tenant": "local", "started_at": float(number)}


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    scripted = ScriptedUpstream()
    with in_a_thread(scripted):
        yield scripted


def test_pages_are_read_until_the_last(upstream: ScriptedUpstream) -> None:
    pages = [
        {"data": [turn(3), turn(2)], "next": "2.0_resp_2"},
        {"data": [turn(1)], "next": None},
    ]
    upstream.play("", *([answer(200, page)] for page in pages))
    with open_ledger(options(upstream.url)) as ledger:
        assert [each.id for each in each_turn(ledger, TurnFilter())] == ["resp_3", "resp_2", "resp_1"]


def test_the_newest_of_several_outcomes_are_in_the_order_of_their_start(upstream: ScriptedUpstream) -> None:
    pages = [{"data": [turn(each) for each in numbers], "next": None} for numbers in ([4, 1], [3, 2])]
    upstream.play("", *([answer(200, page)] for page in pages))
    with open_ledger(options(upstream.url)) as ledger:
        found = newest_turns(ledger, TurnFilter(), 3, ("failed", "refused"))
    assert [each.id for each in found] == ["resp_2", "resp_3", "resp_4"]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, {"data": "?"}, "/v1/turns is not the turns of a Penstock gateway"),
        (200, b'{"data": [], "next": "\xe9"}', "/v1/turns is not the turns of a Penstock gateway"),
        (403, {"error": {"message": "no"}}, "/v1/turns: HTTP 403 Said: no"),
    ],
)
def test_other_answers_are_errors(
    upstream: ScriptedUpstream, status: int, body: dict[str, object] | bytes, message: str
) -> None:
    upstream.play("", [answer(status, body)])
    with pytest.raises(UsageError, match=message), open_ledger(options(upstream.url)) as ledger:
        ledger.turns(TurnFilter())
