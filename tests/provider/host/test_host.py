"""The host in process, with an outbox that a test controls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.models.learned_limits import LearnedLimits
from penstock.provider.host import host as host_module
from penstock.provider.host.host import EditorHost
from tests.cli import streams
from tests.client.server import HELLO as EVENTS
from tests.client.server import Script, answer, chunk, run, send, sse, stall, streamed
from tests.gateway.upstream import SSE_HEAD, ScriptedUpstream
from tests.provider.host.host_process import Json, user
from tests.provider.host.outboxes import ControlledOutbox

BEGUN: Script = [send(SSE_HEAD + chunk(sse(EVENTS[:5]))), stall]


def lines(*requests: Json) -> list[bytes | None]:
    return [json.dumps(each).encode() for each in requests]


def respond(id: str) -> Json:
    return {"id": id, "method": "respond", "model": "one", "messages": [user("Hello")]}


def test_a_part_that_is_waiting_when_its_turn_is_cancelled_is_not_sent() -> None:
    async def scenario() -> None:
        scripted = ScriptedUpstream()
        scripted.play("", [answer(200, {"data": [{"id": "one"}]})])
        scripted.play("one", BEGUN)
        async with scripted:
            out = ControlledOutbox()
            host = EditorHost(out)
            await host.handle_lines(
                lines({"id": "c", "method": "configure", "endpoint": scripted.url}, respond("r"))
            )
            await out.part_is_waiting.wait()
            await host.handle_lines(lines({"id": "x", "method": "cancel", "request": "r"}))
            await out.ended("x")
            assert out.of("r") == []
            assert out.is_woken
            out.proceed.set()
            await out.ended("r")
            assert out.of("r") == ["done"]
            await host.aclose()

    run(scenario())


def test_requests_over_the_limit_wait_in_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "MAX_RUNNING", 2)

    async def scenario() -> None:
        scripted = ScriptedUpstream()
        scripted.play("", [answer(200, {"data": [{"id": "one"}]})])
        scripted.play("one", BEGUN)
        async with scripted:
            out = ControlledOutbox()
            out.proceed.set()
            host = EditorHost(out)
            await host.handle_lines(lines({"id": "c", "method": "configure", "endpoint": scripted.url}))
            await out.ended("c")
            handling = asyncio.create_task(
                host.handle_lines(
                    lines(respond("a"), {"id": "u", "method": "usage"}, respond("b"), respond("d"))
                )
            )
            while "text" not in out.of("b"):
                await asyncio.sleep(0.001)
            assert not handling.done()
            host._cancel("a")
            await handling
            await host.aclose()
            assert [out.of(id)[-1] for id in ("a", "b", "d")] == ["done"] * 3

    run(scenario())


def test_every_line_is_answered_although_one_is_invalid() -> None:
    async def scenario() -> None:
        out = ControlledOutbox()
        host = EditorHost(out)
        await host.handle_lines(
            [None, b"junk", b'{"method": "usage"}', *lines({"id": 1, "method": "models"})]
        )
        await out.ended(1)
        codes = [line["code"] for line in out.lines if line["type"] == "error"]
        assert codes == ["line_too_long", "invalid_line", "missing_id"]
        await host.aclose()

    run(scenario())


def test_an_internal_error_ends_its_request_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise ValueError("sesame")

    async def scenario() -> None:
        out = ControlledOutbox()
        host = EditorHost(out)
        monkeypatch.setattr(host._counter, "count_text", fail)
        await host.handle_lines(
            lines({"id": "a", "method": "count_tokens", "text": "Hello"}, {"id": "b", "method": "usage"})
        )
        await out.ended("b")
        while not out.of("a"):
            await asyncio.sleep(0.001)
        (line,) = (line for line in out.lines if line.get("id") == "a")
        assert (line["type"], line["code"]) == ("error", "internal_error")
        assert "sesame" not in json.dumps(out.lines)
        await host.aclose()

    run(scenario())


def test_the_same_configuration_reports_changed_models_once() -> None:
    async def scenario() -> None:
        out = ControlledOutbox()
        host = EditorHost(out)
        for id, endpoint in enumerate(("http://a", "http://a", "http://b", "ftp://c", "http://b")):
            await host.handle_lines(lines({"id": id, "method": "configure", "endpoint": endpoint}))
            while not out.of(id):
                await asyncio.sleep(0.001)
        assert [line["type"] for line in out.lines if "id" not in line] == ["models_changed"] * 2
        assert [out.of(id) for id in range(5)] == [["done"], ["done"], ["done"], ["error"], ["done"]]
        await host.aclose()

    run(scenario())


OVERFLOW = "This model's maximum context length is 48000 tokens. However, you requested 50123 tokens."


def test_a_learned_limit_is_announced_to_every_group_of_its_endpoint_and_can_be_forgotten() -> None:
    async def scenario() -> None:
        scripted = ScriptedUpstream()
        scripted.play("", [answer(200, {"data": [{"id": "one"}]})])
        scripted.play(
            "one", [answer(400, {"error": {"message": OVERFLOW, "code": "context_length_exceeded"}})]
        )
        async with scripted:
            out = ControlledOutbox()
            out.proceed.set()
            host = EditorHost(out, LearnedLimits())

            async def ask(id: str, method: str, **fields: Any) -> Json:
                await host.handle_lines(lines({"id": id, "method": method, **fields}))
                while not {"done", "error"} & {*out.of(id)}:
                    await asyncio.sleep(0.001)
                return next(line for line in reversed(out.lines) if line.get("id") == id)

            def announced() -> list[str]:
                return [line["group"] for line in out.lines if line.get("reason") == "limits"]

            for group in ("a", "b"):
                await ask(group, "configure", group=group, endpoint=scripted.url)
            await ask("elsewhere", "configure", group="c", endpoint="http://127.0.0.1:9")
            failed = await ask("r", "respond", group="a", model="one", messages=[user("Hello")])
            assert failed["message"] == (
                "The conversation is too long (50,123 tokens; the model's limit is 48,000, which is now "
                "known): try again, start a new one, or attach less."
            )
            assert announced() == ["a", "b"]
            assert out.lines.index(failed) > max(
                index for index, line in enumerate(out.lines) if line.get("reason") == "limits"
            )
            (model,) = (await ask("m", "models", group="b"))["models"]
            assert (model["max_input_tokens"], model["source"]) == (43_904, "learned")

            assert (await ask("f", "forget_limits", group="c"))["forgotten"] == []
            assert (await ask("g", "forget_limits", group="nobody"))["forgotten"] == []
            assert (await ask("h", "forget_limits", group="b", models=["two"]))["forgotten"] == []
            assert (await ask("i", "forget_limits", group="b"))["forgotten"] == ["one"]
            assert announced() == ["a", "b"] * 2
            (model,) = (await ask("n", "models", group="a"))["models"]
            assert model["source"] == "default"
            await host.aclose()

    run(scenario())


def test_without_a_group_the_limits_of_all_endpoints_are_forgotten_even_if_none_is_configured() -> None:
    async def scenario() -> None:
        out = ControlledOutbox()
        limits = LearnedLimits()
        host = EditorHost(out, limits)
        for endpoint, model in (("http://a", "one"), ("http://a", "two"), ("http://b", "one")):
            assert limits.put(endpoint, model, 48_000, None)
        asked: list[Json] = [
            {"id": 1, "method": "forget_limits", "group": ""},
            {"id": 2, "method": "forget_limits", "models": ["two"]},
            {"id": 3, "method": "forget_limits"},
            {"id": 4, "method": "forget_limits"},
        ]
        for request in asked:
            await host.handle_lines(lines(request))
            while not out.of(request["id"]):
                await asyncio.sleep(0.001)
        assert [line["forgotten"] for line in out.lines] == [[], ["two"], ["one", "one"], []]
        await host.aclose()

    run(scenario())


def test_texts_of_an_endpoint_in_the_last_line_are_short_and_have_no_keys() -> None:
    """They are shown in the list of recent turns."""
    hostile = "sk-mill-0123456789 " * 1000
    text, message = streams.message("msg_1", 0, ["Half"])
    broken, call = streams.call("fc_1", 1, hostile, ["{"])
    events = streams.response([*text, *broken], [message, call])
    ended = {"status": "incomplete", "incomplete_details": {"reason": hostile}}
    events[-1] = {"type": "response.incomplete", "response": {**events[-1]["response"], **ended}}

    async def scenario() -> None:
        scripted = ScriptedUpstream()
        scripted.play("", [answer(200, {"data": [{"id": "one"}]})])
        scripted.play("one", streamed(events))
        async with scripted:
            out = ControlledOutbox()
            out.proceed.set()
            host = EditorHost(out)
            for request in ({"id": "c", "method": "configure", "endpoint": scripted.url}, respond("r")):
                await host.handle_lines(lines(request))
                await out.ended(request["id"])
            await host.aclose()
        (done,) = (line for line in out.lines if line.get("id") == "r" and line["type"] == "done")
        result = done["result"]
        shown = [result["finish"], *(each["message"] for each in result["diagnostics"])]
        assert len(shown) == 2
        assert all(len(each) <= 301 for each in shown)
        assert "0123456789" not in "".join(shown)

    run(scenario())
