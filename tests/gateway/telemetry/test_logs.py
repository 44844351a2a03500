"""What is logged, and what never is."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from penstock.gateway.telemetry.logs import log, log_fault, log_verdict, set_up
from penstock.gateway.turn.verdict import Verdict, shown
from tests.client.server import answer
from tests.gateway.running import Running
from tests.gateway.upstream import (
    ScriptedUpstream,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the logging of the process."""
    root = logging.getLogger()
    handlers, level, ours = root.handlers[:], root.level, log.level
    yield
    root.handlers[:], root.level = handlers, level
    log.setLevel(ours)
    logging.getLogger("penstock.client").setLevel(logging.NOTSET)


def verdict(outcome: str = "completed") -> Verdict:
    return Verdict(request_id="req_1", model="demo", target="demo", outcome=outcome, closer="upstream")


def test_a_terminal_gets_a_sentence_and_a_colour_where_something_is_wrong() -> None:
    stream = Terminal()
    set_up("info", stream)
    log_verdict(verdict())
    log_verdict(verdict("failed"))
    good, bad = stream.getvalue().splitlines()
    assert good.endswith("demo at demo: completed in 0.00 s [req_1]")
    assert bad.startswith("\x1b[33m")
    assert "failed by upstream" in bad


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_terminal_gets_wrapped_lines(width: int) -> None:
    stream = Terminal()
    set_up("info", stream, lambda: width)
    log_verdict(replace(verdict(), model="a-model-with-a-name-" + "x" * 100, request_id="req_" + "0" * 32))
    first, *others = stream.getvalue().splitlines()
    assert max(map(len, (first, *others))) <= width
    assert {line[:2] for line in others} == {"  "}
    assert others[-1].strip().endswith("0]")


def test_anything_else_gets_json_on_one_line() -> None:
    stream = io.StringIO()
    set_up("info", stream, lambda: 40)
    log_verdict(verdict())
    line = json.loads(stream.getvalue())
    assert (line["event"], line["request_id"], line["level"]) == ("turn", "req_1", "info")


def test_a_fault_is_logged_with_its_place_and_without_its_message() -> None:
    stream = io.StringIO()
    set_up("info", stream)
    try:
        raise ValueError("a secret prompt")
    except ValueError as error:
        log_fault(error, "req_1")
    assert "secret" not in stream.getvalue()
    line = json.loads(stream.getvalue())
    assert line["kind"] == "ValueError"
    assert "test_logs.py:" in line["where"][0]


def test_of_a_librarys_message_only_the_format_string_is_logged() -> None:
    stream = io.StringIO()
    set_up("info", stream)
    try:
        raise ValueError("a secret prompt")
    except ValueError:
        logging.getLogger("asyncio").exception("something about %s\nand a secret", "a secret prompt")
    logging.getLogger("penstock.client").error("the vendor said: a secret prompt")
    assert "secret" not in stream.getvalue()
    assert json.loads(stream.getvalue())["message"] == "asyncio: something about %s (ValueError)"


def test_the_level_holds_for_the_gateway() -> None:
    stream = io.StringIO()
    set_up("warning", stream)
    log_verdict(verdict())
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "written"),
    [("gpt-5", "gpt-5"), ("a\x1b[2Jb\nc", "a?[2Jb?c"), ("x" * 500, "x" * 128), ("模型", "模型")],
)
def test_a_name_that_others_chose_cannot_break_a_line(name: str, written: str) -> None:
    assert shown(name) == written


@pytest.mark.e2e
def test_a_name_cannot_write_into_the_log(penstock: Running, upstream: ScriptedUpstream) -> None:
    name = "\x1b[2J\n12:00:00 info forged " + "x" * 1000
    upstream.play(name, [answer(404, {"error": {"message": "no such model"}})])
    verdict = penstock.verdict(penstock.whole(name).headers["x-request-id"])
    assert verdict["model"].startswith("?[2J?12:00:00 info forged")
    assert len(verdict["model"]) == len(verdict["upstream_model"]) == 128
    assert "\x1b" not in verdict["message"]


def test_the_line_of_a_worker_has_its_number() -> None:
    stream, terminal = io.StringIO(), Terminal()
    set_up("info", stream, worker=3)
    log_verdict(verdict())
    set_up("info", terminal, worker=3)
    log_verdict(verdict())
    assert json.loads(stream.getvalue())["worker"] == 3
    assert " [3] demo at demo: completed" in terminal.getvalue()
