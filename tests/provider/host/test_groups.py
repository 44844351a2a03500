"""Each group of the editor has its own endpoint, key, models and usage."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.client import OpenResponsesClient
from penstock.client.config import ClientConfig
from penstock.errors import NotFoundError, OpenResponsesError
from penstock.models.learned_limits import LearnedLimits
from penstock.provider.editor_turn import HostSettings
from penstock.provider.host import groups
from penstock.provider.host.groups import Group
from penstock.provider.host.requests import ConfigureRequest
from penstock.provider.tracker import UsageTracker
from tests.client.server import run


def group_of(**fields: Any) -> Group:
    return Group(ConfigureRequest(**fields), UsageTracker(), LearnedLimits())


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch) -> list[ClientConfig]:
    """The configurations of the clients that groups create."""
    seen: list[ClientConfig] = []

    def client(config: ClientConfig) -> OpenResponsesClient:
        seen.append(config)
        return OpenResponsesClient(config)

    monkeypatch.setattr(groups, "OpenResponsesClient", client)
    return seen


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({}, "endpoint", "set `endpoint`"),
        ({"endpoint": "ftp://x"}, "base_url", "http://"),
        ({"endpoint": "http://user:pw@x"}, "base_url", "password"),
        ({"endpoint": "http://x", "key": "a\nb"}, None, "key"),
        ({"preset": "nobody"}, "preset", 'there is no preset called "nobody"; available: '),
        ({"preset": "vercle"}, "preset", "did you mean vercel?"),
        ({"preset": "anthropic"}, "preset", "start `penstock serve --preset anthropic`"),
        ({"preset": "vercel"}, "key", "needs a key: add it to the group"),
        ({"preset": "vercel", "endpoint": "http://x", "key": "k"}, "endpoint", "remove one of them"),
        ({"preset": "azure", "key": "k"}, "endpoint", "needs your own URL"),
    ],
)
def test_an_invalid_configuration_says_what_to_do(
    fields: dict[str, Any], param: str | None, message: str
) -> None:
    async def scenario() -> None:
        with pytest.raises(OpenResponsesError) as caught:
            group_of(group="g", **fields)
        assert caught.value.param == param
        assert message in caught.value.message

    run(scenario())


def test_the_available_presets_are_those_that_support_the_responses_api() -> None:
    async def scenario() -> None:
        with pytest.raises(OpenResponsesError) as caught:
            group_of(preset="nobody")
        available = caught.value.message.partition("available: ")[2].split(", ")
        assert {"vercel", "openai", "ollama"} <= {*available}
        assert "anthropic" not in available

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "url", "headers", "key"),
    [
        ({"endpoint": "http://here", "key": "k"}, "http://here/v1", {}, "k"),
        ({"endpoint": "http://here/v1?sesame=open"}, "http://here/v1", {}, None),
        ({"preset": "ollama"}, "http://127.0.0.1:11434/v1", {}, None),
        (
            {"preset": "openai", "headers": {"x-team": "a"}},
            "https://api.openai.com/v1",
            {"x-team": "a"},
            None,
        ),
        (
            {"preset": "azure", "endpoint": "https://mine.example/openai/v1", "key": "k"},
            "https://mine.example/openai/v1",
            {"api-key": "k"},
            None,
        ),
        (
            {
                "preset": "azure",
                "endpoint": "https://mine.example/v1",
                "key": "k",
                "headers": {"api-key": "h"},
            },
            "https://mine.example/v1",
            {"api-key": "h"},
            None,
        ),
    ],
    ids=[
        "an endpoint",
        "a query is hidden",
        "a local preset",
        "headers",
        "a key header",
        "a header overrides",
    ],
)
def test_the_key_is_sent_as_the_vendor_expects_it(
    configs: list[ClientConfig], fields: dict[str, Any], url: str, headers: dict[str, str], key: str | None
) -> None:
    async def scenario() -> None:
        group = group_of(**fields)
        assert group.display_url == url
        (config,) = configs
        assert dict(config.headers) == headers
        assert (config.key() if callable(config.key) else config.key) == key
        assert config.max_retry_wait == groups._MAX_RETRY_WAIT
        await group.aclose()

    run(scenario())


def test_a_group_is_idle_when_all_its_users_have_left() -> None:
    async def scenario() -> None:
        group = group_of(endpoint="http://here")
        with group.used():
            with group.used():
                assert not group.is_idle
            assert not group.is_idle
        assert group.is_idle
        with pytest.raises(LookupError), group.used():
            raise LookupError
        assert group.is_idle
        await group.aclose()

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "owner"),
    [
        ({"group": "Work"}, "Work"),
        ({"group": "Work", "account": "a1"}, "account\0a1"),
        ({"group": "account"}, "account"),
    ],
)
def test_a_marker_is_valid_for_the_account_or_else_for_the_group(fields: dict[str, Any], owner: str) -> None:
    host = groups._host(ConfigureRequest(**fields), "http://here/v1")
    assert host.endpoint == f"http://here/v1\0{owner}"
    assert (host.markers, host.usage_parts) == (True, True)


def test_the_settings_of_a_group_become_those_of_its_host() -> None:
    host = groups._host(ConfigureRequest(), "http://here/v1")
    assert (host.thinking, host.citations, host.errors_as_text, host.system_role) == (
        "part",
        "off",
        False,
        "system",
    )
    chosen = HostSettings(thinking="none", citations="end", errors_as_text=True, system_role="developer")
    host = groups._host(ConfigureRequest(settings=chosen), "http://here/v1")
    assert (host.thinking, host.citations, host.errors_as_text, host.system_role) == (
        "none",
        "end",
        True,
        "developer",
    )


@pytest.mark.parametrize(
    ("of_group", "of_turn", "is_text"),
    [
        (None, HostSettings(), False),
        (True, HostSettings(), True),
        (True, HostSettings(errors_as_text=False), False),
        (None, HostSettings(errors_as_text=True), True),
        (True, None, False),
    ],
)
def test_only_the_error_of_a_turn_is_marked_as_text(
    of_group: bool | None, of_turn: HostSettings | None, is_text: bool
) -> None:
    async def scenario() -> None:
        group = group_of(endpoint="http://here", settings=HostSettings(errors_as_text=of_group))
        assert group.error_context("m", of_turn).as_text == is_text
        await group.aclose()

    run(scenario())


def test_an_error_as_text_is_the_sentence_that_the_error_line_has() -> None:
    host = groups._host(ConfigureRequest(group="Work"), "http://here/v1")
    text = host.describe_error(NotFoundError("no such model", code="model_not_found"), "big-model")
    assert text.startswith("http://here/v1 has no model big-model: choose another model")


def test_errors_name_the_group_and_the_url_without_its_query() -> None:
    async def scenario() -> None:
        group = group_of(group="Work", endpoint="http://here/?sesame=open")
        context = group.error_context("big-model")
        assert (context.endpoint, context.group, context.model) == ("http://here/v1", "Work", "big-model")
        assert not context.as_text
        await group.aclose()

    run(scenario())
