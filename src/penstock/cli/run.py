"""`penstock run`: start a client with a gateway of its own, without changing its configuration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli import UsageError
from penstock.cli.parser import CommandParser
from penstock.cli.serve import add_upstream_options
from penstock.cli.terminal import Terminal
from penstock.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.application import PrivateGateway
    from penstock.connect.foreground import Foreground
    from penstock.connect.gateway import ConnectedGateway
    from penstock.connect.model_choice import ModelChoice
    from penstock.connect.programs import ClientProgram
    from penstock.gateway.config.options import ServeOptions
    from penstock.gateway.settings import Settings

CLIENTS = ("codex",)

_USAGE = "penstock run CLIENT [--preset NAME] [--model NAME] [options] [-- WORDS]"

_DESCRIPTION = """\
Start a client with a private gateway, which ends with it. Neither the client's
configuration nor penstock.toml is changed. What follows -- goes to the client
unchanged, and wins over what this command sets."""

_EPILOG = """\
examples:
  penstock run codex     with the upstreams of penstock.toml, or else the
                         built-in model `demo`
  penstock run codex --preset anthropic
                         with Claude, and the key in ANTHROPIC_API_KEY
  penstock run codex --upstream http://127.0.0.1:11434/v1 --model qwen3
  penstock run codex -- exec "fix the failing test"
  penstock run codex --preset openrouter -- resume --last

Only the client can use the gateway: it has a key that is in no file and in no
command line. Turns are recorded like those of `penstock serve`, so that
`penstock explain` and `penstock usage` include them.

exit codes:
  the client's own, or 128 and the number of the signal that ended it
  2  the client was not started: it is not installed, a key is missing, or
     options or the configuration are wrong"""


def configure(parser: CommandParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    parser.collect_rest("the client's own arguments")
    parser.add_argument("client", metavar="CLIENT", choices=CLIENTS, help=", ".join(CLIENTS))
    upstream = add_upstream_options(parser, without_key="no key is sent")
    upstream.add_argument(
        "--model", metavar="NAME", help="the model to start with (default: the first of the upstream)"
    )
    add = parser.add_argument_group("gateway").add_argument
    add("--config", metavar="FILE", help="the configuration file (default: penstock.toml, if it exists)")
    add("--store", metavar="PATH|none", help="where to store turns (default: as for penstock serve)")
    add(
        "--record",
        action="store_true",
        default=None,
        help="also store the upstreams' bytes, for penstock replay",
    )
    add("--log", metavar="FILE", help="append the gateway's log to this file (default: kept if a turn fails)")


def run(options: argparse.Namespace) -> int:
    import asyncio  # imported here to keep --help fast

    if sys.platform == "win32":
        raise UsageError(
            "`penstock run` does not work on Windows: use it in WSL; or start `penstock serve`, and connect "
            f"the client with `penstock connect {options.client} --write`"
        )
    from penstock.connect.foreground import Interrupted
    from penstock.connect.programs import PROGRAMS
    from penstock.errors import ConfigError, PenstockError, StoreError
    from penstock.gateway.config.file import find_config
    from penstock.gateway.config.options import OptionError, settings_from

    client = PROGRAMS[options.client]
    program = client.find(os.environ)
    if program is None:
        raise UsageError(f"{client.program} is not installed. Install it with: {client.install}")
    given = _serve_options(options)
    file = Path(options.config) if options.config else find_config(Path.cwd(), os.environ)
    try:
        settings = settings_from(given, file, os.environ)
        with _logging(options.log, settings.log_level) as log:
            run = _Run(client, options.rest, log, target=settings.passthrough if _names_target(given) else "")
            return asyncio.run(run.start(program, settings, options.model or ""))
    except Interrupted as interrupted:
        return interrupted.code
    except (ConfigError, OptionError) as error:
        raise UsageError(str(error)) from None
    except StoreError as error:
        raise UsageError(f"--store: {error}") from None
    except PenstockError as error:
        raise UsageError(str(error)) from None


def _serve_options(options: argparse.Namespace) -> ServeOptions:
    from penstock.gateway.config.options import ServeOptions

    return ServeOptions(
        upstream=options.upstream or "",
        preset=options.preset or "",
        dialect=options.dialect or "",
        api_key_env=options.api_key_env or "",
        host="127.0.0.1",
        port=0,
        store=options.store,
        record=options.record,
    )


def _names_target(given: ServeOptions) -> bool:
    return bool(given.upstream or given.preset)


class _Log:
    """The file of the gateway's log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = False


@contextmanager
def _logging(name: str | None, level: str) -> Iterator[_Log]:
    """Write the log to a file: the terminal is the client's. A temporary file is removed unless it is
    kept."""
    import tempfile

    from penstock.gateway.telemetry.logs import set_up
    from penstock.shared_file import open_private

    path = Path(name) if name else None
    try:
        if path is None:
            number, temporary = tempfile.mkstemp(prefix="penstock-run-", suffix=".log")
            path, stream = Path(temporary), os.fdopen(number, "w", encoding="utf-8")
        else:
            stream = os.fdopen(open_private(path, os.O_WRONLY | os.O_APPEND), "a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--log: cannot write {path or 'a temporary file'}: {error.strerror}") from None
    log = _Log(path)
    try:
        with stream:
            set_up(level, stream)
            yield log
    finally:
        if not name and not log.is_kept:
            path.unlink(missing_ok=True)


