"""Messages between the supervisor and a worker."""

from __future__ import annotations

import socket

import msgspec
import pytest

from penstock.gateway.settings import ClientKey, Limits, ModelRoute, RouteStep, Settings
from penstock.gateway.telemetry.metrics import Counted
from penstock.gateway.workers.messages import (
    PROTOCOL,
    CountedByWorker,
    Drain,
    FromWorker,
    StartWorker,
    WorkerEnds,
    WorkerReady,
    link_to_supervisor,
    link_to_worker,
    receive_start,
    send_now,
)
from penstock.store.ledger import Budget, KeyLimits
from penstock.upstream.target import UpstreamTarget
from tests.client.server import run

SETTINGS = Settings(
    targets=(
        UpstreamTarget(name="a", base_url="http://127.0.0.1:1", keys=("secret",), headers={"x-team": "b"}),
    ),
    models={"m": ModelRoute(name="m", steps=(RouteStep("a", "b"),))},
    metrics=("127.0.0.1", 9464),
    keys=(
        ClientKey(
            name="k",
            digest=b"\x00\xff" * 16,
            limits=KeyLimits(budgets=(Budget(amount=1.5, unit="cost", period="day"),)),
        ),
    ),
    limits=Limits(client_timeout=None),
    workers=3,
)


def test_settings_arrive_as_they_were_sent() -> None:
    start = StartWorker(protocol=PROTOCOL, number=2, settings=SETTINGS, url="", started=1.5, listening=7)
    ours, theirs = socket.socketpair()

    async def send() -> None:
        link = await link_to_worker(ours)
        link.send(start)
        await link.aclose()

    run(send())
    with theirs:
        assert receive_start(theirs) == start


def test_messages_of_any_size_arrive_in_order_and_then_the_end() -> None:
    large: dict[str, list[tuple[tuple[str, ...], float]]] = {
        "penstock_requests_total": [((f"route-{number}", "200"), 1.0) for number in range(50_000)]
    }
    sent: list[FromWorker] = [WorkerReady(), CountedByWorker(Counted(counters=large)), WorkerEnds(3)]

    async def talk() -> None:
        ours, theirs = socket.socketpair()
        at_worker, at_supervisor = await link_to_supervisor(ours), await link_to_worker(theirs)
        for message in sent:
            at_worker.send(message)
        assert [await at_supervisor.receive() for _ in sent] == sent
        await at_worker.aclose()
        assert await at_supervisor.receive() is None
        at_supervisor.send(Drain())  # to nobody
        await at_supervisor.aclose()

    run(talk())


def test_a_process_that_does_not_read_is_behind() -> None:
    async def talk() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            link = await link_to_worker(ours)
            assert not link.is_behind
            large = Counted(counters={"a": [(("x" * 1000,), 1.0)] * 10_000})
            link.send(CountedByWorker(large))
            assert link.is_behind
        await link.aclose()

    run(talk())


@pytest.mark.parametrize("data", [b"", b"\x00\x00", b"\x00\x00\x00\x05abc"])
def test_a_first_message_that_is_cut_off_is_no_message(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(data)
        with pytest.raises(EOFError):
            receive_start(theirs)


def test_another_message_is_not_a_start() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_now(ours, WorkerReady())
        with pytest.raises(msgspec.ValidationError):
            receive_start(theirs)
