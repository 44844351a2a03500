"""The gateway's routes: one table, and a helpful error for every path that is not in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from penstock.gateway.api import compact, conversations, create, ledger, models, retrieve, status
from penstock.gateway.api.status import SUPPORTED
from penstock.gateway.errors import RequestRefused
from penstock.gateway.other_apis import refuse_other_api

Handler = Callable[..., Awaitable[None]]
"""Called with the gateway, the exchange, the client's key, and the path parameters by name."""

_PARAMETER = re.compile(r"\{(\w+)(\.\.\.)?\}")


class Route(Struct, frozen=True):
    """A handler. `is_open`: no key is required, because the response reveals nothing about any client."""

    handler: Handler
    is_open: bool = False
    error_headers: tuple[tuple[str, str], ...] = ()
    """Headers of all error answers at this path, also of those that the handler does not give."""


Routes = Mapping[str, Mapping[str, Route]]
"""By path and method. `{name}` in a path is a parameter; `{name...}` may contain slashes."""


class _Pattern(Struct, frozen=True):
    path: re.Pattern[str]
    name: str
    """The path without its parameters, for metrics: `responses/*/cancel`."""
    methods: Mapping[str, Route]


def resource_of(path: str) -> str:
    """Return the path as in the table: clients may omit `/v1` or add a trailing slash."""
    return path.strip("/").removeprefix("v1/")


class Router:
    def __init__(self, routes: Routes) -> None:
        self._fixed = {path: methods for path, methods in routes.items() if "{" not in path}
        self._patterns = [_pattern(path, methods) for path, methods in routes.items() if "{" in path]

    def find(self, path: str, method: str) -> tuple[str, Route, dict[str, str]]:
        """Return the name, route and path parameters of a request; raise `RequestRefused` if none matches."""
        path, inner = path.strip("/"), resource_of(path)
        refuse_other_api(inner)
        name, methods, params = self._match(path, inner)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is not None:
            return name, route, params
        allowed = ", ".join(methods)
        message = f"{method} is not supported at this path; use {allowed}; {SUPPORTED}"
        raise RequestRefused(405, "method_not_allowed", message, headers=[("allow", allowed)])

    def _match(self, path: str, inner: str) -> tuple[str, Mapping[str, Route], dict[str, str]]:
        for fixed in (path, inner):
            if fixed in self._fixed:
                return inner, self._fixed[fixed], {}
        for pattern in self._patterns:
            if found := pattern.path.fullmatch(inner):
                return pattern.name, pattern.methods, found.groupdict()
        raise _nothing_there(inner)


def _pattern(path: str, methods: Mapping[str, Route]) -> _Pattern:
    expression = _PARAMETER.sub(lambda found: f"(?P<{found[1]}>{'.+' if found[2] else '[^/]+'})", path)
    return _Pattern(re.compile(expression, re.DOTALL), _PARAMETER.sub("*", path), methods)


def _nothing_there(path: str) -> RequestRefused:
    if path.startswith("v1/"):
        message = f"this path has /v1 twice: remove /v1 from the client's base URL; {SUPPORTED}"
    else:
        message = f"there is no such path; {SUPPORTED}"
    return RequestRefused(404, "not_found", message, type="not_found")


ROUTES: Routes = {
    "": {"GET": Route(status.show_root, is_open=True)},
    "responses": {"POST": Route(create.create_response)},
    "responses/compact": {"POST": Route(compact.compact)},
    "responses/input_tokens": {"POST": Route(create.count_input_tokens)},
    "responses/{response_id}": {
        "GET": Route(retrieve.get_response),
        "DELETE": Route(retrieve.delete_response),
    },
    "responses/{response_id}/cancel": {"POST": Route(retrieve.cancel_response)},
    "responses/{response_id}/input_items": {"GET": Route(retrieve.list_input_items)},
    "conversations": {"POST": Route(conversations.create_conversation)},
    "conversations/{conversation_id}": {
        "GET": Route(conversations.get_conversation),
        "POST": Route(conversations.update_conversation),
        "DELETE": Route(conversations.delete_conversation),
    },
    "conversations/{conversation_id}/items": {
        "GET": Route(conversations.list_items),
        "POST": Route(conversations.add_items),
    },
    "conversations/{conversation_id}/items/{item_id}": {
        "GET": Route(conversations.get_item),
        "DELETE": Route(conversations.delete_item),
    },
    "models": {"GET": Route(models.list_models)},
    "models/{model...}": {"GET": Route(models.get_model)},
    "turns": {"GET": Route(ledger.list_turns)},
    "usage": {"GET": Route(ledger.show_usage)},
    "healthz": {"GET": Route(status.show_health, is_open=True)},
    "readyz": {"GET": Route(status.show_ready, is_open=True)},
    "metrics": {"GET": Route(status.show_metrics, is_open=True)},
}
"""By path, without leading and trailing slashes, and with or without `v1/` in front."""
