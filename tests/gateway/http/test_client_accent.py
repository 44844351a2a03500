"""Which event naming (accent) a client gets."""

from __future__ import annotations

import pytest

from penstock.gateway.errors import RequestRefused
from penstock.gateway.gateway import Gateway
from penstock.gateway.http.client_accent import KNOWN, accent_for
from penstock.gateway.settings import ClientKey, Settings
from penstock.stream.accents import ACCENTS
from tests.gateway.in_process import call, with_gateway
from tests.gateway.running import judge_stream

SETTINGS = Settings(accents={"my-agent/": "copilot", "codex": "copilot"})


def key(accent: str) -> ClientKey:
    return ClientKey(name="a", digest=bytes(32), accent=accent)


@pytest.mark.parametrize(
    ("headers", "accent"),
    [
        ({}, "openresponses"),
        ({"user-agent": "curl/8.5"}, "openresponses"),
        ({"user-agent": "codex_exec/0.166.0 (Debian)"}, "openai"),
        ({"user-agent": "Codex Desktop/1"}, "openai"),
        ({"originator": "codex_vscode"}, "openai"),
        ({"originator": "codex_vscode", "user-agent": "GitHubCopilotChat/1"}, "copilot"),
        ({"user-agent": "litellm/1.106.2"}, "openai"),
        ({"user-agent": "agent-framework-python/1.17", "x-stainless-lang": "python"}, "openai"),
        ({"user-agent": "GitHubCopilotChat/0.40", "x-stainless-lang": "js"}, "copilot"),
        ({"user-agent": "OpenAI/Python 3.49.0"}, "openai"),
        ({"user-agent": "AsyncOpenAI/Python 3.49.0"}, "openai"),
        ({"user-agent": "GitHubCopilotChat/0.40"}, "copilot"),
        ({"user-agent": "not-openai/Python"}, "openresponses"),
    ],
)
def test_a_client_is_recognised_by_its_headers(headers: dict[str, str], accent: str) -> None:
    assert accent_for(Settings(), None, {}, headers) == accent


def test_what_is_named_explicitly_takes_precedence() -> None:
    """The query, then the header, then the key, then the settings, then the table (decision 1)."""
    headers = {"user-agent": "OpenAI/Python 3", "x-penstock-accent": "openresponses"}
    assert accent_for(SETTINGS, key("openai"), {"accent": "copilot"}, headers) == "copilot"
    assert accent_for(SETTINGS, key("openai"), {}, headers) == "openresponses"
    del headers["x-penstock-accent"]
    assert accent_for(SETTINGS, key("copilot"), {}, headers) == "copilot"
    assert accent_for(SETTINGS, key(""), {}, headers) == "openai"
    assert accent_for(SETTINGS, None, {}, {"user-agent": "My-Agent/2"}) == "copilot"
    assert accent_for(SETTINGS, None, {}, {"user-agent": "Codex/2"}) == "copilot"


def test_a_configured_accent_takes_precedence_over_every_kind_of_detection() -> None:
    agent = {"user-agent": "My-Agent/2"}
    for detected in ({"originator": "codex_cli_rs"}, {"x-stainless-lang": "python"}):
        assert accent_for(SETTINGS, None, {}, {**agent, **detected}) == "copilot"
        assert accent_for(Settings(), None, {}, {**agent, **detected}) == "openai"


def test_every_known_client_has_an_accent_that_exists() -> None:
    assert set(KNOWN.values()) <= set(ACCENTS)
    assert [name for name in KNOWN if name != name.lower()] == []


@pytest.mark.parametrize(
    ("query", "headers", "param"),
    [({"accent": "texan"}, {}, "accent"), ({}, {"x-penstock-accent": "x" * 1000}, "x-penstock-accent")],
)
def test_an_accent_that_does_not_exist_is_refused(
    query: dict[str, str], headers: dict[str, str], param: str
) -> None:
    with pytest.raises(RequestRefused) as caught:
        accent_for(Settings(), None, query, headers)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "unknown_accent", param)
    assert "openresponses" in caught.value.message
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("accent", "name"),
    [
        ("openresponses", "response.reasoning.delta"),
        ("openai", "response.reasoning_text.delta"),
        ("copilot", "response.reasoning_summary_text.delta"),
    ],
)
def test_the_events_of_a_stream_have_the_names_that_the_client_reads(accent: str, name: str) -> None:
    async def test(gateway: Gateway) -> None:
        caller = await call(
            gateway,
            f"/v1/responses?accent={accent}",
            input="say exactly: x",
            stream=True,
            reasoning={"effort": "low"},
        )
        assert name in {each["type"] for each in judge_stream(caller.body, accent)}

    with_gateway(test)
