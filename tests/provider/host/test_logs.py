"""The host's log has codes and names, and nothing that a prompt, an answer or a key could be in."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import RateLimitError
from penstock.provider.host.logs import HostLogFormatter, log_failure, log_internal_error, log_request, set_up

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


def test_the_client_is_not_logged_because_it_quotes_the_endpoint(output: io.StringIO) -> None:
    logging.getLogger("penstock.client").error("the endpoint said: %s" % SECRET)  # noqa: UP031
    assert output.getvalue() == ""


def test_fields_that_json_cannot_express_are_written_as_text() -> None:
    record = logging.LogRecord("penstock.host", logging.INFO, "", 0, "ended", (), None)
    record.fields = {"kind": ValueError}
    assert json.loads(HostLogFormatter().format(record))["kind"] == "<class 'ValueError'>"
