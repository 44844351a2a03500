"""Options that select an endpoint, as the command line parses them."""

from __future__ import annotations

import argparse

from penstock.cli.endpoint import EndpointOptions, add_endpoint_options, read_endpoint


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_endpoint_options(parser)
    return parser.parse_args(arguments)


def endpoint(*arguments: str, responses: bool = True) -> EndpointOptions:
    return read_endpoint(parsed(*arguments), responses=responses)