class _Run:
    """One run of a client."""

    def __init__(self, client: ClientProgram, arguments: Sequence[str], log: _Log, *, target: str) -> None:
        """`target` is the target that the options describe; empty if they describe none."""
        self._client, self._arguments, self._log, self._target = client, arguments, log, target

    async def start(self, program: str, settings: Settings, model: str) -> int:
        """Run the client to its end; return its exit code."""
        from penstock.application import private_gateway
        from penstock.connect.foreground import Foreground
        from penstock.connect.model_choice import choose_model, with_own_keys
        from penstock.gateway.http.access import key_digest, new_key
        from penstock.gateway.settings import ClientKey
        from penstock.store.ledger import FAILED
        from penstock.store.records import LOCAL

        settings = with_own_keys(settings, self._target)
        own = self._client.model_of(self._arguments)
        saved_before = self._client.saved_model(os.environ)
        model = model or (own if self._target or settings.route_of(own) else "")
        async with Foreground() as foreground:
            choice = await choose_model(settings, target=self._target, model=model)
            key, _ = new_key()
            # The tenant of gateways without keys: reasoning that another gateway of this user has encrypted
            # can be read when the client resumes a session.
            entry = ClientKey(name=LOCAL, digest=key_digest(key))
            async with private_gateway(choice.settings, keys=(entry,), store=settings.store) as private:
                code = await self._run(program, foreground, private, choice, key)
                metrics = private.gateway.metrics
                failed = sum(metrics.total("penstock_turns_total", outcome=each) for each in FAILED)
        if failed:
            self._log.is_kept = True
            _note(self._what_failed(int(failed), private.store))
        if (saved := self._client.saved_model(os.environ)) != saved_before:
            _note(self._what_it_saved(saved))
        return code

    async def _run(
        self, program: str, foreground: Foreground, private: PrivateGateway, choice: ModelChoice, key: str
    ) -> int:
        import tempfile

        from penstock.connect.programs import client_environment

        gateway = await _connected(private, choice.model)
        for warning in choice.warnings:
            _note(warning)
        with tempfile.TemporaryDirectory(prefix="penstock-run-") as folder:
            command = [program, *self._client.options(gateway, Path(folder)), *self._arguments]
            _note(self._summary(gateway, choice))
            if not choice.settings.targets:
                _note(_NO_UPSTREAM)
            try:
                return await foreground.run(command, client_environment(os.environ, key))
            except OSError as error:
                raise UsageError(f"cannot start {program}: {error.strerror or error}") from None

    def _summary(self, gateway: ConnectedGateway, choice: ModelChoice) -> str:
        where = f"through a private gateway at {gateway.base_url}"
        if choice.targets:
            target = choice.targets[0]
            # The query of a URL may contain a key.
            of = f"{gateway.model} of {target.name} ({target.base_url.partition('?')[0]})"
            return f"{self._client.title} uses {of} {where}"
        return f"{self._client.title} uses the built-in model {gateway.model} {where}"

    def _what_it_saved(self, model: str) -> str:
        from penstock.cli.banner import short_path

        file = short_path(self._client.file(os.environ))
        return (
            f"{self._client.title} has saved {model} as its model in {file}, also for runs without Penstock"
        )

    def _what_failed(self, count: int, store: str) -> str:
        import shlex

        from penstock.gateway.storage import NONE, default_path

        elsewhere = f" --store {shlex.quote(store)}" if store != str(default_path(os.environ)) else ""
        how = f"`penstock explain --last --failed{elsewhere}` says why; " if store != NONE else ""
        return f"{counted(count, 'turn')} failed: {how}the gateway's log is {self._log.path}"


_NO_UPSTREAM = "no upstream is configured: add --preset NAME or --upstream URL, or run `penstock init`"


async def _connected(private: PrivateGateway, model: str) -> ConnectedGateway:
    """Return the gateway as its client sees it: the model to start with is the first of the list."""
    from penstock.connect.gateway import ConnectedGateway
    from penstock.connect.programs import KEY_VARIABLE

    listing = private.gateway.services.listing_for({})
    listed = await listing.models()
    first = next((each for each in listed if each.id == model), None) or await listing.find(model)
    others = (each for each in listed if each.id != model)
    return ConnectedGateway(
        base_url=f"{private.url}/v1",
        model=model,
        key_variable=KEY_VARIABLE,
        models=(*([first] if first else []), *others),
    )


def _note(text: str) -> None:
    """Write to standard error. After a hang-up, the terminal no longer exists."""
    with suppress(OSError, ValueError):
        Terminal().note(text)
