"""Answers of the API: in pieces, one heavy one at a time, and options that are checked."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.fairness import HEAVY
from penstock.gateway.errors import ClientDisconnected, RequestRefused
from penstock.gateway.http.exchange import Exchange
from penstock.inspector.answers import PIECE, Desk, answer, choice, whole_number
from tests.gateway.fake_channels import FakeHttpChannel


def exchange_of(channel: FakeHttpChannel) -> Exchange:
    exchange = Exchange(channel)
    exchange.client_timeout = 0.05
    return exchange


def test_a_large_answer_is_sent_as_the_client_reads() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel("GET")
        await answer(exchange_of(channel), {"text": "x" * (3 * PIECE)})
        assert len(channel.pieces) == 5  # the last one is empty
        assert channel.sent_headers["content-length"] == str(len(channel.body))
        assert channel.is_ended

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel("GET")
        channel.is_writable = False
        await answer(exchange_of(channel), {"text": "x" * (3 * PIECE)})
        assert (len(channel.pieces), channel.aborts) == (1, 1)

    asyncio.run(scenario())


def test_heavy_answers_are_made_one_after_the_other_in_a_thread() -> None:
    async def scenario() -> None:
        desk, running, most, names = Desk(), 0, 0, set()

        def make() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            names.add(threading.current_thread().name)
            running -= 1
            return "made"

        channels = [FakeHttpChannel("GET") for _ in range(4)]
        await asyncio.gather(*(desk.answer(exchange_of(each), HEAVY, make) for each in channels))
        assert most == 1
        assert all(name.startswith("penstock-heavy") for name in names)
        assert [each.body for each in channels] == [b'"made"'] * 4

    asyncio.run(scenario())


def test_a_light_answer_needs_no_thread() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel("GET")
        await Desk().answer(exchange_of(channel), 1, lambda: threading.current_thread().name)
        assert channel.body == f'"{threading.main_thread().name}"'.encode()

    asyncio.run(scenario())


def test_nothing_is_made_for_a_client_that_is_gone() -> None:
    async def scenario() -> None:
        channel = FakeHttpChannel("GET")
        channel.disconnect()
        with pytest.raises(ClientDisconnected):
            await Desk().answer(exchange_of(channel), HEAVY, lambda: pytest.fail("made"))

    asyncio.run(scenario())


def test_a_client_that_leaves_while_it_waits_is_not_kept_waiting() -> None:
    async def scenario() -> None:
        desk, begun, gate = Desk(), asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def make() -> str:
            loop.call_soon_threadsafe(begun.set)
            assert gate.wait(30)
            return "made"

        first, second, third = (FakeHttpChannel("GET") for _ in range(3))
        running = asyncio.create_task(desk.answer(exchange_of(first), HEAVY, make))
        await begun.wait()
        waiting = asyncio.create_task(desk.answer(exchange_of(second), HEAVY, lambda: pytest.fail("made")))
        cancelled = asyncio.create_task(desk.answer(exchange_of(third), HEAVY, lambda: pytest.fail("made")))
        await asyncio.sleep(0)
        second.disconnect()
        cancelled.cancel()
        with pytest.raises(ClientDisconnected):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert not running.done()
        gate.set()
        await running
        last = FakeHttpChannel("GET")
        await desk.answer(exchange_of(last), HEAVY, lambda: "free")
        assert (first.body, last.body) == (b'"made"', b'"free"')

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "expected"), [("", 7), ("n=0", 0), ("n=-1", -1), ("n=20", 20), ("n=21", None), ("n=x", None)]
)
def test_numbers_are_checked(query: str, expected: int | None) -> None:
    exchange = exchange_of(FakeHttpChannel("GET", query=query))
    if expected is None:
        with pytest.raises(RequestRefused, match="n must be a number from -1 to 20"):
            whole_number(exchange, "n", 7, least=-1, most=20)
    else:
        assert whole_number(exchange, "n", 7, least=-1, most=20) == expected


def test_a_number_that_must_be_positive_is_not_negative() -> None:
    with pytest.raises(RequestRefused):
        whole_number(exchange_of(FakeHttpChannel("GET", query="n=-1")), "n", 7, least=1, most=20)


def test_choices_are_checked() -> None:
    assert choice(exchange_of(FakeHttpChannel("GET")), "way", "a", "b") == "a"
    assert choice(exchange_of(FakeHttpChannel("GET", query="way=b")), "way", "a", "b") == "b"
    with pytest.raises(RequestRefused, match="way must be one of a, b"):
        choice(exchange_of(FakeHttpChannel("GET", query="way=c")), "way", "a", "b")
