"""A recorded turn that is replayed through the present code comes out the same."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import msgspec
import pytest

from penstock.gateway.turn.stop_reasons import CANCELLED
from penstock.protocol.events import OutputItemEvent
from penstock.protocol.items import Message
from penstock.replay.recording import read_recording
from penstock.store.interrupted import end_interrupted
from tests.client.server import Script, answer, chunk, cut, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.probes import wait_for
from tests.gateway.scripts import (
    RICH,
    TOOLS,
    body,
    message_end,
    message_start,
    pieces,
    text,
    text_block,
    typed,
)
from tests.gateway.stored_responses import id_in
from tests.gateway.upstream import ScriptedUpstream, begun, frames, rest, said, streamed, until, until_gone
from tests.gateway.websocket_client import talking
from tests.replay.recorders import Recorder, again, found, recording_gateway

pytestmark = pytest.mark.e2e

CHAIN, FIRST, SECOND = "over-chain", "chain-first", "chain-second"


# The same


@pytest.mark.parametrize("model", RICH)
def test_every_dialect_is_replayed_identically(
    model: str, recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    data = RICH[model]()
    upstream.play(model, pieces([data[i : i + 100] for i in range(0, len(data), 100)]))
    reply = recorder.running.stream(model, tools=TOOLS)
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []
    assert comparison.events == len(reply.events)
    assert [event.type for event in replayed.events] == reply.types
    assert replayed.rendered[0].now == upstream.asked_for(model)[-1].json


ENDS: dict[str, Script] = {
    "without usage": streamed(*text("ab", "cd"), chat_chunk(finish="stop")),
    "cut off by its length": streamed(*text("ab"), chat_chunk(finish="length")),
    "with an error in the stream": [
        *begun(*text("ab")),
        send(chunk(frames({"error": {"message": "too much to do", "code": 429}}))),
    ],
    "too early": streamed(*text("ab"), done=False),
    "with nothing": streamed(done=False),
    "by a break": [*begun(*text("ab")), cut],
    "with half a call": streamed(
        chat_chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read", "arguments": "{"}}]}),
        chat_chunk(finish="tool_calls"),
    ),
    "as one JSON body": body(
        b'{"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}', "application/json"
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_end_is_replayed_identically(end: str, recorder: Recorder, upstream: ScriptedUpstream) -> None:
    reply = recorder.running.stream(upstream.play(f"ends {end}", ENDS[end]), tools=TOOLS)
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []
    assert [event.type for event in replayed.events] == reply.types


def test_an_answer_that_was_not_streamed_is_replayed(recorder: Recorder, upstream: ScriptedUpstream) -> None:
    reply = recorder.running.whole(upstream.play("not streamed", streamed(*said("a whole answer"))))
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []
    assert replayed.events[-1].type == "response.completed"


def test_a_turn_in_the_background_is_replayed_from_its_queue(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("in the background", streamed(*said("a late answer")))
    id = recorder.running.whole(model, background=True).last["id"]
    recorder.wait_for_the_end(id)
    replayed, comparison = again(recorder.recording(id))
    assert found(comparison) == []
    assert "response.queued" in [event.type for event in replayed.events]


def test_a_failure_on_a_websocket_has_no_error_event(recorder: Recorder, upstream: ScriptedUpstream) -> None:
    model = upstream.play("on a socket", [*begun(*text("ab")), cut])
    with talking(recorder.running) as talk:
        last = talk.turn(model, "go")
    assert last["type"] == "response.failed"
    replayed, comparison = again(recorder.recording(last["response"]["id"]))
    assert found(comparison) == []
    assert "error" not in [event.type for event in replayed.events]


def test_both_attempts_of_a_chain_are_replayed(recorder: Recorder, upstream: ScriptedUpstream) -> None:
    upstream.play(FIRST, [answer(500, {"error": {"message": "broken"}})])
    upstream.play(SECOND, body(typed([message_start(), *text_block(0, "Yes."), *message_end()])))
    reply = recorder.running.stream(CHAIN)
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []
    assert [each.attempt.sent.target for each in replayed.rendered] == ["first", "second"]
    assert "fell_back" in [each["code"] for each in reply.last["diagnostics"]]


def test_an_answer_that_was_refused_is_recorded_and_refused_again(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    page = b"<html><title>Sign in</title>"
    upstream.play(FIRST, body(page, "text/html"))
    upstream.play(SECOND, body(typed([message_start(), *text_block(0, "Yes."), *message_end()])))
    recording = recorder.recording(recorder.running.stream(CHAIN).last["id"])
    _, comparison = again(recording)
    assert found(comparison) == []
    assert b"".join(read.data for read in recording.attempts[0].reads) == page


def test_an_attempt_that_was_taken_back_is_read_again_before_the_next(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    """The failure is in the recorded bytes: the turn finds it there."""
    upstream.play(FIRST, streamed({"error": {"message": "broken", "code": 500}}))
    upstream.play(SECOND, body(typed([message_start(), *text_block(0, "Yes."), *message_end()])))
    recording = recorder.recording(recorder.running.stream(CHAIN).last["id"])
    replayed, comparison = again(recording)
    assert found(comparison) == []
    assert recording.attempts[0].reads
    assert len(replayed.rendered) == 2


def test_a_target_that_was_left_out_because_its_key_rests_is_reported_as_before(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    upstream.play("keyed-first", [answer(401, {"error": {"message": "who are you?"}})])
    upstream.play("keyed-second", body(typed([message_start(), *text_block(0, "Yes."), *message_end()])))
    recorder.running.stream("over-keys")
    reply = recorder.running.stream("over-keys")
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert [each["code"] for each in reply.last["diagnostics"]] == ["fell_back"]
    assert (len(replayed.rendered), found(comparison)) == (1, [])


def test_a_compaction_that_nobody_could_read_is_reported_as_before(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("unreadable", streamed(*said("never mind")))
    sealed = {"type": "compaction", "encrypted_content": "somebody else's"}
    reply = recorder.running.stream(model, [sealed, {"role": "user", "content": "go"}])  # type: ignore[arg-type]
    _, comparison = again(recorder.recording(reply.last["id"]))
    assert [each["code"] for each in reply.last["diagnostics"]] == ["compaction_unreadable"]
    assert found(comparison) == []


def test_a_stream_that_had_begun_for_patience_is_not_refused(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    """The upstream fails after the stream has begun, and before any output."""
    begins = threading.Event()
    model = upstream.play("patience", [until(begins), answer(500, {"error": {"message": "broken"}})])
    with recorder.running.live(model) as live:
        live.until(b"response.in_progress")
        begins.set()
        reply = live.rest()
    assert reply.types[-2:] == ["error", "response.failed"]
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert (replayed.refused, found(comparison)) == (None, [])


def test_heartbeats_do_not_count(recorder: Recorder, upstream: ScriptedUpstream) -> None:
    goes_on = threading.Event()
    model = upstream.play("signs of life", [*begun(*text("ab")), until(goes_on), rest("cd")])
    with recorder.running.live(model) as live:
        live.until(b"event: response.in_progress", times=2)
        goes_on.set()
        reply = live.rest()
    replayed, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []
    assert reply.types.count("response.in_progress") > 1
    assert [event.type for event in replayed.events].count("response.in_progress") == 1


def test_a_compaction_is_replayed_up_to_its_seal(recorder: Recorder, upstream: ScriptedUpstream) -> None:
    model = upstream.play("compacted", streamed(*text("all of it"), chat_chunk(finish="stop")))
    asked = [{"role": "user", "content": "hello"}, {"type": "compaction_trigger"}]
    reply = recorder.running.stream(model, asked)  # type: ignore[arg-type]
    assert reply.last["output"][0]["type"] == "compaction"
    _, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []


def test_a_compaction_is_recognised_whatever_the_words_of_its_instruction(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("reworded", streamed(*text("all of it"), chat_chunk(finish="stop")))
    asked = [{"role": "user", "content": "hello"}, {"type": "compaction_trigger"}]
    reply = recorder.running.stream(model, asked)  # type: ignore[arg-type]
    recording = recorder.recording(reply.last["id"])
    [attempt] = recording.attempts
    items = attempt.plan.request.input
    assert isinstance(items, list)
    items[-1] = Message(role="user", content="the instruction of an earlier version")
    replayed, comparison = again(recording)
    announced = [event.item.type for event in replayed.events if isinstance(event, OutputItemEvent)]
    assert announced == ["compaction", "compaction"]
    assert comparison.requests != []


def test_a_continued_turn_is_replayed_with_its_history(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    model = upstream.play("continued", streamed(*said("first")), streamed(*said("second")))
    first = recorder.running.stream(model, "one")
    second = recorder.running.stream(model, "two", previous_response_id=first.last["id"])
    replayed, comparison = again(recorder.recording(second.last["id"]))
    assert found(comparison) == []
    assert [each["content"] for each in replayed.rendered[0].now["messages"]] == ["one", "first", "two"]


# Ended from outside


def test_a_cancelled_turn_is_replayed_to_where_it_was_cancelled(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    model = upstream.play("cancelled", [*begun(*text("ab")), until_gone(gone)])
    with recorder.running.live(model) as live:
        live.until(b"response.output_text.delta")
        id = id_in(live)
        recorder.running.ask(path=f"/v1/responses/{id}/cancel")
        reply = live.rest()
    recording = recorder.recording(id)
    replayed, comparison = again(recording)
    assert found(comparison) == []
    assert [event.type for event in replayed.events] == reply.types
    assert (recording.stopped, recording.is_cut) == (CANCELLED, False)


def test_a_turn_whose_client_disconnected_is_replayed_to_there(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    model = upstream.play("left", [*begun(*text("ab")), until_gone(gone)])
    with recorder.running.live(model) as live:
        live.until(b"response.output_text.delta")
        id = id_in(live)
    recorder.wait_for_the_end(id)
    replayed, comparison = again(recorder.recording(id))
    assert found(comparison) == []
    assert replayed.events[-1].type == "response.incomplete"


def test_a_turn_that_was_stopped_before_its_answer_is_replayed(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    model = upstream.play("unanswered", [until_gone(gone)])
    with recorder.running.live(model) as live:
        id = id_in(live)
    recorder.wait_for_the_end(id)
    recording = recorder.recording(id)
    _, comparison = again(recording)
    assert found(comparison) == []
    assert recording.attempts[0].answer is None


def test_a_turn_that_ended_with_its_gateway_is_replayed_to_there(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    model = upstream.play("shut down", [*begun(*text("ab")), until_gone(gone)])
    with recording_gateway(tmp_path, upstream) as recorder:
        with recorder.running.live(model) as live:
            live.until(b"response.output_text.delta")
            for _ in range(2):  # the first signal only waits for running turns
                recorder.running.signal(signal.SIGTERM)
                wait_for(lambda: any("stop" in line["message"] for line in recorder.running.log))
            reply = live.rest()
        assert reply.last["error"]["code"] == "shutting_down"
        recording = recorder.recording(reply.last["id"])
    replayed, comparison = again(recording)
    assert found(comparison) == []
    assert [event.type for event in replayed.events] == reply.types


@pytest.mark.parametrize(("events", "reads"), [(30, 100), (60, 12), (3, 100), (60, 0)])
def test_a_killed_gateway_is_replayed_as_far_as_its_file_goes(
    events: int, reads: int, recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    """Its log and its recording need not end at the same place."""
    data = RICH["chat"]()
    upstream.play("killed", pieces([data[i : i + 100] for i in range(0, len(data), 100)]))
    id = recorder.running.stream("killed", tools=TOOLS).last["id"]
    log, traces, _ = recorder.kept(id)
    log = log[: min(events, len(log) - 1)]  # without its end
    first = msgspec.json.encode(msgspec.json.decode(log[0].data)["response"])
    log += end_interrupted(id, first, log, log[-1].time + 60).events
    recording = read_recording(id, log, traces[: 3 + reads], b"")
    _, comparison = again(recording)
    assert found(comparison) == []
    assert comparison.is_partial


def test_a_gateway_that_is_killed_leaves_what_it_had_written(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    gone = threading.Event()
    model = upstream.play("killed for good", [*begun(*text("ab")), until_gone(gone)])
    with recording_gateway(tmp_path, upstream) as recorder, recorder.running.live(model) as live:
        live.until(b"response.output_text.delta")
        id = id_in(live)
        wait_for(lambda: recorder.has_a_read(id))
        recorder.running.signal(signal.SIGKILL)
        recorder.running.process.wait(20)
    with recording_gateway(tmp_path, upstream) as recorder:
        recording = recorder.recording(id)
    assert recording.last["response"]["error"]["code"] == "gateway_restarted"
    replayed, comparison = again(recording)
    assert (comparison.is_partial, found(comparison)) == (True, [])
    assert replayed.events[-1].type == "response.output_text.delta"
