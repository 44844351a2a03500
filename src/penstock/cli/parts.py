"""`penstock parts`: convert a recorded stream to the parts that an editor receives."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM
from penstock.cli.source import chunks, streams_only
from penstock.cli.terminal import Terminal, error_line

if TYPE_CHECKING:
    from penstock.parts.adapter import OpenResponsesStreamAdapter
    from penstock.sse import Frame

_USAGE = "penstock parts [options] FILE|-"

_DESCRIPTION = """\
Read a recorded OpenResponses stream and write the parts that VS Code's Language
Model API receives for it, one JSON object per line: text as it arrives, every
tool call complete and exactly once. The last line is the result."""

_EPILOG = """\
lines:
  {"type":"text","value"}
  {"type":"thinking","value","id","metadata"}     with --host-has-thinking
  {"type":"tool_call","call_id","name","input"}
  {"type":"data","mime","base64"}
  {"type":"error","code","message"}               answer missing or incomplete
  {"type":"result","response_id","model","status","finish","usage", ...}

The input may be server-sent events or one JSON object per line; the format is
detected. Frames that are not events are skipped and counted.

examples:
  penstock parts answer.sse
  penstock parts --host-has-thinking answer.jsonl
  penstock translate --dialect chat chat.sse | penstock parts -
  penstock parts --trace answer.sse 2> trace.txt

exit codes:
  0  the stream has an answer
  1  it has none or fails: there is a line of type error
  2  nothing was read: wrong options, unreadable file"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="FILE|-", help="a recorded stream, or - for standard input")
    thinking = parser.add_mutually_exclusive_group()
    thinking.add_argument(
        "--host-has-thinking",
        action="store_true",
        help="write reasoning as thinking parts (default: as text, for hosts without thinking parts)",
    )
    thinking.add_argument("--no-thinking", action="store_true", help="omit reasoning")
    add(
        "--citations",
        choices=("off", "inline", "end"),
        default="off",
        metavar="WHERE",
        help="show citations as links: off (default), inline at their position, or end, in a list",
    )
    add("--trace", action="store_true", help="print every event and its parts to standard error")


def run(options: argparse.Namespace) -> int:
    from penstock.captures.reader import Capture  # imported here to keep --help fast
    from penstock.errors import FrameTooLarge, ProtocolError
    from penstock.parts.wire import encode_line, error_to_json, part_to_json, result_to_json

    terminal = Terminal()
    reading = _Reading(_adapter(options, terminal), terminal)
    output = terminal.output()
    capture = Capture()
    failure = None
    try:
        with streams_only():
            for chunk in chunks(options.source, terminal):
                lines = [reading.read(frame) for frame in capture.feed(chunk)]
                output.write(b"".join(lines))
                output.flush()
        output.write(b"".join([reading.read(frame) for frame in capture.end()]))
    except FrameTooLarge as error:
        failure = ProtocolError(str(error), code="invalid_stream")
    adapter = reading.adapter
    output.write(b"".join(encode_line(part_to_json(part)) for part in adapter.end(failure)))
    result = adapter.result
    if result.error is not None:
        output.write(encode_line(error_to_json(result.error)))
    output.write(encode_line(result_to_json(result)))
    output.flush()
    if reading.skipped:
        terminal.note(f"skipped frames that are not events: {reading.skipped}")
    return OK if result.error is None else PROBLEM


class _Reading:
    """Convert frames to lines."""

    def __init__(self, adapter: OpenResponsesStreamAdapter, terminal: Terminal) -> None:
        self.adapter = adapter
        self.skipped = 0
        self._terminal = terminal

    def read(self, frame: Frame) -> bytes:
        from penstock.errors import DecodeError
        from penstock.parts.wire import encode_line, part_to_json
        from penstock.protocol.events import decode_event

        if frame.data.strip() in ("", "[DONE]"):
            return b""
        try:
            event = decode_event(frame.data, frame.event)
        except DecodeError:
            self.skipped += 1
            return b""
        return b"".join(encode_line(part_to_json(part)) for part in self.adapter.feed(event))


def _adapter(options: argparse.Namespace, terminal: Terminal) -> OpenResponsesStreamAdapter:
    from penstock.parts.adapter import OpenResponsesStreamAdapter
    from penstock.parts.item_parts import Thinking
    from penstock.parts.tracing import trace_line

    thinking: Thinking = "part" if options.host_has_thinking else "none" if options.no_thinking else "text"

    def write(line: str) -> None:
        error_line(terminal.clean(line))

    return OpenResponsesStreamAdapter(
        thinking=thinking,
        citations=options.citations,
        trace=(lambda event, parts: write(trace_line(event, parts))) if options.trace else None,
    )
