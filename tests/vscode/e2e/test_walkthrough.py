"""The packed extension in a real VS Code, as for a new user: just installed, and without Penstock."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.version import VERSION
from tests.installing import InstallError, OutOfReachError, give_up
from tests.vscode.e2e.browser import Browser
from tests.vscode.e2e.consumers import EXTENSION, ORDERS, Consumer
from tests.vscode.e2e.install import Installed
from tests.vscode.e2e.package_index import PackageIndex, package_index
from tests.vscode.e2e.servers import Setup, code_server, path_without_penstock
from tests.vscode.e2e.workbench import INSTALLING, PARTS, QUICK, TOAST, Walkthrough, Workbench
from tests.vscode.packed import VSIX, WHEEL, faults

pytestmark = pytest.mark.vscode

OURS = Path(__file__).parents[3] / "vscode"
MANIFEST = json.loads((OURS / "package.json").read_text())
(CONTRIBUTED,) = MANIFEST["contributes"]["walkthroughs"]
STEPS = {step["id"]: step for step in CONTRIBUTED["steps"]}
ID = f"penstock.penstock#{CONTRIBUTED['id']}"
NO_CHAT = {"workbench.secondarySideBar.defaultVisibility": "hidden"}


@pytest.fixture(scope="module")
def vsix() -> Path:
    """Return the packed extension, which must be that of this source tree."""
    if not VSIX.exists():
        give_up("the packed extension", OutOfReachError("there is none: run `make vsix`"))
    if found := next(faults(VSIX), None):
        give_up("the packed extension", InstallError(f"{found}: run `make vsix` again"))
    return VSIX


@pytest.fixture(scope="module")
def index(vsix: Path, folder: Path) -> Iterator[PackageIndex]:
    """Return an index with the dependencies of the packed wheel, but not with Penstock."""
    wheels = folder / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(vsix) as archive:
        packed = Path(archive.extract(f"extension/wheel/{WHEEL}", folder))
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--only-binary",
        ":all:",
        "--dest",
        str(wheels),
    ]
    if subprocess.run([*pip, str(packed)], capture_output=True).returncode:
        pytest.skip("the registry of pip is out of reach")
    (wheels / WHEEL).unlink()
    with package_index(wheels) as running:
        yield running


@pytest.fixture(scope="module")
def window(
    installed: Installed, vsix: Path, index: PackageIndex, folder: Path, page: Browser
) -> Iterator[Workbench]:
    """Install the packed extension in a window of a VS Code without Penstock."""
    orders = folder / "orders"
    orders.mkdir()
    # The wheels are for this Python, so the extension must find it first.
    path = f"{sys.base_prefix}/bin:{path_without_penstock()}"
    setup = Setup(
        extensions=(EXTENSION,),
        settings=NO_CHAT,
        environment={ORDERS: str(orders), "PATH": path, **index.environment},
    )
    with code_server(installed, folder / "vscode", setup) as server:
        page.open(server.page)
        workbench = Workbench(page, Consumer(orders))
        workbench.consumer.install(vsix)
        yield workbench
        page.screenshot("after-all")


def test_the_walkthrough_is_offered_after_the_installation_and_shows_three_steps_with_pictures(
    window: Workbench,
) -> None:
    window.consumer.command("workbench.action.closeSidebar")  # a narrow walkthrough has no pictures
    for _ in range(2):  # a chat view asks for models several times
        assert window.consumer.models() == []
    window.notified("Penstock has no endpoint yet")
    window.press_button("Get Started")
    walkthrough = Walkthrough(window.browser, ID)
    assert walkthrough.steps() == list(STEPS)
    for name, step in STEPS.items():
        walkthrough.select(name)
        walkthrough.wait_for_picture(step["media"]["altText"])
        assert walkthrough.links()
        window.browser.screenshot(f"step-{name}")
    linked = {name for step in STEPS.values() for name in _commands(step["description"])}
    assert linked <= window.consumer.commands()

    walkthrough.select("connect")
    walkthrough.wait_for_picture(STEPS["connect"]["media"]["altText"])
    window.browser.picture("walkthrough", *PARTS)
    walkthrough.follow("Add a Model Endpoint")
    window.rows("where are the models?")
    window.browser.press("Escape")
    window.browser.wait(QUICK, state="hidden")
    assert not any(walkthrough.is_complete(step) for step in STEPS)

    window.clear()
    window.run("addEndpoint")
    window.rows("where are the models?")
    window.browser.picture("connect", QUICK)
    window.browser.press("Escape")


def _commands(description: str) -> list[str]:
    return [each.partition(")")[0] for each in description.split("(command:")[1:]]


def test_a_new_user_installs_python_starts_a_gateway_and_sees_usage_without_a_lookup_of_penstock(
    window: Workbench, index: PackageIndex, folder: Path, port: int
) -> None:
    window.clear()
    window.consumer.configure("penstock.gatewayPort", port)
    window.run("getStarted")
    walkthrough = Walkthrough(window.browser, ID)
    walkthrough.steps()
    walkthrough.select("connect")
    walkthrough.follow("Start a Local Gateway")
    window.notified("No Python with Penstock was found")
    window.press_button("Install")
    window.notified("the Python backend is installed and running", within=INSTALLING)
    window.notified(f"the gateway is ready at http://127.0.0.1:{port}/v1")
    window.browser.look(lambda: walkthrough.is_complete("connect"))
    assert [walkthrough.is_complete(step) for step in ("model", "usage")] == [False, False]
    window.browser.screenshot("connected")

    window.press_button("Add Its Models")
    window.browser.look(lambda: any(model["id"].endswith("demo") for model in window.consumer.models()))
    assert window.consumer.ask("demo", "Count from 1 to 3.").text
    window.browser.look(lambda: walkthrough.is_complete("model"))
    assert not walkthrough.is_complete("usage")

    window.clear()
    window.run("getStarted")
    walkthrough.steps()
    walkthrough.select("usage")
    walkthrough.follow("Show Usage")
    window.shown("Usage", "demo")
    window.run("getStarted")
    window.browser.look(lambda: walkthrough.is_complete("usage"))
    window.browser.screenshot("complete")

    # pip looked up the dependencies, but took Penstock from the file in the extension.
    assert {"msgspec", "websockets"} <= set(index.looked_up)
    assert "penstock" not in index.looked_up
    storage = folder / "vscode" / "data" / "User" / "globalStorage" / "penstock.penstock"
    (origin,) = storage.glob(f"python-*/lib/*/site-packages/penstock-{VERSION}.dist-info/direct_url.json")
    assert json.loads(origin.read_text())["url"].endswith(f"/penstock.penstock-{VERSION}/wheel/{WHEEL}")


def test_the_walkthrough_in_an_untrusted_workspace_explains_why_no_gateway_is_started(
    installed: Installed, tmp_path: Path, page: Browser
) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    setup = Setup(
        extensions=(OURS, EXTENSION),
        settings={
            "security.workspace.trust.enabled": True,
            "security.workspace.trust.startupPrompt": "never",
        },
        environment={ORDERS: str(orders)},
    )
    with code_server(installed, tmp_path / "vscode", setup) as server:
        page.open(server.page)
        page.wait(".statusbar", "Restricted Mode")
        Workbench(page, Consumer(orders)).run("getStarted")
        walkthrough = Walkthrough(page, ID)
        assert walkthrough.steps() == list(STEPS)
        walkthrough.select("connect")
        walkthrough.follow("Start a Local Gateway")
        page.wait(TOAST, "only in a trusted workspace")
        page.screenshot("untrusted")
        assert not walkthrough.is_complete("connect")
