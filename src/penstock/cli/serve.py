"""`penstock serve`: the gateway, once there is one."""

from __future__ import annotations

import argparse
import sys

import penstock
from penstock.cli import FOUND

_DESCRIPTION = """\
Start the gateway. It is not part of this version: the command says what works
today and ends with exit code 1, so that nothing takes it for a running server."""

_TODAY = """\
penstock {version} has no gateway yet: nothing was started.

What works today:
  penstock check FILE|-|URL   is this stream lawful? which rule does it break?
  penstock translate          a provider's stream as an OpenResponses stream
  penstock render             a request as an upstream would be sent it
  penstock chat               talk to an OpenResponses endpoint, with tools
  penstock models             the models of an endpoint, with their limits
  penstock parts              a stream as the parts that an editor gets of it
  import penstock             the library: client, parts, stream, checker

Next: penstock check --help
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION


def run(options: argparse.Namespace) -> int:  # noqa: ARG001 - every command takes its options
    sys.stderr.write(_TODAY.format(version=penstock.__version__))
    return FOUND
