"""A gateway with keys: the page asks for one, keeps it in memory, and shows what the key may see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from penstock.gateway.http.access import key_digest
from tests.gateway.running import Reply, Running, gateway
from tests.inspector.browser.conftest import Visits
from tests.inspector.browser.visitors import PHONE, THEMES, Theme

pytestmark = pytest.mark.page

KEYS = {"anna": "pk_anna_planted_1", "ben": "pk_ben_planted_2", "ops": "pk_ops_planted_3"}
SECRET = "only Anna knows this"


def _config() -> str:
    entry = '[[keys]]\nname = "{}"\nhash = "sha256:{}"\nadmin = {}\n'
    return "".join(
        entry.format(name, key_digest(key).hex(), "true" if name == "ops" else "false")
        for name, key in KEYS.items()
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with gateway(tmp_path_factory.mktemp("guarded"), config=_config()) as running:
        yield running


@pytest.fixture(scope="module")
def annas(guarded: Running) -> Reply:
    return guarded.stream("demo", SECRET, headers={"authorization": f"Bearer {KEYS['anna']}"})


def enter(page: Page, key: str) -> None:
    dialog = page.get_by_role("dialog", name="This gateway needs a key")
    dialog.get_by_label("Client key").fill(key)
    dialog.get_by_role("button", name="Use this key").click()


def test_a_key_is_asked_for_and_shows_its_own_turns(visit: Visits, guarded: Running, annas: Reply) -> None:
    page = visit(gateway=guarded).go("#/turns")
    enter(page, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("The gateway does not know this key")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    enter(page, KEYS["anna"])
    expect(page.locator(f'tr[data-id="{annas.last["id"]}"]')).to_be_visible()
    expect(page.locator("#who")).to_have_text("anna")
    expect(page.locator(".feed-state")).to_have_text("live")
    page.goto(f"{page.url.partition('#')[0]}#/turns/{annas.last['id']}")
    expect(page.locator(".item.is-input")).to_contain_text(SECRET)


def test_the_key_is_in_memory_only(visit: Visits, guarded: Running, annas: Reply) -> None:
    page = visit(gateway=guarded).go("#/turns")
    enter(page, KEYS["anna"])
    expect(page.locator(f'tr[data-id="{annas.last["id"]}"]')).to_be_visible()
    stored = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert KEYS["anna"] not in stored
    assert KEYS["anna"] not in page.content()
    page.reload()
    expect(page.get_by_role("dialog", name="This gateway needs a key")).to_be_visible()


def test_the_turn_of_another_key_is_not_there(visit: Visits, guarded: Running, annas: Reply) -> None:
    page = visit(gateway=guarded).go("#/turns")
    enter(page, KEYS["ben"])
    expect(page.get_by_role("heading", name="No turns yet")).to_be_visible()
    expect(page.locator(".code pre")).to_contain_text("authorization: Bearer")
    page.goto(f"{page.url.partition('#')[0]}#/turns/{annas.last['id']}")
    expect(page.get_by_role("heading", name="There is no such turn")).to_be_visible()
    page.goto(f"{page.url.partition('#')[0]}#/turns/{annas.last['id']}/editor")
    expect(page.get_by_role("heading", name="This turn has no parts")).to_be_visible()
    assert SECRET not in page.content()


def test_another_key_shows_other_turns(visit: Visits, guarded: Running, annas: Reply) -> None:
    page = visit(gateway=guarded).go("#/turns")
    enter(page, KEYS["ben"])
    expect(page.get_by_role("heading", name="No turns yet")).to_be_visible()
    page.get_by_role("button", name="Use another key").click()
    enter(page, KEYS["anna"])
    expect(page.locator(f'tr[data-id="{annas.last["id"]}"]')).to_be_visible()


def test_an_administrator_sees_the_ledger_of_every_key_without_content(
    visit: Visits, guarded: Running, annas: Reply
) -> None:
    page = visit(gateway=guarded).go("#/turns")
    enter(page, KEYS["ops"])
    row = page.locator(f'tr[data-id="{annas.last["id"]}"]')
    expect(row).to_contain_text("anna")
    page.get_by_label("Key", exact=True).fill("anna")
    expect(row).to_be_visible()
    row.get_by_role("link").click()
    expect(page.get_by_role("region", name="What was not kept")).to_contain_text("belongs to the key anna")
    expect(page.locator(".timeline")).to_have_count(0)
    assert SECRET not in page.content()


@pytest.mark.parametrize("theme", THEMES)
def test_the_dialog_is_accessible(visit: Visits, guarded: Running, theme: Theme) -> None:
    phone = visit(gateway=guarded, theme=theme, size=PHONE)
    page = phone.go("#/turns")
    expect(page.get_by_label("Client key")).to_be_focused()
    assert phone.accessibility() == []
    assert phone.too_wide() == []
    phone.picture(f"key-{theme}")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Enter a key").click()
    expect(page.get_by_label("Client key")).to_be_focused()
