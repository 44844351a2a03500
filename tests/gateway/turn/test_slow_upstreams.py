"""Slow models: the gateway waits for them, and clients get heartbeats meanwhile (ask A8)."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from tests.client.server import Connection, Script, chunk, send, stall
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_ANSWER, SECRET_PROMPT, Running, judge
from tests.gateway.upstream import LAST_CHUNK, SSE_HEAD, ScriptedUpstream, begun, frames, said, until

pytestmark = pytest.mark.e2e


class Listening:
    """A streamed turn, read line by line."""

    def __init__(self, running: Running, model: str, **headers: str) -> None:
        self._connection = running.connect()
        body = json.dumps({"model": model, "input": SECRET_PROMPT, "stream": True})
        self._connection.request("POST", "/v1/responses", body, headers)
        self.body = b""

    def __enter__(self) -> Self:
        self.answer: http.client.HTTPResponse = self._connection.getresponse()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def lines(self) -> Iterator[str]:
        while line := self.answer.readline():
            self.body += line
            yield line.decode().rstrip("\n")

    def wait_for(self, beginning: str, times: int = 1) -> None:
        for line in self.lines():
            times -= line.startswith(beginning)
            if not times:
                return
        raise AssertionError(f"the stream ended without {beginning}")

    def events(self) -> list[dict[str, Any]]:
        for _ in self.lines():
            pass
        headers = {name.lower(): value for name, value in self.answer.getheaders()}
        return judge(self.answer.status, headers, self.body).events


def test_the_stream_begins_after_the_patience_with_heartbeats_before_the_first_token(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    answer = send(SSE_HEAD + chunk(frames(*said("at last"))) + LAST_CHUNK)
    model = upstream.play("slow-prefill", [until(opened), answer])
    with Listening(penstock, model) as listening:
        listening.wait_for("event: response.in_progress")
        listening.wait_for(": ")
        listening.wait_for("event: response.in_progress", 2)
        opened.set()
        events = listening.events()
    assert events[-1]["response"]["status"] == "completed"
    repeated = [event for event in events if event["type"] == "response.in_progress"]
    assert len(repeated) >= 3
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "at last"


def test_silence_in_the_middle_of_a_text_has_heartbeats(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    rest = send(chunk(frames(*said(" end"))) + LAST_CHUNK)
    model = upstream.play("slow-middle", [*begun(chat_chunk({"content": "begin"})), until(opened), rest])
    with Listening(penstock, model) as listening:
        listening.wait_for("event: response.output_text.delta")
        listening.wait_for(": ")
        listening.wait_for("event: response.in_progress")
        opened.set()
        events = listening.events()
    late = [event for event in events if event["type"] == "response.in_progress"][-1]
    assert late["response"]["output"][0]["content"][0]["text"] == "begin"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "begin end"


def test_the_client_chooses_the_heartbeat_interval(penstock: Running, upstream: ScriptedUpstream) -> None:
    opened = threading.Event()
    rest = send(chunk(frames(*said(" end"))) + LAST_CHUNK)
    model = upstream.play("quick-heart", [*begun(chat_chunk({"content": "begin"})), until(opened), rest])
    with Listening(penstock, model, **{"x-penstock-heartbeat": "0.1"}) as listening:
        listening.wait_for("event: response.in_progress", 4)
        opened.set()
        assert listening.events()[-1]["type"] == "response.completed"


@pytest.mark.parametrize("wrong", ["often", "0", "-1", "nan", "1e9"])
def test_an_impossible_heartbeat_interval_is_refused(penstock: Running, wrong: str) -> None:
    reply = penstock.stream("demo", headers={"x-penstock-heartbeat": wrong})
    assert (reply.status, reply.error["param"]) == (400, "x-penstock-heartbeat")


def test_comments_of_the_upstream_keep_a_turn_alive(penstock: Running, upstream: ScriptedUpstream) -> None:
    """Ask E9: any byte counts. The target gives up after half a second without one."""
    comments = [step for _ in range(8) for step in (pause, send(chunk(b": still here\n\n")))]
    end = send(chunk(frames(*said("ok"))) + LAST_CHUNK)
    upstream.play("over-hasty", [send(SSE_HEAD), *comments, end])
    assert penstock.stream("over-hasty").text == "ok"


async def pause(_: Connection) -> None:
    await asyncio.sleep(0.15)


@pytest.mark.parametrize("script", [[stall], [*begun(), stall]], ids=["no answer", "no event"])
def test_an_upstream_that_never_answers_is_a_timeout(
    penstock: Running, upstream: ScriptedUpstream, script: Script
) -> None:
    upstream.play("over-hasty", script)
    reply = penstock.whole("over-hasty")
    assert (reply.status, reply.error["code"]) == (504, "upstream_timeout")
    streamed = penstock.stream("over-hasty")  # the patience was over before the timeout
    assert streamed.last["error"]["code"] == "upstream_timeout"
    assert penstock.verdict(streamed.headers["x-request-id"])["closer"] == "timeout"


def test_an_upstream_that_stalls_fails_and_keeps_the_partial_output(
    penstock: Running, upstream: ScriptedUpstream
) -> None:
    upstream.play("over-hasty", [*begun(chat_chunk({"content": SECRET_ANSWER})), stall])
    reply = penstock.stream("over-hasty")
    assert reply.last["error"]["code"] == "upstream_timeout"
    assert "nothing arrived for 0.5 seconds" in reply.last["error"]["message"]
    assert reply.text == SECRET_ANSWER
    verdict = penstock.verdict(reply.headers["x-request-id"])
    assert (verdict["closer"], verdict["terminal_sent"]) == ("timeout", True)
