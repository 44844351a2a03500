"""What `penstock serve` prints when it is ready: what it serves, and three commands to try.

The first line is printed at once, because programs wait for it. The rest follows when the upstreams have
answered, or after a moment: only then is it known which models they have.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from penstock.cli import discard_output
from penstock.cli.endpoint import DEFAULT_URL
from penstock.cli.terminal import Terminal, output_line
from penstock.formatting import counted, wrapped
from penstock.gateway.settings import DEMO, EVERY, Settings
from penstock.store import location_of
from penstock.upstream.reachability import (
    LIMIT,
    PLAIN_NAME,
    TargetStatus,
    by_preference,
    check_target,
    unset_variable,
)
from penstock.upstream.target import UpstreamTarget

PATIENCE = 1.0
"""Seconds to wait for the upstreams before the banner is printed."""
WIDTH = 80
"""Columns. A terminal may have fewer."""

_UNUSED = "no model uses a target: set passthrough, or add [models.NAME]"
_NO_FILE = "built in; penstock init writes a penstock.toml"
_LABEL = 10
_NARROW = 60
"""Columns. In fewer, labels are above their texts instead of beside them."""
_MOST_TARGETS = 8
_MOST_MODELS = 6


class ServedGateway(Struct, frozen=True, kw_only=True):
    """A gateway that is ready."""

    url: str
    """Without `/v1`."""
    settings: Settings
    file: Path | None
    """The configuration file."""
    store: str
    """Where responses are stored, in words."""
    metrics: str = ""
    """The URL of the metrics, if they have an address of their own."""


async def announce(
    gateway: ServedGateway, terminal: Terminal, *, patience: float = PATIENCE, limit: float = LIMIT
) -> None:
    """Check all targets at the same time, and print the banner. Problems that are found later follow."""
    checks = {
        target.name: asyncio.create_task(check_target(target, limit=limit))
        for target in gateway.settings.targets
    }
    try:
        if checks:
            await asyncio.wait(checks.values(), timeout=patience)
        statuses = {name: check.result() for name, check in checks.items() if check.done()}
        write([*banner(gateway, statuses, terminal), *problems(statuses.values(), terminal)])
        late = [check for name, check in checks.items() if name not in statuses]
        for check in asyncio.as_completed(late):
            write(problems([await check], terminal))
    finally:
        for check in checks.values():
            check.cancel()


def write(lines: list[str]) -> None:
    """Print lines. If nobody reads the output any more, the gateway goes on."""
    try:
        for line in lines:
            output_line(line)
    except (OSError, ValueError):
        discard_output()


def banner(gateway: ServedGateway, statuses: Mapping[str, TargetStatus], terminal: Terminal) -> Iterator[str]:
    """Yield the lines after the first one."""
    yield ""
    for label, texts in _rows(gateway, statuses):
        for text in texts:
            yield from _row(label, terminal.clean(text), terminal)
            label = ""
    yield ""
    yield "Try:"
    for command in _commands(gateway, statuses, _width(terminal)):
        yield from command
    yield ""


def problems(statuses: Iterable[TargetStatus], terminal: Terminal) -> list[str]:
    """Return a sentence for every target that cannot be used, wrapped."""
    lines: list[str] = []
    for status in statuses:
        if not status.problem:
            continue
        sentence = wrapped(terminal.clean(status.sentence), _width(terminal), "  ")
        lines += [terminal.paint(line, "red") for line in sentence]
    return lines


def command_name() -> str:
    """Return how this command was invoked, so that the printed commands work even if it is not on PATH."""
    program = Path(sys.argv[0])
    if program.name != "penstock" or shutil.which("penstock") == str(program.absolute()):
        return "penstock"
    return os.path.relpath(program) if program.is_absolute() else str(program)


def store_in_words(settings: Settings, path: Path, *, is_in_memory: bool) -> str:
    """Return where responses are stored. `path` is the default file; `is_in_memory` is what happened."""
    if not is_in_memory:
        return location_of(settings.store) if settings.store else short_path(path)
    if settings.store:
        return "in memory: responses are lost when the gateway stops"
    return f"in memory, because another gateway uses {short_path(path)}"


def short_path(path: Path) -> str:
    """Return a path with `~` for the user's folder."""
    home = os.path.expanduser("~")
    return f"~{str(path)[len(home) :]}" if path.is_relative_to(home) else str(path)


# What is served


def _rows(gateway: ServedGateway, statuses: Mapping[str, TargetStatus]) -> Iterator[tuple[str, list[str]]]:
    settings = gateway.settings
    if settings.inspector:
        yield "page", [f"{gateway.url}/"]
    if settings.targets:
        shown = [_target(each) for each in settings.targets[:_MOST_TARGETS]]
        if more := len(settings.targets) - len(shown):
            shown.append(f"and {more} more: penstock config check lists them")
        yield "targets", shown
    yield "models", [_models(settings, statuses)]
    yield "store", [gateway.store]
    yield "settings", [short_path(gateway.file) if gateway.file else _NO_FILE]
    if settings.workers > 1:
        yield "workers", [f"{settings.workers} processes share this address and the store"]
    yield "access", [_access(settings)]
    if gateway.metrics:
        yield "metrics", [gateway.metrics]


def _target(target: UpstreamTarget) -> str:
    # The query of a URL may contain a key.
    return f"{target.name}: {target.dialect} at {target.base_url.partition('?')[0]}, {_keys(target)}"


