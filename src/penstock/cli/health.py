"""`penstock health`: ask a running gateway whether it accepts requests."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from penstock.cli import OK, PROBLEM, UsageError
from penstock.cli.terminal import Terminal

_USAGE = "penstock health [--url URL] [--live] [--timeout SECONDS]"

_DESCRIPTION = """\
Ask a running gateway whether it accepts requests: `GET /readyz`, which needs no
key and uses no model. This is the health check of the container image, where
there is no curl."""

_EPILOG = """\
Without --url, the gateway is the one that `penstock serve` would start here:
the address comes from the same configuration file and from PENSTOCK_HOST and
PENSTOCK_PORT. Its certificate is not checked then, because it belongs to
another name than the local address. Options of `penstock serve` are not known.

examples:
  penstock health
  penstock health --live                also true while it drains
  penstock health --url https://gateway.example.com
  penstock health && echo "send requests"

exit codes:
  0  the gateway accepts requests; with --live: it runs
  1  it drains, or it does not answer
  2  nothing was asked: wrong options, or an invalid configuration"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage, parser.description, parser.epilog = _USAGE, _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("--url", metavar="URL", help="the gateway's address (default: the one of penstock serve)")
    add("--config", metavar="FILE", help="the configuration file (default: the one of penstock serve)")
    add("--live", action="store_true", help="ask only whether it runs: GET /healthz")
    add("--timeout", metavar="SECONDS", type=_seconds, default=3.0, help="for the answer (default: 3)")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from above 0 to 3600")
    return seconds


def run(options: argparse.Namespace) -> int:
    if options.url and options.config:
        raise UsageError("use --url or --config, not both")
    url = options.url or _own_url(options.config)
    problem = _ask(url, "/healthz" if options.live else "/readyz", options.timeout, is_own=not options.url)
    shown = url.partition("?")[0]  # the query may contain a key
    if problem:
        Terminal().note(f"{shown}: {problem}")
        return PROBLEM
    Terminal().line(f"{shown} {'runs' if options.live else 'is ready'}")
    return OK


def _own_url(config: str | None) -> str:
    """Return the address of the gateway that the configuration describes."""
    from penstock.editor.route import own_url  # imported here to keep --help fast
    from penstock.errors import ConfigError
    from penstock.gateway.config.file import find_config, load_address
    from penstock.gateway.config.options import (
        HOST_VARIABLE,
        PORT_VARIABLE,
        OptionError,
        ServeOptions,
        overrides,
    )

    path = Path(config) if config else find_config(Path.cwd(), os.environ)
    try:
        served = load_address(path, os.environ)
        # Of the others, such as the store's, a secret may be missing here.
        variables = {name: os.environ.get(name, "") for name in (HOST_VARIABLE, PORT_VARIABLE)}
        given = overrides(ServeOptions(), variables)
    except (ConfigError, OptionError) as error:
        raise UsageError(str(error)) from None
    host, port = (given[name][0] if name in given else getattr(served, name) for name in ("host", "port"))
    if not port:
        raise UsageError("the configured port is 0, so the gateway's address is not known: add --url URL")
    url = own_url(host, port)
    return url.replace("http:", "https:", 1) if served.has_tls else url


def _ask(url: str, path: str, timeout: float, *, is_own: bool) -> str:
    """Return why the gateway is not ready; empty if it is."""
    import ssl
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    from penstock.errors import InvalidRequestError
    from penstock.net.urls import read_address

    try:
        address = read_address(url)
    except InvalidRequestError as error:
        raise UsageError(f"--url: {error.message}") from None
    connection = HTTPConnection(address.host, address.port, timeout=timeout)
    if address.scheme == "https":
        context = ssl.create_default_context()
        if is_own:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(address.host, address.port, timeout=timeout, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(200).decode(errors="replace").strip()
    except ConnectionRefusedError:
        return "no gateway is running there"
    except TimeoutError:
        return f"no answer within {timeout:g} seconds"
    except (OSError, HTTPException) as error:
        return f"no answer: {getattr(error, 'strerror', None) or error}"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"HTTP {answer.status} {body}"
