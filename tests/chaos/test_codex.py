"""The Codex CLI over WebSockets, through a balancer that sends each connection to the next worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.chaos.clients import clients_of
from tests.chaos.invariants import check
from tests.chaos.site import IS_LONG, KEY, Site, Worker, site_of
from tests.clients import environments
from tests.clients.codex import LONGEST, Codex, Ran
from tests.clients.script import Hang, Say, shell
from tests.clients.tap import Json, Tap, tap
from tests.clients.upstreams.chat import StrictChat
from tests.gateway.websocket_client import Talk
from tests.installing import InstallError, give_up
from tests.store.postgres.cluster import PostgresCluster

pytestmark = pytest.mark.chaos

TURNS = 10 if IS_LONG else 2
FAULTS = 5 if IS_LONG else 1
DRAIN = 1.0
MODEL = "gpt-5-over-chat"
CONFIG = """
[targets.scripted]
base_url = "{url}/v1"
[models.{model}]
target = "scripted"
model = "scripted-model"
"""
DONE = (Say("All done."),)

End = Callable[[Site, Worker], Awaitable[None]]


class Scene:
    """Codex, everything that it sends, and a site with a scripted upstream."""

    def __init__(self, site: Site, upstream: StrictChat, tapped: Tap, codex: Codex) -> None:
        self.site, self.upstream, self.tap, self.codex = site, upstream, tapped, codex

    @property
    def requests(self) -> list[list[Json]]:
        """What each WebSocket was asked, without the requests that only warm up a model."""
        sockets = [each for each in self.tap.exchanges if each.is_websocket]
        return [[each for each in socket.requests if each.get("generate", True)] for socket in sockets]

    async def run(self, prompt: str, resume: str = "") -> Ran:
        return await asyncio.to_thread(self.codex.run, prompt, resume=resume)

    def busy(self) -> Worker:
        """Return the worker with an open connection."""
        [worker] = [each for each in self.site.workers if self.site.balancer.open[each.port]]
        return worker


@pytest.fixture(scope="module")
def binary() -> Path:
    try:
        return environments.codex()
    except InstallError as problem:
        give_up("Codex", problem)


def site_with(
    upstream: StrictChat, folder: Path, cluster: PostgresCluster
) -> AbstractAsyncContextManager[Site]:
    config = CONFIG.format(url=upstream.url, model=MODEL)
    return site_of(folder, cluster, drain=DRAIN, config=config)


@asynccontextmanager
async def scene_of(name: str, folder: Path, cluster: PostgresCluster, binary: Path) -> AsyncIterator[Scene]:
    async with (
        StrictChat() as upstream,
        site_with(upstream, folder, cluster) as site,
        clients_of(site) as clients,
    ):
        with tap(site.base) as tapped:
            codex = Codex(binary, folder / "codex", f"{tapped.url}/v1", KEY)
            await asyncio.to_thread(codex.configure, MODEL, provider="supports_websockets = true")
            scene = Scene(site, upstream, tapped, codex)
            yield scene
            clients.counts["WebSockets"] = len(scene.requests)
            clients.counts["requests"] = sum(map(len, scene.requests))
            assert {each.status for each in tapped.exchanges if each.path == "/v1/responses"} == {101}
            for each in tapped.exchanges:
                assert each.violations("openai") == []
        assert upstream.refusals == []
        assert upstream.unplayed == 0
        await check(name, site, clients, workers_died=True)


def test_a_conversation_continues_at_other_workers(
    tmp_path: Path, cluster: PostgresCluster, binary: Path
) -> None:
    async def run() -> None:
        async with scene_of("Codex", tmp_path, cluster, binary) as scene:
            later = [(Say(f"Answer {number}."),) for number in range(TURNS)]
            scene.upstream.play([(shell("echo meow | tee -a cat.txt"),), (Say("It said meow."),), *later])
            served = [scene.site.balancer.opened.copy()]
            ran = await scene.run("Listen")
            assert (ran.code, ran.texts) == (0, ["It said meow."])
            served.append(scene.site.balancer.opened.copy())
            for number in range(TURNS):
                again = await scene.run("And now?", resume=ran.thread)
                assert (again.code, again.texts) == (0, [f"Answer {number}."])
                served.append(scene.site.balancer.opened.copy())
            assert (scene.codex.work / "cat.txt").read_text() == "meow\n"
            # Each run has one connection, to the worker after that of the last run.
            workers = [[*(after - before)] for before, after in pairwise(served)]
            assert all(len(each) == 1 for each in workers)
            assert all(one != other for one, other in pairwise(workers))
            # On the same connection, a request continues the last response; on a new one, it has the history.
            assert [len(each) for each in scene.requests] == [2] + [1] * TURNS
            assert [item["type"] for item in scene.requests[0][1]["input"]] == ["function_call_output"]
            last = scene.upstream.seen[-1]
            assert "meow" in last.texts("output")[0]
            assert last.texts("assistant")[0] == "It said meow."

    asyncio.run(run())


async def kill(site: Site, worker: Worker) -> None:
    await site.kill(worker)


async def drain(site: Site, worker: Worker) -> None:
    await site.start_worker()
    assert await site.stop_worker(worker) == 0


@pytest.mark.parametrize("end", [kill, drain])
def test_a_worker_goes_away(tmp_path: Path, cluster: PostgresCluster, binary: Path, end: End) -> None:
    """Codex connects again, and sends all that it knows: the new worker knows nothing of the conversation."""

    async def run() -> None:
        name = f"Codex, and a worker that goes away ({end.__name__})"
        async with scene_of(name, tmp_path, cluster, binary) as scene:
            for number in range(FAULTS):
                await while_a_command_runs(scene, end, f"flag{number}")
                await in_an_answer(scene, end)

    asyncio.run(run())


async def while_a_command_runs(scene: Scene, end: End, flag: str) -> None:
    work = scene.codex.work
    command = f"echo meow >> {flag}.txt; while [ ! -e {flag} ]; do sleep 0.05; done; echo purr"
    scene.upstream.play([(shell(command),), DONE])
    running = asyncio.create_task(scene.run("Listen"))
    await until((work / f"{flag}.txt").exists)
    await end(scene.site, scene.busy())
    (work / flag).touch()
    ran = await running
    assert (ran.code, ran.texts) == (0, ["All done."])
    assert (work / f"{flag}.txt").read_text() == "meow\n"
    last = scene.upstream.seen[-1]
    assert [last.kinds[-2:], last.texts("user")[-1]] == [["call", "output"], "Listen"]
    assert "purr" in last.texts("output")[0]
    assert [len(each) for each in scene.requests[-2:]] == [1, 1]
    assert scene.upstream.refusals == []


async def in_an_answer(scene: Scene, end: End) -> None:
    """Codex asks again, also after a part of an answer. A command that was called before it runs once."""
    work = scene.codex.work
    (work / "count.txt").unlink(missing_ok=True)
    scene.upstream.play([(shell("echo meow >> count.txt"),), (Say("The cat s"), Hang()), DONE])
    running = asyncio.create_task(scene.run("Listen"))
    await until(lambda: "output_text.delta" in str(scene.tap.exchanges[-1].messages[-1:]))
    await end(scene.site, scene.busy())
    ran = await running
    assert (ran.code, ran.texts[-1]) == (0, "All done.")
    assert (work / "count.txt").read_text() == "meow\n"
    assert scene.upstream.seen[2].texts("output") == scene.upstream.seen[1].texts("output")
    assert [len(each) for each in scene.requests[-2:]] == [2, 1]


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST):
        while not happened():
            await asyncio.sleep(0.02)


def test_a_stored_response_is_continued_at_other_workers(tmp_path: Path, cluster: PostgresCluster) -> None:
    """Codex stores nothing, and so continues responses on their own connection only. Other clients store."""

    async def run() -> None:
        async with StrictChat() as upstream, site_with(upstream, tmp_path, cluster) as site:
            prompts = [f"Question {number}" for number in range(TURNS + 2)]
            upstream.play([(Say(f"Answer to {prompt}"),) for prompt in [*prompts, "the last one", "more"]])
            await asyncio.to_thread(converse, site, prompts)
            assert len(site.balancer.opened) == len(site.workers)
            assert upstream.seen[len(prompts) - 1].texts("user") == prompts
            assert (upstream.refusals, upstream.unplayed) == ([], 0)
            async with clients_of(site) as clients:
                clients.counts["WebSockets"] = site.balancer.opened.total()
                await check("WebSockets that continue each other", site, clients)

    asyncio.run(run())


def converse(site: Site, prompts: list[str]) -> None:
    """Continue each response on a new connection, which the balancer sends to the next worker."""
    previous: dict[str, str] = {}
    for prompt in prompts:
        with talking_to(site) as talk:
            response = talk.response(MODEL, prompt, **previous)
            assert response["output"][0]["content"][0]["text"] == f"Answer to {prompt}"
            previous = {"previous_response_id": response["id"]}
    with talking_to(site) as talk:
        response = talk.response(MODEL, "the last one", store=False, **previous)
        unstored = {"previous_response_id": response["id"]}
        talk.response(MODEL, "more", store=False, **unstored)  # on its own connection
    with talking_to(site) as talk:
        assert talk.refused(MODEL, "more", **unstored)["code"] == "previous_response_not_found"


@contextmanager
def talking_to(site: Site) -> Iterator[Talk]:
    url = site.base.replace("http:", "ws:") + "/v1/responses"
    with connect(url, additional_headers={"authorization": f"Bearer {KEY}"}) as socket:
        yield Talk(socket)
