"""Run checks of streams in this process, with the reporter of a format."""

from __future__ import annotations

from penstock.cli.check_run import CheckRun
from penstock.cli.report import REPORTERS
from penstock.cli.terminal import Terminal
from tests.cli import streams

LAWFUL = streams.as_sse(streams.hello())
DOUBLED = streams.as_sse(streams.announced_twice())
FROM_RULES = "Codex and the AI SDK run the tool twice"
"""How the rule that `DOUBLED` breaks first says which clients break."""


def check_run(
    format: str = "text", *, secret: str = "", tolerant: bool = False, is_named: bool = False
) -> CheckRun:
    reporter = REPORTERS[format](Terminal(secret=secret), tolerant=tolerant, is_named=is_named)
    return CheckRun(reporter, accent="openresponses", tolerant=tolerant)


def checked(
    checks: CheckRun, *chunks: bytes, name: str = "answer.sse", is_file: bool = True, transport: str = "auto"
) -> int:
    """Check one source and finish the run."""
    with checks.source(name, is_file=is_file) as source:
        checks.stream(source, chunks, transport)
    return checks.finish()
