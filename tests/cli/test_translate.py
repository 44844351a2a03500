"""`penstock translate` as a process: input, output and exit code."""

from __future__ import annotations

import json
import select
from pathlib import Path
from typing import Any

import pytest

from penstock.captures import reader
from penstock.cli import main
from penstock.dialects.recognition import FORMATS
from penstock.dialects.registry import DIALECTS
from penstock.sse import Decoder
from tests.cli import dialect_streams
from tests.cli.running import Result, penstock, start
from tests.dialects.format_samples import sse as other_format
from tests.dialects.recordings import FOLDERS, ROOT, files, needs_recordings


def events_of(result: Result) -> list[dict[str, Any]]:
    """Return the printed events; the last frame is `[DONE]`."""
    *frames, last = result.stdout.strip().split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(frame.partition("data: ")[2]) for frame in frames]


def items_of(result: Result) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = events_of(result)[-1]["response"]["output"]
    return items


def lawful(result: Result, *options: str) -> bool:
    return penstock("check", *options, "-", stdin=result.stdout.encode()).returncode == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_answer(dialect: str) -> None:
    result = penstock("translate", "--dialect", dialect, "-", stdin=dialect_streams.STREAMS[dialect])
    assert (result.returncode, result.stderr) == (0, "")
    assert lawful(result)
    message, call = items_of(result)
    assert message["content"][0]["text"] == dialect_streams.TEXT
    assert (call["type"], call["name"]) == ("function_call", "look")
    assert json.loads(call["arguments"]) == dialect_streams.ARGUMENTS
    usage = events_of(result)[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (9, 12)


@pytest.mark.parametrize("accent", ["openresponses", "openai", "copilot"])
def test_the_accent_is_the_clients(accent: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.sse"
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None}]}
    path.write_bytes(dialect_streams.sse([thought, *dialect_streams.chat()], done=True))
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
def test_the_format_of_a_recording_is_detected(form: str) -> None:
    chunks = dialect_streams.gemini()
    data = {"lines": dialect_streams.lines(chunks), "array": json.dumps(chunks, indent=2).encode()}[form]
    result = penstock("translate", "--dialect", "gemini", "-", stdin=data)
    assert result.returncode == 0
    assert items_of(result)[0]["content"][0]["text"] == dialect_streams.TEXT


BROKEN = {
    "nothing at all": b"",
    "cut in the middle": dialect_streams.sse(dialect_streams.chat())[:700],
    "an error in the stream": dialect_streams.sse(
        [*dialect_streams.chat()[:3], {"error": {"message": "too much"}}]
    ),
    "no JSON": b"data: <html>\n\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_recording_that_fails_ends_with_response_failed_and_exit_code_1(data: bytes) -> None:
    result = penstock("translate", "--dialect", "chat", "-", stdin=data)
    assert result.returncode == 1
    assert result.stderr.startswith("penstock: the stream failed: ")
    assert events_of(result)[-1]["type"] == "response.failed"
    assert lawful(result)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "chat"])
def test_a_stream_in_another_dialect_fails_and_names_the_option(dialect: str) -> None:
    result = penstock("translate", "--dialect", dialect, "-", stdin=other_format("chat", done=True))
    assert result.returncode == 1
    assert "response.completed" not in result.stdout
    assert f"looks like {FORMATS['chat'].title}, but it was read as {FORMATS[dialect].title}" in result.stderr
    assert "use --dialect chat (upstream_invalid)" in result.stderr


def test_a_stream_that_cannot_be_translated_at_all_is_named() -> None:
    result = penstock("translate", "--dialect", "gemini", "-", stdin=other_format("gemini_interactions"))
    assert result.returncode == 1
    assert "Gemini Interactions" in result.stderr
    assert "penstock cannot translate this format" in result.stderr


def test_complete_members_of_a_truncated_array_are_translated() -> None:
    data = json.dumps(dialect_streams.gemini()).encode()
    result = penstock("translate", "--dialect", "gemini", "-", stdin=data[: data.index(b"functionCall")])
    assert result.returncode == 1
    assert lawful(result)
    assert items_of(result)[0]["content"][0]["text"] == dialect_streams.TEXT


def test_an_incomplete_answer_is_not_a_failure() -> None:
    chunks = [*dialect_streams.chat()[:3], dialect_streams.chat("length")[6]]
    result = penstock("translate", "--dialect", "chat", "-", stdin=dialect_streams.sse(chunks, done=True))
    assert result.returncode == 0
    assert events_of(result)[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("whole", [True, False])
def test_calls_are_restored_to_the_declared_kind(tmp_path: Path, whole: bool) -> None:
    tools = [{"type": "custom", "name": "look"}]
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "m", "input": "hi", "tools": tools} if whole else tools))
    stream = dialect_streams.STREAMS["chat"]
    result = penstock("translate", "--dialect", "chat", "--tools", str(path), "-", stdin=stream)
    assert result.returncode == 0
    assert items_of(result)[1]["type"] == "custom_tool_call"
    assert events_of(result)[0]["response"]["model"] == ("m" if whole else "unknown")


