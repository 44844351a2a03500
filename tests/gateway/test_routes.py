"""Which handler answers a path, and with which parameters."""

from __future__ import annotations

import re

import pytest

from penstock.gateway.errors import RequestRefused
from penstock.gateway.routes import ROUTES, Route, Router

ROUTER = Router(ROUTES)


@pytest.mark.parametrize(
    ("path", "name", "params"),
    [
        ("/v1/responses", "responses", {}),
        ("/responses/", "responses", {}),
        ("/v1/responses/compact", "responses/compact", {}),
        ("/v1/responses/resp_1", "responses/*", {"response_id": "resp_1"}),
        ("/v1/responses/resp_1/cancel", "responses/*/cancel", {"response_id": "resp_1"}),
        ("/v1/models/a/b:c", "models/*", {"model": "a/b:c"}),
        ("/v1/models/line\nbreak", "models/*", {"model": "line\nbreak"}),
        (
            "/v1/conversations/c1/items/i1",
            "conversations/*/items/*",
            {"conversation_id": "c1", "item_id": "i1"},
        ),
        ("/healthz", "healthz", {}),
        ("/", "", {}),
    ],
)
def test_a_path_leads_to_its_route_with_its_parameters(path: str, name: str, params: dict[str, str]) -> None:
    template = next(each for each in ROUTES if re.sub(r"{.*?}", "*", each) == name)
    method, route = next(iter(ROUTES[template].items()))
    assert ROUTER.find(path, method) == (name, route, params)


@pytest.mark.parametrize(
    "path", ["/v1/responses/a/b", "/v1/responses/a/cancel/b", "/v1/conversations/c/items/i/x", "/v1/nothing"]
)
def test_what_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        ROUTER.find(path, "GET")
    assert caught.value.status == 404


def test_a_method_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(RequestRefused) as caught:
        ROUTER.find("/v1/conversations/c1", "PUT")
    assert (caught.value.status, dict(caught.value.headers)) == (405, {"allow": "GET, POST, DELETE"})
    assert "PUT" in caught.value.message
    assert ROUTER.find("/v1/models", "HEAD") == ROUTER.find("/v1/models", "GET")


def test_routes_of_other_packages_are_found_under_their_full_path() -> None:
    async def answer() -> None: ...

    route = Route(answer)
    assert Router({"v1/parts": {"POST": route}}).find("/v1/parts", "POST") == ("parts", route, {})
