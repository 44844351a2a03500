"""A turn, from the first attempt to its verdict, in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import (
    DecodeError,
    InvalidRequestError,
    NetworkError,
    OpenResponsesError,
    RateLimitError,
    ServerError,
)
from penstock.gateway.gateway import Gateway
from penstock.gateway.services import Services
from penstock.gateway.settings import Limits
from penstock.gateway.turn.stop_reasons import CANCELLED, CLIENT_DISCONNECTED, SHUTTING_DOWN, StopReason
from penstock.store.memory import MemoryStore
from penstock.store.records import LOCAL, Closed
from tests.dialects.chat_streams import chunk
from tests.gateway.fake_upstreams import Answer, FakeUpstream, answer
from tests.gateway.in_process import Caller, Json, call, chain, with_gateway
from tests.gateway.upstream import USAGE, frames, said

NO_RETRIES = Limits(retries=0)
TEXT = frames(chunk({"content": "Hello"}), done=False)


def run(
    *upstreams: FakeUpstream, verdicts: list[Json], limits: Limits = NO_RETRIES, **body: Any
) -> tuple[Caller, Json]:
    """One turn; the client that asked for it, and the verdict."""
    callers: list[Caller] = []

    async def test(gateway: Gateway) -> None:
        callers.append(await call(gateway, model="m", input="Hi", **body))

    with_gateway(test, *upstreams, settings=chain(*upstreams, limits=limits))
    [verdict] = verdicts
    return callers[0], verdict


# Attempts


@pytest.mark.parametrize(
    "refused",
    [
        ServerError("out of order", status=500),
        RateLimitError("slow down"),
        NetworkError("no", phase="connect"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_next_target_answers_if_the_first_one_refuses(
    refused: OpenResponsesError, verdicts: list[Json]
) -> None:
    first, second = FakeUpstream("first", refused), FakeUpstream("second", answer("Yes."))
    caller, verdict = run(first, second, verdicts=verdicts, stream=True)
    assert caller.text == "Yes."
    assert (verdict["outcome"], verdict["target"], verdict["attempts"]) == ("completed", "second", 2)
    assert [each.partition(":")[0] for each in verdict["tried"]] == ["first"]
    [fallback] = [each for each in caller.response["diagnostics"] if each["code"] == "fell_back"]
    assert "m-at-second at second" in fallback["message"]  # ask E6
    assert second.sources[0].is_closed


def test_a_target_is_retried_as_often_as_the_limits_allow(verdicts: list[Json]) -> None:
    busy = ServerError("busy", status=503, retry_after=0.0)
    upstream = FakeUpstream("only", busy, busy, answer("Third time."))
    caller, verdict = run(upstream, verdicts=verdicts, limits=Limits(retries=2), stream=True)
    assert (caller.text, verdict["attempts"], len(verdict["tried"])) == ("Third time.", 3, 2)


def test_a_request_that_is_invalid_everywhere_is_sent_once(verdicts: list[Json]) -> None:
    first = FakeUpstream("first", InvalidRequestError("no such field", status=400, param="input"))
    second = FakeUpstream("second", answer("Yes."))
    caller, verdict = run(first, second, verdicts=verdicts, stream=True)
    assert (caller.status, caller.error["code"], caller.error["param"]) == (400, "invalid_request", "input")
    assert second.requests == []
    assert (verdict["outcome"], verdict["closer"]) == ("refused", "upstream")


BREAKS: dict[str, Answer] = {
    "the connection breaks": [TEXT, NetworkError("cut", phase="read")],
    "the stream ends too early": [TEXT],
    "the stream contains an error": [TEXT, frames({"error": {"message": "on fire", "code": 500}})],
}


@pytest.mark.parametrize("name", BREAKS)
def test_no_other_target_is_asked_after_the_first_output(name: str, verdicts: list[Json]) -> None:
    """The client has read half an answer: another model cannot continue it (decision 9)."""
    first, second = FakeUpstream("first", BREAKS[name]), FakeUpstream("second", answer("Yes."))
    caller, verdict = run(first, second, verdicts=verdicts, stream=True)
    assert (caller.status, caller.response["status"], caller.text) == (200, "failed", "Hello")
    assert second.requests == []
    assert first.sources[0].is_closed
    assert (verdict["outcome"], verdict["closer"]) == ("failed", "upstream")
    assert "tried" not in verdict


def test_a_break_after_the_finish_reason_is_not_a_failure(verdicts: list[Json]) -> None:
    end = frames(chunk({"content": "Done."}), chunk(finish="stop"), done=False)
    caller, verdict = run(
        FakeUpstream("only", [end, NetworkError("cut", phase="read")]), verdicts=verdicts, stream=True
    )
    assert (caller.response["status"], caller.text) == ("completed", "Done.")
    assert verdict["outcome"] == "completed"


# How a failure reaches the client


@pytest.mark.parametrize(("stream", "status"), [(True, 200), (False, 502)], ids=["streamed", "whole"])
def test_an_accepted_answer_that_is_empty_fails_in_the_stream(
    stream: bool, status: int, verdicts: list[Json]
) -> None:
    """Decision 5: the upstream accepted the request, so a streaming client gets no HTTP error."""
    caller, verdict = run(FakeUpstream("only", [frames()]), verdicts=verdicts, stream=stream)
    assert (caller.status, verdict["code"]) == (status, "upstream_empty")
    if stream:
        assert caller.response["error"]["code"] == "upstream_empty"
    else:
        assert caller.error["code"] == "upstream_empty"


SLOW_DOWN = RateLimitError("slow down", status=429, retry_after=7.0)


def test_a_refusal_is_an_http_status_until_the_stream_has_begun(verdicts: list[Json]) -> None:
    """Decision 9."""
    limits = Limits(retries=0, patience=60.0)
    caller, _ = run(FakeUpstream("only", SLOW_DOWN), verdicts=verdicts, limits=limits, stream=True)
    assert caller.status == 429
    assert caller.headers["retry-after"] == "7"


class SlowUpstream(FakeUpstream):
    """Refuses when it may."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.may_refuse = asyncio.Event()

    async def send(self, *args: Any, **options: Any) -> Any:
        await self.may_refuse.wait()
        return await super().send(*args, **options)


