"""`penstock check`: check whether a stream is lawful, and report which rules it breaks and where."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from penstock.cli import UsageError
from penstock.cli.endpoint import read_variable
from penstock.cli.source import READ, Reads1, chunks
from penstock.cli.terminal import Terminal

if TYPE_CHECKING:
    from penstock.cli.check_results import CheckedSource
    from penstock.cli.check_run import CheckRun
    from penstock.cli.fetch import FetchedAnswer

_USAGE = "penstock check [options] FILE...|-|URL"

_DESCRIPTION = """\
Read streams of OpenResponses events and report every rule that they break: one
line per violation, as it occurs, then a verdict. docs/rules.md lists the rules,
docs/ci.md shows how to check recorded streams in continuous integration."""

_EPILOG = """\
examples:
  penstock check answer.sse               a file: server-sent events, or NDJSON
  penstock check --tolerant answer.sse    only violations that break clients
  penstock check --timeline answer.sse    draw the stream, one lane per item
  penstock check --format junit recordings/*.sse > junit.xml
                                          several files, for a CI server
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
  0  every stream is lawful
  1  a stream breaks a rule, is empty, or the endpoint did not return one
  2  a stream could not be checked: wrong options, unreadable file, a stream of
     another API, no answer from the URL; the other files are checked"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add(
        "sources",
        metavar="FILE|-|URL",
        nargs="+",
        help="captured streams, - for standard input, or an endpoint",
    )
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
    output.add_argument(
        "--format",
        choices=("text", "json", "github", "junit"),
        default="text",
        help="the format of the result: text, one JSON object, annotations for GitHub Actions, or JUnit XML "
        "(default: text)",
    )
    output.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )
    add("--timeline", action="store_true", help="draw the stream after checking it; only as text")
    add(
        "--with-filename",
        action="store_true",
        help="name the file in text and JSON, as for several files, even if there is only one",
    )
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
    sources: list[str] = options.sources
    if options.timeline and options.format != "text":
        raise UsageError(f"--timeline is not allowed with --format {options.format}: it is drawn as text")
    for source in sources if len(sources) > 1 else ():
        if source == "-" or _is_url(source):
            raise UsageError(f"{source} must be the only source: check it on its own, or name only files")
    if _is_url(sources[0]):
        return _check_url(sources[0], options)
    for name in ("model", "prompt", "api_key_env", "timeout"):
        if getattr(options, name) is not None:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} needs a URL (http://... or https://...), but {sources[0]} is not one")
    checks = _check_run(options, Terminal())
    for source in sources:
        _check_file(source, options, checks)
    return checks.finish()


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _check_run(options: argparse.Namespace, terminal: Terminal) -> CheckRun:
    from penstock.cli.check_run import CheckRun
    from penstock.cli.report import REPORTERS  # imported here to keep --help fast

    is_named = options.with_filename or len(options.sources) > 1
    reporter = REPORTERS["timeline" if options.timeline else options.format]
    return CheckRun(
        reporter(terminal, tolerant=options.tolerant, is_named=is_named),
        accent=options.accent,
        tolerant=options.tolerant,
    )


def _check_file(name: str, options: argparse.Namespace, checks: CheckRun) -> None:
    """Check a file, or standard input for `-`."""
    from penstock.captures.stream_check import OtherFormat

    url_hint = "; a URL starts with http:// or https://"
    is_file = name != "-"
    shown = name if is_file else "standard input"
    with checks.source(shown, is_file=is_file) as source:
        try:
            checks.stream(source, chunks(name, checks.terminal, hint=url_hint), options.transport)
        except OtherFormat as other:
            raise UsageError(_translation_advice(other.name, name, shown, options.accent)) from None


def _translation_advice(format: str, file: str, shown: str, accent: str) -> str:
    """Return how to check a stream in another API format: as what a client would get."""
    import shlex

    from penstock.dialects.recognition import FORMATS

    problem = f"{shown} looks like {FORMATS[format].title}, not like OpenResponses events"
    dialect = FORMATS[format].dialect
    if not dialect:
        return f"{problem}, and penstock cannot translate it"
    flag = f" --accent {accent}" if accent != "openresponses" else ""
    command = f"penstock translate --dialect {dialect}{flag} {shlex.quote(file)}"
    return f"{problem}. Translate it first: {command} | penstock check{flag} -"


def _check_url(url: str, options: argparse.Namespace) -> int:
    """Call an endpoint and check its answer."""
    from penstock.cli import fetch

    if not options.model:
        raise UsageError("a URL needs a model: add --model NAME")
    if options.transport == "websocket":
        raise UsageError(
            "--transport websocket cannot read a URL: save the frames to a file, one per line, and check that"
        )
    key = _key(options.api_key_env)
    target = fetch.endpoint(url)
    checks = _check_run(options, Terminal(secret=key))
    with checks.source(fetch.display_url(target), is_file=False) as source:
        answer = fetch.post(
            target,
            model=options.model,
            prompt="Say hello in five words." if options.prompt is None else options.prompt,
            key=key,
            accent=options.accent,
            timeout=options.timeout or 60.0,
        )
        with closing(answer.body):
            _check_answer(answer, options.transport, key, checks, source)
    return checks.finish()


def _check_answer(
    answer: FetchedAnswer, transport: str, key: str, checks: CheckRun, source: CheckedSource
) -> None:
    from penstock.captures.stream_check import OtherFormat
    from penstock.client.event_reader import gateway_advice
    from penstock.dialects.recognition import FORMATS

    def report(rule: str, message: str) -> None:
        checks.report(source, rule, message, "the answer")

    if not 200 <= answer.status < 300:
        report("http.status", answer.failure(key))
        return
    expected = "application/x-ndjson" if transport == "ndjson" else "text/event-stream"
    if answer.content_type != expected:
        report("http.content-type", f"Content-Type is {answer.content_type or 'missing'}, not {expected}")
    if answer.content_type == "application/json":
        checks.terminal.note("the answer is one JSON document: the endpoint does not stream")
        return
    lines = transport == "ndjson" or "ndjson" in answer.content_type
    try:
        checks.stream(source, _until_cut(answer.body, checks.terminal), "ndjson" if lines else "sse")
    except OtherFormat as other:
        report("http.format", f"it looks like {FORMATS[other.name].title}: {gateway_advice(other.name)}")


def _key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = read_variable(variable, "--api-key-env")
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
