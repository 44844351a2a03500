"""Which key and which target a turn gets, in this process: affinity, weights, ejection, cache keys."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.demo.upstream import DemoUpstream
from penstock.dialects.plan import Target, UpstreamRequest
from penstock.errors import InvalidRequestError, NetworkError, OpenResponsesError, ServerError
from penstock.gateway.gateway import Gateway
from penstock.gateway.history.sealing import Sealer
from penstock.gateway.services import Services
from penstock.gateway.settings import DEMO, Limits, ModelRoute, RouteStep, Routing, Settings
from penstock.gateway.turn.stop_reasons import CANCELLED
from penstock.net.source import UpstreamSource
from penstock.store.memory import MemoryStore
from penstock.tokens.counter import TokenCounter
from penstock.upstream.keys import KeyRing
from penstock.upstream.target import Upstream, UpstreamTarget
from tests.dialects.chat_streams import chunk
from tests.gateway.fake_upstreams import Answer, FakeUpstream, Step, answer
from tests.gateway.in_process import Caller, Json, call, with_gateway
from tests.gateway.log_records import LogRecords, log_records
from tests.gateway.two_workers import Worker, with_two_workers
from tests.gateway.upstream import frames

DOWN = NetworkError("nobody answers", phase="connect")
HELLO = answer("Hello.")
NO_RETRIES = Limits(retries=0)
CUT: Answer = [frames(chunk({"content": "Hel"}), done=False), NetworkError("reset", phase="cut")]


class KeyedUpstream(FakeUpstream):
    """An upstream with two keys. `used` are those of its requests; `broken` is raised while it is set."""

    def __init__(self, name: str, *answers: Answer, vendor: str = "") -> None:
        super().__init__(name, *(answers or (HELLO,)))
        self.keys = KeyRing((f"{name}-1", f"{name}-2"), clock=time.monotonic)
        self.used: list[str] = []
        self.broken: OpenResponsesError | None = None
        self._vendor = vendor

    def target(self, model: str, key: str) -> Target:  # noqa: ARG002 - nothing depends on it
        return Target(model=model, vendor=self._vendor, dialect=self.dialect.name)

    async def send(self, request: UpstreamRequest, *, key: str, headers: Mapping[str, str]) -> UpstreamSource:
        self.used.append(key)
        if self.broken is not None:
            raise self.broken
        return await super().send(request, key=key, headers=headers)


def group(*names: str, weights: tuple[float, ...] = (), **settings: Any) -> Settings:
    """Settings with the model `m`, over which these targets are spread."""
    shares = weights or (1.0,) * len(names)
    steps = tuple(
        RouteStep(name, "m", weight, is_alternative=place > 0)
        for place, (name, weight) in enumerate(zip(names, shares, strict=True))
    )
    return Settings(models={"m": ModelRoute(name="m", steps=steps)}, limits=NO_RETRIES, **settings)


def used_by(*upstreams: KeyedUpstream) -> list[str]:
    return [key for upstream in upstreams for key in upstream.used]


def question(number: int) -> Json:
    return {"role": "user", "content": f"Question {number}"}


def id_of(caller: Caller) -> str:
    assert caller.status == 200, caller.json
    id: str = caller.json["id"]
    return id


async def chained(gateways: Iterator[Gateway], number: int) -> None:
    """A conversation of four turns that names the turn before."""
    previous: Json = {}
    for _ in range(4):
        caller = await call(next(gateways), model="m", input=[question(number)], **previous)
        previous = {"previous_response_id": id_of(caller)}


async def whole_history(gateways: Iterator[Gateway], number: int) -> None:
    """The same with a client that sends all of it again, and stores nothing."""
    history: list[Json] = []
    for _ in range(4):
        history.append(question(number))
        caller = await call(next(gateways), model="m", input=history, store=False)
        history += caller.json["output"]


async def conversation_object(gateways: Iterator[Gateway], number: int) -> None:
    created = await call(next(gateways), "/v1/conversations")
    for turn in range(4):
        asked = f"Question {number}, {turn}"
        await call(next(gateways), model="m", input=asked, conversation=id_of(created))


CHAINING = {"an id": chained, "the whole history": whole_history, "a conversation": conversation_object}


@pytest.mark.parametrize("how", CHAINING)
def test_every_worker_sends_a_conversation_to_the_same_key_and_target(tmp_path: Path, how: str) -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")
    conversations: list[list[str]] = []

    async def test(first: Worker, second: Worker) -> None:
        for number in range(12):
            one.used.clear()
            two.used.clear()
            workers = iter([first.gateway, second.gateway, second.gateway, first.gateway, second.gateway])
            await CHAINING[how](workers, number)
            conversations.append(used_by(one, two))

    with_two_workers(tmp_path, test, one, two, settings=group("one", "two"))
    assert [len(each) for each in conversations] == [4] * 12
    assert [len(set(each)) for each in conversations] == [1] * 12
    assert len({each[0] for each in conversations}) >= 3


def test_a_turn_by_id_and_one_with_the_whole_history_are_of_one_conversation() -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")

    async def test(gateway: Gateway) -> None:
        for number in range(6):
            one.used.clear()
            two.used.clear()
            first = await call(gateway, model="m", input=[question(number)])
            more = {"role": "user", "content": "More."}
            await call(gateway, model="m", input=[more], previous_response_id=id_of(first))
            await call(gateway, model="m", input=[question(number), *first.json["output"], more])
            assert len(set(used_by(one, two))) == 1

    with_gateway(test, one, two, settings=group("one", "two"))


def test_without_affinity_every_turn_goes_anywhere() -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")

    async def test(gateway: Gateway) -> None:
        for _ in range(40):
            await call(gateway, model="m", input=[question(1)])

    with_gateway(test, one, two, settings=group("one", "two", routing=Routing(affinity=False)))
    assert set(used_by(one, two)) == {"one-1", "one-2", "two-1", "two-2"}


def test_conversations_are_spread_by_weight_and_none_goes_to_a_target_without() -> None:
    upstreams = [KeyedUpstream(name) for name in ("one", "two", "off")]

    async def test(gateway: Gateway) -> None:
        for number in range(60):
            await call(gateway, model="m", input=[question(number)])

    with_gateway(test, *upstreams, settings=group("one", "two", "off", weights=(3, 1, 0)))
    one, two, off = (len(each.used) for each in upstreams)
    assert off == 0
    assert 2 <= one / two <= 4.5


def test_a_target_without_weight_answers_if_the_others_fail() -> None:
    one, off = KeyedUpstream("one"), KeyedUpstream("off")
    one.broken = DOWN

    async def test(gateway: Gateway) -> None:
        caller = await call(gateway, model="m", input="Hi", stream=True)
        assert caller.text == "Hello."
        assert [each["code"] for each in caller.response["diagnostics"]] == ["fell_back"]

    with_gateway(test, one, off, settings=group("one", "off", weights=(1, 0)))


# Ejection


@pytest.fixture
def logged() -> Iterator[LogRecords]:
    """What the gateway logs about targets."""
    with log_records("target") as found:
        yield found


CHAIN = ModelRoute(name="m", steps=(RouteStep("one"), RouteStep("two")))
ENDLESS = Routing(eject_after=3, eject_time=300.0)


def chain(routing: Routing = ENDLESS) -> Settings:
    return Settings(models={"m": CHAIN}, limits=NO_RETRIES, routing=routing)


def test_a_target_that_is_down_is_asked_no_more(logged: LogRecords) -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")
    one.broken = DOWN

    async def test(gateway: Gateway) -> None:
        callers = [await call(gateway, model="m", input="Hi", stream=True) for _ in range(8)]
        assert [caller.text for caller in callers] == ["Hello."] * 8
        assert (len(one.used), len(two.used)) == (3, 8)
        messages = [caller.response["diagnostics"][0]["message"] for caller in callers]
        assert messages[2] == "fell back to m at two: one: upstream_unreachable"
        assert messages[3] == "fell back to m at two: one is ejected after failures"
        text = gateway.metrics.render().decode()
        assert 'penstock_targets_ejected{target="one"} 1' in text
        assert 'penstock_ejections_total{target="one"} 1' in text

    with_gateway(test, one, two, settings=chain())
    [record] = logged.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("target one (m) is ejected for 300 s: 3 of its last 3 attempts")
    assert logged.fields[0]["last_error"] == "upstream_unreachable"


def test_a_target_that_works_again_is_back_after_one_turn(logged: LogRecords) -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")
    one.broken = DOWN

    async def test(gateway: Gateway) -> None:
        for _ in range(3):
            await call(gateway, model="m", input="Hi")
        one.broken = None
        while not one.requests:  # its time is over after a millisecond
            await call(gateway, model="m", input="Hi")
        asked = len(two.used)
        await call(gateway, model="m", input="Hi")
        assert (len(one.requests), len(two.used)) == (2, asked)
        assert not gateway.ejections.ejected().get("one")

    with_gateway(test, one, two, settings=chain(Routing(eject_after=3, eject_time=0.001)))
    assert [each["code"] for each in logged.fields] == ["ejected", "back"]


async def probed(gateway: Gateway, one: KeyedUpstream) -> Caller:
    """Have a target ejected, and return the turn that tries it again."""
    one.broken = DOWN
    for _ in range(3):
        await call(gateway, model="m", input="Hi")
    one.broken = None
    while True:
        probe = Caller(gateway, model="m", input="Hi", stream=True)
        while not probe.task.done():
            if one.requests:
                return probe
            await asyncio.sleep(0)


def test_a_probe_that_is_cancelled_makes_room_for_another() -> None:
    gate = asyncio.Event()
    waits: list[Step] = [gate, *HELLO]
    one, two = KeyedUpstream("one", waits, HELLO), KeyedUpstream("two")

    async def test(gateway: Gateway) -> None:
        probe = await probed(gateway, one)
        asked = len(two.used)
        await call(gateway, model="m", input="Hi")
        assert (len(one.requests), len(two.used)) == (1, asked + 1)
        gateway.turns.stop(CANCELLED)
        await probe.task
        await call(gateway, model="m", input="Hi")
        assert (len(one.requests), len(two.used)) == (2, asked + 1)

    with_gateway(test, one, two, settings=chain(Routing(eject_after=3, eject_time=0.001)))


def test_a_probe_lets_others_follow_as_soon_as_it_has_output() -> None:
    """Its answer may take minutes."""
    gate = asyncio.Event()
    slow: list[Step] = [frames(chunk({"content": "Hel"}), done=False), gate, *HELLO]
    one, two = KeyedUpstream("one", slow, HELLO), KeyedUpstream("two")

    async def test(gateway: Gateway) -> None:
        probe = await probed(gateway, one)
        await probe.received(b"output_text.delta")
        await call(gateway, model="m", input="Hi")
        assert len(one.requests) == 2
        gate.set()
        await probe.task

    with_gateway(test, one, two, settings=chain(Routing(eject_after=3, eject_time=0.001)))


def test_the_clients_errors_eject_nothing() -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")
    one.broken = InvalidRequestError("no such field", status=400)

    async def test(gateway: Gateway) -> None:
        for _ in range(10):
            assert (await call(gateway, model="m", input="Hi")).status == 400
        assert gateway.ejections.ejected() == {}

    with_gateway(test, one, two, settings=chain())


def test_answers_that_break_after_their_first_output_eject_a_target() -> None:
    one, two = KeyedUpstream("one", CUT), KeyedUpstream("two")

    async def test(gateway: Gateway) -> None:
        for _ in range(10):
            await call(gateway, model="m", input="Hi", stream=True)
        assert gateway.ejections.ejected() == {"one": 1}

    with_gateway(test, one, two, settings=chain())


def test_ejection_can_be_turned_off() -> None:
    one, two = KeyedUpstream("one"), KeyedUpstream("two")
    one.broken = ServerError("broken", status=500)

    async def test(gateway: Gateway) -> None:
        for _ in range(12):
            await call(gateway, model="m", input="Hi")
        assert len(one.used) == 12

    with_gateway(test, one, two, settings=chain(Routing(eject_after=0)))


def test_a_reload_keeps_ejections_unless_the_target_has_changed() -> None:
    def settings(url: str, **routing: Any) -> Settings:
        targets = (
            UpstreamTarget(name="one", base_url=url),
            UpstreamTarget(name="two", base_url="http://127.0.0.1:2"),
        )
        return Settings(models={"m": CHAIN}, targets=targets, routing=Routing(**routing))

    async def test() -> None:
        gateway = Gateway(settings("http://127.0.0.1:1"), store=MemoryStore())
        for _ in range(5):
            gateway.ejections.failed(("one", "m"), [("one", "m"), ("two", "m")], DOWN)
        assert gateway.ejections.ejected() == {"one": 1}
        gateway.reload(settings("http://127.0.0.1:1", eject_after=7))
        assert gateway.ejections.ejected() == {"one": 1}
        gateway.reload(settings("http://127.0.0.1:3"))
        assert gateway.ejections.ejected() == {}
        await gateway.aclose()

    asyncio.run(test())


# The derived cache key


def derived(*upstreams: KeyedUpstream, secret: str = "s", **routing: Any) -> list[Any]:
    """The cache keys of three turns: two of one conversation, and one with a key of the client."""
    names = [each.name for each in upstreams]

    async def run() -> None:
        settings = group(*names, routing=Routing(**routing))
        gateway = Gateway(settings, store=MemoryStore(), sealer=Sealer(secret))
        known: dict[str, Upstream] = {DEMO: DemoUpstream(), **{each.name: each for each in upstreams}}
        gateway.services = Services(settings, known, gateway.metrics, TokenCounter())
        first = await call(gateway, model="m", input=[question(1)])
        assert first.json.get("prompt_cache_key") is None
        await call(gateway, model="m", input="More.", previous_response_id=id_of(first))
        own = await call(gateway, model="m", input=[question(1)], prompt_cache_key="mine")
        assert own.json["prompt_cache_key"] == "mine"
        await gateway.aclose()

    asyncio.run(run())
    return [each.body.get("prompt_cache_key") for upstream in upstreams for each in upstream.requests]


def test_a_cache_key_is_derived_for_each_conversation_and_never_replaces_the_clients() -> None:
    first, second, own = derived(KeyedUpstream("one", vendor="openai"))
    assert first == second
    assert len(first) == 32
    assert own == "mine"


def test_the_derived_cache_key_cannot_be_guessed_without_the_secret() -> None:
    first = derived(KeyedUpstream("one", vendor="openai"))[0]
    assert derived(KeyedUpstream("one", vendor="openai"), secret="another")[0] != first


def test_no_cache_key_is_derived_if_that_is_turned_off_or_the_vendor_takes_none() -> None:
    assert derived(KeyedUpstream("one", vendor="openai"), prompt_cache_key=False) == [None, None, "mine"]
    assert derived(KeyedUpstream("one"))[:2] == [None, None]
