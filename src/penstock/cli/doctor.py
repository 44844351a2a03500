"""`penstock doctor`: check the configuration, the machine, the targets and what their models can do."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal
from penstock.dialects.registry import RENDERED
from penstock.formatting import counted, wrapped

if TYPE_CHECKING:
    from penstock.doctor.examination import DoctorOptions, Examination
    from penstock.doctor.findings import Finding
    from penstock.doctor.recording import RecordedAbilities

_USAGE = "penstock doctor [--config FILE] [--preset NAME|--upstream URL] [options]"

_DESCRIPTION = """\
Find out why a gateway does not work, or what its models can do. The checks, in
order: configuration, port, store, proxies, then for each target its keys,
whether it can be reached, and its models. Then one model of each target is
probed: streaming, tool calls, usage, reasoning and structured output. The last
line says what to fix first.

A probe sends about five short requests, which costs a little with vendors that
charge for them; --quick sends none."""

_EPILOG = """\
examples:
  penstock doctor                    what `penstock serve` would use
  penstock doctor --quick            without using a model
  penstock doctor --preset groq --model llama-3.3-70b-versatile
  penstock doctor --upstream http://127.0.0.1:11434/v1
  penstock doctor --target local --write
                                     record in the configuration whether the
                                     model supports tools and reasons
  penstock doctor --json             one JSON object, for programs

docs/doctor.md explains every finding and what to do about it.

exit codes:
  0  no problems were found; there may be warnings
  1  there is something to fix
  2  nothing was checked: wrong options, or no such file"""

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red", "skipped": "dim"}
_MARGIN = " " * 9
"""As wide as the column with the status."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    what = parser.add_argument_group("what to check")
    add = what.add_argument
    add("--config", metavar="FILE", help="the configuration file (default: the one of penstock serve)")
    add("--preset", metavar="NAME", help="also check this vendor")
    add("--upstream", metavar="URL", help="also check the upstream with this base URL")
    add(
        "--dialect",
        metavar="NAME",
        choices=sorted(RENDERED),
        help=f"the upstream's API format: {', '.join(sorted(RENDERED))} (default: the preset's, or chat)",
    )
    add("--api-key-env", metavar="NAME", help="the environment variable with the upstream's API key")
    add("--target", metavar="NAME", help="check only this target")
    add("--model", metavar="NAME", help="probe with this model (default: a configured or a listed one)")
    add("--quick", action="store_true", help="do not probe: no model is used")
    result = parser.add_argument_group("result")
    add = result.add_argument
    add("--json", action="store_true", help="print one JSON object")
    add(
        "--write",
        action="store_true",
        help="record tools and reasoning in the limits of [models.NAME]; the old file is kept as .bak",
    )


def run(options: argparse.Namespace) -> int:
    import asyncio  # imported here to keep --help fast

    from penstock.cli.endpoint_errors import logged_to
    from penstock.doctor.examination import examine
    from penstock.doctor.findings import has_problems
    from penstock.errors import ConfigError
    from penstock.gateway.config.options import OptionError

    what = _options(options)
    terminal = Terminal()
    try:
        with logged_to():
            examination = asyncio.run(
                examine(what, os.environ, lambda found: None if options.json else _print(found, terminal))
            )
        recording = _record(what, examination) if options.write else None
    except OptionError as error:
        raise UsageError(str(error)) from None
    except ConfigError as error:
        raise UsageError(f"--write: {error}") from None
    if options.json:
        terminal.result(_json(what, examination, recording))
    else:
        if recording is not None:
            _print_recorded(what, recording, terminal)
        _print_summary(examination, terminal)
    return PROBLEM if has_problems(examination.findings) else OK


