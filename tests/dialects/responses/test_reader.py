"""Reading the stream of another Responses endpoint."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.dialects.responses import DIALECT
from penstock.dialects.responses.reader import HANDLERS
from penstock.protocol.content import UnknownAnnotation
from penstock.protocol.events import Event
from penstock.protocol.tools import CustomTool
from penstock.protocol.wire import encode, to_builtins
from penstock.sse import Frame
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    SummaryDelta,
    TextDelta,
    ToolCallDelta,
)
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.recordings import files, frames, needs_recordings, of_each_provider, plan_for, translate
from tests.dialects.responses.oracle_exceptions import EXCEPTIONS
from tests.dialects.responses.stream_events import (
    DELTAS,
    PIECES,
    THOUGHT,
    TOOLS,
    added,
    call,
    completed,
    content_of,
    created,
    custom,
    done,
    ended,
    inner,
    message,
    reasoning,
    unsealed,
)
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import finish, machine

FILES = files("openai-responses")
SAMPLE = of_each_provider("openai-responses", 3)
"""`make recordings` tests the other ones."""


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_like_the_oracles_read_it(file: str) -> None:
    checks.assert_agrees(DIALECT, file, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", [file for file in SAMPLE if file.endswith(".sse")])
def test_frames_do_not_depend_on_how_the_bytes_are_split(file: str) -> None:
    checks.assert_same_in_any_reads(file)


@needs_recordings
@pytest.mark.parametrize("file", SAMPLE)
@pytest.mark.parametrize("shift", ["1", "7", "missing"])
def test_the_numbers_of_its_parts_change_nothing_in_a_recording(file: str, shift: str) -> None:
    plan = plan_for(file, DIALECT.name)
    renumbered = [
        Frame(frame.event, _PART_INDEX.sub(lambda found: _shifted(found, shift), frame.data))
        for frame in frames(file)
    ]
    expected = [to_builtins(event) for event in translate(DIALECT, plan, frames(file))]
    assert [to_builtins(event) for event in translate(DIALECT, plan, renumbered)] == expected


_PART_INDEX = re.compile(r'"(content_index|summary_index)":\s*(\d+)')


def _shifted(found: re.Match[str], shift: str) -> str:
    return '"x":0' if shift == "missing" else f'"{found[1]}":{int(found[2]) + int(shift)}'


@needs_recordings
@pytest.mark.parametrize("file", SAMPLE)
def test_noise_changes_no_item(file: str) -> None:
    pings = ['{"type":"ping","cost":"0"}', '{"type":"response.keep_alive"}', '{"type":"keepalive"}']
    vendors = ['{"type":"codex.rate_limits","limits":{}}', ""]
    checks.assert_same_with_noise(DIALECT, file, checks.as_frames([*pings, *vendors]))


@needs_recordings
@pytest.mark.parametrize("file", checks.smallest("openai-responses", 30))
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    checks.assert_survives_cuts(DIALECT, file, most=40)


@needs_recordings
@pytest.mark.recordings
@pytest.mark.parametrize("file", [file for file in FILES if file not in SAMPLE])
def test_all_recordings_survive_splits_noise_and_cuts(file: str) -> None:
    checks.assert_same_with_noise(DIALECT, file, checks.as_frames(['{"type":"ping","cost":"0"}']))
    checks.assert_survives_cuts(DIALECT, file, most=100)
    if file.endswith(".sse"):
        checks.assert_same_in_any_reads(file)


# Events by hand


STREAMS: dict[str, tuple[list[Any], list[tuple[str, Any]]]] = {
    "every text sent five times": (
        [
            added(0, message()),
            inner("content_part.added", 0, content_index=0, part={"type": "output_text", "text": ""}),
            *DELTAS,
            inner("output_text.done", 0, content_index=0, text="Hello"),
            inner("content_part.done", 0, content_index=0, part={"type": "output_text", "text": "Hello"}),
            done(0, message("Hello")),
            completed(message("Hello")),
        ],
        [("message", ["Hello"])],
    ),
    "quirk R2: ids rotate": (
        [
            added(0, message(id="a")),
            inner("output_text.delta", 0, item_id="b", delta="Hel"),
            inner("output_text.delta", 0, item_id="c", delta="lo"),
            done(0, message("Hello", id="d")),
            completed(message("Hello", id="e")),
        ],
        [("message", ["Hello"])],
    ),
    "ask A3: the call id rotates": (
        [added(0, call("")), *PIECES, done(0, call(call_id="other")), completed(call(call_id="third"))],
        [("function_call", '{"a":1}')],
    ),
    "quirk R3: the terminal response is empty": (
        [added(0, message()), *DELTAS, completed()],
        [("message", ["Hello"])],
    ),
    "its output is null": (
        [*DELTAS, {"type": "response.completed", "response": {"output": None}}],
        [("message", ["Hello"])],
    ),
    "ask A5: items only in the terminal response": (
        [completed(reasoning(summary=[{"type": "summary_text", "text": "Hm"}]), message("Hi"), call())],
        [("reasoning", ["Hm"]), ("message", ["Hi"]), ("function_call", '{"a":1}')],
    ),
    "one item was streamed, the other is only there": (
        [added(0, message()), *DELTAS, completed(message("Hello"), message("Bye", id="m2"))],
        [("message", ["Hello"]), ("message", ["Bye"])],
    ),
    "the terminal response leaves an item out": (
        [*THOUGHT, inner("output_text.delta", 1, delta="Hello"), completed(message("Hello", id="new"))],
        [("reasoning", ["A", "B"]), ("message", ["Hello"])],
    ),
    "quirk R5: arguments without deltas": (
        [
            added(0, call("")),
            inner("function_call_arguments.done", 0, arguments='{"a":1}'),
            done(0, call()),
            completed(call()),
        ],
        [("function_call", '{"a":1}')],
    ),
    "text without deltas": ([inner("output_text.done", 0, text="Hi"), completed()], [("message", ["Hi"])]),
    "a part without deltas": (
        [inner("content_part.done", 0, part={"type": "output_text", "text": "Hi"}), completed()],
        [("message", ["Hi"])],
    ),
    "an item without deltas": ([done(0, message("Hi")), completed()], [("message", ["Hi"])]),
    "done with more than the deltas": (
        [*DELTAS, done(0, message("Hello!")), completed()],
        [("message", ["Hello!"])],
    ),
    "done with something else": ([*DELTAS, done(0, message("Bye")), completed()], [("message", ["Hello"])]),
    "only added has the text": ([added(0, message("Hi")), completed()], [("message", ["Hi"])]),
    "only added has the arguments": ([added(0, call()), completed()], [("function_call", '{"a":1}')]),
    "added twice": (
        [added(0, call("")), added(0, call("")), *PIECES, done(0, call()), done(0, call()), completed()],
        [("function_call", '{"a":1}')],
    ),
    "added never": ([*PIECES, done(0, call()), completed(call())], [("function_call", '{"a":1}')]),
    "ask B4: announced again under another id": (
        [
            *(added(0, call("")), *PIECES, done(0, call())),
            *(added(1, call(id="fc_2")), inner("function_call_arguments.done", 1, arguments='{"a": 1}')),
            *(done(1, call(id="fc_2")), completed(call(), call(id="fc_2"))),
        ],
        [("function_call", '{"a":1}')],
    ),
    "ask B4: announced again before its end": (
        [
            *(added(0, call("")), PIECES[0], added(1, call("", id="fc_2")), done(1, call(id="fc_2"))),
            *(PIECES[1], done(0, call()), completed()),
        ],
        [("function_call", '{"a":1}')],
    ),
    "a custom call announced again": (
        [done(0, custom()), done(1, custom(id="c2")), completed()],
        [("custom_tool_call", "text")],
    ),
    "one id for two calls": (
        [done(0, call()), done(1, call('{"a":2}', id="fc_2")), completed()],
        [("function_call", '{"a":1}'), ("function_call", '{"a":2}')],
    ),
    "one id for calls to two tools": (
        [done(0, call()), done(1, call(id="fc_2", name="other")), completed()],
        [("function_call", '{"a":1}'), ("function_call", '{"a":1}')],
    ),
    "all items have index 0": (
        [
            *(added(0, reasoning()), *THOUGHT, done(0, reasoning())),
            *(added(0, message()), *DELTAS, done(0, message("Hello"))),
            *(added(0, message(id="m2")), inner("output_text.delta", 0, item_id="m2", delta="Bye")),
            *(done(0, message("Bye", id="m2")), done(0, call()), done(0, call("{}", id="f2", call_id="c2"))),
            completed(),
        ],
        [
            ("reasoning", ["A", "B"]),
            ("message", ["Hello"]),
            ("message", ["Bye"]),
            ("function_call", '{"a":1}'),
            ("function_call", "{}"),
        ],
    ),
    "no index at all": (
        [
            added(None, message()),
            inner("output_text.delta", None, item_id="msg_u", delta="Hel"),
            inner("output_text.delta", None, delta="lo"),
            done(None, message("Hello")),
            inner("output_text.delta", None, item_id="msg_2", delta="Bye"),
            completed(message("Hello"), message("Bye", id="msg_2")),
        ],
        [("message", ["Hello"]), ("message", ["Bye"])],
    ),
    "quirk R6: items interleave": (
        [
            *(added(0, reasoning()), inner("reasoning_text.delta", 0, delta="H"), added(1, message())),
            *(inner("output_text.delta", 1, delta="a"), inner("reasoning_text.delta", 0, delta="m")),
            *(done(1, message("a")), done(0, reasoning()), completed()),
        ],
        [("reasoning", ["Hm"]), ("message", ["a"])],
    ),
    "quirk R7: never done": ([added(0, call("")), *PIECES, completed()], [("function_call", '{"a":1}')]),
    "quirk R9: a stream that begins in the middle": (
        [{"type": "response.queued", "response": {}}, DELTAS[1], done(0, message("Hello")), completed()],
        [("message", ["lo"])],
    ),
    "quirk R10: the specification's own spelling": (
        [inner("reasoning.delta", 0, delta="Hm"), inner("reasoning.done", 0, text="Hm"), completed()],
        [("reasoning", ["Hm"])],
    ),
    "decision 20: both spellings": (
        [
            *(inner("reasoning_text.delta", 0, delta="H"), inner("reasoning.delta", 0, delta="H")),
            *(inner("reasoning_text.delta", 0, delta="m"), inner("reasoning.delta", 0, delta="m")),
            *(inner("reasoning_text.done", 0, text="Hm"), inner("reasoning.done", 0, text="Hm"), completed()),
        ],
        [("reasoning", ["Hm"])],
    ),
    "quirk R10: reasoning parts": (
        [
            *(inner("reasoning_part.added", 0, part={}), inner("reasoning_text.delta", 0, delta="Hm")),
            inner("reasoning_part.done", 0, part={"type": "reasoning_text", "text": "Hm"}),
            inner("content_part.done", 0, part={"type": "reasoning_text", "text": "Hm!"}),
            completed(),
        ],
        [("reasoning", ["Hm!"])],
    ),
    "several summary parts": (
        [
            *(*THOUGHT, inner("reasoning_summary_text.done", 0, summary_index=1, text="B")),
            inner(
                "reasoning_summary_part.done", 0, summary_index=2, part={"type": "summary_text", "text": "C"}
            ),
            *(done(0, reasoning(summary=[{"type": "summary_text", "text": t} for t in "ABC"])), completed()),
        ],
        [("reasoning", ["A", "B", "C"])],
    ),
    "quirk R4: two encrypted contents": (
        [
            added(0, reasoning(encrypted_content="first")),
            done(0, reasoning(encrypted_content="second")),
            completed(reasoning(encrypted_content="third")),
        ],
        [("reasoning", ["second"])],
    ),
    "reasoning without content": (
        [done(0, reasoning()), done(1, message("Hi")), completed()],
        [("message", ["Hi"])],
    ),
    "refusal": (
        [
            *(inner("refusal.delta", 0, delta="I ca"), inner("refusal.done", 0, refusal="I can't")),
            *(done(0, message(content=[{"type": "refusal", "refusal": "I can't"}])), completed()),
        ],
        [("message", ["I can't"])],
    ),
    "content as a bare text": ([done(0, message(content="Hi")), completed()], [("message", ["Hi"])]),
    "texts as bare parts": ([done(0, reasoning(summary=["Hm"])), completed()], [("reasoning", ["Hm"])]),
    "several text parts stay separate parts of one message": (
        [
            inner("output_text.delta", 0, content_index=0, delta="a"),
            inner("output_text.delta", 0, content_index=1, delta="b"),
            *(done(0, message("a", "b")), completed()),
        ],
        [("message", ["a", "b"])],
    ),
    "an empty call after the last one": (
        [
            *(added(0, call("")), *PIECES, done(0, call())),
            *(added(1, call("", name="", call_id="")), done(1, call("", name="", call_id=""))),
            completed(call(), call("", name="", call_id="")),
        ],
        [("function_call", '{"a":1}')],
    ),
    "a part of an unknown type": (
        [done(0, message(content=[{"type": "output_audio"}, {"type": "text", "text": "a"}, 5])), completed()],
        [("message", ["a"])],
    ),
    "quirk R13: a custom tool": (
        [
            *(added(0, custom("")), inner("custom_tool_call_input.delta", 0, delta="te")),
            inner("custom_tool_call_input.done", 0, input="text"),
            *(done(0, custom()), completed(custom())),
        ],
        [("custom_tool_call", "text")],
    ),
    "no arguments": ([done(0, call("")), completed()], [("function_call", "{}")]),
    "arguments as an object": ([done(0, call({"a": 1})), completed()], [("function_call", '{"a":1}')]),
    "arguments of no type at all": (
        [*PIECES, done(0, call(None)), completed()],
        [("function_call", '{"a":1}')],
    ),
    "a namespace": ([done(0, call(namespace="ns")), completed()], [("function_call", '{"a":1}')]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_repaired(name: str) -> None:
    events, expected = STREAMS[name]
    response = checks.answer(DIALECT, [created(), *events], TOOLS)
    assert [(item["type"], content_of(item)) for item in response["output"]] == expected
    assert {item["status"] for item in response["output"]} == {"completed"}
    assert response["status"] == "completed"


def test_a_namespace_and_a_phase_are_kept() -> None:
    events = [
        *(added(0, message(phase="commentary")), *DELTAS, done(0, message("Hello", phase="commentary"))),
        *(
            done(1, message("Hi", phase="final_answer")),
            added(2, message(phase="loud")),
            done(2, message("x")),
        ),
        *(done(3, call(namespace="ns")), completed()),
    ]
    output = checks.answer(DIALECT, events, TOOLS)["output"]
    assert [item.get("phase") for item in output[:3]] == ["commentary", "final_answer", None]
    assert (output[3]["namespace"], output[3]["name"]) == ("ns", "get")


def test_a_phase_that_only_done_has_counts_before_the_first_output() -> None:
    late = [added(0, message()), done(0, message("Hello", phase="commentary")), completed()]
    assert checks.answer(DIALECT, late)["output"][0]["phase"] == "commentary"
    too_late = [added(0, message()), *DELTAS, done(0, message("Hello", phase="commentary")), completed()]
    assert "phase" not in checks.answer(DIALECT, too_late)["output"][0]


# Items that are passed on as a unit


SEARCH = {"type": "web_search_call", "id": "ws_u", "status": "in_progress"}


def test_events_of_a_hosted_item_are_passed_on_with_it() -> None:
    events = [
        added(0, SEARCH),
        inner("web_search_call.searching", 0, item_id="ws_u", sequence_number=3, obfuscation="x", query="q"),
        done(0, {**SEARCH, "status": "searching", "action": {"type": "search"}}),
        inner("web_search_call.completed", 0, item_id="ws_u"),
        inner("web_search_call.completed", 7, item_id="nobody"),
        *(done(1, message("Hi")), completed(SEARCH, message("Hi"))),
    ]
    deltas = checks.deltas(DIALECT, events)
    assert next(each.fields for each in deltas if isinstance(each, EventDelta)) == {"query": "q"}
    response = checks.answer(DIALECT, events)
    assert [(item["type"], item["status"]) for item in response["output"]] == [
        ("web_search_call", "completed"),
        ("message", "completed"),
    ]
    assert response["output"][0]["action"] == {"type": "search"}


def test_an_incomplete_hosted_item_does_not_end_the_response() -> None:
    item = {"type": "mcp_call", "id": "mcp_u", "status": "incomplete", "name": "n"}
    normal = checks.answer(DIALECT, [added(0, item), done(0, item), done(1, message("Hi")), completed()])
    assert [each["status"] for each in normal["output"]] == ["completed", "completed"]
    cut = checks.answer(DIALECT, [added(0, item), done(0, item), done(1, message("Hi"))])
    assert [each["status"] for each in cut["output"]] == ["incomplete", "completed"]


def test_events_of_a_shell_call_are_matched_by_index() -> None:  # quirk R15
    item = {"type": "shell_call", "id": "sh_u", "call_id": "call_s", "action": {"commands": []}}
    events = [
        *(added(0, item), inner("shell_call_command.added", 0, command_index=0, command="")),
        inner("shell_call_command.delta", 0, command_index=0, delta="ls"),
        *(done(0, {**item, "action": {"commands": ["ls"]}, "status": "completed"}), completed()),
    ]
    [shell] = checks.answer(DIALECT, events)["output"]
    assert (shell["call_id"], shell["action"]) == ("call_s", {"commands": ["ls"]})
    translated = translate(DIALECT, checks.plan("responses"), checks.as_frames(events))
    assert sum(event.type.startswith("response.shell_call_command") for event in translated) == 2


def test_a_tool_search_has_its_final_call_id() -> None:
    item = {"type": "tool_search_call", "id": "ts_u", "execution": "client", "arguments": {}}
    events = [added(0, {**item, "call_id": "early"}), done(0, {**item, "call_id": "final"}), completed()]
    assert [each["call_id"] for each in checks.answer(DIALECT, events)["output"]] == ["final"]
    never_done = [added(0, {**item, "call_id": "early"}), completed()]
    assert [each["call_id"] for each in checks.answer(DIALECT, never_done)["output"]] == ["early"]
    assert checks.answer(DIALECT, [added(0, {**item, "call_id": "early"})])["output"] == []


def test_a_compaction_is_sealed() -> None:
    item = {"type": "compaction", "id": "cmp_u", "encrypted_content": "bytes"}
    [compaction] = checks.answer(DIALECT, [added(0, {"type": "compaction"}), done(0, item), completed(item)])[
        "output"
    ]
    assert unsealed(compaction) == "bytes"


def test_a_search_that_xai_runs_itself_is_not_a_call() -> None:
    item = custom(name="x_keyword_search", input="")
    final = {**item, "input": "{}", "status": "completed"}
    events = [
        *(added(0, item), inner("custom_tool_call_input.delta", 0, delta="{}")),
        *(inner("custom_tool_call_input.done", 0, input="{}"), done(0, final), completed(final)),
    ]
    [shown] = checks.answer(DIALECT, events)["output"]
    assert (shown["type"], shown["input"]) == ("xai:x_search_call", "{}")
    [called] = checks.answer(DIALECT, events, [CustomTool(name="x_keyword_search")])["output"]
    assert called["type"] == "custom_tool_call"
    assert checks.answer(DIALECT, events[:2])["status"] == "failed"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "x"},
        {"type": "additional_tools"},
        {"id": "no type"},
        {"type": "shell_call", "id": "no call id"},
        {"type": "compaction", "id": "no content"},
    ],
)
def test_an_item_that_is_not_output_is_left_out_with_a_diagnostic(item: dict[str, Any]) -> None:
    response = checks.answer(DIALECT, [added(0, item), done(0, item), completed(item)])
    assert response["output"] == []
    assert [each["code"] for each in response["diagnostics"]] == ["item_left_out"]


def test_vendor_events_are_passed_on_and_invalid_ones_reported() -> None:
    events = [
        {"type": "codex.rate_limits", "sequence_number": 1, "limits": {}},
        {"type": "response.ping"},
        {"type": "two\nlines"},
        {"no": "type"},
        *(*DELTAS, completed(), {"type": "ping"}, {"type": "response.failed"}),
    ]
    deltas = checks.deltas(DIALECT, events)
    assert [each for each in deltas if isinstance(each, EventDelta)] == [
        EventDelta("codex.rate_limits", {"limits": {}})
    ]
    assert [each.code for each in deltas if isinstance(each, DiagnosticDelta)] == ["event_left_out"] * 2
    assert checks.answer(DIALECT, events)["status"] == "completed"


# Ends


def test_a_call_that_the_upstream_marks_incomplete_stays_incomplete() -> None:
    """Even if its arguments happen to be complete JSON."""
    events = [
        *(added(0, call("")), *PIECES, inner("function_call_arguments.done", 0, arguments='{"a":1}')),
        *(
            done(0, call(status="incomplete")),
            ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ),
    ]
    assert [item["status"] for item in checks.answer(DIALECT, events)["output"]] == ["incomplete"]


LIMIT = {"type": "tokens", "code": "rate_limit_exceeded", "message": "Slow down", "param": None}


@pytest.mark.parametrize(
    ("events", "code", "upstream_message"),
    [
        (
            [{"type": "error", "error": LIMIT}, ended("failed", error=LIMIT)],
            "rate_limit_exceeded",
            "Slow down",
        ),
        ([{"type": "error", "code": "server_error", "message": "Oops"}], "server_error", "Oops"),
        ([ended("failed", error=LIMIT)], "rate_limit_exceeded", "Slow down"),
        ([ended("failed")], "server_error", None),
        ([{"error": LIMIT}], "rate_limit_exceeded", "Slow down"),
        ([ended("cancelled")], "server_error", None),
        ([ended("incomplete", incomplete_details={"reason": "cancelled"})], "server_error", None),
        (
            [{"type": "response.completed", "response": {"status": "failed", "error": LIMIT}}],
            "rate_limit_exceeded",
            None,
        ),
        ([], "upstream_truncated", None),
        (["{broken"], "upstream_invalid", None),
    ],
)
def test_a_failure_is_reported_once_with_the_upstreams_message(
    events: list[Any], code: str, upstream_message: str | None
) -> None:
    response = checks.answer(
        DIALECT, [created(), *DELTAS, *events, completed() if not events else ""][: 3 + len(events)]
    )
    assert (response["status"], response["error"]["code"]) == ("failed", code)
    assert upstream_message is None or response["error"]["message"] == upstream_message
    assert [(content_of(item), item["status"]) for item in response["output"]] == [(["Hello"], "incomplete")]


@pytest.mark.parametrize("events", [[], ["[DONE]"], [{"type": "ping"}, "[DONE]"], [""]])
def test_an_upstream_that_sends_nothing_has_failed(events: list[Any]) -> None:
    assert checks.answer(DIALECT, events)["error"]["code"] == "upstream_empty"


def test_an_end_marker_without_a_terminal_event_is_a_normal_end() -> None:
    assert checks.answer(DIALECT, [*DELTAS, "[DONE]"])["status"] == "completed"


def test_the_model_and_the_tier_are_those_that_answered() -> None:
    events = [created(service_tier="auto"), *DELTAS, completed(model="gpt-5", service_tier="flex")]
    response = checks.answer(DIALECT, events)
    assert (response["model"], response["service_tier"]) == ("gpt-5", "flex")


# Answers that are not streamed


def test_a_body_is_read_like_its_stream() -> None:
    body = completed(
        reasoning(encrypted_content="x"), message("Hi"), call(), SEARCH, usage={"input_tokens": 3}
    )
    deltas = DIALECT.read_body(checks.plan("responses", TOOLS), json.dumps(body["response"]).encode())
    _, events = checks.run(deltas, TOOLS)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "web_search_call"]
    assert events[-1]["response"]["usage"]["input_tokens"] == 3


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html>", "upstream_invalid"),
        (b"{}", "upstream_truncated"),
        (b'{"status":"in_progress","output":[]}', "upstream_truncated"),
        (b'{"error":{"code":"rate_limit_exceeded"}}', "rate_limit_exceeded"),
        (b'{"status":"failed","error":{"code":"server_error"}}', "server_error"),
    ],
)
def test_a_body_that_is_not_an_answer_is_an_error(body: bytes, code: str) -> None:
    error = DIALECT.read_body(checks.plan("responses"), body)[-1]
    assert isinstance(error, ErrorDelta)
    assert error.code == code


def test_a_refused_request_is_classified() -> None:
    assert DIALECT.classify(429, {"retry-after": "2"}, b"{}").retry_after == 2


# Our own output (invariant 20)


def emitted(deltas: list[Delta], accent: str) -> tuple[list[Event], list[Frame]]:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += finish(stream) if stream.phase == "in_progress" else []
    rename = ACCENTS[accent]()
    renamed = [rename(event) for event in events]
    return renamed, [Frame(event.type, encode(event).decode()) for event in renamed]


def essence(event: Event) -> list[str]:
    """Return the items without what reading replaces: ids, their suffixes, and the envelope."""
    items = []
    for item in to_builtins(event)["response"]["output"]:
        del item["id"]
        item.pop("upstream_id", None)
        if "call_id" in item:
            item["call_id"] = re.sub(r"(-pk\d+)+$", "", item["call_id"])
        if str(item.get("encrypted_content", "")).startswith("pk1."):
            item["encrypted_content"] = unsealed(item)
        items.append(json.dumps(item, sort_keys=True))
    return items


BEGINNINGS = ("ge", "pa", "get_wea", "gege")
"""Names that could still grow into declared names."""


def is_late(item: str) -> bool:
    """Return whether an item is announced late: sealed reasoning, a search for tools, which has a provisional
    id until it is done, or a name that could still grow."""
    raw = json.loads(item)
    return "encrypted_content" in raw or raw["type"] == "tool_search_call" or raw.get("name") in BEGINNINGS


def is_cut_off_in_its_name(item: str) -> bool:
    """Return whether an item may be dropped: it is a truncated call, of which nothing but the beginning of a
    name is known."""
    raw = json.loads(item)
    return raw.get("name") in BEGINNINGS and raw["status"] == "incomplete" and not raw.get("arguments")


def without_status(items: list[str]) -> list[str]:
    return [json.dumps({**json.loads(item), "status": None}, sort_keys=True) for item in items]


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(strategies.deltas, max_size=20), st.sampled_from(list(ACCENTS)))
@example([ToolCallDelta(key=None, name="tool_search"), TextDelta("0")], "openresponses")
def test_reading_our_own_output_gives_the_same_items(deltas: list[Delta], accent: str) -> None:
    if accent == "copilot":
        # There, content and summary are one list, so interleaved parts cannot be separated.
        deltas = [each for each in deltas if not isinstance(each, SummaryDelta)]
    # Citations of other types never reach the state machine: the rules for the client replace them.
    deltas = [each for each in deltas if not isinstance(getattr(each, "annotation", None), UnknownAnnotation)]
    first, frames = emitted(deltas, accent)
    events = translate(DIALECT, checks.plan("responses", strategies.TOOLS), frames)
    rename = ACCENTS[accent]()
    second = [rename(event) for event in events]
    before, after = (
        [item for item in essence(events[-1]) if not is_cut_off_in_its_name(item)]
        for events in (first, second)
    )
    if any(map(is_late, before)):
        # Their order may change, and only the last item of an incomplete response is incomplete.
        before, after = without_status(before), without_status(after)
    assert Counter(before) == Counter(after)
    assert [each for each in before if not is_late(each)] == [each for each in after if not is_late(each)]
    assert first[-1].type == second[-1].type


# Any input


parts = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["output_text", "refusal", "reasoning_text", "summary_text"]) | checks.values,
        "text": st.sampled_from(["a", "ab", "b"]) | checks.values,
        "refusal": st.sampled_from(["a", "ab"]) | checks.values,
        "annotations": st.lists(st.fixed_dictionaries({"url": checks.values}), max_size=2),
    },
)
items = checks.objects(
    [
        *("message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "shell_call"),
        *("mcp_call", "compaction", "tool_search_call", "function_call_output", "local_shell_call", "acme:x"),
        *("item_reference", "apply_patch_call", "openai:mcp_call", "computer_call", "tool_search_output"),
    ],
    {
        "id": st.sampled_from(["a", "b", ""]),
        "call_id": st.sampled_from(["c", "d", ""]),
        "name": st.sampled_from(["get", "patch", "x_keyword_search", "other", ""]),
        "namespace": st.sampled_from(["ns", None]),
        "arguments": st.sampled_from(['{"a":1}', "{", "", {"a": 1}]),
        "input": st.sampled_from(["text", ""]),
        "status": st.sampled_from(["completed", "incomplete", "in_progress", "failed", "searching"]),
        "content": st.lists(parts, max_size=2),
        "summary": st.lists(parts, max_size=2),
        "phase": st.sampled_from(["commentary", "loud"]),
        "encrypted_content": st.sampled_from(["x", ""]),
        "action": st.just({"type": "search"}),
        "operation": st.just({}),
    },
)
indexes = st.integers(0, 2)
responses = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["completed", "incomplete", "failed", "cancelled", "queued"])
        | checks.values,
        "output": st.lists(items, max_size=3) | checks.values,
        "usage": checks.values | st.just({"input_tokens": 1, "total_tokens": 9}),
        "model": checks.values,
        "service_tier": checks.values,
        "incomplete_details": checks.values,
        "error": checks.values,
    },
)
events = checks.objects(
    [
        *HANDLERS,
        *("response.web_search_call.searching", "response.shell_call_command.delta", "acme:trace", "ping"),
        *("response.mcp_call_arguments.delta", "openai:response.mcp_call.completed"),
    ],
    {
        "output_index": indexes,
        "item_id": st.sampled_from(["a", "b"]),
        "content_index": indexes,
        "summary_index": indexes,
        "sequence_number": indexes,
        "delta": st.sampled_from(["a", "b", '{"a"', ":1}"]),
        "text": st.sampled_from(["a", "ab"]),
        "arguments": st.sampled_from(['{"a":1}', "{"]),
        "input": st.just("text"),
        "part": parts,
        "item": items,
        "annotation": st.fixed_dictionaries(
            {"type": st.sampled_from(["url_citation", "x"]), "url": checks.values}
        ),
        "logprobs": st.just([{"token": "a", "logprob": 1}]),
        "response": responses,
        "error": checks.values,
    },
)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(events, max_size=14))
def test_any_events_end_in_a_lawful_stream(given_events: list[Any]) -> None:
    checks.assert_lawful_end(DIALECT, checks.as_frames(given_events), TOOLS)


@settings(max_examples=60, deadline=None)
@given(responses.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_any_body_ends_in_a_lawful_stream(body: bytes) -> None:
    assert DIALECT.read_body(checks.plan("responses", TOOLS), body)
    checks.translate_body(DIALECT, body, TOOLS)
