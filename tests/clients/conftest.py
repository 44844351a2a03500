"""One gateway, its upstreams and the tap for all clients, because starting them is slow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.clients import environments
from tests.clients.driver import Driver
from tests.clients.results import Result, tables, update_page
from tests.clients.stage import Stage, stage
from tests.installing import InstallError, give_up

RESULTS = pytest.StashKey[list[Result]]()

WRITE = "PENSTOCK_CLIENTS_PAGE"
"""Set to write the table into docs/clients/results.md."""


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("gateway")) as started:
        yield started


@pytest.fixture(scope="session")
def install() -> Callable[[str], Path]:
    """Return a function that installs an environment, or skips the test if no registry is reachable."""

    problems: dict[str, InstallError] = {}  # without a registry, every attempt takes seconds

    def installed(name: str) -> Path:
        try:
            if name in problems:
                raise problems[name]
            return environments.installed(name)
        except InstallError as problem:
            problems[name] = problem
            give_up(f"the environment {name!r}", problem)

    return installed


@pytest.fixture(scope="module")
def drivers(
    scene: Stage, install: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Driver]]:
    """Return a function that returns the driver of a client, which runs until the end of the module."""
    started: dict[tuple[str | Path, ...], Driver] = {}

    def driver(client: str) -> Driver:
        command = environments.command(client, install(environments.CLIENTS[client].environment))
        if shutil.which(command[0]) is None:
            pytest.skip(f"there is no {command[0]}")
        if tuple(command) not in started:
            started[tuple(command)] = Driver(command, scene.base_url, tmp_path_factory.mktemp("client"))
        return started[tuple(command)]

    yield driver
    for each in started.values():
        each.close()


# The table of results


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if parameters.keys() >= {"client", "case", "dialect"} and (call.when == "call" or not report.passed):
        result = Result(parameters["client"], parameters["case"], parameters["dialect"], report.outcome)
        item.config.stash[RESULTS].append(result)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    results = config.stash[RESULTS]
    if not results:
        return
    terminalreporter.write_sep("=", "clients")
    terminalreporter.write(tables(results))
    if os.environ.get(WRITE):
        update_page(results)
