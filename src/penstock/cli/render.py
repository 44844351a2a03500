"""`penstock render`: a Responses request, as the request that an upstream would be sent."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from penstock.cli import FOUND, OK, UsageError
from penstock.cli.source import contents
from penstock.cli.terminal import Terminal
from penstock.dialects.registry import DIALECTS, RENDERED

if TYPE_CHECKING:
    from penstock.dialects.plan import Target, UpstreamRequest
    from penstock.dialects.presets import Preset
    from penstock.protocol.request import CreateResponse

_USAGE = "penstock render [--dialect NAME] [--preset NAME] [options] REQUEST.json|-"

_DESCRIPTION = """\
Read a request to /v1/responses and print the request that an upstream would be
sent for it, as JSON. What is dropped or changed on the way is told on standard
error. Nothing is sent."""

_EPILOG = """\
examples:
  penstock render --dialect anthropic request.json
  penstock render --preset deepseek --model deepseek-v4-pro request.json
  penstock render --preset azure --headers request.json
                        also where it would go; a key shows as its variable

docs/presets.md lists the presets, docs/fields.md what becomes of each field.

exit codes:
  0  the request was rendered
  1  it cannot be: the message names the field, as the gateway's 400 would
  2  nothing was rendered: wrong options, unreadable file"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("source", metavar="REQUEST.json|-", help="a request, or - for standard input")
    add("--dialect", metavar="NAME", choices=tuple(DIALECTS), help=f"one of {', '.join(sorted(RENDERED))}")
    add(
        "--preset",
        metavar="NAME",
        help="a vendor: its dialect, unless --dialect says another, and its quirks",
    )
    add("--model", metavar="NAME", help="the model there (default: the request's)")
    add("--headers", action="store_true", help="print the address and the headers first")


def run(options: argparse.Namespace) -> int:
    from penstock.errors import DecodeError  # here, so that --help does not pay for it

    preset = _preset(options)
    name = options.dialect or (preset.dialect if preset else "")
    if name not in RENDERED:
        raise UsageError(f"{name} is only read, not rendered: choose one of {', '.join(sorted(RENDERED))}")
    terminal = Terminal()
    try:
        rendered = _rendered(contents(options.source, terminal), name, preset, options.model)
    except DecodeError as error:
        print(f"penstock: {terminal.clean(str(error))}", file=sys.stderr)
        return FOUND
    for each in rendered.diagnostics:
        print(terminal.clean(f"{each.code}  {each.message}"), file=sys.stderr)
    if options.headers:
        _print_head(rendered, preset, terminal)
    terminal.result(json.dumps(rendered.body, indent=2, ensure_ascii=False))
    return OK


def _preset(options: argparse.Namespace) -> Preset | None:
    from penstock.dialects import presets

    if not options.preset:
        if not options.dialect:
            raise UsageError("say for whom: --preset NAME for a vendor, or --dialect NAME")
        return None
    try:
        return presets.preset(options.preset)
    except LookupError as error:
        raise UsageError(f"--preset: {error.args[0]}") from None


def _rendered(data: bytes, name: str, preset: Preset | None, model: str | None) -> UpstreamRequest:
    """Raises `DecodeError` for what is no request, and for one that this upstream cannot be sent."""
    from penstock.dialects.plan import Plan
    from penstock.dialects.registry import rendered_dialect
    from penstock.dialects.toolset import declared_tools
    from penstock.errors import DecodeError
    from penstock.protocol.request import CreateResponse
    from penstock.protocol.wire import decode
    from penstock.tools.identity import ToolIdentityMap

    request: CreateResponse = decode(data, CreateResponse)
    wanted = model or request.model
    if not wanted:
        raise DecodeError("is required: name a model there, or with --model", "model")
    tools = ToolIdentityMap(declared_tools(request), request.tool_choice)
    plan = Plan(request=request, target=_target(name, preset, wanted), tools=tools)
    return rendered_dialect(name).render(plan)


def _target(name: str, preset: Preset | None, model: str) -> Target:
    from penstock.dialects.presets import target_for

    if preset is None:
        return target_for(model, dialect=name)
    # Of the key only the fingerprint is used: encrypted reasoning goes back to the key that it was made for.
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
