"""OpenAI's own Python library through a balancer, over three workers that take turns to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI

from tests.chaos.clients import clients_of
from tests.chaos.invariants import check
from tests.chaos.site import KEY, Site, site_of
from tests.chaos.upstream import prompt_for, words_of
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

Body = Callable[[AsyncOpenAI, Site], Awaitable[None]]


def on_three_workers(folder: Path, cluster: PostgresCluster, body: Body) -> None:
    async def run() -> None:
        async with site_of(folder, cluster) as site, clients_of(site) as clients:
            # Without `keep-alive`, each request goes to the next worker.
            headers = {"connection": "close"}
            async with AsyncOpenAI(
                base_url=f"{site.base}/v1", api_key=KEY, default_headers=headers, max_retries=0, timeout=30
            ) as client:
                await body(client, site)
            assert site.balancer.connections >= 3
            await check("openai-python", site, clients)

    asyncio.run(run())


def text_of(name: str, count: int) -> str:
    return "".join(words_of(name, count))


def test_background_polling(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def body(client: AsyncOpenAI, _: Site) -> None:
        response = await client.responses.create(
            model="m", input=prompt_for("poll", 20, 0.03), background=True
        )
        statuses = [response.status]
        while response.status in ("queued", "in_progress"):
            response = await client.responses.retrieve(response.id)
            statuses.append(response.status)
        assert response.status == "completed"
        assert "in_progress" in statuses
        assert response.output_text == text_of("poll", 20)
        following = await client.responses.create(
            model="m", input=prompt_for("next", 3, 0.0), previous_response_id=response.id
        )
        assert following.output_text == text_of("next", 3)

    on_three_workers(tmp_path, cluster, body)


def test_a_stream_is_resumed_elsewhere(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def body(client: AsyncOpenAI, site: Site) -> None:
        seen = []
        stream = await client.responses.create(
            model="m", input=prompt_for("resume", 40, 0.05), background=True, stream=True
        )
        id = ""
        async for event in stream:
            seen.append(event.sequence_number)
            if event.type == "response.created":
                id = event.response.id
            if len(seen) == 10:
                break
        await stream.close()
        while True:  # each part at another worker, while the turn still runs
            again = await client.responses.retrieve(id, stream=True, starting_after=seen[-1])
            count, last = 0, ""
            async for event in again:
                seen.append(event.sequence_number)
                last, count = event.type, count + 1
                if count == 8:
                    break
            await again.close()
            if last == "response.completed":
                break
        assert seen == list(range(len(seen)))
        assert site.upstream.calls["resume"] == 1

    on_three_workers(tmp_path, cluster, body)


def test_a_turn_is_cancelled_elsewhere(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def body(client: AsyncOpenAI, _: Site) -> None:
        for number in range(3):
            response = await client.responses.create(
                model="m", input=prompt_for(f"cancel{number}", 500, 0.05), background=True
            )
            await client.responses.cancel(response.id)
            async with asyncio.timeout(10):
                while response.status in ("queued", "in_progress"):
                    response = await client.responses.retrieve(response.id)
            assert response.status == "cancelled"
            await client.responses.delete(response.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(response.id)

    on_three_workers(tmp_path, cluster, body)


def test_conversations(tmp_path: Path, cluster: PostgresCluster) -> None:
    async def body(client: AsyncOpenAI, _: Site) -> None:
        conversation = await client.conversations.create(metadata={"topic": "chaos"})
        for number in range(4):
            response = await client.responses.create(
                model="m", input=prompt_for(f"conv{number}", 5, 0.0), conversation=conversation.id
            )
            assert response.output_text == text_of(f"conv{number}", 5)
        items = await client.conversations.items.list(conversation.id, limit=100, order="asc")
        roles = [getattr(item, "role", "") for item in items.data]
        assert roles == ["user", "assistant"] * 4
        assert (await client.conversations.retrieve(conversation.id)).metadata == {"topic": "chaos"}
        await client.conversations.delete(conversation.id)

    on_three_workers(tmp_path, cluster, body)
