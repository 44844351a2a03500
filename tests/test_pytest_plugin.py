"""The pytest plugin: what the fixture `assert_lawful` accepts, how it fails, and that pytest finds it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.pytest_plugin import AssertLawful
from tests.cli import streams
from tests.dialects.format_samples import sse as other_format

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[1] / "docs" / "ci.md"
LAWFUL = streams.as_sse(streams.hello())
DOUBLED = streams.as_sse(streams.announced_twice())

assert_lawful = AssertLawful()


def machine_events() -> list[penstock.Event]:
    response = penstock.Response(id="resp_1", model="mine", created_at=0)
    machine = penstock.ResponseStreamStateMachine(response, clock=time.time)
    return [*machine.start(), *machine.text("Hello."), *machine.finish(penstock.FinishReason.STOP)]


def frames(data: bytes) -> list[penstock.Frame]:
    return penstock.Decoder().feed(data)


def failure(stream: object, **options: Any) -> str:
    with pytest.raises(AssertionError) as raised:
        assert_lawful(stream, **options)
    return str(raised.value)


STREAMS = {
    "bytes": LAWFUL,
    "bytearray": bytearray(LAWFUL),
    "memoryview": memoryview(LAWFUL),
    "str": LAWFUL.decode(),
    "lines": streams.as_lines(streams.hello()),
    "pieces": [LAWFUL[:500], LAWFUL[500:]],
    "pieces of text": [LAWFUL.decode()[:500], LAWFUL.decode()[500:]],
    "frames": frames(LAWFUL),
    "dictionaries": streams.hello(),
    "events of the machine": machine_events(),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_a_lawful_stream_passes(stream: Any) -> None:
    assert_lawful(stream)
    if isinstance(stream, list):
        assert_lawful(iter(stream))


@pytest.mark.parametrize(
    "stream", [DOUBLED, DOUBLED.decode(), [DOUBLED], frames(DOUBLED), streams.announced_twice()]
)
def test_an_unlawful_stream_fails_with_every_violation(stream: object) -> None:
    message = failure(stream)
    first, duplicate, rule, breaks, *_ = message.splitlines()
    assert first == "the stream is not lawful: 3 violations in 9 events"
    assert duplicate.startswith("  call.duplicate  event 4: two items have call id 'call_fc_1'")
    assert rule == f"    the rule: {penstock.RULES['call.duplicate'].title}"
    assert breaks.startswith("    breaks: Codex and the AI SDK run the tool twice")
    assert [line.split()[0] for line in message.splitlines() if re.match(r"  \S", line)] == [
        "call.duplicate",
        "item.done-missing",
        "terminal.output",
    ]


def test_the_violations_of_a_file_have_lines(tmp_path: Path) -> None:
    path = tmp_path / "twice.sse"
    path.write_bytes(DOUBLED)
    first, duplicate, *_ = failure(path).splitlines()
    assert first == f"{path} is not lawful: 3 violations in 9 events"
    assert duplicate.startswith(f"  {path}:13: call.duplicate  event 4: ")
    with pytest.raises(FileNotFoundError):
        assert_lawful(tmp_path / "gone.sse")


def test_the_options_are_those_of_the_command() -> None:
    without_done = streams.as_sse(streams.hello(), done=False)
    assert failure(without_done).endswith("known clients tolerate 1 of 1: tolerant=True hides those")
    assert_lawful(without_done, tolerant=True)
    lines = streams.as_lines(streams.hello())
    assert_lawful(lines, transport="websocket")
    assert "transport.done-forbidden" in failure(lines + b"[DONE]\n", transport="websocket")
    renamed = [*streams.hello()]
    renamed[4] = {**renamed[4], "type": "response.reasoning.delta"}
    assert "name.accent" in failure(renamed, accent="openai")
    assert "name.accent" not in failure(renamed)
    for stream in (LAWFUL, streams.hello()):
        with pytest.raises(ValueError, match="accent must be one of"):
            assert_lawful(stream, accent="klingon")
        with pytest.raises(ValueError, match="transport must be one of"):
            assert_lawful(stream, transport="pigeon")


@pytest.mark.parametrize("stream", [b"", "", [], iter([])])
def test_an_empty_stream_is_not_lawful(stream: object) -> None:
    assert "terminal.missing  at the end" in failure(stream)


def test_what_is_not_a_stream_of_events_is_named(tmp_path: Path) -> None:
    assert "looks like Chat Completions, not like OpenResponses events" in failure(other_format("chat"))
    assert "penstock translate --dialect chat" in failure(other_format("chat"))
    assert failure(b'{\n"type": "x"}\n').startswith("the stream: this is one JSON document")
    assert "to check a file, pass a pathlib.Path" in failure("answer.sse")
    path = tmp_path / "page.html"
    path.write_text("<html>\n")
    assert failure(path) == f"no events found in 7 bytes of {path}, read as sse"


async def _events() -> AsyncIterator[object]:
    for event in streams.hello():
        yield event


@pytest.mark.parametrize("stream", [None, 7, {"type": "response.created"}, [7], [{}, 7], [b"", 7], [Path()]])
def test_what_cannot_be_checked_is_a_type_error(stream: object) -> None:
    with pytest.raises(TypeError, match=r"checks a pathlib\.Path, bytes, a str, or an iterable"):
        assert_lawful(stream)


def test_an_asynchronous_stream_must_be_collected() -> None:
    with pytest.raises(TypeError, match="async for each in stream"):
        assert_lawful(_events())


def test_what_a_stream_contains_is_escaped() -> None:
    message = failure([{"type": "\x1b[2J\n", "sequence_number": 0}])
    assert "\x1b" not in message
    assert "\\x1b[2J" in message


def test_pytest_has_the_fixture_wherever_penstock_is_installed(pytester: pytest.Pytester) -> None:
    """The example of the page, with a recording that is lawful and one that is not."""
    [example] = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    pytester.makepyfile(test_example=example)
    pytester.mkdir("recordings")
    (pytester.path / "recordings" / "good.sse").write_bytes(LAWFUL)
    (pytester.path / "recordings" / "twice.sse").write_bytes(DOUBLED)
    result = pytester.runpytest_subprocess("-W", "error")
    result.assert_outcomes(passed=2, failed=1)
    shown = result.stdout.str()
    assert ">       assert_lawful(path)" in shown
    assert "_check_pieces" not in shown  # the traceback ends in the test
    [message] = re.findall(r"```text\n(E .*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line.replace("recordings/", f"{pytester.path}/recordings/") for line in message.splitlines()]
    result.stdout.fnmatch_lines([line.replace("...", "*") for line in lines])


def test_the_plugin_imports_nothing_heavy_until_it_is_used() -> None:
    program = (
        "import pytest, sys; before = {*sys.modules}; import penstock.pytest_plugin; "
        "print(*sorted({*sys.modules} - before))"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["penstock", "penstock.pytest_plugin", "penstock.version"]