def _keys(target: UpstreamTarget) -> str:
    variable = unset_variable(target)
    if target.keys:
        names = list(target.key_names) or [counted(len(target.keys), "key")]
        found = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} set"
        return f"{found}; a client's own key takes precedence" if target.pass_key else found
    if target.pass_key:
        missing = f"{variable} is not set: " if variable else "no key: "
        return f"{missing}the client's own key is passed on"
    return f"{variable} is not set: requests will be refused" if variable else "no key"


def _models(settings: Settings, statuses: Mapping[str, TargetStatus]) -> str:
    """Return the configured names, or those that the upstream lists, and how many more there are."""
    passthrough = settings.passthrough
    listed = statuses[passthrough].models if passthrough in statuses else ()
    preset = next((each.preset for each in settings.targets if each.name == passthrough), "")
    named = [settings.default_model, *settings.models, *settings.aliases, *by_preference(preset, listed)]
    names = [name for name in dict.fromkeys(named) if name not in ("", EVERY, DEMO)]
    if not listed and passthrough:
        names = [name for name in names if settings.names(name) or name == settings.default_model]
    shown = [f"{each} (default)" if each == settings.default_model else each for each in names[:_MOST_MODELS]]
    if more := len(names) - len(shown):
        shown.append(f"and {more} more")
    if passthrough and not listed:
        shown.append(f"any name that {passthrough} has")
    is_default = settings.default_model == DEMO
    text = ", ".join([*shown, f"{DEMO} (built in{', default' if is_default else ''})"])
    return text if shown or not settings.targets else f"{text}; {_UNUSED}"


def _access(settings: Settings) -> str:
    if settings.keys:
        return f"clients need a key: {counted(len(settings.keys), 'key')} (penstock keys list)"
    return "no key is needed; only programs on this machine can connect"


# What to try


def model_to_try(settings: Settings, statuses: Mapping[str, TargetStatus]) -> str:
    """Return the configured model, or one that the upstream has; `demo` if no other is known to work."""
    aliases = (name for name in settings.aliases if name != EVERY)
    if named := settings.default_model or next(iter(settings.models), "") or next(aliases, ""):
        return named
    target = next((each for each in settings.targets if each.name == settings.passthrough), None)
    status = statuses.get(settings.passthrough)
    if target is None or (status is not None and status.problem):
        return DEMO
    names = by_preference(target.preset, status.models if status else ())
    return next((name for name in names if PLAIN_NAME.fullmatch(name)), DEMO)


def _commands(
    gateway: ServedGateway, statuses: Mapping[str, TargetStatus], width: int
) -> Iterator[list[str]]:
    """Yield three commands, each as lines that can be pasted together."""
    model = model_to_try(gateway.settings, statuses)
    variable = _key_to_send(gateway.settings, model)
    url = f"{gateway.url}/v1"
    fields = [f'"model": {json.dumps(model)},', '"input": "Hello!", "stream": true']
    body = f"{{{' '.join(fields)}}}"
    if len(body) > width - 12:  # spaces do not matter in JSON
        body = "{\n" + "\n".join(fields) + "\n}"
    yield _wrapped_command(
        width,
        ("curl -sN", shlex.quote(f"{url}/responses")),
        *([("-H", f'"authorization: Bearer ${variable}"')] if variable else []),
        ("-H", "'content-type: application/json'"),
        ("-d", shlex.quote(body)),
    )
    elsewhere = [] if url == DEFAULT_URL else [("--base-url", url)]
    yield _wrapped_command(
        width,
        (command_name(), "chat"),
        *elsewhere,
        ("--model", shlex.quote(model)),
        *([("--api-key-env", variable)] if variable else []),
    )
    yield _wrapped_command(width, (command_name(), "connect codex"), *elsewhere)


def _key_to_send(settings: Settings, model: str) -> str:
    """Return the variable with the key that a client of this model needs; empty if it needs none."""
    if settings.keys:
        return "PENSTOCK_KEY"
    route = settings.route_of(model)
    names = [step.target for step in route.steps[:1]] if route else []
    target = next((each for each in settings.targets if each.name in names), None)
    return unset_variable(target) if target is not None and target.pass_key else ""


# Layout


def _width(terminal: Terminal) -> int:
    return min(terminal.room or WIDTH, WIDTH)


def _row(label: str, text: str, terminal: Terminal) -> Iterator[str]:
    """Yield the lines of one row; only its label is coloured."""
    width = _width(terminal)
    if width < _NARROW:
        if label:
            yield f"  {terminal.paint(label, 'dim')}"
        yield from wrapped(text, width, "      ", first="    ")
        return
    indent = f"  {'':<{_LABEL}}"
    first, *others = wrapped(text, width, indent + "  ", first=indent)
    yield f"  {terminal.paint(label, 'dim')}{' ' * (_LABEL - len(label))}{first[len(indent) :]}"
    yield from others


def _wrapped_command(width: int, *parts: tuple[str, ...]) -> list[str]:
    """Return a command on one line if it fits, else lines joined by backslashes. The words of a part stay on
    one line if they fit; a word is never broken, because the lines are pasted into a shell."""
    line = f"  {' '.join(word for part in parts for word in part)}"
    if len(line) <= width and "\n" not in line:
        return [line]
    indent = "    " if width >= _NARROW else "  "
    room = width - len(indent) - len(" \\")
    rows = [
        row
        for words in parts
        for row in ([" ".join(words)] if len(" ".join(words).partition("\n")[0]) <= room else words)
    ]
    return ("  " + f" \\\n{indent}".join(rows)).split("\n")
