"""`penstock translate` as a process: what goes in, what comes out, and the exit code."""

from __future__ import annotations

import json
import select
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import capture, main
from penstock.dialects.registry import DIALECTS
from penstock.sse import Decoder
from tests.cli import upstreams
from tests.cli.running import Result, penstock, start
from tests.dialects.recordings import FOLDERS, ROOT, files, needs_recordings


def events_of(result: Result) -> list[dict[str, Any]]:
    """The events that were printed; the last frame is `[DONE]`."""
    *frames, last = result.stdout.strip().split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(frame.partition("data: ")[2]) for frame in frames]


def items_of(result: Result) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = events_of(result)[-1]["response"]["output"]
    return items


def lawful(result: Result, *options: str) -> bool:
    return penstock("check", *options, "-", stdin=result.stdout.encode()).returncode == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_says_the_same_answer(dialect: str) -> None:
    result = penstock("translate", "--dialect", dialect, "-", stdin=upstreams.STREAMS[dialect])
    assert (result.returncode, result.stderr) == (0, "")
    assert lawful(result)
    message, call = items_of(result)
    assert message["content"][0]["text"] == upstreams.TEXT
    assert (call["type"], call["name"]) == ("function_call", "look")
    assert json.loads(call["arguments"]) == upstreams.ARGUMENTS
    usage = events_of(result)[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (9, 12)


@pytest.mark.parametrize("accent", ["openresponses", "openai", "copilot"])
def test_the_accent_is_the_clients(accent: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.sse"
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None}]}
    path.write_bytes(upstreams.sse([thought, *upstreams.chat()], done=True))
    result = penstock("translate", "--dialect", "chat", "--accent", accent, str(path))
    assert result.returncode == 0
    assert lawful(result, "--accent", accent)
    names = {
        "openresponses": "response.reasoning.delta",
        "openai": "response.reasoning_text.delta",
        "copilot": "response.reasoning_summary_text.delta",
    }
    assert names[accent] in [event["type"] for event in events_of(result)]


@pytest.mark.parametrize("form", ["lines", "array"])
def test_the_form_of_a_recording_shows_in_its_first_bytes(form: str) -> None:
    chunks = upstreams.gemini()
    data = {"lines": upstreams.lines(chunks), "array": json.dumps(chunks, indent=2).encode()}[form]
    result = penstock("translate", "--dialect", "gemini", "-", stdin=data)
    assert result.returncode == 0
    assert items_of(result)[0]["content"][0]["text"] == upstreams.TEXT


BROKEN = {
    "nothing at all": b"",
    "cut in the middle": upstreams.sse(upstreams.chat())[:700],
    "an error in the stream": upstreams.sse([*upstreams.chat()[:3], {"error": {"message": "too much"}}]),
    "no JSON": b"data: <html>\n\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_recording_that_fails_ends_with_response_failed_and_exit_code_1(data: bytes) -> None:
    result = penstock("translate", "--dialect", "chat", "-", stdin=data)
    assert result.returncode == 1
    assert result.stderr.startswith("penstock: the stream failed: ")
    assert events_of(result)[-1]["type"] == "response.failed"
    assert lawful(result)


def test_an_array_that_was_cut_keeps_what_was_whole() -> None:
    data = json.dumps(upstreams.gemini()).encode()
    result = penstock("translate", "--dialect", "gemini", "-", stdin=data[: data.index(b"functionCall")])
    assert result.returncode == 1
    assert lawful(result)
    assert items_of(result)[0]["content"][0]["text"] == upstreams.TEXT


def test_a_truncated_answer_is_no_failure() -> None:
    chunks = [*upstreams.chat()[:3], upstreams.chat("length")[6]]
    result = penstock("translate", "--dialect", "chat", "-", stdin=upstreams.sse(chunks, done=True))
    assert result.returncode == 0
    assert events_of(result)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("whole", [True, False])
def test_tools_say_what_kind_of_call_comes_back(tmp_path: Path, whole: bool) -> None:
    tools = [{"type": "custom", "name": "look"}]
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "m", "input": "hi", "tools": tools} if whole else tools))
    stream = upstreams.STREAMS["chat"]
    result = penstock("translate", "--dialect", "chat", "--tools", str(path), "-", stdin=stream)
    assert result.returncode == 0
    assert items_of(result)[1]["type"] == "custom_tool_call"
    assert events_of(result)[0]["response"]["model"] == ("m" if whole else "unknown")


