"""`penstock render`: convert a Responses request to the request that would be sent to an upstream."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.source import contents
from penstock.cli.terminal import Terminal, error_line
from penstock.dialects.registry import DIALECTS, RENDERED

if TYPE_CHECKING:
    from penstock.dialects.plan import Target, UpstreamRequest
    from penstock.dialects.presets import Preset
    from penstock.protocol.request import CreateResponse

_USAGE = "penstock render [--dialect NAME] [--preset NAME] [options] REQUEST.json|-"

_DESCRIPTION = """\
Read a request to /v1/responses and print the JSON request that would be sent to
an upstream for it. Dropped and changed fields are reported on standard error.
Nothing is sent."""

_EPILOG = """\
examples:
  penstock render --dialect anthropic request.json
  penstock render --preset deepseek --model deepseek-v4-pro request.json
  penstock render --preset azure --headers request.json
                        with URL and headers; a key is shown as its variable

docs/presets.md lists the presets, docs/fields.md the mapping of each field.

exit codes:
  0  the request was rendered
  1  it was rejected: the message names the field, as the gateway's 400 does
  2  nothing was rendered: wrong options, unreadable file"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="REQUEST.json|-", help="a request, or - for standard input")
    add(
        "--dialect",
        metavar="NAME",
        choices=tuple(DIALECTS),
        help=f"the upstream's API format (dialect): {', '.join(sorted(RENDERED))}",
    )
    add("--preset", metavar="NAME", help="a vendor: sets its dialect (--dialect overrides it) and its quirks")
    add("--model", metavar="NAME", help="the upstream's model (default: the request's)")
    add("--headers", action="store_true", help="print the URL and the headers first")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import DecodeError  # imported here to keep --help fast

    preset = _preset(options)
    name = options.dialect or (preset.dialect if preset else "")
    if name not in RENDERED:
        raise UsageError(f"requests cannot be rendered as {name}; available: {', '.join(sorted(RENDERED))}")
    terminal = Terminal()
    try:
        rendered = _rendered(contents(options.source, terminal), name, preset, options.model)
    except DecodeError as error:
        terminal.note(str(error))
        return PROBLEM
    for each in rendered.diagnostics:
        error_line(terminal.clean(f"{each.code}  {each.message}"))
    if options.headers:
        _print_head(rendered, preset, terminal)
    terminal.result(json.dumps(rendered.body, indent=2, ensure_ascii=False))
    return OK


def _preset(options: argparse.Namespace) -> Preset | None:
    from penstock.dialects import presets

    if not options.preset:
        if not options.dialect:
            raise UsageError("choose an upstream: --preset NAME for a vendor, or --dialect NAME")
        return None
    try:
        return presets.preset(options.preset)
    except LookupError as error:
        raise UsageError(f"--preset: {error.args[0]}") from None


def _rendered(data: bytes, name: str, preset: Preset | None, model: str | None) -> UpstreamRequest:
    """Return the rendered request; raise `DecodeError` if it is invalid or the upstream cannot accept it."""
    from penstock.dialects.registry import rendered_dialect
    from penstock.dialects.toolset import plan_for
    from penstock.errors import DecodeError
    from penstock.protocol.chat_requests import refuse_chat_request
    from penstock.protocol.request import CreateResponse
    from penstock.protocol.wire import parse, read

    raw = parse(data)
    refuse_chat_request(raw)
    request: CreateResponse = read(raw, CreateResponse)
    target_model = model or request.model
    if not target_model:
        raise DecodeError("is required: set it in the request, or with --model", "model")
    plan = plan_for(request, _target(name, preset, target_model))
    return rendered_dialect(name).render(plan)


def _target(name: str, preset: Preset | None, model: str) -> Target:
    from penstock.dialects.presets import target_for

    if preset is None:
        return target_for(model, dialect=name)
    # Only the key's fingerprint is used: encrypted reasoning is sent only with the key that it came from.
    key = os.environ.get(preset.key_variable, "") if preset.key_variable else ""
    return target_for(model, preset.name, dialect=name, key=key.strip())


def _print_head(rendered: UpstreamRequest, preset: Preset | None, terminal: Terminal) -> None:
    from penstock.dialects.presets import KEY_HEADERS

    base = preset.base_url if preset else "{base_url}"
    terminal.result(f"POST {base.rstrip('/')}/{rendered.path.lstrip('/')}")
    headers = {"Content-Type": "application/json", **rendered.headers}
    if preset and preset.key_variable:
        header, value = KEY_HEADERS[preset.key_header]
        headers[header] = value.format(key=f"${preset.key_variable}")
    for header, value in headers.items():
        terminal.result(f"{header}: {value}")
    terminal.result("")
