"""The differences that `penstock replay` reports for a turn that comes out differently."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.gateway.telemetry.traces import FailureTrace
from penstock.gateway.turn.turn import UsageEstimate
from penstock.replay.recording import CannotReplay, Recording, read_recording
from penstock.store.records import Trace
from tests.client.server import chunk, send
from tests.dialects.chat_streams import chunk as chat_chunk
from tests.gateway.running import SECRET_KEY
from tests.gateway.scripts import RICH, TOOLS, body, message_end, message_start, text, text_block, typed
from tests.gateway.upstream import USAGE, ScriptedUpstream, begun, frames, said, streamed
from tests.replay.recorders import Recorder, again, found

pytestmark = pytest.mark.e2e

CHAIN, FIRST, SECOND = "over-chain", "chain-first", "chain-second"


def changed(recording: Recording, old: bytes, new: bytes) -> Recording:
    """The same with these bytes in its first attempt's reads replaced."""
    attempt = recording.attempts[0]
    assert any(old in read.data for read in attempt.reads)
    reads = [replace(read, data=read.data.replace(old, new)) for read in attempt.reads]
    return replace(recording, attempts=(replace(attempt, reads=reads), *recording.attempts[1:]))


@pytest.fixture(scope="module")
def rich(recorder: Recorder, upstream: ScriptedUpstream) -> Recording:
    """A recording with everything in it."""
    upstream.play("rich", body(RICH["chat"]()))
    return recorder.recording(recorder.running.stream("rich", tools=TOOLS).last["id"])


