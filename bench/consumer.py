"""Benchmark of the client and the adapter: `python -m bench.consumer`.

Two ratios, each measured in one run over the same bytes:

- *reading*: CPU time from server-sent events to parts, per event, as a multiple of only decoding the same
  frames with msgspec;
- *delay*: the time until the first part, through the client and the adapter, as a multiple of the time until
  a bare reader of the same stream (the same HTTP library, no types, no retries) has the frame of that part.
  The server waits first, as a model does; the limit is 1.05. The same is shown, without a limit, for a server
  that answers at once, where only our own work is visible.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import aiohttp
import msgspec

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.parts.adapter import OpenResponsesStreamAdapter
from penstock.protocol.events import Event, decode_event
from penstock.protocol.request import CreateResponse
from penstock.protocol.response import Response
from penstock.protocol.wire import encode
from penstock.sse import DONE, Decoder, encode_frame
from penstock.stream.deltas import FinishReason, ReasoningDelta, TextDelta, ToolCallDelta
from penstock.stream.machine import ResponseStreamStateMachine

RESULTS = Path(__file__).parent / "results" / "consumer.json"
DELTAS = 20_000
READ = 1024
ROUNDS = 7
TURNS = 40
THINKING = 0.1
"""Seconds until the server's first byte, as with a fast model."""
LIMIT = 1.05
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def answer(deltas: int) -> list[Event]:
    """Return an agent's turn with reasoning, text and two tool calls."""
    machine = ResponseStreamStateMachine(Response(id="resp_bench", model="m"), clock=lambda: 0)
    events = machine.start()
    for number in range(deltas):
        if number % 4 == 0:
            events += machine.apply(ReasoningDelta(f"thought {number} "))
    for number in range(deltas):
        events += machine.apply(TextDelta(f"word {number} "))
    for number in range(deltas // 10):
        delta = ToolCallDelta(number % 2, id=f"call_{number % 2}", name="look", arguments=" ")
        events += machine.apply(delta)
    for key in (0, 1):
        events += machine.apply(ToolCallDelta(key, arguments='{"at": "sea"}'))
    return events + machine.finish(FinishReason.TOOL_CALLS)


def as_bytes(events: list[Event]) -> bytes:
    return b"".join(encode_frame(event.type, encode(event)) for event in events) + DONE


def cpu(work: Callable[[], None]) -> float:
    """Return CPU seconds, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = process_time()
        work()
        best = min(best, process_time() - begin)
    return best


def reading() -> dict[str, float]:
    events = answer(DELTAS)
    data = as_bytes(events)
    reads = [data[start : start + READ] for start in range(0, len(data), READ)]

    def bare() -> None:
        decoder = Decoder()
        for read in reads:
            for frame in decoder.feed(read):
                if frame.data != "[DONE]":
                    msgspec.json.decode(frame.data)

    def to_parts() -> None:
        decoder, adapter = Decoder(), OpenResponsesStreamAdapter()
        for read in reads:
            for frame in decoder.feed(read):
                if frame.data != "[DONE]":
                    adapter.feed(decode_event(frame.data))

    base, whole = cpu(bare), cpu(to_parts)
    return {
        "events": len(events),
        "bare_us": round(base / len(events) * 1e6, 2),
        "to_parts_us": round(whole / len(events) * 1e6, 2),
        "ratio": round(whole / base, 2),
    }


async def serve(body: bytes, thinking: float) -> tuple[asyncio.Server, str]:
    """A server that waits, then sends everything."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(thinking)
                writer.write(HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def bare_turn(session: aiohttp.ClientSession, url: str) -> float:
    """Return the time until the first text frame, after reading to the end."""
    begin, first = perf_counter(), 0.0
    body = json.dumps({"model": "m", "input": "hello", "stream": True}).encode()
    async with session.post(url, data=body, headers={"content-type": "application/json"}) as response:
        decoder = Decoder()
        while data := await response.content.readany():
            for frame in decoder.feed(data):
                if not first and frame.event == "response.output_text.delta":
                    first = perf_counter() - begin
    return first


async def our_turn(client: OpenResponsesClient) -> float:
    begin, first = perf_counter(), 0.0
    adapter = OpenResponsesStreamAdapter(thinking="none")
    async with client.stream(CreateResponse(model="m", input="hello")) as events:
        async for event in events:
            if adapter.feed(event) and not first:
                first = perf_counter() - begin
    return first


async def delay(thinking: float) -> dict[str, float]:
    server, url = await serve(as_bytes(answer(20)), thinking)
    async with (
        server,
        aiohttp.ClientSession() as session,
        OpenResponsesClient(ClientConfig(base_url=url)) as client,
    ):
        turns: tuple[Callable[[], Awaitable[float]], ...] = (
            lambda: bare_turn(session, f"{url}/responses"),
            lambda: our_turn(client),
        )
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(TURNS):
            for turn, seen in zip(turns, times, strict=True):
                seen.append(await turn())
    bare, ours = map(median, times)
    return {
        "thinking_ms": thinking * 1e3,
        "bare_ms": round(bare * 1e3, 2),
        "ours_ms": round(ours * 1e3, 2),
        "ratio": round(ours / bare, 3),
    }


def main() -> int:
    results = {
        "reading": reading(),
        "delay": asyncio.run(delay(THINKING)),
        "delay_without_thinking": asyncio.run(delay(0)),
    }
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    read, waited = results["reading"], results["delay"]
    print(f"events to parts   {read['to_parts_us']:.2f} us an event, {read['ratio']:.2f} x decoding alone")
    print(
        f"first part        {waited['ours_ms']:.2f} ms, {waited['ratio']:.3f} x a bare read (limit {LIMIT})"
    )
    bare = results["delay_without_thinking"]
    print(f"  at once         {bare['ours_ms']:.2f} ms, {bare['ratio']:.3f} x a bare read")
    return 0 if waited["ratio"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
