"""The routes of the inspector, and its switch."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from penstock.inspector import session
from penstock.inspector.routes import inspector_routes
from tests.inspector.sites import Site, with_site

OPEN = ("", "inspector/{file...}")


def test_only_the_page_and_its_files_need_no_key() -> None:
    for path, methods in inspector_routes().items():
        for route in methods.values():
            assert route.is_open == (path in OPEN), path


@pytest.mark.parametrize("path", [path for path in inspector_routes() if path])
def test_the_switch_turns_everything_off(path: str) -> None:
    async def scenario(site: Site) -> None:
        services = site.gateway.services
        method = next(iter(inspector_routes()[path]))
        path_of_one = "/" + re.sub(r"\{.*?\}", "x", path)
        services.settings = replace(services.settings, inspector=False)
        caller = await site.call(path_of_one, method=method)
        assert caller.status == 404
        assert "server.inspector" in caller.error["message"]
        page = await site.call("/", headers={"accept": "text/html"})
        assert page.json["name"] == "penstock"

    with_site(scenario)


def test_web_pages_of_other_origins_are_refused() -> None:
    async def scenario(site: Site) -> None:
        for path in ("/", "/inspector/api/session"):
            caller = await site.call(path, headers={"origin": "https://evil.example"})
            assert caller.status == 403

    with_site(scenario)


@pytest.mark.parametrize("path", [path for path in inspector_routes() if path.startswith("inspector/api")])
@pytest.mark.parametrize("origin_of_page", ["cross-site", "same-site"])
def test_what_other_pages_embed_is_refused(path: str, origin_of_page: str) -> None:
    """Browsers send no `Origin` with images and scripts."""

    async def scenario(site: Site) -> None:
        method = next(iter(inspector_routes()[path]))
        headers = {"sec-fetch-site": origin_of_page, "sec-fetch-mode": "no-cors"}
        caller = await site.call("/" + re.sub(r"\{.*?\}", "x", path), method=method, headers=headers)
        assert (caller.status, caller.error["code"]) == (403, "permission_denied")

    with_site(scenario)


@pytest.mark.parametrize("origin_of_page", ["same-origin", "none"])
def test_the_own_page_may_use_the_api(origin_of_page: str) -> None:
    async def scenario(site: Site) -> None:
        caller = await site.call("/inspector/api/session", headers={"sec-fetch-site": origin_of_page})
        assert caller.status == 200

    with_site(scenario)


@pytest.mark.parametrize("path", [path for path in inspector_routes() if path.startswith("inspector/api")])
def test_unknown_parameters_are_refused(path: str) -> None:
    async def scenario(site: Site) -> None:
        method = next(iter(inspector_routes()[path]))
        caller = await site.call("/" + re.sub(r"\{.*?\}", "x", path) + "?colour=red", method=method)
        assert (caller.status, caller.error["param"]) == (400, "colour")

    with_site(scenario)


@pytest.mark.parametrize(
    ("path", "who", "status"),
    [
        ("session", "", 401),
        ("turns/resp_x", "anna", 404),
        ("nothing", "anna", 404),
        ("dashboard?by=x", "anna", 400),
        ("session", "anna", 500),
    ],
)
def test_errors_are_neither_cached_nor_sniffed(
    path: str, who: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(site: Site) -> None:
        if status == 500:
            monkeypatch.setattr(session, "answer", None)
        caller = await site.call(f"/inspector/api/{path}", who=who)
        assert caller.status == status
        assert caller.headers["x-content-type-options"] == "nosniff"
        assert caller.headers["cache-control"] == "no-store"
        assert caller.headers["cross-origin-resource-policy"] == "same-origin"

    with_site(scenario, keys=True)
