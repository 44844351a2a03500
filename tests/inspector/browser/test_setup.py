"""Set up: the settings of every client, which are those of `penstock connect`."""

from __future__ import annotations

import shlex
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.connect.guides import GUIDES
from tests.cli.running import penstock
from tests.gateway.running import SECRET_KEY, Running, gateway
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page


def connect(name: str, url: str) -> str:
    """Return what `penstock connect` prints."""
    result = penstock("connect", name, "--base-url", url, "--model", "demo")
    assert result.returncode == 0, result.stderr
    return result.stdout


def run(page: Page) -> str:
    """Run the command that the page shows; return what it prints."""
    command = page.get_by_role("region", name="The same on the command line").text_content() or ""
    program, *arguments = shlex.split(command)
    assert program == "penstock"
    result = penstock(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_client_has_the_text_of_penstock_connect(visit: Visits, site: Running) -> None:
    page, url = visit().go("#/setup", view="setup"), f"{site.url}/v1"
    assert page.locator(".base-url code").inner_text() == url
    for name, guide in GUIDES.items():
        page.get_by_role("button", name=guide.title, exact=True).click()
        settings = page.get_by_role("region", name=f"Settings for {guide.title}", exact=True)
        text = (settings.text_content() or "").strip("\n")
        assert text == connect(name, url).strip("\n")
        assert text == run(page).strip("\n")
        assert f"client={name}" in page.url


def test_a_key_is_named_by_its_variable_and_never_shown(visit: Visits, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    config = f'[[keys]]\nname = "anna"\nhash = "sha256:{sha256(SECRET_KEY.encode()).hexdigest()}"\n'
    with gateway(tmp_path / "site", config=config) as locked:
        page = visit(gateway=locked).go("#/setup?client=curl")
        page.get_by_label("Client key").fill(SECRET_KEY)
        page.keyboard.press("Enter")
        settings = page.get_by_role("region", name="Settings for curl")
        expect(settings).to_contain_text("$PENSTOCK_KEY")
        assert SECRET_KEY not in page.content()
        page.get_by_role("button", name="OpenAI's SDK for Python").click()
        settings = page.get_by_role("region", name="Settings for OpenAI's SDK for Python")
        expect(settings).to_contain_text("PENSTOCK_KEY")
        assert (settings.text_content() or "").strip("\n") == run(page).strip("\n")


def test_the_copy_button_copies(visit: Visits, site: Running) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"]).go("#/setup?client=openai", view="setup")
    page.locator(".code").filter(has_text="import").get_by_role("button").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert f'base_url="{site.url}/v1"' in page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download hello.py").click()
    assert site.url in download.value.path().read_text()


def test_the_curl_command_works(visit: Visits) -> None:
    page = visit().go("#/setup?client=curl", view="setup")
    command = page.get_by_role("region", name="Settings for curl").text_content() or ""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert "event: response.completed" in done.stdout


def test_the_keyboard_alone_is_enough(visit: Visits) -> None:
    page = visit().go("#/setup", view="setup")
    button = page.get_by_role("button", name="LangChain")
    for _ in range(30):
        page.keyboard.press("Tab")
        if button.evaluate("(each) => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="LangChain")).to_be_visible()
    expect(button).to_be_focused()


@pytest.mark.parametrize("theme", THEMES)
def test_the_view_is_accessible_and_fits_a_phone(visit: Visits, theme: Theme) -> None:
    for tab in (visit(theme=theme), visit(theme=theme, size=PHONE)):
        page = tab.go("#/setup?client=openai", view="setup")
        expect(page.get_by_role("heading", name="Run it")).to_be_visible()
        assert tab.too_wide() == []
        assert tab.accessibility() == []
        tab.picture(f"setup-{theme}-{page.viewport_size['width']}")  # type: ignore[index]
