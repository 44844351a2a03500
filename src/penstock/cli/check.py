"""`penstock check`: check whether a stream is lawful, and report which rules it breaks and where."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import closing

from penstock.cli import UsageError
from penstock.cli.source import READ, Reads1, chunks
from penstock.cli.terminal import Terminal

_USAGE = "penstock check [options] FILE|-|URL"

_DESCRIPTION = """\
Read a stream of OpenResponses events and report every rule that it breaks: one
line per violation, as it occurs, then a verdict. docs/rules.md lists the rules."""

_EPILOG = """\
examples:
  penstock check answer.sse               a file: server-sent events, or NDJSON
  penstock check --tolerant answer.sse    only violations that break clients
  penstock check --timeline answer.sse    draw the stream, one lane per item
  penstock check --transport websocket frames.jsonl
                                          WebSocket frames, one per line
  curl -sN ... | penstock check -         a live stream, reported as it arrives
  penstock check http://127.0.0.1:8080/v1 --model my-model
                                          call an endpoint and check the answer
  penstock check https://api.example.com/v1 --model m --api-key-env MY_KEY
  penstock check http://127.0.0.1:8080/v1 --model my-model --accent openai
                                          ask a Penstock gateway for an accent
  penstock translate --dialect chat answer.sse | penstock check -
                                          a stream of another API

exit codes:
  0  the stream is lawful
  1  it breaks a rule, is empty, or the endpoint did not return a stream
  2  nothing was checked: wrong options, unreadable file, a stream of another
     API, no answer from the URL"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="FILE|-|URL", help="a captured stream, - for standard input, or an endpoint")
    add(
        "--accent",
        choices=("openresponses", "openai", "copilot"),
        default="openresponses",
        help="event naming (accent) to check against, and to ask a Penstock gateway for (default: "
        "openresponses, the specification)",
    )
    add(
        "--transport",
        choices=("auto", "sse", "ndjson", "websocket"),
        default="auto",
        help="the transport of the stream (default: auto, which detects sse and ndjson)",
    )
    add("--tolerant", action="store_true", help="do not report violations that known clients tolerate")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the result as one JSON object")
    output.add_argument("--timeline", action="store_true", help="draw the stream after checking it")
    url = parser.add_argument_group("options for a URL")
    url.add_argument("--model", metavar="NAME", help="the model to use; required")
    url.add_argument("--prompt", metavar="TEXT", help="the prompt to send (default: a short greeting)")
    url.add_argument("--api-key-env", metavar="NAME", help="the environment variable with the API key")
    url.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="how long to wait for the connection and for each read (default: 60)",
    )


def run(options: argparse.Namespace) -> int:
    from penstock.cli.report import Check, OtherFormat  # imported here to keep --help fast

    source: str = options.source
    if source.lower().startswith(("http://", "https://")):
        return _check_url(source, options)
    for name in ("model", "prompt", "api_key_env", "timeout"):
        if getattr(options, name) is not None:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} needs a URL (http://... or https://...), but {source} is not one")
    check = Check(options, Terminal())
    url_hint = "; a URL starts with http:// or https://"
    try:
        check.stream(chunks(source, check.terminal, hint=url_hint), options.transport)
    except OtherFormat as other:
        raise UsageError(_translation_advice(other.name, options)) from None
    return check.verdict()


def _translation_advice(name: str, options: argparse.Namespace) -> str:
    """Return how to check a stream in another API format: as what a client would get."""
    import shlex

    from penstock.dialects.recognition import FORMATS

    what = "standard input" if options.source == "-" else options.source
    problem = f"{what} looks like {FORMATS[name].title}, not like OpenResponses events"
    dialect = FORMATS[name].dialect
    if not dialect:
        return f"{problem}, and penstock cannot translate it"
    accent = f" --accent {options.accent}" if options.accent != "openresponses" else ""
    command = f"penstock translate --dialect {dialect}{accent} {shlex.quote(options.source)}"
    return f"{problem}. Translate it first: {command} | penstock check{accent} -"


def _check_url(url: str, options: argparse.Namespace) -> int:
    """Call an endpoint and check its answer. Raise `UsageError` if there is no HTTP answer."""
    from penstock.cli import fetch
    from penstock.cli.report import Check, OtherFormat
    from penstock.client.event_reader import gateway_advice
    from penstock.dialects.recognition import FORMATS

    if not options.model:
        raise UsageError("a URL needs a model: add --model NAME")
    if options.transport == "websocket":
        raise UsageError(
            "--transport websocket cannot read a URL: save the frames to a file, one per line, and check that"
        )
    key = _key(options.api_key_env)
    prompt = "Say hello in five words." if options.prompt is None else options.prompt
    check = Check(options, Terminal(secret=key))
    target = fetch.endpoint(url)
    answer = fetch.post(
        target,
        model=options.model,
        prompt=prompt,
        key=key,
        accent=options.accent,
        timeout=options.timeout or 60.0,
    )
    with closing(answer.body):
        if not 200 <= answer.status < 300:
            check.report("http.status", answer.failure(key), "the answer")
            return check.verdict()
        expected = "application/x-ndjson" if options.transport == "ndjson" else "text/event-stream"
        if answer.content_type != expected:
            message = f"Content-Type is {answer.content_type or 'missing'}, not {expected}"
            check.report("http.content-type", message, "the answer")
        if answer.content_type == "application/json":
            check.terminal.note("the answer is one JSON document: the endpoint does not stream")
        else:
            lines = options.transport == "ndjson" or "ndjson" in answer.content_type
            try:
                check.stream(_until_cut(answer.body, check.terminal), "ndjson" if lines else "sse")
            except OtherFormat as other:
                message = f"it looks like {FORMATS[other.name].title}: {gateway_advice(other.name)}"
                check.report("http.format", message, "the answer")
    return check.verdict()


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(f"--api-key-env: the variable {variable} is unset or empty; set it to the API key")
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"--api-key-env: {variable} is not a valid key: it has a line break or is not ASCII")
    return key


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _until_cut(body: Reads1, terminal: Terminal) -> Iterator[bytes]:
    """Yield the body up to its end, or up to where the connection breaks: that part is checked too."""
    from http.client import HTTPException

    try:
        while chunk := body.read1(READ):
            yield chunk
    except TimeoutError:
        terminal.note("the stream stalled: no data within --timeout")
    except (OSError, HTTPException):
        terminal.note("the connection was lost before the end of the answer")
