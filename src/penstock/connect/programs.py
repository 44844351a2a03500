"""The clients that `penstock run` can start, each with how it gets the gateway's settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from penstock.connect import codex_program
from penstock.connect.gateway import ConnectedGateway
from penstock.connect.guides import GUIDES
from penstock.net.urls import proxy_variable

KEY_VARIABLE = "PENSTOCK_RUN_KEY"
"""The variable with the key of the private gateway, in the client's environment only. It is not that of
`penstock connect`, which may hold the key of another gateway."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_NO_PROXY = ("NO_PROXY", "no_proxy")
_LOOPBACK = ("127.0.0.1", "localhost")


class ClientProgram(Struct, frozen=True, kw_only=True):
    """A client with a program for the terminal."""

    name: str
    """As in `penstock connect`."""
    program: str
    options: Callable[[ConnectedGateway, Path], list[str]]
    """Return the options for one run with a gateway. The folder is for files that they name; it is private,
    and removed when the client has ended."""
    model_of: Callable[[Sequence[str]], str]
    """Return the model that the user's own arguments choose, which win; empty if they choose none."""
    model_in: Callable[[bytes], str]
    """Return the model that the client's own file names; empty if it names none."""

    @property
    def title(self) -> str:
        return GUIDES[self.name].title

    @property
    def install(self) -> str:
        """The command that installs it."""
        return GUIDES[self.name].install

    def find(self, environment: Mapping[str, str]) -> str | None:
        """Return the path of the program; None if it is not installed."""
        return shutil.which(self.program, path=environment.get("PATH"))

    def file(self, environment: Mapping[str, str]) -> Path:
        """Return the client's own file."""
        file = GUIDES[self.name].file
        assert file is not None
        return file(environment)

    def saved_model(self, environment: Mapping[str, str]) -> str:
        """Return the model in the client's own file, which the client itself may change while it runs."""
        try:
            return self.model_in(self.file(environment).read_bytes())
        except OSError:
            return ""


def client_environment(environment: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the environment of a client: the user's own, with the key of the gateway. If proxies are set,
    requests to this machine are excepted from them (ask L5)."""
    changed = {**environment, KEY_VARIABLE: key}
    if not any(proxy_variable(name, environment) for name in _PROXIES):
        return changed
    for name in _NO_PROXY:
        listed = (environment.get(name) or proxy_variable("no_proxy", environment)).strip().strip(",")
        known = {entry.strip().lower() for entry in listed.split(",")}
        missing = [] if "*" in known else [host for host in _LOOPBACK if host not in known]
        changed[name] = ",".join(filter(None, [listed, *missing]))
    return changed


PROGRAMS: dict[str, ClientProgram] = {
    each.name: each
    for each in (
        ClientProgram(
            name="codex",
            program=codex_program.PROGRAM,
            options=codex_program.codex_options,
            model_of=codex_program.codex_model_of,
            model_in=codex_program.codex_model_in,
        ),
    )
}
"""The clients by the name that the command line uses."""
