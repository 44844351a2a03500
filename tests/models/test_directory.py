"""The directory of models: requests, the cache, concurrent calls, and failures of the endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from penstock.errors import AuthenticationError, OpenResponsesError, ServerError
from penstock.models.directory import RETRY_WAIT, ModelDirectory
from penstock.models.enrich import DEFAULT_WINDOW
from penstock.models.learned_limits import LearnedLimits
from penstock.models.overrides import parse_override
from tests.client.asking import asking
from tests.client.server import answer
from tests.models import model_lists
from tests.models.fake_servers import PROPERTIES, Server

T = TypeVar("T")
Entries = list[dict[str, Any]]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Endpoint:
    """Returns or raises the next answer, once the gate is open."""

    def __init__(self, *answers: Entries | Exception) -> None:
        self.answers = [*answers]
        self.requests = 0
        self.gate: asyncio.Event | None = None

    async def models(self) -> Entries:
        self.requests += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


ONE: Entries = [{"id": "b"}, {"id": "a", "context_length": 9000}, {"id": "b", "context_length": 5000}]
TWO: Entries = [{"id": "c"}]
FAILED = ServerError("out of order")


def test_models_are_in_the_endpoints_order_without_duplicates() -> None:
    listed = run(ModelDirectory(Endpoint(ONE)).list())
    assert [(info.id, info.sources["context_window"]) for info in listed] == [
        ("b", "default"),
        ("a", "endpoint"),
    ]


def test_a_list_is_cached_until_its_ttl() -> None:
    async def scenario() -> None:
        clock, endpoint = Clock(), Endpoint(ONE, TWO)
        directory = ModelDirectory(endpoint, ttl=60.0, clock=clock)
        await directory.list()
        clock.now += 59.9
        assert [info.id for info in await directory.list()] == ["b", "a"]
        assert endpoint.requests == 1
        clock.now += 0.1
        assert [info.id for info in await directory.list()] == ["c"]
        assert endpoint.requests == 2

    run(scenario())


def test_refresh_ignores_the_cached_list() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(ONE, TWO)
        directory = ModelDirectory(endpoint)
        await directory.list()
        assert [info.id for info in await directory.list(refresh=True)] == ["c"]

    run(scenario())


def test_changing_the_returned_list_does_not_change_the_cache() -> None:
    async def scenario() -> None:
        directory = ModelDirectory(Endpoint(ONE))
        (await directory.list()).clear()
        assert len(await directory.list()) == 2

    run(scenario())


def test_concurrent_calls_share_one_request() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(ONE)
        endpoint.gate = asyncio.Event()
        directory = ModelDirectory(endpoint)
        waiting = [asyncio.create_task(directory.list(refresh=number % 2 == 0)) for number in range(10)]
        single = asyncio.create_task(directory.get("a"))
        await asyncio.sleep(0)
        endpoint.gate.set()
        results = await asyncio.gather(*waiting)
        assert (await single).context_window == 9000
        assert endpoint.requests == 1
        assert all(result == results[0] for result in results)

    run(scenario())


def test_cancelling_one_call_does_not_cancel_the_shared_request() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(ONE)
        endpoint.gate = asyncio.Event()
        directory = ModelDirectory(endpoint)
        first, second = (asyncio.create_task(directory.list()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        endpoint.gate.set()
        assert len(await second) == 2
        assert endpoint.requests == 1

    run(scenario())


def test_a_request_whose_callers_were_cancelled_is_still_used() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(ONE)
        endpoint.gate = asyncio.Event()
        directory = ModelDirectory(endpoint)
        only = asyncio.create_task(directory.list())
        await asyncio.sleep(0)
        only.cancel()
        await asyncio.gather(only, return_exceptions=True)
        endpoint.gate.set()
        assert len(await directory.list()) == 2
        assert endpoint.requests == 1

    run(scenario())


def test_a_failure_is_raised_to_all_callers_and_not_cached() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(AuthenticationError("who are you?"), ONE)
        directory = ModelDirectory(endpoint)
        errors = await asyncio.gather(directory.list(), directory.list(), return_exceptions=True)
        assert [type(each) for each in errors] == [AuthenticationError, AuthenticationError]
        assert endpoint.requests == 1
        assert directory.stale is None  # there is no list
        assert len(await directory.list()) == 2

    run(scenario())


def test_an_old_list_is_returned_as_stale_if_the_endpoint_fails() -> None:
    async def scenario() -> None:
        clock, endpoint = Clock(), Endpoint(ONE, FAILED, TWO)
        directory = ModelDirectory(endpoint, clock=clock)
        old = await directory.list()
        assert directory.stale is None
        clock.now += 300.0
        assert await directory.list() == old
        stale = directory.stale
        assert stale is not None
        assert stale.code == "models_stale"
        assert "out of order" in stale.message
        # An endpoint that is down is not asked on every call, but again after a while.
        clock.now += RETRY_WAIT - 1
        assert await directory.list() == old
        assert endpoint.requests == 2
        clock.now += 1
        assert [info.id for info in await directory.list()] == ["c"]
        assert directory.stale is None

    run(scenario())


@pytest.mark.parametrize("failure", [FAILED, OSError(), RuntimeError("the client is closed")])
def test_no_failure_discards_an_old_list(failure: Exception) -> None:
    async def scenario() -> None:
        directory = ModelDirectory(Endpoint(ONE, failure))
        old = await directory.list()
        assert await directory.list(refresh=True) == old
        assert directory.stale is not None
        assert directory.stale.message.endswith(str(failure) or "OSError")

    run(scenario())


def test_an_empty_list_replaces_an_old_one() -> None:
    async def scenario() -> None:
        directory = ModelDirectory(Endpoint(ONE, []))
        await directory.list()
        assert await directory.list(refresh=True) == []
        assert directory.stale is None

    run(scenario())


def test_a_model_that_is_not_listed_uses_other_sources() -> None:
    async def scenario() -> None:
        directory = ModelDirectory(Endpoint(ONE), overrides=[parse_override("mine = window:5000")])
        infos = [await directory.get(id) for id in ("a", "gpt-4o", "mine", "no/body")]
        sources = [info.sources["context_window"] for info in infos]
        assert sources == ["endpoint", "catalog", "override", "default"]

    run(scenario())


def test_get_works_without_a_list_and_retries_only_after_a_while() -> None:
    """Many endpoints have no list, but the model may work anyway."""

    async def scenario() -> None:
        clock, endpoint = Clock(), Endpoint(OpenResponsesError("no such address"), ONE)
        directory = ModelDirectory(endpoint, clock=clock)
        for _ in range(3):
            assert (await directory.get("gpt-4o")).context_window == 128_000
        assert endpoint.requests == 1
        clock.now += RETRY_WAIT
        assert (await directory.get("a")).context_window == 9000

    run(scenario())


def test_get_does_not_wait_long_for_a_slow_list() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(ONE)
        endpoint.gate = asyncio.Event()
        directory = ModelDirectory(endpoint, patience=0.01)
        assert (await directory.get("a")).sources["context_window"] == "default"
        endpoint.gate.set()
        await directory.list()
        assert (await directory.get("a")).context_window == 9000
        assert endpoint.requests == 1

    run(scenario())


def test_get_uses_an_old_list_while_a_new_one_loads() -> None:
    async def scenario() -> None:
        clock, endpoint = Clock(), Endpoint(ONE, [{"id": "a", "context_length": 7000}])
        directory = ModelDirectory(endpoint, clock=clock)
        await directory.list()
        clock.now += 1000
        endpoint.gate = asyncio.Event()
        assert (await directory.get("a")).context_window == 9000
        endpoint.gate.set()
        await directory.list()
        assert (await directory.get("a")).context_window == 7000

    run(scenario())


def test_get_can_be_cancelled() -> None:
    async def scenario() -> None:
        endpoint = Endpoint(ONE)
        endpoint.gate = asyncio.Event()
        waiting = asyncio.create_task(ModelDirectory(endpoint).get("a"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        endpoint.gate.set()

    run(scenario())


def test_overrides_take_precedence_over_the_endpoint() -> None:
    overrides = [parse_override("a = window:100k images"), parse_override("* = output:1000")]
    _, info = run(ModelDirectory(Endpoint(ONE), overrides=overrides).list())
    assert (info.context_window, info.max_output, info.image_input) == (100_000, 1000, True)
    assert info.sources["context_window"] == info.sources["max_output"] == "override"


@pytest.mark.parametrize("preset", ["", "llamacpp"])
def test_a_local_server_is_asked_what_it_has_loaded(preset: str) -> None:
    fetcher = Server({"/props": PROPERTIES})
    (info,) = run(ModelDirectory(Endpoint([model_lists.LLAMACPP]), fetcher=fetcher, preset=preset).list())
    assert (info.context_window, info.sources["context_window"]) == (8192, "probe")
    assert info.image_input is True


def test_other_servers_are_not_probed() -> None:
    fetcher = Server({})
    run(ModelDirectory(Endpoint([model_lists.VERCEL]), fetcher=fetcher, preset="vercel").list())
    assert fetcher.requests == []


def test_a_directory_works_on_one_loop_after_another() -> None:
    """A program may call `asyncio.run` for every call."""
    endpoint = Endpoint(ONE, TWO)
    directory = ModelDirectory(endpoint)
    run(directory.list())
    assert [info.id for info in run(directory.list(refresh=True))] == ["c"]


def test_the_client_can_be_the_endpoint() -> None:
    """End to end from a socket, in the format of Codex."""

    async def scenario() -> None:
        async with asking([answer(200, {"models": [model_lists.CODEX]})]) as (client, _):
            directory = ModelDirectory(client)
            (info,) = await directory.list()
            assert (info.id, info.context_window, info.efforts) == (
                "gpt-9-codex",
                272000,
                ("low", "medium", "high"),
            )

    run(scenario())


def test_a_learned_limit_lowers_the_list_at_once_and_is_forgotten_at_once() -> None:
    async def scenario() -> None:
        endpoint = Endpoint([{"id": "a", "context_window": 100_000}, {"id": "b"}])
        limits = LearnedLimits().at("http://here/v1")
        directory = ModelDirectory(endpoint, limits=limits)
        info = (await directory.list())[0]
        assert (info.context_window, info.learned) == (100_000, None)
        limits.learn(info, 48_000, 50_123)
        listed = await directory.list()
        assert [each.context_window for each in listed] == [48_000, DEFAULT_WINDOW]
        assert (await directory.get("a")).sources["context_window"] == "learned"
        unlisted = await directory.get("unlisted")
        limits.learn(unlisted, 32_000)
        assert (await directory.get("unlisted")).context_window == 32_000
        limits.forget()
        assert [each.context_window for each in await directory.list()] == [100_000, DEFAULT_WINDOW]
        assert endpoint.requests == 1

    run(scenario())


def windows(window: int | None) -> Entries:
    return [{"id": "a", "context_window": window}]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (100_000, 100_000, 48_000),
        (100_000, 200_000, 200_000),
        (100_000, 64_000, 64_000),
        (100_000, None, 48_000),  # it does not state another window
        (None, 200_000, 200_000),
        (None, None, 48_000),
    ],
)
def test_a_learned_limit_is_ignored_once_the_server_states_another_window(
    before: int | None, now: int | None, expected: int
) -> None:
    async def scenario() -> None:
        endpoint = Endpoint(windows(before), windows(now))
        directory = ModelDirectory(endpoint, limits=LearnedLimits().at("http://here/v1"))
        (info,) = await directory.list()
        assert directory.learn(info, 48_000, 50_123)
        assert [each.context_window for each in await directory.list()] == [48_000]
        (info,) = await directory.list(refresh=True)
        assert info.context_window == expected
        # An error under the new window teaches the same limit again.
        assert directory.learn(info, 48_000) is (expected != 48_000)
        assert [each.context_window for each in await directory.list()] == [48_000]

    run(scenario())


def test_a_learned_limit_is_ignored_once_a_probe_states_another_window() -> None:
    async def scenario() -> None:
        server, limits = Server({"/props": PROPERTIES}), LearnedLimits().at("http://here/v1")
        endpoint = Endpoint([{"id": "a", "owned_by": "llamacpp"}])
        directory = ModelDirectory(endpoint, fetcher=server, preset="llamacpp", limits=limits)
        (info,) = await directory.list()
        assert (info.context_window, info.sources["context_window"]) == (8192, "probe")
        assert directory.learn(info, 4096, 5000)
        assert (await directory.get("a")).context_window == 4096
        server.answers["/props"] = {"default_generation_settings": {"n_ctx": 32768}}
        (info,) = await directory.list(refresh=True)
        assert (info.context_window, info.sources["context_window"]) == (32768, "probe")

    run(scenario())


@pytest.mark.parametrize(("listed", "expected"), [(200_000, 128_000), (100_000, 100_000), (None, 128_000)])
def test_a_limit_above_the_default_is_learned_while_the_first_list_is_slow(
    listed: int | None, expected: int
) -> None:
    async def scenario() -> None:
        endpoint = Endpoint(windows(listed))
        endpoint.gate = asyncio.Event()
        limits = LearnedLimits().at("http://here/v1")
        directory = ModelDirectory(endpoint, limits=limits, patience=0.01)
        info = await directory.get("a")
        assert info.sources["context_window"] == "default"
        assert directory.learn(info, 128_000, 130_000)
        assert (await directory.get("a")).context_window == 128_000
        endpoint.gate.set()
        assert [each.context_window for each in await directory.list()] == [expected]

    run(scenario())


def test_a_directory_without_learned_limits_learns_nothing() -> None:
    directory = ModelDirectory(Endpoint(ONE))
    assert directory.limits is None
    assert not directory.learn(run(directory.get("a")), 4096)
