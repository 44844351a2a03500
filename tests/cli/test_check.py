"""`penstock check` on files and standard input, as a process: what it prints, and its exit code."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as Xml

import pytest

from penstock.cli.report import REPORTERS
from penstock.dialects.recognition import FORMATS
from penstock.dialects.registry import DIALECTS
from tests.cli import streams
from tests.cli.running import COMMAND, environment, fresh, penstock, start
from tests.dialects.format_samples import STREAMS
from tests.dialects.format_samples import sse as other_format

LAWFUL = streams.as_sse(streams.hello())
UNLAWFUL = streams.as_sse(streams.announced_twice())


@pytest.fixture
def lawful(tmp_path: Path) -> str:
    path = tmp_path / "hello.sse"
    path.write_bytes(LAWFUL)
    return str(path)


@pytest.fixture
def unlawful(tmp_path: Path) -> str:
    path = tmp_path / "twice.sse"
    path.write_bytes(UNLAWFUL)
    return str(path)


def test_a_lawful_stream_is_one_line(lawful: str) -> None:
    result = penstock("check", lawful)
    assert (result.returncode, result.stdout, result.stderr) == (0, "lawful: 11 events\n", "")


def test_a_violation_names_its_rule_its_event_and_affected_clients(unlawful: str) -> None:
    result = penstock("check", unlawful)
    first, *_, verdict = result.stdout.splitlines()
    assert result.returncode == 1
    assert first.startswith("call.duplicate  event 4: ")
    assert "breaks: Codex" in first
    assert verdict == "3 violations in 9 events"


def test_json_is_one_object_of_a_fixed_shape(lawful: str, unlawful: str) -> None:
    result = penstock("check", "--json", lawful)
    assert result.returncode == 0
    assert json.loads(result.stdout) == {"lawful": True, "events": 11, "violations": []}
    result = penstock("check", "--json", unlawful)
    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert list(found) == ["lawful", "events", "violations"]
    assert (found["lawful"], found["events"]) == (False, 9)
    assert [list(each) for each in found["violations"]] == [["rule", "sequence", "message"]] * 3
    assert [(each["rule"], each["sequence"]) for each in found["violations"]] == [
        ("call.duplicate", 4),
        ("item.done-missing", 8),
        ("terminal.output", 8),
    ]


def test_several_files_are_checked_and_named(lawful: str, unlawful: str) -> None:
    gone = f"{lawful}.gone"
    result = penstock("check", lawful, gone, unlawful)
    good, first, *_, bad, last = result.stdout.splitlines()
    assert good == f"{lawful}: lawful: 11 events"
    assert first.startswith(f"{unlawful}:13: call.duplicate  event 4: ")
    assert bad == f"{unlawful}: 3 violations in 9 events"
    assert last == "3 files: 1 lawful, 1 unlawful, 1 not checked"
    assert f"cannot read {gone}: No such file or directory" in result.stderr


def test_the_exit_code_of_several_files_is_that_of_the_worst(lawful: str, unlawful: str) -> None:
    for files, code in {(lawful, lawful): 0, (unlawful, lawful): 1, ("/", unlawful, lawful): 2}.items():
        for format in {*REPORTERS} - {"timeline"}:
            assert penstock("check", "--format", format, *files).returncode == code


def test_a_single_file_is_named_on_request(unlawful: str) -> None:
    result = penstock("check", "--with-filename", unlawful)
    assert result.stdout.startswith(f"{unlawful}:13: call.duplicate  event 4: ")
    [found] = json.loads(penstock("check", "--with-filename", "--json", unlawful).stdout)["files"]
    assert (found["file"], found["violations"][0]["line"]) == (unlawful, 13)


@pytest.mark.parametrize("other", ["-", "http://127.0.0.1:1/v1"])
def test_only_files_can_be_checked_together(lawful: str, other: str) -> None:
    for sources in ((lawful, other), (other, lawful)):
        result = penstock("check", *sources)
        assert (result.returncode, result.stdout) == (2, "")
        assert f"{other} must be the only source" in result.stderr


def test_json_and_text_are_formats(unlawful: str) -> None:
    spellings = {("--format", "json"): ("--json",), ("--format", "text", "--timeline"): ("--timeline",)}
    for long, short in spellings.items():
        one, other = penstock("check", *long, unlawful), penstock("check", *short, unlawful)
        assert (one.returncode, one.stdout, one.stderr) == (1, other.stdout, other.stderr)


def test_a_stream_in_a_pipe_is_annotated_without_a_file() -> None:
    result = penstock("check", "--format", "github", "-", stdin=UNLAWFUL)
    assert result.returncode == 1
    assert result.stdout.startswith("::error title=call.duplicate::standard input: event 4: two items have")
    assert result.stdout.endswith("\n::notice title=penstock check::3 violations in 9 events\n")


def test_junit_is_ascii_whatever_the_output_is(tmp_path: Path) -> None:
    file = tmp_path / "é.sse"
    file.write_bytes(UNLAWFUL)
    result = fresh("check", "--format", "junit", str(file), PYTHONIOENCODING="latin-1", encoding="ascii")
    assert (result.returncode, result.stderr) == (1, "")
    [[case]] = Xml.fromstring(result.stdout)
    assert case.get("name") == str(file)


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "responses"])
@pytest.mark.parametrize("accent", ["openresponses", "openai"])
def test_a_stream_of_another_api_is_one_sentence_with_the_command_to_use(
    name: str, accent: str, tmp_path: Path
) -> None:
    path = tmp_path / "an answer.sse"
    path.write_bytes(other_format(name, done=True))
    result = penstock("check", "--accent", accent, str(path))
    assert (result.returncode, result.stdout) == (2, "")
    assert f"looks like {FORMATS[name].title}, not like OpenResponses events" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    flag = "" if accent == "openresponses" else f" --accent {accent}"
    command = f"penstock translate --dialect {name}{flag} '{path}' | penstock check{flag} -"
    assert (command in result.stderr) == (name in DIALECTS)
    if name in DIALECTS:
        translated = penstock("translate", "--dialect", name, "--accent", accent, str(path))
        checked = penstock("check", "--accent", accent, "-", stdin=translated.stdout.encode())
        assert (checked.returncode, checked.stdout[:6]) == (0, "lawful")


def test_a_stream_of_another_api_is_recognised_in_a_pipe_in_lines_and_in_an_array() -> None:
    command = "penstock translate --dialect gemini - | penstock check -"
    chunks = [json.dumps(each) for each in STREAMS["gemini"]]
    for stream in ("\n".join(chunks), json.dumps(STREAMS["gemini"])):
        result = penstock("check", "-", stdin=stream.encode())
        assert (result.returncode, result.stdout) == (2, "")
        assert command in result.stderr


@pytest.mark.parametrize("stream", [b"", b"\n\n", b": only a comment\n\n"])
def test_an_empty_input_is_not_lawful(stream: bytes) -> None:
    result = penstock("check", "-", stdin=stream)
    assert result.returncode == 1
    assert result.stdout.endswith("in 0 events\n")
    found = json.loads(penstock("check", "--json", "-", stdin=stream).stdout)
    assert found["lawful"] is False
    assert found["violations"]


def test_input_that_is_not_a_stream_gets_a_hint() -> None:
    result = penstock("check", "-", stdin=b"<!doctype html>\n<p>Hello</p>\n")
    assert result.returncode == 1
    assert "no events found in 29 bytes, read as sse" in result.stderr


def test_ndjson_is_recognised_by_its_first_byte(tmp_path: Path) -> None:
    path = tmp_path / "hello.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n  " + streams.as_lines(streams.hello()).replace(b"\n", b"\r\n"))
    result = penstock("check", str(path))
    assert (result.returncode, result.stdout) == (0, "lawful: 11 events\n")


def test_the_frames_of_a_websocket_are_checked_as_such() -> None:
    lines = streams.as_lines(streams.hello())
    result = penstock("check", "--transport", "websocket", "-", stdin=lines)
    assert (result.returncode, result.stdout) == (0, "lawful: 11 events\n")
    result = penstock("check", "--transport", "websocket", "-", stdin=lines + b"[DONE]\n")
    assert result.returncode == 1
    assert result.stdout.startswith("transport.done-forbidden")


def test_the_transport_can_be_forced() -> None:
    result = penstock("check", "--transport", "sse", "-", stdin=streams.as_lines(streams.hello()))
    assert result.returncode == 1
    assert "read as sse" in result.stderr


@pytest.mark.parametrize(
    "document", [b'{\n "type": "response.created"\n}\n', b'[{"type": "response.created"}]']
)
def test_one_json_document_is_refused_with_advice(document: bytes) -> None:
    result = penstock("check", "-", stdin=document)
    assert result.returncode == 2
    assert "one JSON document, not a stream" in result.stderr


def test_tolerant_hides_what_clients_tolerate() -> None:
    stream = streams.as_sse(streams.hello(), done=False)
    strict = penstock("check", "-", stdin=stream)
    assert strict.returncode == 1
    assert strict.stdout.startswith("transport.done-missing  at the end: ")
    assert "--tolerant hides" in strict.stderr
    tolerant = penstock("check", "--tolerant", "-", stdin=stream)
    assert (tolerant.returncode, tolerant.stdout, tolerant.stderr) == (0, "lawful: 11 events\n", "")


def test_the_accent_decides_which_names_are_lawful() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "status": "completed", "summary": []}
    place = {"item_id": "rs_1", "output_index": 0, "content_index": 0}
    part = {"type": "reasoning_text", "text": "Hm."}
    item = {**reasoning, "content": [part]}
    events = streams.response(
        [
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**reasoning, "status": "in_progress", "content": []},
            },
            {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
            {"type": "response.reasoning_text.delta", **place, "delta": "Hm."},
            {"type": "response.reasoning_text.done", **place, "text": "Hm."},
            {"type": "response.content_part.done", **place, "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ],
        [item],
    )
    stream = streams.as_sse(events)
    assert penstock("check", "--accent", "openai", "-", stdin=stream).returncode == 0
    result = penstock("check", "-", stdin=stream)
    assert result.returncode == 1
    assert "name.accent" in result.stdout


def test_a_truncated_stream_is_checked_up_to_its_end() -> None:
    result = penstock("check", "-", stdin=LAWFUL[: LAWFUL.index(b"water") + 3])
    assert result.returncode == 1
    assert "transport.json  event 5" in result.stdout
    assert "terminal.missing  at the end" in result.stdout


def test_an_event_over_the_limit_ends_the_check(tmp_path: Path) -> None:
    path = tmp_path / "endless"
    with path.open("wb") as file:
        file.write(LAWFUL)
        file.truncate(70 * 1024 * 1024)
    result = penstock("check", str(path))
    assert result.returncode == 1
    assert result.stdout.startswith("read.limit  event 11: ")


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["/nonexistent/file"], "No such file or directory; a URL starts with http"),
        (["/"], "Is a directory"),
        (["--model", "m", "file"], "--model needs a URL"),
        (["--api-key-env", "KEY", "file"], "--api-key-env needs a URL"),
        (["--json", "--timeline", "file"], "--timeline is not allowed with --format json"),
        (["--format", "github", "--timeline", "file"], "not allowed with --format github"),
        (["--format", "junit", "--json", "file"], "not allowed with"),
        (["--format", "junti", "file"], "did you mean junit?"),
        (["--fromat", "json", "file"], "did you mean --format?"),
        ([], "the following arguments are required: FILE|-|URL"),
        (["--timeout", "soon", "http://127.0.0.1"], "a number of seconds above 0"),
        (["--accent", "klingon", "file"], "invalid choice"),
    ],
)
def test_wrong_usage_has_exit_code_2(arguments: list[str], advice: str) -> None:
    result = penstock("check", *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert advice in result.stderr


def read_line(stream: IO[bytes]) -> str:
    """Read a line while the command still waits for input; the limit prevents a hanging test."""
    ready, _, _ = select.select([stream], [], [], 30)
    assert ready, "nothing was printed while the stream was still open"
    return stream.readline().decode()


def test_findings_of_a_live_stream_are_printed_as_they_occur() -> None:
    with start("check", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"event: ping\ndata: {}\n\n")
        process.stdin.flush()
        assert read_line(process.stdout).startswith("event.type  event 0: ")
        process.stdin.close()
        assert process.stdout.read().endswith(b" in 1 event\n")
    assert process.returncode == 1


def test_ctrl_c_ends_without_a_message() -> None:
    with start("check", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"event: ping\ndata: {}\n\n")
        process.stdin.flush()
        read_line(process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


def test_a_closed_pipe_ends_without_a_message() -> None:
    with start("check", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(UNLAWFUL)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_reported(unlawful: str) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run([COMMAND, "check", unlawful], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 2
    assert result.stderr.startswith(b"penstock: cannot write the output")
    assert b"Traceback" not in result.stderr


def on_a_terminal(*arguments: str, **changes: str) -> str:
    """Return what the command writes to a terminal."""
    leader, follower = os.openpty()
    with subprocess.Popen([COMMAND, *arguments], stdout=follower, env=environment(**changes)) as process:
        os.close(follower)
        written = b""
        try:
            while chunk := os.read(leader, 65536):
                written += chunk
        except OSError:  # the end of a terminal
            pass
    os.close(leader)
    assert process.returncode in (0, 1)
    return written.decode()


def test_colour_is_for_terminals_only(unlawful: str, lawful: str) -> None:
    assert "\033[" not in penstock("check", unlawful).stdout
    assert "\033[31mcall.duplicate\033[0m" in on_a_terminal("check", unlawful)
    assert "\033[32mlawful: 11 events\033[0m" in on_a_terminal("check", lawful)


def test_no_color_is_respected(unlawful: str) -> None:
    assert "\033[" not in on_a_terminal("check", unlawful, NO_COLOR="1")


def test_control_characters_of_a_stream_are_escaped() -> None:
    event = {"type": "\033[2Jgotcha\n", "sequence_number": 0}
    result = penstock("check", "-", stdin=streams.as_lines([event]))
    assert result.returncode == 1
    assert "\033" not in result.stdout
    assert "gotcha" in result.stdout


def test_characters_that_the_output_cannot_show_are_escaped() -> None:
    event = {"type": "response.水", "sequence_number": 0}
    result = fresh(
        "check",
        "-",
        stdin=streams.as_lines([event]),
        PYTHONIOENCODING="ascii",
        PYTHONUTF8="0",
        encoding="ascii",
    )
    assert result.returncode == 1
    assert "response.\\u6c34" in result.stdout
