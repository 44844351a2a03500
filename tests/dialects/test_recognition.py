"""An answer in another API format than the expected one: it is recognised, and never an empty success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.pipeline import Pipeline
from penstock.dialects.plan import Plan, ReadDialect
from penstock.dialects.recognition import (
    FORMATS,
    MOST_BYTES,
    MOST_FRAMES,
    Opening,
    beginning,
    format_of,
    format_of_bytes,
)
from penstock.dialects.registry import DIALECTS, dialect
from penstock.errors import ProtocolError
from penstock.protocol.events import Event
from penstock.protocol.response import response_for
from penstock.protocol.wire import to_builtins
from penstock.sse import Frame
from penstock.stream.deltas import Delta, ErrorDelta, FinishDelta, FinishReason
from penstock.stream.machine import ResponseStreamStateMachine
from tests.dialects import recordings
from tests.dialects.format_samples import AWS_EVENT, BODIES, STREAMS, frames, sse
from tests.dialects.recording_checks import json_with, plan
from tests.dialects.recordings import FOLDERS, FrameStream, needs_recordings, plan_for
from tests.effort import examples
from tests.stream.running import assert_lawful

UNREADABLE = {"ai-ui-stream": "ai_sdk_ui", "gemini-interactions": "gemini_interactions"}
"""Folders of recordings in formats that no dialect reads."""

FORMAT_OF_FOLDER = {**{folder: name for name, folder in FOLDERS.items()}, **UNREADABLE}

REPORTED_ERRORS = frozenset(
    {
        "ai-sdk-parts/anthropic-messages.anthropic.ai.should-forward-error-chunks.7.jsonl",
        (
            "ai-sdk-parts/chat-completions.openrouter.ai-sdk-provider.should-infer-tool-calls-finishreason-"
            "when-finish-reason-is-missing-but-tool-call.5.jsonl"
        ),
        "anthropic-messages/anthropic.ai.should-forward-error-chunks.7.sse",
        "chat-completions/openai.ai.should-forward-error-stream-parts-after-output-has-started.8.sse",
        "openai-responses/openai.prism.openai-stream-rate-limited-1.0.sse",
        "openai-responses/openai.prism.openai-stream-unknown-error-responses-1.0.sse",
    }
)
"""Recordings of an upstream that reports an error within its first frames. Any reader passes that on."""

ALSO_READ = {("ai_sdk_ui", "ai_sdk")}
"""A format without a dialect of its own, and the dialect that reads it."""

MISREAD_BODIES = dict.fromkeys(
    [("ai_sdk", "anthropic"), ("anthropic", "ai_sdk")],
    "the content blocks are the same, and no server sends an AI SDK body over HTTP",
)
"""Formats whose whole bodies another reader finds content in: (format, reader), and why that is accepted."""


def opened(name: str, **options: Any) -> Pipeline:
    """Return a pipeline that reads an answer in this dialect."""
    return _opened(dialect(name), plan(name), **options)


def _opened(read_dialect: ReadDialect, made: Plan, **options: Any) -> Pipeline:
    response = response_for(made.request, id="resp_1", created_at=0, model="m")
    pipeline = Pipeline(ResponseStreamStateMachine(response, clock=lambda: 0))
    pipeline.open(read_dialect, made, **options)
    return pipeline


def last(events: list[Event]) -> dict[str, Any]:
    response: dict[str, Any] = to_builtins(events[-1])["response"]
    return response


def read(name: str, data: bytes, **options: Any) -> dict[str, Any]:
    """Return the last snapshot of an answer that is read in this dialect."""
    pipeline = opened(name, **options)
    events = pipeline.feed(data) + pipeline.end()
    assert_lawful(events)
    return last(events)


def guess(found: str, expected: str) -> str:
    return f"the answer looks like {FORMATS[found].title}, but it was read as {FORMATS[expected].title}: "


# Recognition


def test_the_dialects_of_the_table_are_the_registered_ones() -> None:
    assert {name for name, row in FORMATS.items() if row.dialect == name} == set(DIALECTS)


@pytest.mark.parametrize("name", STREAMS)
def test_every_format_is_recognised_by_its_frames(name: str) -> None:
    assert format_of(frames(name)) == name
    assert format_of_bytes(sse(name)) == name
    assert format_of_bytes(b"\n".join(json.dumps(each).encode() for each in STREAMS[name])) == name
    assert format_of_bytes(json.dumps(STREAMS[name]).encode()) == name


@pytest.mark.parametrize(("name", "body"), [(name, each) for name in BODIES for each in BODIES[name]])
def test_every_format_is_recognised_by_a_whole_body(name: str, body: Any) -> None:
    assert format_of_bytes(json.dumps(body).encode()) == name
    assert format_of_bytes(b"\xef\xbb\xbf\n" + json.dumps(body, indent=1).encode()) == name


def test_the_binary_framing_of_aws_is_recognised() -> None:
    assert format_of_bytes(AWS_EVENT) == "aws_event_stream"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>choices</html>",
        b"{}",
        b"[]",
        b'"chat.completion"',
        b'{"error": {"message": "choices"}, "choices": []}',
        b'{"type": "error", "output": [], "status": "failed"}',
        b'event: error\ndata: {"choices": []}\n\n',
        b'data: {"type": "ping"}\n\n',
        b'{"choices": "none"}',
        b'{"model": "m", "done": 1, "message": {}}',
    ],
)
def test_errors_and_anything_else_have_no_format(data: bytes) -> None:
    assert format_of_bytes(data) == ""


def test_a_frame_that_can_only_be_the_expected_format_decides() -> None:
    mixed = [*frames("cohere"), *frames("chat")]
    assert format_of(mixed) == format_of(mixed, "gemini") == "cohere"
    assert format_of(mixed, "chat") == "chat"


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        json_with(
            [
                "type",
                "object",
                "choices",
                "output",
                "status",
                "error",
                "message",
                "done",
                "model",
                "event_type",
            ],
            ["response", "response.created", "message_start", "error", "text-delta", "interaction"],
        ),
        max_size=4,
    ),
    st.sampled_from(["", "chat", "demo"]),
)
def test_nothing_is_raised_for_any_json(values: list[Any], expected: str) -> None:
    received = [Frame(None, json.dumps(each)) for each in values]
    assert format_of(received, expected) in {"", *FORMATS}
    for data in (json.dumps(values), "\n".join(frame.data for frame in received)):
        assert format_of_bytes(data.encode(), expected) in {"", *FORMATS}


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.binary(max_size=40) | st.just(AWS_EVENT), max_size=6))
def test_nothing_is_raised_for_any_bytes_and_little_is_kept(reads: list[bytes]) -> None:
    opening = Opening("chat")
    for data in reads:
        opening.add_bytes(data)
        opening.add([Frame(None, data.decode(errors="replace"))])
    assert opening.other_format() in {"", *FORMATS}
    message = ""
    try:
        opening.refuse_unreadable(str)
    except ProtocolError as error:
        message = error.message
    assert len(message) < 300
    assert message.isprintable()


def test_an_opening_is_bounded() -> None:
    opening = Opening("chat")
    big = Frame(None, "x" * (MOST_BYTES // 2))
    assert [opening.add([big]) for _ in range(4)] == [False, True, False, False]
    opening = Opening("chat")
    assert [opening.add([Frame(None, "{}")]) for _ in range(MOST_FRAMES + 1)].index(True) == MOST_FRAMES - 1
    opening = Opening("chat")
    assert [opening.add_bytes(b"x" * MOST_BYTES) for _ in range(3)] == [True, False, False]


def test_a_deeply_nested_or_huge_frame_is_not_decoded() -> None:
    assert format_of([Frame(None, "[" * 100_000)]) == ""
    assert format_of([Frame(None, '{"choices": [], "x": "' + "y" * 100_000 + '"}')]) == ""
    assert format_of_bytes(b'{"choices": [], "x": "' + b"y" * 2_000_000 + b'"}') == ""


def test_the_shown_beginning_is_one_short_line_without_control_characters() -> None:
    assert beginning("<p>\n\x1b[31m  Hello\u202e</p>") == "<p> [31m Hello</p>"
    assert len(beginning("x" * 10_000)) < 200


# In the pipeline

PAIRS = [(own, name) for own in STREAMS for name in DIALECTS if own != name and (own, name) not in ALSO_READ]


@pytest.mark.parametrize(("own", "name"), PAIRS)
@pytest.mark.parametrize("done", [True, False])
def test_a_stream_in_another_dialect_is_never_an_empty_success(own: str, name: str, done: bool) -> None:
    response = read(name, sse(own, done=done))
    assert (response["status"], response["output"]) == ("failed", [])
    assert response["error"]["code"] == "upstream_invalid"
    assert response["error"]["message"].startswith(guess(own, name))


@pytest.mark.parametrize(("own", "name"), [*zip(DIALECTS, DIALECTS, strict=True), *ALSO_READ])
def test_a_stream_in_the_expected_dialect_is_read(own: str, name: str) -> None:
    response = read(name, sse(own))
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hi"


@pytest.mark.parametrize(
    ("own", "body", "name"),
    [(own, body, name) for own in BODIES for body in BODIES[own] for name in DIALECTS if own != name],
)
def test_a_whole_body_in_another_dialect_is_never_an_empty_success(own: str, body: Any, name: str) -> None:
    response = read(name, json.dumps(body).encode(), content_type="application/json")
    if (own, name) in MISREAD_BODIES:
        assert response["output"], f"a {own} body is refused by {name} now: remove the entry"
        return
    assert (response["status"], response["output"]) == ("failed", [])
    assert response["error"]["message"].startswith(guess(own, name))


@pytest.mark.parametrize(("own", "body"), [(own, each) for own in DIALECTS for each in BODIES[own]])
def test_a_whole_body_in_the_expected_dialect_is_read(own: str, body: Any) -> None:
    response = read(own, json.dumps(body).encode(), content_type="application/json")
    assert (response["status"], len(response["output"])) == ("completed", 1)


def test_the_message_says_what_to_set() -> None:
    message = read("gemini", sse("chat"))["error"]["message"]
    assert message == (
        "the answer looks like Chat Completions, but it was read as Gemini generateContent: "
        'set the dialect to "chat"'
    )
    message = read("chat", sse("ai_sdk_ui"))["error"]["message"]
    assert message.endswith('read as Chat Completions: set the dialect to "ai_sdk"')
    message = read("chat", sse("gemini_interactions"))["error"]["message"]
    assert message.endswith("read as Chat Completions: this format is not supported")


def test_a_caller_can_say_what_to_do() -> None:
    message = read("chat", sse("anthropic"), advise=lambda name: f"ask for {name}")["error"]["message"]
    assert message.endswith("Chat Completions: ask for anthropic")


@pytest.mark.parametrize("name", DIALECTS)
def test_a_long_stream_in_another_dialect_is_refused_after_its_first_frames(name: str) -> None:
    """The client must not wait for minutes until a foreign answer ends."""
    own = "chat" if name != "chat" else "gemini"
    frame = b"data: " + json.dumps(STREAMS[own][0]).encode() + b"\n\n"
    pipeline = opened(name)
    needed = next(count for count in range(1, 100) if pipeline.feed(frame) and pipeline.is_over)
    assert needed <= MOST_FRAMES


def test_a_long_binary_stream_is_refused_after_its_first_bytes() -> None:
    pipeline = opened("anthropic")
    needed = next(count for count in range(1, 1000) if pipeline.feed(AWS_EVENT) and pipeline.is_over)
    assert (needed - 1) * len(AWS_EVENT) <= MOST_BYTES
    error = pipeline.snapshot.error
    assert error is not None
    assert error.message.startswith(guess("aws_event_stream", "anthropic"))


KEEP_ALIVES = (
    b': OPENROUTER PROCESSING\n\nevent: ping\ndata: {"type": "ping"}\n\ndata: {"type":"keepalive"}\n\n\n\n'
)


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic", "gemini"])
def test_keep_alives_before_an_answer_are_not_taken_for_another_format(name: str) -> None:
    response = read(name, KEEP_ALIVES * 20 + sse(name))
    assert (response["status"], len(response["output"])) == ("completed", 1)


@pytest.mark.parametrize(("own", "name"), [("anthropic", "gemini"), ("chat", "cohere"), ("cohere", "chat")])
def test_an_answer_in_another_dialect_is_refused_at_its_end_event(own: str, name: str) -> None:
    """The server may keep the connection open."""
    pipeline = opened(name)
    events = pipeline.feed(sse(own, done=own == "chat"))
    assert last(events)["error"]["message"].startswith(guess(own, name))


def test_a_break_of_the_connection_is_explained_by_the_other_dialect() -> None:
    pipeline = opened("responses")
    assert list(pipeline.read(sse("chat")))
    with pytest.raises(ProtocolError, match="looks like Chat Completions"):
        pipeline.read_cut()


def test_events_that_are_passed_on_unread_do_not_wait_for_output_in_the_expected_dialect() -> None:
    pipeline = opened("responses")
    created = json.dumps(STREAMS["responses"][0])
    pipeline.feed(f"data: {created}\n\n".encode())
    events = pipeline.feed(b'data: {"type": "response.moderation.in_progress"}\n\n')
    assert [event.type for event in events] == ["response.moderation.in_progress"]


def test_keep_alives_do_not_hide_another_format() -> None:
    pipeline = opened("gemini")
    pipeline.feed(KEEP_ALIVES * 20)
    assert not pipeline.is_over
    response = last(pipeline.feed(sse("anthropic")) + pipeline.end())
    assert response["error"]["message"].startswith(guess("anthropic", "gemini"))


def test_many_frames_without_output_in_the_expected_dialect_are_not_refused() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    data = b"".join(b"data: " + json.dumps(role).encode() + b"\n\n" for _ in range(50))
    assert read("chat", data + sse("chat"))["status"] == "completed"


EMPTY_ANSWERS: dict[str, list[Any]] = {
    "chat": [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
    "responses": [{"type": "response.completed", "response": {"status": "completed", "output": []}}],
    "anthropic": [STREAMS["anthropic"][0], *STREAMS["anthropic"][2:]],
    "gemini": [{"candidates": [{"finishReason": "STOP"}]}],
    "ai_sdk": [STREAMS["ai_sdk"][0], STREAMS["ai_sdk"][-1]],
    "ollama": [{"done": True}],
    "cohere": [STREAMS["cohere"][0], STREAMS["cohere"][-1]],
    "bedrock": [STREAMS["bedrock"][0], STREAMS["bedrock"][-1]],
}


@pytest.mark.parametrize("name", EMPTY_ANSWERS)
def test_an_empty_answer_in_the_expected_dialect_stays_a_success(name: str) -> None:
    data = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in EMPTY_ANSWERS[name])
    response = read(name, data)
    assert (response["status"], response["output"]) == ("completed", [])


ERRORS = [
    {"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
    {"type": "error", "error": {"type": "overloaded_error", "message": "slow down"}},
    {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}},
]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_that_the_upstream_reports_keeps_its_message(name: str, error: Any) -> None:
    data = b"data: " + json.dumps(error).encode() + b"\n\n"
    assert "slow down" in read(name, data)["error"]["message"]
    body = json.dumps(error).encode()
    assert "slow down" in read(name, body, content_type="application/json")["error"]["message"]


def test_an_error_after_frames_in_another_dialect_keeps_its_message() -> None:
    first = b"data: " + json.dumps(STREAMS["anthropic"][0]).encode() + b"\n\n"
    error = b"data: " + json.dumps(ERRORS[1]).encode() + b"\n\n"
    for name in DIALECTS:
        assert read(name, first + error)["error"]["message"] == "slow down"


UNREADABLE_ANSWERS = [
    b'data: {"greeting": "Hello"}\n\ndata: [DONE]\n\n',
    b'data: {"greeting": "Hello"}\n\n',
    b'{"greeting": "Hello"}',
]


@pytest.mark.parametrize("data", UNREADABLE_ANSWERS)
@pytest.mark.parametrize("name", ["chat", "anthropic", "gemini"])
def test_an_unknown_answer_is_a_failure_that_shows_its_beginning(name: str, data: bytes) -> None:
    error = read(name, data)["error"]
    assert error["code"] == "upstream_invalid"
    title = FORMATS[name].title
    assert error["message"] == (
        f'nothing in the answer could be read as {title}; it begins with: {{"greeting": "Hello"}}'
    )


def test_secrets_are_masked_before_the_beginning_is_shortened() -> None:
    def mask(deltas: list[Delta]) -> list[Delta]:
        return [
            ErrorDelta(each.code, each.message.replace("sk-secret", "[key]"))
            if isinstance(each, ErrorDelta)
            else each
            for each in deltas
        ]

    secret = b"<p>" + b"x" * 152 + b"sk-secret</p>"
    message = read("chat", secret, mask=mask)["error"]["message"]
    assert "sk-" not in message
    assert "[key]" in message


@pytest.mark.parametrize("data", [b"", b": hello\n\n", b"data: [DONE]\n\n", b"\n\n", b"da", b"event: x\n"])
def test_an_answer_without_content_is_empty_and_not_unreadable(data: bytes) -> None:
    assert read("chat", data)["error"]["code"] == "upstream_empty"


class Finishing:
    """A reader that understands frames of no known format, and only ever finds their end."""

    is_over = False

    def feed(self, _: Frame) -> list[Delta]:
        return [FinishDelta(FinishReason.STOP)]

    def end(self) -> list[Delta]:
        return []


class OwnDialect:
    """A dialect of a program that uses the library."""

    name = "own"

    def reader(self, _: Plan) -> Finishing:
        return Finishing()

    def read_body(self, _: Plan, __: bytes) -> list[Delta]:
        return [FinishDelta(FinishReason.STOP)]

    def classify(self, *_: object) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("data", [sse("chat"), b'data: {"x": 1}\n\n', b'{"choices": []}'])
def test_a_dialect_of_another_program_decides_itself_what_it_reads(data: bytes) -> None:
    pipeline = _opened(OwnDialect(), plan("own"), content_type="application/json")
    assert last(pipeline.feed(data) + pipeline.end())["status"] == "completed"


# Every recording, read in every dialect


def crossed(file: str, name: str, length: int | None = None) -> dict[str, Any]:
    """Return the last snapshot of a recording, or of its first frames, that is read in this dialect."""
    stream = FrameStream(dialect(name), plan_for(file, name))
    events = stream.start()
    for frame in recordings.frames(file)[:length]:
        events += stream.feed(frame)
    return last(events + stream.end())


def wrong(file: str, own: str, name: str, response: dict[str, Any]) -> str:
    """Return what is wrong with the result of a recording that was read in another dialect."""
    if response["output"]:
        return f"{file}: {name} finds content"
    message = (response["error"] or {}).get("message", "")
    if message.startswith(guess(own, name)) or (message and file in REPORTED_ERRORS):
        return ""
    return f"{file}: {response['status']} {message}"


CROSS = [
    (folder, name)
    for folder, own in FORMAT_OF_FOLDER.items()
    for name in DIALECTS
    if name != own and (own, name) not in ALSO_READ
]


@needs_recordings
@pytest.mark.parametrize(("folder", "name"), CROSS)
def test_recordings_read_in_another_dialect_are_never_an_empty_success(folder: str, name: str) -> None:
    own = FORMAT_OF_FOLDER[folder]
    files = recordings.of_each_provider(folder)
    assert files
    assert [bad for file in files if (bad := wrong(file, own, name, crossed(file, name)))] == []


@needs_recordings
@pytest.mark.recordings
@pytest.mark.parametrize(("folder", "name"), CROSS)
def test_every_recording_read_in_another_dialect_is_never_an_empty_success(folder: str, name: str) -> None:
    own = FORMAT_OF_FOLDER[folder]
    files = recordings.files(folder)
    assert [bad for file in files if (bad := wrong(file, own, name, crossed(file, name)))] == []


@needs_recordings
@pytest.mark.parametrize(("name", "folder"), FOLDERS.items())
@pytest.mark.parametrize("length", [1, MOST_FRAMES])
def test_recordings_read_in_their_own_dialect_are_not_taken_for_another(
    name: str, folder: str, length: int
) -> None:
    for file in recordings.files(folder):
        message = (crossed(file, name, length)["error"] or {}).get("message", "")
        assert "looks like" not in message, file
        assert "could be read" not in message, file
