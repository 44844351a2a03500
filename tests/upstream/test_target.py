"""The address of a target, for every form of a base URL and every dialect (ask L3)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from penstock.dialects.presets import PRESETS
from penstock.dialects.registry import RENDERED, rendered_dialect
from penstock.errors import InvalidRequestError
from penstock.upstream.target import address_of
from tests.client.server import answer, run
from tests.upstream.sending import ask, send_failing, sending

STREAM = "gemini-2.5-flash:streamGenerateContent?alt=sse"
PATHS = {
    "chat": "chat/completions",
    "responses": "responses",
    "anthropic": "messages",
    "gemini": f"models/{STREAM}",
}

CASES = [
    # A version, or none, or a slash
    *((dialect, "/v1", f"/v1/{path}") for dialect, path in PATHS.items()),
    *((dialect, "/v1/", f"/v1/{path}") for dialect, path in PATHS.items()),
    *((dialect, "/api/v4", f"/api/v4/{path}") for dialect, path in PATHS.items()),
    *((dialect, "", f"/v1/{PATHS[dialect]}") for dialect in ("chat", "responses", "anthropic")),
    *((dialect, "/", f"/v1/{PATHS[dialect]}") for dialect in ("chat", "responses", "anthropic")),
    ("gemini", "", f"/v1beta/models/{STREAM}"),
    ("gemini", "/", f"/v1beta/models/{STREAM}"),
    # A path without a version: some libraries add it, others do not
    ("chat", "/inference", "/inference/chat/completions"),
    ("responses", "/openai", "/openai/responses"),
    ("anthropic", "/anthropic", "/anthropic/v1/messages"),
    ("gemini", "/google/", f"/google/v1beta/models/{STREAM}"),
    # The endpoint itself
    ("chat", "/v1/chat/completions", "/v1/chat/completions"),
    ("chat", "/chat/completions/", "/chat/completions"),
    ("responses", "/v1/responses", "/v1/responses"),
    ("responses", "/responses", "/responses"),
    ("anthropic", "/v1/messages", "/v1/messages"),
    ("anthropic", "/anthropic/messages", "/anthropic/messages"),
    ("gemini", "/v1beta/models/some-model:generateContent", f"/v1beta/models/{STREAM}"),
    ("gemini", "/v1/models/m:streamGenerateContent?alt=sse", f"/v1/models/{STREAM}"),
    ("gemini", "/v1beta/tunedModels/mine:generateContent", f"/v1beta/models/{STREAM}"),
    ("gemini", "/models/m:generateContent", f"/models/{STREAM}"),
    # A query
    *(
        (dialect, "/v1?api-version=2026-01-01", f"/v1/{PATHS[dialect]}?api-version=2026-01-01")
        for dialect in ("chat", "responses", "anthropic")
    ),
    ("chat", "?api-version=1", "/v1/chat/completions?api-version=1"),
    (
        "chat",
        "/deployments/x/chat/completions?api-version=1&",
        "/deployments/x/chat/completions?api-version=1",
    ),
    ("gemini", "/v1beta?key=k", f"/v1beta/models/{STREAM.replace('?', '?key=k&')}"),
    ("gemini", "/v1beta?alt=json&key=k", f"/v1beta/models/{STREAM.replace('?', '?key=k&')}"),
]


@pytest.mark.parametrize(("dialect", "written", "asked"), CASES)
def test_every_form_of_a_base_url_leads_to_the_endpoint(dialect: str, written: str, asked: str) -> None:
    async def main() -> None:
        async with sending([answer(200)], path=written, dialect=dialect) as (upstream, server):
            (await ask(upstream)).close()
            assert (server.asked[0].method, server.asked[0].target) == ("POST", asked)

    run(main())


def test_every_rendered_dialect_recognizes_its_endpoint() -> None:
    assert set(PATHS) == RENDERED
    for dialect, path in PATHS.items():
        assert re.search(rendered_dialect(dialect).connection.endpoint, f"/v1/{path.partition('?')[0]}")


@pytest.mark.parametrize("name", [name for name in PRESETS if "{" not in PRESETS[name].base_url])
@pytest.mark.parametrize("ending", ["", "/"])
def test_the_base_url_of_a_preset_is_exact(name: str, ending: str) -> None:
    preset = PRESETS[name]
    address = address_of(preset.base_url + ending, rendered_dialect(preset.dialect).connection)
    assert address.path == urlsplit(preset.base_url).path
    assert address.advice == ""


def test_a_placeholder_in_the_base_url_is_reported() -> None:
    with pytest.raises(InvalidRequestError, match=r"replace \{resource\}") as caught:
        address_of(PRESETS["azure"].base_url, rendered_dialect("responses").connection)
    assert (caught.value.code, caught.value.param) == ("invalid_base_url", "base_url")


@pytest.mark.parametrize(
    ("dialect", "written", "advice"),
    [
        ("chat", "", "requests were sent to http://127.0.0.1:PORT/v1; if that is not the API"),
        ("chat", "/inference", "perhaps it should be http://127.0.0.1:PORT/inference/v1"),
        ("chat", "/chat/completions", "perhaps it should be http://127.0.0.1:PORT/v1"),
        ("anthropic", "/anthropic", "requests were sent to http://127.0.0.1:PORT/anthropic/v1; if"),
        ("gemini", "", "requests were sent to http://127.0.0.1:PORT/v1beta; if"),
        ("chat", "/v1", "/v1/chat/completions; check the base URL)"),
        ("chat", "/v1/v1", "has /v1 twice; perhaps it should be http://127.0.0.1:PORT/v1)"),
    ],
)
def test_a_404_of_the_address_says_what_was_asked_and_what_to_check(
    dialect: str, written: str, advice: str
) -> None:
    async def main() -> None:
        page = answer(404, b"404 page not found", "text/plain")
        async with sending([page], path=written, dialect=dialect) as (upstream, server):
            error = await send_failing(upstream)
            assert (error.code, error.status) == ("not_found", 404)
            assert "404 page not found" in error.message
            assert advice.replace("PORT", str(server.port)) in error.message
            assert f"(POST http://127.0.0.1:{server.port}/" in error.message

    run(main())


@pytest.mark.parametrize("code", ["model_not_exist", "not_found"])
def test_a_404_that_names_a_model_is_about_the_model(code: str) -> None:
    async def main() -> None:
        body = {"error": {"message": "model `m` was not found", "code": code}}
        async with sending([answer(404, body)]) as (upstream, _):
            error = await send_failing(upstream)
            assert (error.code, error.message) == ("model_not_found", "model `m` was not found")

    run(main())