@pytest.mark.parametrize("text", ["{", '"hello"', '{"tools": 1}', '[{"type": "function"}]'])
def test_a_wrong_tools_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(text)
    result = penstock("translate", "--dialect", "chat", "--tools", str(path), "-", stdin=b"")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--tools: " in result.stderr


def test_explain_prints_one_diagnostic_per_line() -> None:
    stream = dialect_streams.STREAMS["chat"]
    result = penstock("translate", "--dialect", "chat", "--explain", "-", stdin=stream)
    assert result.returncode == 0
    codes = [line.partition("  ")[0] for line in result.stderr.splitlines()]
    assert codes == ["undeclared_tool"]


def saying(text: str) -> bytes:
    """A Chat Completions stream of one message."""
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    return dialect_streams.sse(chunks, done=True)


def test_think_tags_become_reasoning_only_on_request() -> None:
    stream = saying("<think>Hm.</think>Yes.")
    plain = penstock("translate", "--dialect", "chat", "-", stdin=stream)
    assert [item["type"] for item in items_of(plain)] == ["message"]
    split = penstock("translate", "--dialect", "chat", "--think-tags", "-", stdin=stream)
    assert [item["type"] for item in items_of(split)] == ["reasoning", "message"]


def test_tool_markup_becomes_a_call_only_on_request() -> None:
    stream = saying('<tool_call>{"name": "look", "arguments": {"city": "Oslo"}}</tool_call>')
    plain = penstock("translate", "--dialect", "chat", "-", stdin=stream)
    assert [item["type"] for item in items_of(plain)] == ["message"]
    split = penstock("translate", "--dialect", "chat", "--tool-markup", "-", stdin=stream)
    assert [item["type"] for item in items_of(split)] == ["function_call"]


def test_a_frame_over_the_limit_fails_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setitem(reader._READERS, "sse", lambda: Decoder(limit=200))
    path = tmp_path / "answer.sse"
    path.write_bytes(b"data: " + b"x" * 1000 + b"\n\n")
    assert main(["translate", "--dialect", "chat", str(path)]) == 1
    printed = capfdbinary.readouterr()
    assert b"larger than the limit of 200 bytes" in printed.err
    assert b"event: response.failed" in printed.out
    assert printed.out.endswith(b"data: [DONE]\n\n")


def test_events_are_written_as_soon_as_their_chunks_arrive() -> None:
    process = start("translate", "--dialect", "chat", "-")
    assert process.stdin
    assert process.stdout
    process.stdin.write(dialect_streams.sse(dialect_streams.chat()[:2]))
    process.stdin.flush()
    seen = b""
    while b"response.output_text.delta" not in seen:
        assert select.select([process.stdout], [], [], 30)[0], "nothing was written"
        chunk = process.stdout.read1(65536)  # type: ignore[attr-defined]  # typeshed gives it no read1
        assert chunk, "the output ended early"
        seen += chunk
    process.communicate(timeout=30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "--dialect"),
        (["--dialect", "klingon", "-"], "klingon"),
        (["--dialect", "chat"], "FILE|-"),
        (["--dialect", "chat", "no-such-file.sse"], "cannot read no-such-file.sse"),
        (["--dialect", "chat", "--tools", "no-such-file.json", "-"], "cannot read no-such-file.json"),
    ],
)
def test_wrong_usage_writes_no_stream(arguments: list[str], message: str) -> None:
    result = penstock("translate", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


@needs_recordings
@pytest.mark.parametrize("dialect", DIALECTS)
def test_recordings_are_translated_to_lawful_streams(dialect: str) -> None:
    """The smallest of each form, and the largest of one dialect; tests/dialects checks all of them."""
    names = sorted(files(FOLDERS[dialect]), key=lambda name: (ROOT / name).stat().st_size)
    for form in (".sse", ".jsonl", ".array.json"):
        found = [name for name in names if name.endswith(form)]
        for name in {*found[:1], *(found[-1:] if dialect == "chat" else ())}:
            result = penstock("translate", "--dialect", dialect, str(ROOT / name))
            failed = events_of(result)[-1]["type"] == "response.failed"
            assert result.returncode == failed, name
            assert lawful(result), name
