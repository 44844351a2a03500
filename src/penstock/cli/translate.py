"""`penstock translate`: convert a recorded provider stream to a lawful OpenResponses stream."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.source import chunks, contents, streams_only
from penstock.cli.terminal import Terminal, error_line
from penstock.dialects.registry import DIALECTS

if TYPE_CHECKING:
    from penstock.dialects.pipeline import Pipeline
    from penstock.protocol.events import Event
    from penstock.protocol.request import CreateResponse

_USAGE = "penstock translate --dialect NAME [options] FILE|-"

_DESCRIPTION = """\
Read a provider's recorded stream and write it as OpenResponses events: the same
content, as a lawful stream of server-sent events that ends with [DONE]."""

_EPILOG = (
    "API formats (dialects):\n"
    + "\n".join(f"  {name:<11}{what}" for name, what in DIALECTS.items())
    + """

The input may be server-sent events, one JSON object per line, or one JSON array
of objects; the format is detected. Events are written as soon as their input
has arrived.

examples:
  penstock translate --dialect chat answer.sse
  penstock translate --dialect gemini --explain answer.array.json
  curl -sN ... | penstock translate --dialect anthropic -
  penstock translate --dialect chat answer.sse | penstock check -
  penstock translate --dialect chat --tools request.json answer.sse
                        restore custom tools and namespaces as declared

exit codes:
  0  the stream was translated
  1  the stream reports an error, is truncated, or cannot be read; the
     translation ends with response.failed
  2  nothing was translated: wrong options, unreadable file"""
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="FILE|-", help="a recorded stream, or - for standard input")
    add(
        "--dialect",
        metavar="NAME",
        required=True,
        choices=tuple(DIALECTS),
        help="the API format (dialect) of the stream",
    )
    add(
        "--accent",
        choices=("openresponses", "openai", "copilot"),
        default="openresponses",
        help="event naming (accent) of the output (default: openresponses, the specification)",
    )
    add(
        "--tools",
        metavar="FILE",
        help="the original request as JSON, or only its list of tools: used to return each call "
        "as the type of tool that was declared",
    )
    add("--think-tags", action="store_true", help="turn <think>...</think> in the text into reasoning")
    add("--tool-markup", action="store_true", help="turn tool calls that the model wrote as text into calls")
    add("--explain", action="store_true", help="report dropped and repaired content on standard error")


def run(options: argparse.Namespace) -> int:
    terminal = Terminal()
    pipeline = _prepare(options, terminal)
    with streams_only():
        _translate(pipeline, options, terminal)
    snapshot = pipeline.snapshot
    if options.explain:
        for each in snapshot.diagnostics or []:
            times = f" ({each.count} times)" if each.count > 1 else ""
            error_line(terminal.clean(f"{each.code}  {each.message}{times}"))
    if snapshot.error is None:
        return OK
    terminal.note(f"the stream failed: {snapshot.error.message} ({snapshot.error.code})")
    return PROBLEM


def _prepare(options: argparse.Namespace, terminal: Terminal) -> Pipeline:
    """Build the pipeline. All errors in the options are raised here, before anything is written."""
    from time import time  # imported here and below to keep --help fast
    from uuid import uuid4

    from penstock.captures.translation import translation
    from penstock.dialects.plan import Quirks

    return translation(
        options.dialect,
        _request(options.tools, terminal),
        id=f"resp_{uuid4().hex}",
        clock=time,
        accent=options.accent,
        quirks=Quirks(think_tags=options.think_tags, tool_markup=options.tool_markup),
        advise=_advice,
    )


def _advice(name: str) -> str:
    """Return which option to use for a stream in the format of this name."""
    from penstock.captures.translation import dialect_of

    known = dialect_of(name)
    return f"use --dialect {known}" if known else "penstock cannot translate this format"


def _request(source: str | None, terminal: Terminal) -> CreateResponse:
    """Return the original request, or an empty one without --tools."""
    from penstock.errors import DecodeError
    from penstock.protocol.request import CreateResponse
    from penstock.protocol.wire import parse, read

    if source is None:
        return CreateResponse()
    try:
        given = parse(contents(source, terminal))
        return read({"tools": given} if isinstance(given, list) else given, CreateResponse)
    except DecodeError as error:
        raise UsageError(f"--tools: {source} is neither a request nor a list of tools: {error}") from None


def _translate(pipeline: Pipeline, options: argparse.Namespace, terminal: Terminal) -> None:
    from penstock.protocol.wire import encode
    from penstock.sse import DONE, encode_frame
    from penstock.stream.accents import ACCENTS

    accent = ACCENTS[options.accent]()
    output = terminal.output()

    def write(events: Iterable[Event], end: bytes = b"") -> None:
        """Write the events of one read in one write and flush: the stream may be live."""
        named = map(accent, events)
        output.write(b"".join(encode_frame(event.type, encode(event)) for event in named) + end)
        output.flush()

    for chunk in chunks(options.source, terminal):
        events = pipeline.feed(chunk)  # before the start: it raises if the input is not a stream
        write(events + pipeline.start())
    write(pipeline.start() + pipeline.end(), DONE)
