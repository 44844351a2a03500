"""Reading the stream of another Responses endpoint."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dialects.envelope import unseal
from penstock.dialects.responses import DIALECT
from penstock.dialects.responses.reader import HANDLERS
from penstock.protocol.events import Event
from penstock.protocol.tools import CustomTool, FunctionTool, NamespaceTool, Tool
from penstock.protocol.wire import encode, to_builtins
from penstock.sse import Frame
from penstock.stream.accents import ACCENTS
from penstock.stream.deltas import (
    Delta,
    DiagnosticDelta,
    ErrorDelta,
    EventDelta,
    FinishReason,
    SummaryDelta,
    UsageDelta,
)
from tests.dialects import keyed_stream_checks as checks
from tests.dialects.recordings import files, needs_recordings, translate
from tests.dialects.responses.oracle_exceptions import EXCEPTIONS
from tests.effort import examples
from tests.stream import strategies
from tests.stream.running import finish, machine

FILES = files("openai-responses")
SMALL = checks.smallest("openai-responses", 60)
TOOLS: list[Tool] = [
    FunctionTool(name="get"),
    CustomTool(name="patch"),
    NamespaceTool(name="ns", tools=[FunctionTool(name="get")]),
]


@needs_recordings
@pytest.mark.parametrize("file", FILES)
def test_a_recording_is_read_as_the_oracles_read_it(file: str) -> None:
    checks.assert_agrees(DIALECT, file, file, EXCEPTIONS)


@needs_recordings
@pytest.mark.parametrize("file", [file for file in SMALL if file.endswith(".sse")])
def test_the_way_the_bytes_come_changes_nothing(file: str) -> None:
    checks.assert_same_in_any_reads(file)


@needs_recordings
@pytest.mark.parametrize("file", SMALL)
def test_noise_changes_no_item(file: str) -> None:
    pings = ['{"type":"ping","cost":"0"}', '{"type":"response.keep_alive"}', '{"type":"keepalive"}']
    vendors = ['{"type":"codex.rate_limits","limits":{}}', ""]
    checks.assert_same_with_noise(DIALECT, file, checks.as_frames([*pings, *vendors]))


@needs_recordings
@pytest.mark.parametrize("file", SMALL)
def test_nothing_before_a_cut_is_lost(file: str) -> None:
    checks.assert_survives_cuts(DIALECT, file)


@needs_recordings
@pytest.mark.recordings
@pytest.mark.parametrize("file", [file for file in FILES if file not in SMALL])
def test_large_recordings_too(file: str) -> None:
    checks.assert_same_with_noise(DIALECT, file, checks.as_frames(['{"type":"ping","cost":"0"}']))
    checks.assert_survives_cuts(DIALECT, file, most=100)
    if file.endswith(".sse"):
        checks.assert_same_in_any_reads(file)


# Events by hand


def created(**fields: Any) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": "resp_u", "model": "gpt", **fields}}


def completed(*output: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": [*output], **fields}}


def added(index: int | None, item: dict[str, Any]) -> dict[str, Any]:
    return _at(index, {"type": "response.output_item.added", "item": item})


def done(index: int | None, item: dict[str, Any]) -> dict[str, Any]:
    return _at(index, {"type": "response.output_item.done", "item": item})


def inner(type: str, index: int | None, **fields: Any) -> dict[str, Any]:
    return _at(index, {"type": f"response.{type}", **fields})


def _at(index: int | None, event: dict[str, Any]) -> dict[str, Any]:
    return event if index is None else {**event, "output_index": index}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_u", "role": "assistant", "content": content, **fields}


def reasoning(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_u", "summary": [], **fields}


def call(arguments: Any = '{"a":1}', **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_u",
        "call_id": "call_u",
        "name": "get",
        "arguments": arguments,
        **fields,
    }


def custom(input: Any = "text", **fields: Any) -> dict[str, Any]:
    return {
        "type": "custom_tool_call",
        "id": "c",
        "call_id": "call_u",
        "name": "patch",
        "input": input,
        **fields,
    }


def words(item: dict[str, Any]) -> Any:
    """What an item says, in short."""
    if item["type"] == "message":
        return [part.get("text") or part.get("refusal") for part in item["content"]]
    if item["type"] == "reasoning":
        parts = [part["text"] for part in [*item["summary"], *item.get("content", [])]]
        return [*parts, unsealed(item)] if "encrypted_content" in item else parts
    return item.get("arguments", item.get("input"))


def unsealed(item: dict[str, Any]) -> Any:
    envelope = unseal(item["encrypted_content"])
    assert envelope is not None
    assert envelope.dialect == "responses"
    return envelope.payload["encrypted_content"]


DELTAS = [inner("output_text.delta", 0, delta="Hel"), inner("output_text.delta", 0, delta="lo")]
PIECES = [
    inner("function_call_arguments.delta", 0, delta='{"a"'),
    inner("function_call_arguments.delta", 0, delta=":1}"),
]
THOUGHT = [
    inner("reasoning_summary_text.delta", 0, summary_index=0, delta="A"),
    inner("reasoning_summary_text.delta", 0, summary_index=1, delta="B"),
]

STREAMS: dict[str, tuple[list[Any], list[tuple[str, Any]]]] = {
    "everything told five times": (
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
    "ask B4: announced anew under another id": (
        [
            *(added(0, call("")), *PIECES, done(0, call())),
            *(added(1, call(id="fc_2")), inner("function_call_arguments.done", 1, arguments='{"a": 1}')),
            *(done(1, call(id="fc_2")), completed(call(), call(id="fc_2"))),
        ],
        [("function_call", '{"a":1}')],
    ),
    "ask B4: announced anew before its end": (
        [
            *(added(0, call("")), PIECES[0], added(1, call("", id="fc_2")), done(1, call(id="fc_2"))),
            *(PIECES[1], done(0, call()), completed()),
        ],
        [("function_call", '{"a":1}')],
    ),
    "a custom call announced anew": (
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
    "reasoning of which nothing is told": (
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
    "several text parts stay one message": (
        [
            inner("output_text.delta", 0, content_index=0, delta="a"),
            inner("output_text.delta", 0, content_index=1, delta="b"),
            *(done(0, message("a", "b")), completed()),
        ],
        [("message", ["ab"])],
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
    assert [(item["type"], words(item)) for item in response["output"]] == expected
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


def test_citations_are_told_once_and_moved_with_their_part() -> None:
    def url(at: int) -> dict[str, Any]:
        return {
            "type": "url_citation",
            "url": f"https://{at}",
            "title": "",
            "start_index": at,
            "end_index": at,
        }

    cited = [
        {"type": "output_text", "text": "Hello", "annotations": [url(1), url(1), url(2)]},
        {
            "type": "output_text",
            "text": "Bye",
            "annotations": [url(0), {"type": "file_citation", "file_id": "f"}],
        },
    ]
    events = [
        *(*DELTAS, inner("output_text.annotation.added", 0, content_index=0, annotation=url(1))),
        inner("output_text_annotation.added", 0, content_index=0, annotation=url(1)),
        inner("output_text.annotation.added", 0, content_index=0, annotation=None),
        inner("output_text.delta", 0, content_index=1, delta="Bye"),
        *(done(0, message(content=cited)), completed(message(content=cited))),
    ]
    [item] = checks.answer(DIALECT, events)["output"]
    annotations = item["content"][0]["annotations"]
    assert [each.get("start_index") for each in annotations] == [1, 1, 2, 5, None]


def test_an_odd_citation_is_kept_without_looking_like_a_proper_one() -> None:
    events = [
        *DELTAS,
        inner("output_text.annotation.added", 0, annotation={"type": "url_citation", "url": 5}),
    ]
    [item] = checks.answer(DIALECT, [*events, completed()])["output"]
    assert item["content"][0]["annotations"] == [{"type": "unknown", "url": 5}]


def test_logprobs_are_passed_on_with_all_that_the_schema_wants() -> None:
    given_logprobs = [
        {
            "token": "Hi",
            "logprob": -1,
            "top_logprobs": [{"token": "Ho", "logprob": -2.5, "bytes": [72, 111]}, {}],
        },
        {"token": 5, "logprob": -1},
        {"token": "x", "logprob": True},
    ]
    events = [inner("output_text.delta", 0, delta="Hi", logprobs=given_logprobs), completed()]
    [item] = checks.answer(DIALECT, events)["output"]
    top = [{"token": "Ho", "logprob": -2.5, "bytes": [72, 111]}]
    assert item["content"][0]["logprobs"] == [
        {"token": "Hi", "logprob": -1, "bytes": [72, 105], "top_logprobs": top}
    ]


# Items that pass whole


SEARCH = {"type": "web_search_call", "id": "ws_u", "status": "in_progress"}


def test_the_events_of_a_hosted_item_go_with_it() -> None:
    events = [
        added(0, SEARCH),
        inner("web_search_call.searching", 0, item_id="ws_u", sequence_number=3, obfuscation="x", query="q"),
        done(0, {**SEARCH, "status": "searching", "action": {"type": "search"}}),
        inner("web_search_call.completed", 0, item_id="ws_u"),
        inner("web_search_call.completed", 7, item_id="nobody"),
        *(done(1, message("Hi")), completed(SEARCH, message("Hi"))),
    ]
    said = checks.told(DIALECT, events)
    assert next(each.fields for each in said if isinstance(each, EventDelta)) == {"query": "q"}
    response = checks.answer(DIALECT, events)
    assert [(item["type"], item["status"]) for item in response["output"]] == [
        ("web_search_call", "completed"),
        ("message", "completed"),
    ]
    assert response["output"][0]["action"] == {"type": "search"}


def test_a_hosted_item_that_ended_incomplete_does_not_end_the_rest() -> None:
    item = {"type": "mcp_call", "id": "mcp_u", "status": "incomplete", "name": "n"}
    normal = checks.answer(DIALECT, [added(0, item), done(0, item), done(1, message("Hi")), completed()])
    assert [each["status"] for each in normal["output"]] == ["completed", "completed"]
    cut = checks.answer(DIALECT, [added(0, item), done(0, item), done(1, message("Hi"))])
    assert [each["status"] for each in cut["output"]] == ["incomplete", "completed"]


def test_r15_a_shell_call_is_told_by_index_alone() -> None:
    item = {"type": "shell_call", "id": "sh_u", "call_id": "call_s", "action": {"commands": []}}
    events = [
        *(added(0, item), inner("shell_call_command.added", 0, command_index=0, command="")),
        inner("shell_call_command.delta", 0, command_index=0, delta="ls"),
        *(done(0, {**item, "action": {"commands": ["ls"]}, "status": "completed"}), completed()),
    ]
    [shell] = checks.answer(DIALECT, events)["output"]
    assert (shell["call_id"], shell["action"]) == ("call_s", {"commands": ["ls"]})
    said = translate(DIALECT, checks.plan("responses"), checks.as_frames(events))
    assert sum(event.type.startswith("response.shell_call_command") for event in said) == 2


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


def test_a_search_that_xai_runs_itself_is_no_call() -> None:
    item = custom(name="x_keyword_search", input="")
    whole = {**item, "input": "{}", "status": "completed"}
    events = [
        *(added(0, item), inner("custom_tool_call_input.delta", 0, delta="{}")),
        *(inner("custom_tool_call_input.done", 0, input="{}"), done(0, whole), completed(whole)),
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
def test_what_is_no_item_of_an_answer_is_left_out_and_told(item: dict[str, Any]) -> None:
    response = checks.answer(DIALECT, [added(0, item), done(0, item), completed(item)])
    assert response["output"] == []
    assert [each["code"] for each in response["diagnostics"]] == ["item_left_out"]


def test_events_of_a_vendor_pass_and_odd_ones_are_told() -> None:
    events = [
        {"type": "codex.rate_limits", "sequence_number": 1, "limits": {}},
        {"type": "response.ping"},
        {"type": "two\nlines"},
        {"no": "type"},
        *(*DELTAS, completed(), {"type": "ping"}, {"type": "response.failed"}),
    ]
    said = checks.told(DIALECT, events)
    assert [each for each in said if isinstance(each, EventDelta)] == [
        EventDelta("codex.rate_limits", {"limits": {}})
    ]
    assert [each.code for each in said if isinstance(each, DiagnosticDelta)] == ["event_left_out"] * 2
    assert checks.answer(DIALECT, events)["status"] == "completed"


# Ends


def ended(status: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, "output": [], **fields}}


@pytest.mark.parametrize(
    ("reason", "told_reason"),
    [
        ("max_output_tokens", "max_output_tokens"),
        ("content_filter", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("moonlight", "max_output_tokens"),
        (None, "max_output_tokens"),
    ],
)
def test_an_incomplete_response_stays_one(reason: Any, told_reason: str) -> None:
    events = [
        *(*DELTAS, done(0, message("Hello", status="incomplete"))),
        *(added(1, call("")), inner("function_call_arguments.delta", 1, delta='{"a"')),
        done(1, call('{"a"', status="incomplete")),
        ended("incomplete", incomplete_details={"reason": reason}),
    ]
    response = checks.answer(DIALECT, events)
    assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", told_reason)
    assert [item["status"] for item in response["output"]] == ["incomplete", "incomplete"]


def test_a_call_that_the_upstream_calls_incomplete_is_not_run() -> None:
    """Also where its arguments happen to be whole."""
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
    ("events", "code", "words_of_upstream"),
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
def test_a_failure_is_told_once_with_the_words_of_the_upstream(
    events: list[Any], code: str, words_of_upstream: str | None
) -> None:
    response = checks.answer(
        DIALECT, [created(), *DELTAS, *events, completed() if not events else ""][: 3 + len(events)]
    )
    assert (response["status"], response["error"]["code"]) == ("failed", code)
    assert words_of_upstream is None or response["error"]["message"] == words_of_upstream
    assert [(words(item), item["status"]) for item in response["output"]] == [(["Hello"], "incomplete")]


@pytest.mark.parametrize("events", [[], ["[DONE]"], [{"type": "ping"}, "[DONE]"], [""]])
def test_an_upstream_that_says_nothing_has_failed(events: list[Any]) -> None:
    assert checks.answer(DIALECT, events)["error"]["code"] == "upstream_empty"


def test_an_end_marker_without_a_terminal_event_is_a_normal_end() -> None:
    assert checks.answer(DIALECT, [*DELTAS, "[DONE]"])["status"] == "completed"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (
            {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 15,
            },
            (10, 5, 4, 1, 2),
        ),
        ({"input_tokens": 10, "output_tokens": 5}, (10, 5, None, None, None)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 5,
                "output_tokens_details": {"reasoning_tokens": 7},
                "total_tokens": 21,
            },
            (9, 12, None, None, 7),
        ),
        ({"input_tokens": "10", "output_tokens": None, "input_tokens_details": 5}, (None,) * 5),
    ],
)
def test_usage_and_its_details(usage: Any, counts: tuple[int | None, ...]) -> None:
    [told] = [each for each in checks.told(DIALECT, [completed(usage=usage)]) if isinstance(each, UsageDelta)]
    assert counts == (
        told.input_tokens,
        told.output_tokens,
        told.cached_tokens,
        told.cache_write_tokens,
        told.reasoning_tokens,
    )


def test_the_model_and_the_tier_are_those_that_answered() -> None:
    events = [created(service_tier="auto"), *DELTAS, completed(model="gpt-5", service_tier="flex")]
    response = checks.answer(DIALECT, events)
    assert (response["model"], response["service_tier"]) == ("gpt-5", "flex")


# Answers that are not streamed


def test_a_body_is_read_as_its_stream() -> None:
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
def test_a_body_that_is_no_answer_is_an_error(body: bytes, code: str) -> None:
    error = DIALECT.read_body(checks.plan("responses"), body)[-1]
    assert isinstance(error, ErrorDelta)
    assert error.code == code


def test_a_refused_request_is_classified() -> None:
    assert DIALECT.classify(429, {"retry-after": "2"}, b"{}").retry_after == 2


# Our own output (invariant 20)


def spoken(deltas: list[Delta], accent: str) -> tuple[list[Event], list[Frame]]:
    stream = machine(strategies.TOOLS)
    events = stream.start()
    for delta in deltas:
        events += stream.apply(delta)
    events += finish(stream) if stream.phase == "in_progress" else []
    speak = ACCENTS[accent]()
    said = [speak(event) for event in events]
    return said, [Frame(event.type, encode(event).decode()) for event in said]


def essence(event: Event) -> list[str]:
    """The items without what is issued anew: ids, their marks, and the envelope of encrypted content."""
    items = []
    for item in to_builtins(event)["response"]["output"]:
        del item["id"]
        if "call_id" in item:
            item["call_id"] = re.sub(r"(-pk\d+)+$", "", item["call_id"])
        if str(item.get("encrypted_content", "")).startswith("pk1."):
            item["encrypted_content"] = unsealed(item)
        items.append(json.dumps(item, sort_keys=True))
    return items


def is_late(item: str) -> bool:
    """Told when it is done, as sealed reasoning may be, or when its name cannot become another any more."""
    raw = json.loads(item)
    return "encrypted_content" in raw or raw.get("name") in ("ge", "pa", "get_wea", "gege")


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(strategies.deltas, max_size=20), st.sampled_from(list(ACCENTS)))
def test_our_own_output_gives_the_same_items(deltas: list[Delta], accent: str) -> None:
    if accent == "copilot":
        # There, content and summary are one list; parts that took turns cannot be told apart any more.
        deltas = [each for each in deltas if not isinstance(each, SummaryDelta)]
    said, frames = spoken(deltas, accent)
    events = translate(DIALECT, checks.plan("responses", strategies.TOOLS), frames)
    speak = ACCENTS[accent]()
    again = [speak(event) for event in events]
    before, after = essence(said[-1]), essence(again[-1])
    assert Counter(before) == Counter(after)
    assert [each for each in before if not is_late(each)] == [each for each in after if not is_late(each)]
    assert said[-1].type == again[-1].type


# Anything


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
def test_any_body_is_read(body: bytes) -> None:
    deltas = DIALECT.read_body(checks.plan("responses", TOOLS), body)
    assert deltas
    checks.run([each for each in deltas if not isinstance(each, ErrorDelta)] or [], TOOLS)


def test_the_cost_of_an_event_does_not_grow_with_the_answer() -> None:
    """Wholes that say nothing do not make the reader join what it heard, over and over."""
    item = [inner("output_text.delta", 0, delta="x" * 50)] * 2000 + [
        inner("output_text.done", 0, text="")
    ] * 2000
    assert checks.told(DIALECT, [*item, completed()])[-1].reason is FinishReason.STOP  # type: ignore[union-attr]