CHANGES: dict[str, tuple[bytes, bytes, str, str]] = {
    "a text": (b"und", b"oder", "response.output_text.delta, item 1 (message)", "delta"),
    "arguments": (
        b"/tmp",
        b"/var",
        "response.function_call_arguments.delta, item 2 (function_call)",
        "delta",
    ),
    "a call id": (b"call_w", b"call_x", "response.output_item.added, item 3 (function_call)", "item.call_id"),
    "usage": (
        b'"completion_tokens": 7',
        b'"completion_tokens": 8',
        "response.completed",
        "response.usage.output_tokens",
    ),
    "an end": (b'"tool_calls"}]', b'"length"}]', "response.completed", ""),
    "a diagnostic": (b'"name": "write"', b'"name": "wrote"', "response.completed", "response.diagnostics"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_what_was_read_is_reported_where_it_shows(change: str, rich: Recording) -> None:
    old, new, where, field = CHANGES[change]
    _, comparison = again(changed(rich, old, new))
    assert (where, field) in found(comparison)


def test_a_text_that_differs_is_reported_once(rich: Recording) -> None:
    """Four more events repeat what the deltas said, and the response does."""
    _, comparison = again(changed(rich, b"und", b"oder"))
    (only,) = comparison.differences
    assert (only.before.replace("und", "oder"), only.more) == (only.now, 4)


def test_code_that_behaves_differently_is_reported(
    recorder: Recorder, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What replay is for: the bytes are the same, and the gateway is another version."""
    model = upstream.play("other code", streamed(*text("ab"), chat_chunk(finish="stop")))
    recording = recorder.recording(recorder.running.stream(model).last["id"])
    assert found(again(recording)[1]) == []
    monkeypatch.setattr(UsageEstimate, "count", lambda _: None)
    (usage, diagnostics) = again(recording)[1].differences
    assert (usage.field, usage.now) == ("response.usage", None)
    assert (diagnostics.field, diagnostics.now) == ("response.diagnostics", "(nothing)")


def test_an_event_that_is_missing_now_is_reported(rich: Recording) -> None:
    _, comparison = again(changed(rich, b'"finish_reason": "tool_calls"', b'"finish_reason": "length"'))
    whole = {each.where: (each.before, each.now) for each in comparison.differences if not each.field}
    assert whole == {
        "response.completed": ("sent", "(nothing)"),
        "response.incomplete": ("(nothing)", "sent"),
    }


def test_a_request_that_would_be_rendered_differently_is_reported_separately(rich: Recording) -> None:
    attempt = rich.attempts[0]
    body = {**attempt.body, "top_k": 5, "model": "other"}
    _, comparison = again(replace(rich, attempts=(replace(attempt, body=body),)))
    assert comparison.differences == []
    assert {each.field: (each.before, each.now) for each in comparison.requests} == {
        "model": ("other", "rich"),
        "top_k": (5, "(nothing)"),
    }
    assert comparison.requests[0].where == "request 1, rich at chat"


def test_a_request_that_would_now_be_refused_is_reported(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    """A failure that comes earlier than it did: nothing was sent yet, so it is an HTTP status."""
    model = upstream.play("refused", streamed(*said("a fine answer")))
    recording = recorder.recording(recorder.running.stream(model).last["id"])
    attempt = recording.attempts[0]
    failed = FailureTrace(code="server_error", message="broken", status=500, kind="ServerError")
    replayed, comparison = again(
        replace(recording, attempts=(replace(attempt, answer=None, reads=[], failure=failed),))
    )
    assert replayed.refused is not None
    assert replayed.refused.status == 500
    assert "broken" in comparison.differences[0].now


def test_a_failure_that_was_in_the_bytes_must_be_found_in_them_again(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    """An attempt that broke off without output, and whose bytes now complete: no other target is tried."""
    upstream.play(FIRST, streamed(chat_chunk({"role": "assistant", "content": ""}), done=False))
    upstream.play(SECOND, body(typed([message_start(), *text_block(0, "Yes."), *message_end()])))
    recording = recorder.recording(recorder.running.stream(CHAIN).last["id"])
    (only,) = recording.attempts[0].reads
    whole = only.data + frames(*text("No."), chat_chunk(finish="stop"), done=False)
    first = replace(recording.attempts[0], reads=[replace(only, data=whole)])
    replayed, comparison = again(replace(recording, attempts=(first, recording.attempts[1])))
    assert replayed.events[-1].type == "response.completed"
    assert len(replayed.rendered) == 1
    assert ("Yes.", "No.") in [(each.before, each.now) for each in comparison.differences]


def test_how_a_text_was_cut_into_events_does_not_count(
    recorder: Recorder, upstream: ScriptedUpstream
) -> None:
    end = (chat_chunk(finish="stop"), USAGE)
    model = upstream.play("cut otherwise", streamed(*text("hel", "lo"), *end))
    recording = recorder.recording(recorder.running.stream(model).last["id"])
    attempt = recording.attempts[0]
    reads = [replace(attempt.reads[0], data=frames(*text("h", "e", "llo"), *end))]
    replayed, comparison = again(replace(recording, attempts=(replace(attempt, reads=reads),)))
    assert len(replayed.events) == len(recording.events) + 1
    assert found(comparison) == []


def test_where_the_reads_were_cut_does_not_count(rich: Recording) -> None:
    attempt = rich.attempts[0]
    data, moment = b"".join(read.data for read in attempt.reads), attempt.reads[0].time
    single = [Trace("read", moment, bytes([byte]), 1) for byte in data]
    _, comparison = again(replace(rich, attempts=(replace(attempt, reads=single),)))
    assert found(comparison) == []


def test_five_thousand_reads_are_replayed_as_they_were_cut(rich: Recording) -> None:
    attempt, moment = rich.attempts[0], rich.attempts[0].reads[0].time
    reads = [frames(*text(f"{number} "), done=False) for number in range(4999)]
    reads.append(frames(chat_chunk(finish="stop")))
    traces = [Trace("read", moment, data, len(data)) for data in reads]
    replayed, _ = again(replace(rich, attempts=(replace(attempt, reads=traces),)))
    deltas = [event for event in replayed.events if event.type == "response.output_text.delta"]
    assert [getattr(event, "delta", "") for event in deltas] == [f"{number} " for number in range(4999)]


# What cannot be replayed


def test_without_recorded_bytes_the_error_names_the_option(recorder: Recorder, rich: Recording) -> None:
    events, traces, verdict = recorder.kept(rich.id)
    for left in (
        [trace for trace in traces if trace.kind != "plan"],
        [replace(trace, data=b"") if trace.kind == "read" else trace for trace in traces],
        [],
    ):
        with pytest.raises(CannotReplay, match="--record"):
            read_recording(rich.id, events, left, verdict)


def test_a_log_with_gaps_is_not_compared(recorder: Recorder, rich: Recording) -> None:
    events, traces, verdict = recorder.kept(rich.id)
    with pytest.raises(CannotReplay, match="gaps"):
        read_recording(rich.id, [*events[:3], *events[4:]], traces, verdict)


def test_a_recording_that_lost_a_read_is_not_replayed(recorder: Recorder, rich: Recording) -> None:
    events, traces, verdict = recorder.kept(rich.id)
    lost = next(trace for trace in traces if trace.kind == "read" and trace.size)
    with pytest.raises(CannotReplay, match="some reads"):
        read_recording(rich.id, events, [trace for trace in traces if trace is not lost], verdict)


def test_no_key_is_in_a_recording(recorder: Recorder, upstream: ScriptedUpstream) -> None:
    """Not even where the upstream repeats it."""
    echo = {"error": {"message": f"the key {SECRET_KEY} has no money", "code": 429}}
    model = upstream.play("echo", [*begun(*text("ab")), send(chunk(frames(echo)))])
    reply = recorder.running.stream(model)
    _, traces, _ = recorder.kept(reply.last["id"])
    assert b"has no money" in b"".join(trace.data for trace in traces)
    assert SECRET_KEY.encode() not in b"".join(trace.data for trace in traces)
    _, comparison = again(recorder.recording(reply.last["id"]))
    assert found(comparison) == []
