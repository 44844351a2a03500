"""`penstock translate`: a recorded stream of any provider, as the OpenResponses stream that it should be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.source import chunks, contents
from penstock.cli.terminal import Terminal
from penstock.dialects.table import DIALECTS

if TYPE_CHECKING:
    from penstock.dialects.plan import Plan
    from penstock.dialects.translation import Translation
    from penstock.protocol.events import Event
    from penstock.protocol.request import CreateResponse

_USAGE = "penstock translate --dialect NAME [options] FILE|-"

_DESCRIPTION = """\
Read a provider's recorded stream and write it as OpenResponses events: the same
content, as a lawful stream of server-sent events that ends with [DONE]."""

_EPILOG = (
    "dialects:\n"
    + "\n".join(f"  {name:<11}{what}" for name, what in DIALECTS.items())
    + """

The input may be server-sent events, one JSON object per line, or one JSON array
of objects; which of them it is shows in its first bytes. Events are written as
soon as what they are made of has come.

examples:
  penstock translate --dialect chat answer.sse
  penstock translate --dialect gemini --explain answer.array.json
  curl -sN ... | penstock translate --dialect anthropic -
  penstock translate --dialect chat answer.sse | penstock check -
  penstock translate --dialect chat --tools request.json answer.sse
                        custom tools and namespaces as they were declared

exit codes:
  0  the stream was translated
  1  it fails: it reports an error, breaks off, or cannot be read; the
     translation ends with response.failed
  2  nothing was translated: wrong options, unreadable file"""
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="FILE|-", help="a recorded stream, or - for standard input")
    add("--dialect", metavar="NAME", required=True, choices=tuple(DIALECTS), help="what the stream speaks")
    add(
        "--accent",
        choices=("openresponses", "openai", "copilot"),
        default="openresponses",
        help="the client's flavour of event names (default: openresponses, the specification)",
    )
    add(
        "--tools",
        metavar="FILE",
        help="the request that was answered, as JSON, or only the list of its tools: calls come back as "
        "the kind of tool that was declared",
    )
    add("--think-tags", action="store_true", help="take <think>...</think> out of the text, as reasoning")
    add("--tool-markup", action="store_true", help="take out tool calls that the model wrote as text")
    add("--explain", action="store_true", help="print on standard error what was dropped or repaired")


def run(options: argparse.Namespace) -> int:
    terminal = Terminal()
    translation = _prepare(options, terminal)
    _translate(translation, options, terminal)
    snapshot = translation.machine.snapshot
    if options.explain:
        for each in snapshot.diagnostics or []:
            times = f" ({each.count} times)" if each.count > 1 else ""
            print(terminal.clean(f"{each.code}  {each.message}{times}"), file=sys.stderr)
    if snapshot.error is None:
        return OK
    terminal.note(f"the stream fails: {snapshot.error.message} ({snapshot.error.code})")
    return FOUND


def _prepare(options: argparse.Namespace, terminal: Terminal) -> Translation:
    """Everything that can be wrong with the options shows here, before anything is written."""
    from time import time  # here and below, so that --help does not pay for the imports
    from uuid import uuid4

    from penstock.dialects.table import dialect
    from penstock.dialects.translation import Translation
    from penstock.protocol.response import response_for
    from penstock.stream.machine import ResponseStreamStateMachine

    plan = _plan(options, _request(options.tools, terminal))
    response = response_for(
        plan.request, id=f"resp_{uuid4().hex}", created_at=int(time()), model=plan.request.model or "unknown"
    )
    machine = ResponseStreamStateMachine(response, clock=time, tools=plan.tools)
    return Translation(dialect(options.dialect).reader(plan), machine)


def _plan(options: argparse.Namespace, request: CreateResponse) -> Plan:
    from penstock.dialects.families import family_of
    from penstock.dialects.plan import Plan, Quirks, Target
    from penstock.dialects.toolset import declared_tools
    from penstock.tools.identity import ToolIdentityMap

    model = request.model or ""
    quirks = Quirks(think_tags=options.think_tags, tool_markup=options.tool_markup)
    target = Target(model=model, dialect=options.dialect, family=family_of(model), quirks=quirks)
    tools = ToolIdentityMap(declared_tools(request), request.tool_choice)
    return Plan(request=request, target=target, tools=tools, accent=options.accent)


def _request(source: str | None, terminal: Terminal) -> CreateResponse:
    """The request that was answered, as far as it is known."""
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


def _translate(translation: Translation, options: argparse.Namespace, terminal: Terminal) -> None:
    from penstock.cli.capture import Capture
    from penstock.errors import FrameTooLarge
    from penstock.protocol.wire import encode
    from penstock.sse import DONE, encode_frame
    from penstock.stream.accents import ACCENTS

    speak = ACCENTS[options.accent]()
    output = terminal.output()

    def write(events: Iterable[Event], end: bytes = b"") -> None:
        """What came in one read leaves in one write, at once: the stream may be a live one."""
        spoken = map(speak, events)
        output.write(b"".join(encode_frame(event.type, encode(event)) for event in spoken) + end)
        output.flush()

    capture = Capture(arrays=True)
    try:
        started = False
        for chunk in chunks(options.source, terminal):
            frames = capture.feed(chunk)
            if not started:  # not before it is known that there is something to read
                started = True
                write(translation.start())
            write(event for frame in frames for event in translation.feed(frame))
        events = [] if started else translation.start()
        events += [event for frame in capture.end() for event in translation.feed(frame)]
        write(events + translation.end(), DONE)
    except FrameTooLarge as error:
        write(translation.machine.fail("upstream_invalid", str(error)), DONE)
