"""The host's log has codes and names, and nothing that a prompt, an answer or a key could be in."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import RateLimitError
from penstock.models.learned_limits import LearnedLimits
from penstock.parts.adapter import HANDLERS
from penstock.provider.host.host import EditorHost
from penstock.provider.host.logs import (
    HostLogFormatter,
    log_failure,
    log_internal_error,
    log_request,
    set_up,
    trace_of,
)
from tests.cli import streams
from tests.client.server import answer, run, streamed
from tests.gateway.upstream import ScriptedUpstream
from tests.provider.host.outboxes import ControlledOutbox

SECRET = "sesame"


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log writes at level debug; the loggers are restored afterwards."""
    names = ("", "penstock.host", "penstock.client")
    before = {name: (logging.getLogger(name).level, [*logging.getLogger(name).handlers]) for name in names}
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    set_up("debug")
    yield stderr
    for name, (level, handlers) in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).handlers[:] = handlers


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_request_is_logged_with_its_method_and_a_short_id(output: io.StringIO) -> None:
    log_request("respond", "x" * 200)
    (line,) = lines(output)
    assert (line["level"], line["message"], line["method"], line["id"]) == (
        "debug",
        "respond",
        "respond",
        "x" * 80,
    )
    assert line["time"].endswith("Z")


def test_a_failure_is_logged_with_known_fields_and_without_its_message(output: io.StringIO) -> None:
    log_failure(RateLimitError(SECRET, code=SECRET, status=429), "rate_limit_exceeded", "respond", 7)
    (line,) = lines(output)
    fields = {name: line[name] for name in line if name != "time"}
    assert fields == {
        "level": "warning",
        "message": "respond failed: RateLimitError rate_limit_exceeded",
        "method": "respond",
        "id": 7,
        "kind": "RateLimitError",
        "code": "rate_limit_exceeded",
        "status": 429,
    }
    assert SECRET not in output.getvalue()


def test_an_internal_error_is_logged_with_its_location_and_without_its_message(output: io.StringIO) -> None:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        log_internal_error(error, None)
    (line,) = lines(output)
    assert (line["level"], line["message"], line["kind"]) == (
        "error",
        "internal error: ValueError",
        "ValueError",
    )
    assert "test_logs.py:" in line["where"][0]
    assert SECRET not in output.getvalue()


def test_messages_of_libraries_are_written_without_their_arguments(output: io.StringIO) -> None:
    logger = logging.getLogger("some.library")
    logger.warning("cannot read %s\nand more", SECRET)
    try:
        raise LookupError(SECRET)
    except LookupError:
        logger.exception("it failed")
    logger.info("not shown")
    assert [line["message"] for line in lines(output)] == [
        "some.library: cannot read %s",
        "some.library: it failed (LookupError)",
    ]
    assert SECRET not in output.getvalue()


def test_an_unusable_file_of_learned_limits_is_logged_with_its_path_and_the_reason(
    output: io.StringIO, tmp_path: Path
) -> None:
    path = tmp_path / "100%s.json"
    path.write_text("not limits")
    LearnedLimits(path).at("http://here/v1").all()
    (line,) = lines(output)
    reason = "is not used, because it does not contain limits: delete it"
    assert line["message"] == f"the file of learned limits, {path}, {reason}"


def test_the_client_is_not_logged_because_it_quotes_the_endpoint(output: io.StringIO) -> None:
    logging.getLogger("penstock.client").error("the endpoint said: %s" % SECRET)  # noqa: UP031
    assert output.getvalue() == ""


def test_fields_that_json_cannot_express_are_written_as_text() -> None:
    record = logging.LogRecord("penstock.host", logging.INFO, "", 0, "ended", (), None)
    record.fields = {"kind": ValueError}
    assert json.loads(HostLogFormatter().format(record))["kind"] == "<class 'ValueError'>"


@pytest.mark.usefixtures("output")
def test_nothing_is_traced_unless_the_level_is_trace() -> None:
    assert trace_of(1) is None
    set_up("trace")
    assert trace_of(1) is not None


