"""`penstock parts` as a process: a stream in, a line per part out, and the exit code."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import streams
from tests.cli.running import Result, penstock, start

Line = dict[str, Any]


def lines_of(result: Result) -> list[Line]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def parts(events: list[Line], *options: str) -> list[Line]:
    result = penstock("parts", *options, "-", stdin=streams.as_sse(events))
    assert (result.returncode, result.stderr) == (0, "")
    return lines_of(result)


REASONED: list[Line] = [
    {"type": "response.reasoning.delta", "item_id": "rs_1", "delta": "Hm."},
    {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
]


def thoughtful() -> list[Line]:
    written, item = streams.message("msg_1", 1, ["Yes."])
    return streams.response([*REASONED, *written], [item])


def test_every_part_is_a_line_and_the_last_line_is_the_result() -> None:
    *lines, result = parts(streams.interleaved())
    assert lines == [
        {"type": "text", "value": "Looking "},
        {"type": "text", "value": "both "},
        {"type": "text", "value": "up."},
        {"type": "tool_call", "call_id": "gw-call_fc_1", "name": "get_weather", "input": {"city": "Oslo"}},
        {"type": "tool_call", "call_id": "gw-call_fc_2", "name": "get_time", "input": {"zone": "CET"}},
    ]
    assert list(result)[:6] == ["type", "response_id", "model", "status", "finish", "usage"]
    assert (result["type"], result["response_id"], result["model"]) == ("result", "resp_1", "test-model")
    assert (result["status"], result["finish"]) == ("completed", "tool_calls")
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (9, 12)


def test_a_call_that_is_announced_twice_is_one_line() -> None:
    assert [line["type"] for line in parts(streams.announced_twice())] == ["tool_call", "result"]


def test_thinking_is_text_for_a_host_that_has_none() -> None:
    assert [line.get("value") for line in parts(thoughtful())[:-1]] == ["Hm.", "\n\nYes."]


def test_thinking_is_a_part_for_a_host_that_has_it() -> None:
    thought, sealed, text, _ = parts(thoughtful(), "--host-has-thinking")
    assert thought == {"type": "thinking", "value": "Hm.", "id": "rs_1", "metadata": None}
    assert (sealed["type"], sealed["value"], sealed["id"]) == ("thinking", "", "rs_1")
    assert sealed["metadata"]["openresponses"]["reasoning"]["id"] == "rs_1"
    assert text == {"type": "text", "value": "Yes."}


def test_thinking_can_be_omitted() -> None:
    assert [line.get("value") for line in parts(thoughtful(), "--no-thinking")[:-1]] == ["Yes."]


def test_a_citation_is_a_link_only_when_asked_for() -> None:
    written, item = streams.message("msg_1", 0, ["Oslo is cold."])
    cited = {
        "type": "response.output_text.annotation.added",
        "item_id": "msg_1",
        "annotation": {"type": "url_citation", "url": "https://met.example/", "title": "Met"},
    }
    events = streams.response([*written[:3], cited, *written[3:]], [item])
    assert [line["type"] for line in parts(events)] == ["text", "result"]
    *texts, result = parts(events, "--citations", "inline")
    assert texts[1] == {"type": "text", "value": " [Met](https://met.example/)"}
    assert [cited["title"] for cited in result["annotations"]] == ["Met"]
    *texts, _ = parts(events, "--citations", "end")
    assert texts[-1] == {"type": "text", "value": "\n\n---\n\n1. [Met](https://met.example/)\n"}


def test_data_is_base64() -> None:
    image = {"type": "image_generation_call", "id": "ig_1", "result": base64.b64encode(b"\x89PNG..").decode()}
    line, _ = parts(streams.response([{"type": "response.output_item.done", "item": image}], []))
    assert line == {"type": "data", "mime": "image/png", "base64": image["result"]}


@pytest.mark.parametrize("suffix", [".sse", ".jsonl"])
def test_files_of_both_kinds_are_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"answer{suffix}"
    path.write_bytes((streams.as_sse if suffix == ".sse" else streams.as_lines)(streams.hello()))
    result = penstock("parts", str(path))
    assert result.returncode == 0
    assert "".join(line.get("value", "") for line in lines_of(result)) == "Hello, water 水 🌊"


FAILURES = {
    "breaks off": (streams.hello()[:-1], "stream_truncated"),
    "nothing": ([], "stream_truncated"),
    "empty": (streams.response([], []), "empty_response"),
    "fails": (
        [{"type": "error", "error": {"code": "rate_limit_exceeded", "message": "try again in 3s"}}],
        "rate_limit_exceeded",
    ),
}


@pytest.mark.parametrize(("events", "code"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failed_answer_has_an_error_before_the_result(events: list[Line], code: str) -> None:
    result = penstock("parts", "-", stdin=streams.as_sse(events, done=False))
    *_, error, last = lines_of(result)
    assert (result.returncode, error["type"], error["code"], last["type"]) == (1, "error", code, "result")
    assert error["message"]


def test_an_event_may_have_its_type_in_the_frame_alone() -> None:
    delta = b'event: response.output_text.delta\ndata: {"delta":"hi"}\n\n'
    failed = b'data: {"error":{"code":"server_error","message":"boom"}}\n\n'
    text, error, _ = lines_of(penstock("parts", "-", stdin=delta + failed))
    assert text == {"type": "text", "value": "hi"}
    assert (error["code"], error["message"]) == ("server_error", "boom")


def test_a_line_that_is_not_an_event_is_skipped_and_reported() -> None:
    result = penstock("parts", "-", stdin=b"data: oops\n\ndata: []\n\n" + streams.as_sse(streams.hello()))
    assert result.returncode == 0
    assert result.stderr == "penstock: skipped frames that are not events: 2\n"


def test_the_trace_shows_every_event_with_what_it_made() -> None:
    result = penstock("parts", "--trace", "-", stdin=streams.as_sse(streams.announced_twice()))
    traced = result.stderr.splitlines()
    assert len(traced) == len(streams.announced_twice())
    assert [line for line in traced if "tool_call" in line] == [
        "6 response.function_call_arguments.done 0 fc_1 -> tool_call gw-call_fc_1 (11 characters) 16"
    ]


def test_a_part_is_printed_as_soon_as_it_came() -> None:
    process = start("parts", "-")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(streams.as_sse(streams.hello()[:5], done=False))
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"type": "text", "value": "Hello, "}
    process.stdin.close()
    process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=30) == 1
    assert process.stderr is not None
    process.stderr.close()


def test_a_file_that_is_not_there() -> None:
    result = penstock("parts", "missing.sse")
    assert (result.returncode, result.stdout) == (2, "")
    assert "missing.sse" in result.stderr
