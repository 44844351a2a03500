"""Several clients follow one running response: each gets all of it, and none slows another down."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock.gateway.turn.followers import Followers
from tests.client.server import Script, chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.configs import CONFIG
from tests.gateway.probes import wait_for
from tests.gateway.running import Live, Running, gateway
from tests.gateway.scripts import text
from tests.gateway.stored_responses import TEXT_DELTA, events_only, get, id_in
from tests.gateway.upstream import ScriptedUpstream, begun, frames, rest, streamed, until, until_gone

SMALL = 4096
"""The receive buffer of a reader that does not read: it is full after a few events."""

PIECE, PIECES = "x" * 65536, 80
"""Sent so often, it is more than the buffers between two processes hold."""


@contextmanager
def reading(running: Running, path: str, accent: str = "openresponses") -> Iterator[Live]:
    """Resume a stream, and read it step by step."""
    connection = running.connect()
    try:
        connection.request("GET", f"/v1/responses/{path}", headers={"x-penstock-accent": accent})
        yield Live(connection.getresponse(), accent)
    finally:
        connection.close()


@contextmanager
def not_reading(running: Running, path: str) -> Iterator[http.client.HTTPResponse]:
    """The same for a client that reads its head, and then nothing until the test reads."""
    connection = running.connect()
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    raw.settimeout(30)
    raw.connect((running.address.hostname, running.address.port))
    connection.sock = raw
    try:
        connection.request("GET", f"/v1/responses/{path}")
        yield connection.getresponse()
    finally:
        connection.close()


def in_three(first: threading.Event, second: threading.Event) -> Script:
    """An answer whose second and third parts are sent when the test sets their events."""
    middle = chunk(frames(*text("and then ", "more ", "of it "), done=False))
    return [*begun(chat_chunk({"content": "a "})), until(first), send(middle), until(second), rest("the end")]


def frames_after(body: bytes, sequence: int) -> bytes:
    """The frames of a stream after the one with this number, and its end."""
    parts = events_only(body).split(b"\n\n")
    [place] = [index for index, part in enumerate(parts) if b'"sequence_number":%d,' % sequence in part]
    return b"\n\n".join(parts[place + 1 :])


@pytest.mark.e2e
@pytest.mark.parametrize("is_background", [False, True], ids=["foreground", "background"])
def test_each_reader_gets_the_same_bytes(
    penstock: Running, upstream: ScriptedUpstream, is_background: bool
) -> None:
    """One client made the request, one reads from the start and one from the middle, all while it runs."""
    first, second = threading.Event(), threading.Event()
    model = upstream.play(f"many-readers-{is_background}", in_three(first, second))
    with ExitStack() as stack:
        maker = stack.enter_context(penstock.live(model, background=is_background))
        id = id_in(maker)
        whole = stack.enter_context(reading(penstock, f"{id}?stream=true"))
        whole.until(TEXT_DELTA)
        first.set()
        maker.until(b"more ")
        later = stack.enter_context(reading(penstock, f"{id}?stream=true&starting_after=3"))
        other = stack.enter_context(reading(penstock, f"{id}?stream=true", "openai"))
        later.until(b"more ")
        other.until(TEXT_DELTA)
        second.set()
        made = maker.rest()
        assert made.text == "a and then more of it the end"
        assert events_only(whole.rest().body) == events_only(made.body)
        assert other.rest().text == made.text
        later.until(b"[DONE]")
        assert events_only(later.body) == frames_after(made.body, 3)
        assert (
            events_only(other.body) == get(penstock, f"{id}?stream=true&accent=openai", accent="openai").body
        )
    assert len(upstream.asked_for(model)) == 1


@pytest.mark.e2e
def test_a_reader_that_disconnects_does_not_affect_the_others(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    """Only the client that made the request can end it by disconnecting."""
    first, second = threading.Event(), threading.Event()
    model = upstream.play("one-leaves", in_three(first, second))
    with penstock.live(model) as maker:
        id = id_in(maker)
        with reading(penstock, f"{id}?stream=true") as stays:
            with reading(penstock, f"{id}?stream=true") as leaves:
                leaves.until(TEXT_DELTA)
            first.set()
            maker.until(b"more ")
            second.set()
            made = maker.rest()
            assert made.last["status"] == "completed"
            assert events_only(stays.rest().body) == events_only(made.body)
    verdict = penstock.verdict(made.headers["x-request-id"])
    assert (verdict["outcome"], verdict["closer"]) == ("completed", "upstream")
    assert len(upstream.asked_for(model)) == 1


@pytest.mark.e2e
def test_a_stalled_reader_does_not_slow_the_others(penstock: Running, upstream: ScriptedUpstream) -> None:
    """The first client receives more than any buffer holds, before the other has read a word."""
    opened = threading.Event()
    pieces = [send(chunk(frames(*text(each), done=False))) for each in [PIECE] * PIECES + ["the last"]]
    start = begun(*text("a"))
    model = upstream.play("slow-reader", [*start, until(opened), *pieces, until_gone(threading.Event())])
    with ExitStack() as stack:
        with penstock.live(model) as maker:
            path = f"{id_in(maker)}?stream=true"
            slow = stack.enter_context(not_reading(penstock, path))
            opened.set()
            maker.until(b'"the last"')
            assert maker.body.count(PIECE.encode()) == PIECES
        late = events_only(slow.read())
    with not_reading(penstock, path) as again:
        assert late == events_only(again.read())
    assert late.startswith(events_only(maker.body[: maker.body.rindex(b"\n\n") + 2]))
    assert len(upstream.asked_for(model)) == 1


@pytest.mark.e2e
def test_a_reader_of_a_silent_turn_gets_heartbeats(penstock: Running, upstream: ScriptedUpstream) -> None:
    """The turn sends followers no comments; without any, a proxy would close the connection (ask A8)."""
    opened = threading.Event()
    model = upstream.play("silent-turn", [*begun(*text("a ")), until(opened), rest("b")])
    with penstock.live(model, background=True) as maker:
        id = id_in(maker)
        with reading(penstock, f"{id}?stream=true&starting_after=1") as late:
            for reader in (maker, late):
                reader.until(b"\n\n: ", times=2)
            opened.set()
            assert maker.rest().text == "a b"
            late.until(b"[DONE]")
            assert events_only(late.body) == frames_after(maker.body, 1)


@pytest.mark.e2e
def test_a_reader_that_reads_nothing_is_disconnected(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """Like the client of a turn (`client_timeout`): data that waits for it must not stay in memory
    forever."""
    config = CONFIG.format(url=upstream.url).replace("[limits]", "[limits]\nclient_timeout = 0.2")
    model = upstream.play("let-go", streamed(*text(*[PIECE] * PIECES), chat_chunk(finish="stop")))
    with gateway(tmp_path, config=config) as running:
        connection = running.connect()
        body = json.dumps({"model": model, "input": "x"}).encode()
        connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        id = json.loads(connection.getresponse().read())["id"]
        connection.close()
        with not_reading(running, f"{id}?stream=true") as stuck:
            wait_for(lambda: b'route="responses/*",status="200"} 1' in metrics(running))
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                stuck.read()


def metrics(running: Running) -> bytes:
    return running.ask(path="/metrics", method="GET").body


# In this process

KEY = ("local", "resp_1")


async def some_steps() -> None:
    """Run the event loop long enough for a grace period of 0 seconds to end."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_response_that_nobody_follows_is_given_up_after_the_grace() -> None:
    async def test() -> None:
        async with asyncio.timeout(5):
            await Followers().wait_until_unfollowed(KEY, 0)

    asyncio.run(test())


def test_a_client_that_reconnects_keeps_the_response_running() -> None:
    """Decision 16. The grace begins again when the last follower has disconnected."""

    async def test() -> None:
        followers = Followers()
        with followers.following(KEY):
            waiting = asyncio.create_task(followers.wait_until_unfollowed(KEY, 0))
            await some_steps()
            assert not waiting.done()
            with followers.following(KEY), followers.following(("bob", "resp_1")):
                pass
            await some_steps()
            assert not waiting.done()  # one is still there
        async with asyncio.timeout(5):
            await waiting

    asyncio.run(test())


def test_a_client_that_reconnects_within_the_grace_is_in_time() -> None:
    async def test() -> None:
        followers = Followers()
        waiting = asyncio.create_task(followers.wait_until_unfollowed(KEY, 60))
        await asyncio.sleep(0)
        with followers.following(KEY):
            await asyncio.sleep(0)
            assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(test())
