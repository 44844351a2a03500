"""The commands of the extension in a real VS Code, with what the user sees and answers."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.client.server import answer
from tests.gateway.running import gateway
from tests.gateway.scripts import STOP, TOOL_CALLS, call, calls, text
from tests.gateway.upstream import ScriptedUpstream, said, streamed, until
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.consumers import EXTENSION, ORDERS, Consumer
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.servers import Setup, code_server, path_without_penstock
from tests.vscode.e2e.workbench import HOVER, INSTALLING, QUICK, STATUS, TOAST, Workbench

pytestmark = pytest.mark.vscode

Json = dict[str, Any]

ROOT = Path(__file__).parents[3]
OURS = ROOT / "vscode"
FIRST, SECOND = "Mill", "Weir"
MODELS = {FIRST: ("millrace", "sluice"), SECOND: ("spillway",)}
"""A group that exists from the start, one that a test adds, and their models."""

CONFIG = """
[limits]
retries = 0

[targets.chat]
base_url = "{url}/v1"
"""
MODEL_CONFIG = """
[models.{model}]
target = "chat"
limits = "window:64k output:8k tools reasoning price:1.25/10/0.125"
"""
READ = {"name": "read_gauge", "description": "To read.", "inputSchema": {"type": "object", "properties": {}}}
KEY = "a-key-of-the-weir"
RUNNING = re.compile(r"^~\d[\d.k]* of \d[\d.k]* \(\d+%\)$")
"""The estimate, the limit, and the share of it."""


@pytest.fixture(scope="module")
def endpoints(upstream: ScriptedUpstream, folder: Path) -> Iterator[dict[str, str]]:
    """Return the URL of each group's gateway."""
    with ExitStack() as stack:
        urls = {}
        for group, models in MODELS.items():
            home = folder / group
            home.mkdir()
            config = CONFIG.format(url=upstream.url) + "".join(MODEL_CONFIG.format(model=m) for m in models)
            urls[group] = stack.enter_context(gateway(home, config=config)).url + "/v1"
        yield urls


@pytest.fixture(scope="module")
def window(
    installed: Installed, endpoints: dict[str, str], folder: Path, page: Browser, port: int
) -> Iterator[Workbench]:
    orders = folder / "orders"
    orders.mkdir()
    setup = Setup(
        extensions=(OURS, EXTENSION),
        settings={"penstock.pythonPath": sys.executable, "penstock.gatewayPort": port},
        groups=[{"name": FIRST, "vendor": "penstock", "endpoint": endpoints[FIRST]}],
        environment={ORDERS: str(orders), "PATH": path_without_penstock()},
    )
    with code_server(installed, folder / "vscode", setup) as server:
        page.open(server.page)
        yield Workbench(page, Consumer(orders))
        page.screenshot("after-all")


@pytest.fixture
def workbench(window: Workbench) -> Workbench:
    window.clear()
    return window


def ids(consumer: Consumer) -> list[str]:
    """Wait for these models. Every gateway also has `demo`; VS Code does not show whose it is."""
    return sorted(model["id"] for model in consumer.models() if model["id"] != "demo")


def wait_for_models(workbench: Workbench, *models: str) -> None:
    workbench.browser.look(lambda: set(models) <= set(ids(workbench.consumer)))


def usage(prompt: int, cached: int, completion: int, reasoning: int) -> Json:
    figures = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    return {"choices": [], "usage": figures}


FIGURES = usage(42_000, 30_000, 900, 600)


def test_the_status_bar_shows_an_estimate_and_then_the_real_tokens(
    workbench: Workbench, upstream: ScriptedUpstream
) -> None:
    opened = threading.Event()
    upstream.play("millrace", [until(opened), *streamed(*text("It turns."), STOP, FIGURES)])
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(workbench.consumer.ask, "millrace", "Does the wheel turn?")
        try:
            workbench.browser.look(lambda: RUNNING.search(workbench.status()) is not None)
        finally:
            opened.set()
        assert asked.result().text == "It turns."
    workbench.browser.look(lambda: workbench.status() == "42k in, 900 out · Σ 43k")

    workbench.browser.wait(STATUS)
    header, *rows = workbench.hover_status()
    assert header == ["model", "turns", "input", "cached", "reasoning", "output", "cost"]
    # 12,000 at $1.25, 30,000 at $0.125 and 900 at $10 a million: 2.8 cents.
    assert rows == [["millrace", "1", "42k", "30k", "600", "900", "$0.03"]]


def test_recent_turns_have_their_outcome_and_open_as_a_page(
    workbench: Workbench, upstream: ScriptedUpstream
) -> None:
    gauge = calls(call(0, "call_1", "read_gauge", "{}"))
    refusal = answer(429, {"error": {"message": "Slow down"}}, retry_after="30")
    upstream.play("sluice", streamed(gauge, TOOL_CALLS, usage(43_100, 42_000, 80, 0)), [refusal])
    upstream.play("millrace", streamed(*text("It turns."), STOP, FIGURES))
    workbench.consumer.ask("sluice", options={"tools": [READ]})
    assert workbench.consumer.ask("sluice").error is not None
    workbench.consumer.ask("millrace")

    workbench.run("showRecent")
    last, failed, called = workbench.rows("Penstock: recent turns")[:3]
    workbench.browser.picture("recent", QUICK)
    assert re.search(r"millrace\s*stop · \d+\.\d s · 42k in · 900 out · \$0\.03", last)
    assert "sluice" in failed
    assert "error" in failed
    assert "wait 30 s" in failed
    assert "called read_gauge" in called
    workbench.pick("Penstock: recent turns", "millrace")
    workbench.shown(
        "millrace", "42000, including 30000 cached", "900, including 600 reasoning", "penstock explain"
    )


