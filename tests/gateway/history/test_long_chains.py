"""A chain has no length limit: two thousand turns, the last of them over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.store.records import Closed, Opened, StoredItem
from penstock.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.gateway.configs import SHARED_CONFIG
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.gateway.stored_responses import get, sent_to
from tests.gateway.upstream import ScriptedUpstream, said, streamed

pytestmark = pytest.mark.e2e

TURNS = 2_000
AT_ONCE = 100


def message(id: str, role: str, text: str) -> StoredItem:
    part = "output_text" if role == "assistant" else "input_text"
    content = [{"type": part, "text": text}]
    item = {"type": "message", "id": id, "status": "completed", "role": role, "content": content}
    return StoredItem(id, json.dumps(item).encode())


async def keep(store: SqliteStore, number: int) -> None:
    """One turn as the gateway stores it."""
    id = f"resp_{number}"
    await store.open(
        Opened(
            id=id,
            created_at=number,
            previous_id=f"resp_{number - 1}" if number > 1 else None,
            input=(message(f"msg_asked_{number}", "user", f"question {number}"),),
        ),
        patience=30,
    )
    output = (message(f"msg_said_{number}", "assistant", f"answer {number}"),)
    response = encode(Response(id=id, model="m", created_at=1, status="completed"))
    assert await store.close(id, Closed(status="completed", response=response, output=output), patience=30)


async def seed(file: Path, count: int) -> None:
    store = await open_sqlite_store(file)
    for begin in range(1, count + 1, AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, count + 1))
        await asyncio.gather(*(keep(store, number) for number in some))
    await store.aclose()


def conversation(count: int) -> list[tuple[str, str]]:
    """The messages of the turns up to this one."""
    return [
        message
        for number in range(1, count + 1)
        for message in (("user", f"question {number}"), ("assistant", f"answer {number}"))
    ]


@pytest.fixture(scope="module")
def penstock(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("long-chain")
    asyncio.run(seed(folder / "store.sqlite", TURNS - 2))
    environment = {"UPSTREAM_KEY": SECRET_KEY}
    with gateway(folder, config=SHARED_CONFIG.format(url=upstream.url), environment=environment) as running:
        yield running


def test_the_last_of_two_thousand_turns_gets_all_of_them_in_order(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    answers = (streamed(*said(f"answer {number}")) for number in (TURNS - 1, TURNS))
    model, previous = upstream.play("long-chain", *answers), f"resp_{TURNS - 2}"
    for number in (TURNS - 1, TURNS):
        last = penstock.stream(model, f"question {number}", previous_response_id=previous)
        previous = last.last["id"]
    assert last.text == f"answer {TURNS}"
    assert sent_to(upstream, model, 0) == [*conversation(TURNS - 2), ("user", f"question {TURNS - 1}")]
    assert sent_to(upstream, model, 1) == [*conversation(TURNS - 1), ("user", f"question {TURNS}")]


def test_a_turn_from_the_middle_gets_what_was_before_it(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("long-chain-branch", streamed(*said("elsewhere")))
    penstock.whole(model, "another way", previous_response_id="resp_1000")
    assert sent_to(upstream, model, 0) == [*conversation(1000), ("user", "another way")]


def test_the_items_of_a_long_chain_are_paged_without_a_gap(penstock: Running) -> None:
    """Each page begins after the last item of the previous one, up to the very last item."""
    found: list[str] = []
    after, has_more = "", True
    while has_more:
        page = get(penstock, f"resp_{TURNS - 2}/input_items?order=asc&limit=100{after}").json
        found += [item["content"][0]["text"] for item in page["data"]]
        after, has_more = f"&after={page['last_id']}", page["has_more"]
    assert found == [text for _, text in conversation(TURNS - 2)][:-1]