def test_a_refusal_after_the_stream_has_begun_is_an_event(verdicts: list[Json]) -> None:
    """Decision 9."""
    upstream = SlowUpstream("only", SLOW_DOWN)

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", stream=True)
        while not caller.sent:
            await asyncio.sleep(0)
        upstream.may_refuse.set()
        await caller.task
        assert caller.status == 200
        assert caller.response["error"]["code"] == "rate_limit_exceeded"
        assert "Please try again in 7s" in caller.response["error"]["message"]

    limits = Limits(retries=0, patience=0.0)
    with_gateway(test, upstream, settings=chain(upstream, limits=limits))
    assert len(verdicts) == 1


def test_a_request_that_a_dialect_cannot_render_is_refused_by_the_gateway(
    verdicts: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Any:
        raise DecodeError("cannot be sent to this upstream", param="tools")

    upstream = FakeUpstream("only", answer("Yes."))
    monkeypatch.setattr(type(upstream.dialect), "render", refuse)
    caller, verdict = run(upstream, verdicts=verdicts)
    assert (caller.status, caller.error["code"], caller.error["param"]) == (400, "invalid_request", "tools")
    assert (verdict["closer"], upstream.requests) == ("gateway", [])


def test_a_fault_of_the_gateway_names_no_secret(
    verdicts: list[Json], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Any:
        raise OSError("planted words")

    upstream = FakeUpstream("only", answer("Yes."))
    monkeypatch.setattr(type(upstream.dialect), "render", fail)
    caller, verdict = run(upstream, verdicts=verdicts)
    assert (caller.status, caller.error["code"]) == (500, "internal_error")
    assert (verdict["closer"], verdict["code"]) == ("gateway", "internal_error")
    assert b"planted" not in caller.body
    assert "planted" not in caplog.text  # ask K3
    assert "OSError at" in caplog.text


# Usage


@pytest.mark.parametrize("reported", [True, False])
def test_usage_is_estimated_only_if_the_upstream_reports_none(
    reported: bool, verdicts: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimated: list[object] = []
    estimate = Services.estimate

    def counted(self: Services, *args: Any) -> Any:
        estimated.append(args)
        return estimate(self, *args)

    monkeypatch.setattr(Services, "estimate", counted)
    chunks = [chunk({"content": "Hello"}), chunk(finish="stop"), *([USAGE] if reported else [])]
    caller, verdict = run(FakeUpstream("only", [frames(*chunks)]), verdicts=verdicts, stream=True)
    assert bool(estimated) is not reported
    assert verdict.get("usage_estimated", False) is not reported
    assert caller.response["usage"]["total_tokens"] > 0
    assert (verdict["input_tokens"] == 11) is reported


# Stopping


@pytest.mark.parametrize(
    ("reason", "status", "outcome", "closer"),
    [
        (CANCELLED, "incomplete", "cancelled", "client"),
        (SHUTTING_DOWN, "failed", "failed", "gateway"),
        (CLIENT_DISCONNECTED, None, "cancelled", "client"),
    ],
    ids=lambda value: value.code if isinstance(value, StopReason) else None,
)
def test_a_turn_that_is_stopped_closes_its_source_and_ends_once(
    reason: StopReason, status: str | None, outcome: str, closer: str, verdicts: list[Json]
) -> None:
    never = asyncio.Event()
    upstream = FakeUpstream("only", [TEXT, never])

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", stream=True)
        await caller.received(b"output_text.delta")
        gateway.turns.stop(reason)
        gateway.turns.stop(SHUTTING_DOWN)  # the first reason counts
        await caller.task
        if status is not None:
            assert (caller.response["status"], caller.text) == (status, "Hello")
        stored = await gateway.store.get(LOCAL, verdicts[0]["response_id"])
        assert stored is not None
        assert stored.status == outcome

    with_gateway(test, upstream)
    [verdict] = verdicts
    assert (verdict["outcome"], verdict["closer"]) == (outcome, closer)
    assert upstream.sources[0].is_closed


class SlowCommits(MemoryStore):
    """A store that commits the end of a response when `may_close` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closing, self.may_close = asyncio.Event(), asyncio.Event()

    async def close(self, id: str, end: Closed, *, patience: float = 0.25) -> bool:
        self.is_closing.set()
        await self.may_close.wait()
        return await super().close(id, end, patience=patience)


def test_an_answer_that_was_complete_when_its_client_disconnected_is_completed(verdicts: list[Json]) -> None:
    """The store, the log, the ledger and the metrics say the same."""
    store = SlowCommits()

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", stream=True)
        await store.is_closing.wait()
        gateway.turns.stop(CLIENT_DISCONNECTED)
        store.may_close.set()
        await caller.task
        stored = await store.get(LOCAL, verdicts[0]["response_id"])
        assert stored is not None
        assert (stored.status, verdicts[0]["outcome"]) == ("completed", "completed")
        assert verdicts[0]["closer"] == "client"

    with_gateway(test, FakeUpstream("only", answer("Yes.")), store=store)


def test_a_turn_that_waits_for_a_retry_can_be_stopped(verdicts: list[Json]) -> None:
    upstream = FakeUpstream("only", ServerError("busy", status=503, retry_after=20.0))

    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi")
        while not upstream.requests:
            await asyncio.sleep(0)
        gateway.turns.stop(CLIENT_DISCONNECTED)
        await caller.task

    with_gateway(test, upstream)
    assert (verdicts[0]["outcome"], len(upstream.requests)) == ("cancelled", 1)  # ask F1


def test_stopping_a_turn_that_has_ended_changes_nothing(verdicts: list[Json]) -> None:
    async def test(gateway: Gateway) -> None:
        caller = Caller(gateway, model="m", input="Hi", stream=True)
        await caller.received(b"response.created")
        turn = gateway.turns.find(LOCAL, caller.id)
        assert turn is not None
        gate.set()
        await caller.task
        before = turn.snapshot
        turn.stop(CANCELLED)
        assert turn.snapshot == before
        assert turn.start() == turn.heartbeat() == []

    gate = asyncio.Event()
    with_gateway(test, FakeUpstream("only", [TEXT, gate, frames(*said("!"))]))
    assert verdicts[0]["outcome"] == "completed"


# What reaches the upstream


def test_only_trace_headers_of_the_client_are_passed_on() -> None:
    upstream = FakeUpstream("only", answer("Yes."))
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": trace, "tracestate": "a=b", "cookie": "c=d", "authorization": "Bearer x"}

    async def test(gateway: Gateway) -> None:
        await call(gateway, model="m", input="Hi", headers=headers)

    with_gateway(test, upstream)
    assert upstream.headers == [{"traceparent": trace, "tracestate": "a=b"}]