def _options(options: argparse.Namespace) -> DoctorOptions:
    from penstock.doctor.examination import DoctorOptions
    from penstock.gateway.config.file import NAME, find_config, named_by_variable
    from penstock.gateway.config.options import ServeOptions

    path = Path(options.config) if options.config else find_config(Path.cwd(), os.environ)
    if path is not None and not path.exists():
        raise UsageError(f"there is no file {path}{named_by_variable(path, os.environ)}")
    if options.write:
        if options.quick:
            raise UsageError("--write records what the probes find: leave out --quick")
        if options.preset or options.upstream:
            raise UsageError("--write works only for targets in a configuration file, not for options")
        if path is None:
            raise UsageError(f"--write needs a {NAME}, and there is none: pass --config FILE")
    return DoctorOptions(
        serve=ServeOptions(
            upstream=options.upstream or "",
            preset=options.preset or "",
            dialect=options.dialect or "",
            api_key_env=options.api_key_env or "",
        ),
        file=path,
        model=options.model or "",
        target=options.target or "",
        is_quick=options.quick,
    )


def _record(what: DoctorOptions, examination: Examination) -> RecordedAbilities:
    from penstock.doctor.recording import RecordedAbilities, record_abilities

    if what.file is None or examination.settings is None:
        return RecordedAbilities()
    return record_abilities(what.file, examination.findings, examination.settings, os.environ)


# Printing


def _print(finding: Finding, terminal: Terminal) -> None:
    """Print a finding: one line in a pipe, wrapped on a terminal, and a second one with what to do."""
    label = f"{finding.target} {finding.id}" if finding.target else finding.id
    status = terminal.paint(f"{finding.status:<8}", _COLOURS[finding.status])
    _print_entry(f"{status} ", f"{label}: {finding.sentence}", terminal)
    if finding.fix:
        _print_entry(_MARGIN, f"fix: {finding.fix}", terminal)


def _print_entry(first: str, text: str, terminal: Terminal) -> None:
    """Print text beside the column with the status, of which `first` is a cell."""
    text = terminal.clean(text)
    lines = [text] if terminal.room is None else wrapped(text, terminal.room - len(_MARGIN))
    for number, line in enumerate(lines):
        terminal.line((_MARGIN if number else first) + line)


def _print_recorded(what: DoctorOptions, recording: RecordedAbilities, terminal: Terminal) -> None:
    from penstock.cli.banner import short_path

    if not recording.models:
        terminal.line("")
        terminal.wrapped("Nothing was recorded: no probe of a configured model had a clear outcome.")
    for each in recording.models:
        limits = f'[models.{each.model}] limits = "{each.limits}"'
        if each.is_changed:
            _print_entry(f"{'recorded':<{len(_MARGIN)}}", limits, terminal)
        else:
            _print_entry(_MARGIN, f"{limits} is already recorded", terminal)
    if recording.backup is not None:
        _print_entry(_MARGIN, f"in {what.file}; the old file is {short_path(recording.backup)}", terminal)


def _print_summary(examination: Examination, terminal: Terminal) -> None:
    from penstock.doctor.findings import first_to_fix

    counts = [
        counted(number, status)
        for status in ("problem", "warning")
        if (number := sum(each.status == status for each in examination.findings))
    ]
    terminal.line("")
    first = first_to_fix(examination.findings)
    if first is None:
        terminal.line("Everything works.")
        return
    terminal.line(f"{' and '.join(counts)}.")
    place = f"{first.target} {first.id}: " if first.target else ""
    advice = f" To fix it: {first.fix}." if first.fix else ""
    start = "Fix this first: " if first.status == "problem" else "Worth a look: "
    sentence = first.sentence if first.sentence.endswith((".", "?", "…")) else f"{first.sentence}."
    terminal.wrapped(terminal.clean(f"{start}{place}{sentence}{advice}"))


def _json(what: DoctorOptions, examination: Examination, recording: RecordedAbilities | None) -> str:
    import msgspec

    from penstock.doctor.findings import first_to_fix, has_problems
    from penstock.version import VERSION

    document = {
        "version": VERSION,
        "config": str(what.file) if what.file else None,
        "ok": not has_problems(examination.findings),
        "checks": examination.findings,
        "first": first_to_fix(examination.findings),
        "recorded": recording.models if recording is not None else (),
    }
    return msgspec.json.encode(document).decode()