def test_usage_opens_as_a_page(workbench: Workbench, upstream: ScriptedUpstream) -> None:
    for model in ("millrace", "sluice"):
        upstream.play(model, streamed(*text("It turns."), STOP, FIGURES))
        workbench.consumer.ask(model)
    table = workbench.hover_status()
    workbench.browser.picture("status", STATUS, HOVER)
    workbench.leave_status()
    workbench.run("showUsage")
    workbench.shown("Usage", "Input includes cached tokens", *(cell for row in table for cell in row))
    assert [row[0] for row in table[1:]] == ["millrace", "sluice", "all"]


def test_a_restart_is_a_new_process_with_the_same_models(
    workbench: Workbench, upstream: ScriptedUpstream
) -> None:
    upstream.play("sluice", streamed(*said("Before.")), streamed(*said("After.")))
    assert workbench.consumer.ask("sluice").text == "Before."
    workbench.run("restart")
    wait_for_models(workbench, *MODELS[FIRST])
    assert workbench.consumer.ask("sluice").text == "After."
    # The process sums up: only a new one has forgotten the earlier turns.
    workbench.browser.look(lambda: workbench.status() == "11 in, 7 out · Σ 18")


def test_an_endpoint_is_added_by_answering_three_questions(
    workbench: Workbench, upstream: ScriptedUpstream, endpoints: dict[str, str], folder: Path
) -> None:
    workbench.run("addEndpoint")
    workbench.pick("where are the models?", "Another URL")
    workbench.enter("URL of the endpoint", "weir")
    workbench.browser.wait(f"{QUICK} .quick-input-message", "Enter a URL such as")
    workbench.enter("URL of the endpoint", endpoints[SECOND])
    workbench.enter("API key for 127.0.0.1", KEY)
    workbench.enter("name for this endpoint", SECOND)
    wait_for_models(workbench, *MODELS[SECOND])
    upstream.play("spillway", streamed(*said("Over the weir.")))
    assert workbench.consumer.ask("spillway").text == "Over the weir."

    groups = (folder / "vscode" / "data" / "User" / "chatLanguageModels.json").read_text()
    assert [group["name"] for group in json.loads(groups)] == [FIRST, SECOND]
    assert KEY not in groups


def status_of(port: int) -> int | None:
    """Return the status that the gateway at a port returns; None if none is listening."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/v1/models")
        return connection.getresponse().status
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


def test_a_local_gateway_is_started_used_and_stopped(
    workbench: Workbench, upstream: ScriptedUpstream, folder: Path, port: int
) -> None:
    # It reads the settings of the open folder.
    settings = CONFIG.format(url=upstream.url) + MODEL_CONFIG.format(model="tailrace")
    (folder / "vscode" / "workspace" / "penstock.toml").write_text(settings)
    upstream.play("tailrace", streamed(*said("From here.")))
    assert status_of(port) is None
    workbench.run("startGateway")
    workbench.notified(f"the gateway is ready at http://127.0.0.1:{port}/v1")
    assert status_of(port) == 200
    workbench.press_button("Add Its Models")
    wait_for_models(workbench, "tailrace")
    assert workbench.consumer.ask("tailrace").text == "From here."
    workbench.run("stopGateway")
    workbench.notified("the gateway has stopped")
    assert status_of(port) is None


def test_a_gateway_that_cannot_start_reports_the_reason(
    workbench: Workbench, upstream: ScriptedUpstream
) -> None:
    workbench.consumer.configure("penstock.gatewayPort", urlsplit(upstream.url).port)
    workbench.run("startGateway")
    workbench.notified("The gateway did not start")
    (message,) = [toast for toast in workbench.browser.texts(TOAST) if "did not start" in toast]
    assert "in use" in message
    assert "Traceback" not in message


def test_signing_out_hides_the_models_until_a_restart(workbench: Workbench) -> None:
    wait_for_models(workbench, *MODELS[FIRST])
    workbench.run("signOut")
    workbench.notified("Penstock has forgotten its keys and models")
    workbench.browser.look(lambda: workbench.consumer.models() == [])
    workbench.browser.screenshot("signed-out")
    workbench.run("restart")
    wait_for_models(workbench, *MODELS[FIRST])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a copy of the package for `pip`: a build leaves files behind."""
    copy = tmp_path / "penstock"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, copy / name)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(tmp_path),
        "msgspec",
    ]
    if subprocess.run(pip, capture_output=True).returncode:
        pytest.skip("the registry of pip is out of reach")
    return copy


def hosts() -> list[str]:
    """Return the command lines of the running Python backends."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [line for line in lines if " vscode-host" in line]


def test_the_python_backend_is_offered_and_installed_if_it_is_missing(
    workbench: Workbench, upstream: ScriptedUpstream, source: Path, folder: Path
) -> None:
    workbench.consumer.configure("penstock.package", str(source))
    workbench.consumer.configure("penstock.pythonPath", "")
    workbench.notified("No Python with Penstock was found")
    workbench.press_button("Install")
    workbench.notified("the Python backend is installed and running", within=INSTALLING)
    upstream.play("sluice", streamed(*said("From the new one.")))
    assert workbench.consumer.ask("sluice").text == "From the new one."
    storage = folder / "vscode" / "data" / "User" / "globalStorage" / "penstock.penstock"
    (python,) = storage.glob("python-*/bin/python")
    assert any(line.startswith(f"{python} -m penstock vscode-host") for line in hosts())