CANARY = "canary"
PLACE = {"item_id": "msg_1", "output_index": 2, "content_index": 0, "summary_index": 0}
CONTENT = {
    **dict.fromkeys(("delta", "text", "refusal", "arguments", "input", "message"), f"{CANARY} sk-{CANARY}"),
    "annotation": {"type": "url_citation", "url": f"https://x.example/?key={CANARY}", "title": CANARY},
    "part": {"type": "output_text", "text": CANARY, "annotations": []},
}
ITEMS: dict[str, dict[str, Any]] = {
    "message": {"role": "assistant", "content": [{"type": "output_text", "text": CANARY}]},
    "reasoning": {"summary": [{"type": "summary_text", "text": CANARY}], "encrypted_content": CANARY},
    "function_call": {"call_id": "call_1", "name": "look", "arguments": f'{{"at": "{CANARY}"}}'},
}
ENDS = ("response.completed", "response.done", "response.incomplete", "response.cancelled", "response.failed")


def stream_of_every_event(end: str) -> list[streams.Event]:
    """Return a stream with each type of event, and the canary wherever an event has content."""
    items = [
        {"type": f"response.output_item.{step}", "output_index": index, "item": {"id": f"it_{index}", **item}}
        for index, (type, fields) in enumerate(ITEMS.items())
        for step in ("added", "done")
        for item in ({"type": type, **fields},)
    ]
    others = [
        {"type": type, **PLACE, **CONTENT}
        for type in HANDLERS
        if type not in ENDS and "output_item" not in type and type != "error"
    ]
    output = [
        {"type": type, "id": f"it_{index}", **fields} for index, (type, fields) in enumerate(ITEMS.items())
    ]
    response = {
        "id": "resp_1",
        "status": end.partition(".")[2],
        "output": output,
        "error": {"message": CANARY},
    }
    return streams.numbered([*others, *items, {"type": end, "response": response}])


@pytest.mark.parametrize("end", ENDS)
def test_the_trace_of_a_turn_has_every_event_and_no_content(output: io.StringIO, end: str) -> None:
    logging.getLogger("penstock.host").setLevel("TRACE")
    events = stream_of_every_event(end)

    async def scenario() -> None:
        endpoint = ScriptedUpstream()
        endpoint.play("", [answer(200, {"data": [{"id": "one"}]})])
        endpoint.play("one", streamed(events))
        async with endpoint:
            out = ControlledOutbox()
            out.proceed.set()
            host = EditorHost(out)
            prompt = {"role": 1, "content": [{"type": "text", "value": CANARY}]}
            for request in (
                {
                    "id": "c",
                    "method": "configure",
                    "endpoint": f"{endpoint.url}/v1?key={CANARY}",
                    "key": f"sk-{CANARY}",
                    "headers": {"x-secret": CANARY},
                    "citations": "end",
                    "errors_as_text": True,
                },
                {
                    "id": "r",
                    "method": "respond",
                    "model": "one",
                    "messages": [prompt],
                    "tools": [{"name": "look"}],
                },
            ):
                await host.handle_lines([json.dumps(request).encode()])
                while not {"done", "error"} & {*out.of(request["id"])}:
                    await asyncio.sleep(0.001)
            await host.aclose()

    run(scenario())
    traced = [line for line in lines(output) if line["level"] == "trace"]
    assert CANARY not in output.getvalue()
    assert {line["id"] for line in traced} == {"r"}
    for line, event in zip(traced, events, strict=False):
        assert (line["message"], line["sequence"]) == (event["type"], event["sequence_number"])
        assert line.get("index") == event.get("output_index")
        nested = event.get("item") or event.get("response") or {}
        assert line.get("item") == (event.get("item_id") or nested.get("id"))
    parts = [part for line in traced for part in line["parts"]]
    assert {part["kind"] for part in parts} >= {"text", "thinking", "tool_call"}
    assert {"kind": "tool_call", "call_id": "gw-call_1", "name": "look", "size": 16} in parts
