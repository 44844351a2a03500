"""Other tests run the command as a fork: its output is the same as that of the installed command."""

from __future__ import annotations

import pytest

from tests.cli import dialect_streams, streams
from tests.cli.running import fresh, penstock

RUNS: dict[str, tuple[list[str], bytes]] = {
    "version": (["--version"], b""),
    "check": (["check", "-"], streams.as_sse(streams.announced_twice())),
    "translate": (["translate", "--dialect", "chat", "-"], b"data: <html>\n\n"),
    "parts": (["parts", "-"], streams.as_sse(streams.hello(["水"]))),
    "chat": (["chat", "--base-url", "ftp://x"], b"hi"),
    "serve": (["serve", "--host", "0.0.0.0"], b""),
    "wrong usage": (["chek"], dialect_streams.STREAMS["chat"]),
}


@pytest.mark.parametrize(("arguments", "stdin"), RUNS.values(), ids=RUNS.keys())
def test_a_fork_prints_what_the_installed_command_prints(arguments: list[str], stdin: bytes) -> None:
    forked, installed = penstock(*arguments, stdin=stdin), fresh(*arguments, stdin=stdin)
    assert (forked.returncode, forked.stderr) == (installed.returncode, installed.stderr)
    if arguments[0] != "translate":  # ids and times are new in every run
        assert forked.stdout == installed.stdout
    assert len(forked.stdout) == len(installed.stdout)