@pytest.mark.parametrize("text", ["{", '"hello"', '{"tools": 1}', '[{"type": "function"}]'])
def test_a_file_of_tools_that_is_none_is_wrong_usage(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)
    result = penstock("translate", "--dialect", "chat", "--tools", str(path), "-", stdin=b"")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--tools: " in result.stderr


def test_explain_tells_what_was_repaired_one_per_line() -> None:
    stream = upstreams.STREAMS["chat"]
    result = penstock("translate", "--dialect", "chat", "--explain", "-", stdin=stream)
    assert result.returncode == 0
    codes = [line.partition("  ")[0] for line in result.stderr.splitlines()]
    assert codes == ["undeclared_tool"]


def test_think_tags_are_taken_out_only_when_asked_for() -> None:
    delta = {"content": "<think>Hm.</think>Yes."}
    chunks = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    stream = upstreams.sse(chunks, done=True)
    plain = penstock("translate", "--dialect", "chat", "-", stdin=stream)
    assert [item["type"] for item in items_of(plain)] == ["message"]
    split = penstock("translate", "--dialect", "chat", "--think-tags", "-", stdin=stream)
    assert [item["type"] for item in items_of(split)] == ["reasoning", "message"]


def test_tool_markup_is_taken_out_only_when_asked_for() -> None:
    delta = {"content": '<tool_call>{"name": "look", "arguments": {"city": "Oslo"}}</tool_call>'}
    chunks = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    stream = upstreams.sse(chunks, done=True)
    plain = penstock("translate", "--dialect", "chat", "-", stdin=stream)
    assert [item["type"] for item in items_of(plain)] == ["message"]
    split = penstock("translate", "--dialect", "chat", "--tool-markup", "-", stdin=stream)
    assert [item["type"] for item in items_of(split)] == ["function_call"]


def test_a_frame_past_the_limit_fails_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setitem(capture._READERS, "sse", lambda: Decoder(limit=200))
    path = tmp_path / "answer.sse"
    path.write_bytes(b"data: " + b"x" * 1000 + b"\n\n")
    assert main(["translate", "--dialect", "chat", str(path)]) == 1
    printed = capfdbinary.readouterr()
    assert b"larger than the limit of 200 bytes" in printed.err
    assert b"event: response.failed" in printed.out
    assert printed.out.endswith(b"data: [DONE]\n\n")


def test_events_are_written_as_soon_as_their_chunks_have_come() -> None:
    process = start("translate", "--dialect", "chat", "-")
    assert process.stdin
    assert process.stdout
    process.stdin.write(upstreams.sse(upstreams.chat()[:2]))
    process.stdin.flush()
    seen = b""
    while b"response.output_text.delta" not in seen:
        assert select.select([process.stdout], [], [], 30)[0], "nothing was written"
        chunk = process.stdout.read1(65536)  # type: ignore[attr-defined]  # typeshed gives it no read1
        assert chunk, "the output ended early"
        seen += chunk
    process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-"], "--dialect"),
        (["--dialect", "klingon", "-"], "klingon"),
        (["--dialect", "chat"], "FILE|-"),
        (["--dialect", "chat", "no-such-file.sse"], "cannot read no-such-file.sse"),
        (["--dialect", "chat", "--tools", "no-such-file.json", "-"], "cannot read no-such-file.json"),
    ],
)
def test_wrong_usage_writes_no_stream(arguments: list[str], told: str) -> None:
    result = penstock("translate", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert told in result.stderr


@needs_recordings
@pytest.mark.parametrize("dialect", DIALECTS)
def test_recordings_come_out_lawful(dialect: str) -> None:
    """The smallest and the largest of each form; all of them are judged in tests/dialects."""
    names = sorted(files(FOLDERS[dialect]), key=lambda name: (ROOT / name).stat().st_size)
    for form in (".sse", ".jsonl", ".array.json"):
        found = [name for name in names if name.endswith(form)]
        for name in {*found[:1], *found[-1:]}:
            result = penstock("translate", "--dialect", dialect, str(ROOT / name))
            failed = events_of(result)[-1]["type"] == "response.failed"
            assert result.returncode == failed, name
            assert lawful(result), name
